"""A group of a new protocol, and its draft: a decision changes the draft, each change is a record,
and the group changes when its records are replayed. Knows no rule.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import ClassVar, Generic, Protocol, Self, TypeVar

from raftka.coordinator.machine import Record
from raftka.coordinator.modern.records import RecordForm, Untyped
from raftka.coordinator.overlay import Overlay

Said = TypeVar("Said")
Current = TypeVar("Current")


class Member(Generic[Said, Current]):
    """The member's own words, and what it has. Replaced, never changed."""

    __slots__ = ("current", "member_id", "said")

    def __init__(self, member_id: str, said: Said, current: Current) -> None:
        self.member_id = member_id
        self.said = said
        self.current = current


class ModernGroup(ABC):
    """All of it is hard state, and changes as its records say."""

    form: ClassVar[RecordForm]
    of_member: ClassVar[tuple[int, ...]]  # kinds of a member's records, as they go with it
    layered: ClassVar[tuple[str, ...]]  # mappings of which a copy holds the changes alone

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    def copy(self) -> Self:
        """Return a copy to decide on: a decision takes effect when its records are replayed."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        for name in self.layered:
            setattr(other, name, Overlay(getattr(self, name)))
        return other

    @abstractmethod
    def apply(self, what: int, name: str, value: Untyped) -> None:
        """Apply a record; `value` as the type's records have it, None for a tombstone. The group's
        own tombstone is not for it.
        """

    @abstractmethod
    def record_names(self) -> Mapping[int, Iterable[str]]:
        """Return the names in the keys of its records by their kind, in the order in which Kafka
        writes tombstones: a member has nothing left before it goes, nor a group.
        """

    def tombstones(self) -> Iterator[Record]:
        for what, names in self.record_names().items():
            for name in names:
                yield self.form.tombstone(what, self.group_id, name)


class HasId(Protocol):
    @property
    def member_id(self) -> str: ...


AnyMember = TypeVar("AnyMember", bound=HasId)


class StaticGroup(ModernGroup, Generic[AnyMember]):
    """A group that may have static members, which keep their place while they are away."""

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.members: MutableMapping[str, AnyMember] = {}
        self.static: MutableMapping[str, str] = {}  # member id by instance id

    def static_member(self, instance_id: str | None) -> AnyMember | None:
        if instance_id is None:
            return None
        return self.members.get(self.static.get(instance_id, ""))

    def forget_instance(self, instance_id: str | None, member_id: str) -> None:
        """Forget that the member has the instance id, if it is not another one's by now."""
        if instance_id is not None and self.static.get(instance_id) == member_id:
            del self.static[instance_id]


Group = TypeVar("Group", bound=ModernGroup)


class Draft(Generic[Group]):
    """Keeps its changes beside the group: most heartbeats change nothing, others one member of
    many.
    """

    __slots__ = ("changed", "group", "records")

    def __init__(self, group: Group, records: list[Record]) -> None:
        self.group = group
        self.records = records  # those of the whole decision
        self.changed = False

    @property
    def group_id(self) -> str:
        return self.group.group_id

    def apply(self, what: int, name: str, value: object, record: Record) -> None:
        if not self.changed:
            self.group, self.changed = self.group.copy(), True
        self.group.apply(what, name, value)
        self.records.append(record)

    def remove(self, member_id: str) -> None:
        group = self.group
        for what in group.of_member:
            self.apply(what, member_id, None, group.form.tombstone(what, self.group_id, member_id))
