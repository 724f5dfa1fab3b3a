"""A share group (KIP-932): all of it is hard state, and changes as its records say. Knows no
request and no rule.

As in a consumer group the *group epoch* moves when members come, go or change their subscription,
or when a topic changes; then *targets* are worked out under that epoch, and a member takes its
target with its next heartbeat. Nobody gives anything up first: members may have the same partition,
and its leader gives each record to one of them.

A partition is assigned only when the share coordinator has its state: see state_calls.py.
"""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from enum import StrEnum
from typing import TypeVar

from raftka.coordinator.consumer.commands import Target
from raftka.coordinator.consumer.records import Epoch
from raftka.coordinator.memory_budget import MEMBER_BYTES, STRING_BYTES
from raftka.coordinator.modern.group import Member as CommonMember
from raftka.coordinator.modern.group import ModernGroup
from raftka.coordinator.modern.records import Targets
from raftka.coordinator.share.records import (
    CURRENT,
    FORM,
    GROUP,
    MEMBER,
    PARTITIONS,
    TARGET,
    TARGETS,
    Current,
    Partitions,
    Said,
    Value,
)

K = TypeVar("K")

LEFT = -1  # the epoch of a member that goes
FIRST_EPOCH = 1  # of a group without a member so far
ASSIGNOR = "simple"


class State(StrEnum):
    EMPTY = "Empty"
    STABLE = "Stable"


class Member(CommonMember[Said, Current]):
    __slots__ = ()


NOBODY = Said(None, "", "")
NOTHING = Current()
NO_TARGETS = Targets(-1)
NO_PARTITIONS = Partitions()


class ShareGroup(ModernGroup):
    form = FORM
    of_member = (CURRENT, TARGET, MEMBER)
    layered = ("members", "target", "subscriptions", "names")

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.members: MutableMapping[str, Member] = {}
        self.epoch = Epoch(FIRST_EPOCH)
        self.targets = NO_TARGETS
        self.target: MutableMapping[str, Target] = {}  # by member
        self.partitions = NO_PARTITIONS
        # members of each subscription; subscriptions of each topic
        self.subscriptions: MutableMapping[tuple[str, ...], int] = {}
        self.names: MutableMapping[str, int] = {}
        # another one whenever the topics that are subscribed to may be others
        self.subscription = object()

    @property
    def weight(self) -> int:
        """Bytes that its members take in memory, about."""
        return sum([weight_of(member) for member in self.members.values()])

    @property
    def state(self) -> State:
        return State.STABLE if self.members else State.EMPTY

    # records

    def apply(self, what: int, name: str, value: Value | None) -> None:
        match value:
            case Epoch():
                self.epoch = value
            case Targets():
                self.targets = value
            case Partitions():
                self.partitions = value
            case Said():
                self._say(name, value)
            case Current():
                before = self.members.get(name)
                said = before.said if before is not None else NOBODY
                self.members[name] = Member(name, said, value)
            case dict():
                self.target[name] = value
            case None:
                self._forget(what, name)

    def _forget(self, what: int, name: str) -> None:
        if what == TARGETS:
            self.targets = NO_TARGETS
        elif what == PARTITIONS:
            self.partitions = NO_PARTITIONS
        elif what == TARGET:
            self.target.pop(name, None)
        elif what == MEMBER:
            self._say(name, None)
        elif what == CURRENT and name in self.members:
            self.members[name] = Member(name, self.members[name].said, NOTHING)

    def _say(self, member_id: str, said: Said | None) -> None:
        before = self.members.pop(member_id, None) if said is None else self.members.get(member_id)
        if said is not None:
            current = before.current if before is not None else NOTHING
            self.members[member_id] = Member(member_id, said, current)
        old, new = (before.said.topics if before is not None else ()), (said or NOBODY).topics
        if old != new:
            self._count(old, -1)
            self._count(new, 1)

    def _count(self, topics: tuple[str, ...], by: int) -> None:
        """Count the members of each subscription: most members subscribe to the same topics."""
        if not topics:
            return
        members = _add(self.subscriptions, topics, by)
        if members == max(by, 0):  # the first of them, or the last
            for name in topics:
                _add(self.names, name, by)
            self.subscription = object()

    def record_names(self) -> dict[int, Iterable[str]]:
        return {
            CURRENT: self.members,
            TARGET: {**self.members, **self.target},
            MEMBER: self.members,
            TARGETS: ("",),
            PARTITIONS: ("",),
            GROUP: ("",),
        }


def weight_of(member: Member | None) -> int:
    if member is None:
        return 0
    topics = member.said.topics
    return MEMBER_BYTES + STRING_BYTES * len(topics) + sum(map(len, topics))


def _add(counts: MutableMapping[K, int], key: K, by: int) -> int:
    """Add to a count, and return it; a count of nothing is left out."""
    count = counts.get(key, 0) + by
    if count:
        counts[key] = count
    else:
        counts.pop(key, None)
    return count


def all_places(topics: Mapping[bytes, Iterable[int]]) -> Iterator[tuple[bytes, int]]:
    return ((topic_id, each) for topic_id, partitions in topics.items() for each in partitions)
