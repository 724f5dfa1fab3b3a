"""A streams group (KIP-1071): all of it is hard state, and changes as its records say. Knows no
request and no rule.

As in a consumer group, each member goes from the tasks that it has to its target by itself. A task
has one active owner at any time, and may have copies, standby or warm-up, at members of other
processes.
"""

from collections.abc import Iterable, MutableMapping
from enum import StrEnum

from raftka.coordinator.memory_budget import MEMBER_BYTES, STRING_BYTES
from raftka.coordinator.modern.group import Member as CommonMember
from raftka.coordinator.modern.group import StaticGroup
from raftka.coordinator.modern.records import MemberState, Targets, Untyped
from raftka.coordinator.records import CommittedOffset, offset_prefix
from raftka.coordinator.streams.commands import LEFT
from raftka.coordinator.streams.records import (
    CURRENT,
    FORM,
    GROUP,
    MEMBER,
    TARGET,
    TARGETS,
    TOPOLOGY,
    Current,
    Epoch,
    Said,
)
from raftka.coordinator.streams.tasks import Task, Tasks, each_task
from raftka.coordinator.streams.topology import Topology

FIRST_EPOCH = 1  # of a group nobody has joined yet, and of its targets


class State(StrEnum):
    EMPTY = "Empty"
    NOT_READY = "NotReady"  # some of the topics that it needs are missing or wrong
    ASSIGNING = "Assigning"  # its targets are of an earlier epoch
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class Member(CommonMember[Said, Current]):
    __slots__ = ()

    def follows(self, targets: Targets) -> bool:
        """It has all that they say."""
        return self.current.state is MemberState.STABLE and self.current.epoch == targets.epoch


NOBODY = Said(None, None, "", "")
NOTHING = Current()
NO_TARGETS = Targets(FIRST_EPOCH)


class StreamsGroup(StaticGroup[Member]):
    form = FORM
    of_member = (CURRENT, TARGET, MEMBER)
    layered = ("members", "static", "target", "owners", "copies")

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.offset_prefix = offset_prefix(group_id)
        self.offsets: dict[str, dict[int, CommittedOffset]] = {}
        self.epoch = Epoch(FIRST_EPOCH)
        self.targets = NO_TARGETS
        self.target: MutableMapping[str, Tasks] = {}  # by member
        self.topology: Topology | None = None
        self.sources: frozenset[str] = frozenset()  # all topics that its tasks read
        # of active tasks: the member that has each, or is to give it up
        self.owners: MutableMapping[Task, str] = {}
        # of standby and warm-up tasks: the members that have each, or are to give it up
        self.copies: MutableMapping[Task, frozenset[str]] = {}
        self.in_log = False
        self.pending = ()  # ids given out here are not waited for

    # its state

    @property
    def weight(self) -> int:
        """Of its members in memory, about: bytes."""
        members = sum([weight_of(member) for member in self.members.values()])
        return members + weight_of_topology(self.topology)

    @property
    def state(self) -> State:
        if not self.members:
            return State.EMPTY
        if self.topology is None or self.epoch.validated_topology != self.topology.epoch:
            return State.NOT_READY
        if self.epoch.epoch > self.targets.epoch:
            return State.ASSIGNING
        return (
            State.STABLE
            if all(member.follows(self.targets) for member in self.members.values())
            else State.RECONCILING
        )

    def subscribes(self, topic: str) -> bool:
        """Return whether members read the topic."""
        return topic in self.sources and bool(self.members)

    def process_of(self, member_id: str) -> str:
        member = self.members.get(member_id)
        return member.said.process_id if member is not None else ""

    # records

    def apply(self, what: int, name: str, value: Untyped) -> None:
        if what == GROUP:
            self.epoch = value
        elif what == TARGETS:
            self.targets = value if value is not None else NO_TARGETS
        elif what == TOPOLOGY:
            self.topology = value
            topology: Topology = value if value is not None else Topology(0)
            self.sources = frozenset(
                name for each in topology.subtopologies for name in each.sources()
            )
        elif what == MEMBER and value is not None:
            self._say(name, value)
        elif what == MEMBER:
            self._remove(name)
        elif what == CURRENT and (value is not None or name in self.members):
            self._have(name, value if value is not None else Current(LEFT, LEFT))
        elif what == TARGET:
            if value is None:
                self.target.pop(name, None)
            else:
                self.target[name] = value

    def _say(self, member_id: str, said: Said) -> None:
        before = self.members.get(member_id)
        current = before.current if before is not None else NOTHING
        self.members[member_id] = Member(member_id, said, current)
        if before is not None and before.said.instance_id != said.instance_id:
            self.forget_instance(before.said.instance_id, member_id)
        if said.instance_id is not None:
            self.static[said.instance_id] = member_id

    def _have(self, member_id: str, current: Current) -> None:
        before = self.members.get(member_id)
        if before is not None:
            self._disown(before)
        said = before.said if before is not None else NOBODY
        self.members[member_id] = Member(member_id, said, current)
        for held in (current.assigned, current.revoking):
            for task in each_task(held.active):
                self.owners[task] = member_id
            for task in held.copies():
                self.copies[task] = self.copies.get(task, frozenset()) | {member_id}

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._disown(member)
            self.forget_instance(member.said.instance_id, member_id)

    def _disown(self, member: Member) -> None:
        for held in (member.current.assigned, member.current.revoking):
            for task in each_task(held.active):
                if self.owners.get(task) == member.member_id:
                    del self.owners[task]
            for task in held.copies():
                rest = self.copies.get(task, frozenset()) - {member.member_id}
                if rest:
                    self.copies[task] = rest
                else:
                    self.copies.pop(task, None)

    def record_names(self) -> dict[int, Iterable[str]]:
        return {
            CURRENT: self.members,
            TARGET: {**self.members, **self.target},
            MEMBER: self.members,
            TARGETS: ("",),
            GROUP: ("",),
            TOPOLOGY: ("",),
        }


def weight_of_topology(topology: Topology | None) -> int:
    """Return the bytes in memory of a topology, about; 0: of none."""
    if topology is None:
        return 0
    texts = [
        *topology.named_topics(),
        *(text for topic in topology.internal_topics() for pair in topic.configs for text in pair),
    ]
    return STRING_BYTES * len(texts) + sum(map(len, texts))


def weight_of(member: Member | None) -> int:
    """Return the bytes in memory of a member, about; 0: of none."""
    if member is None:
        return 0
    current = member.current
    held = sum(
        len(partitions)
        for tasks in (*current.assigned, *current.revoking)
        for partitions in tasks.values()
    )
    return MEMBER_BYTES + STRING_BYTES * (held + len(member.said.tags))
