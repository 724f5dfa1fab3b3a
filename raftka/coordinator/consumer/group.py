"""A consumer group of the new protocol (KIP-848): all of it is hard state, and changes as its
records say. Knows no request and no rule.

The *group epoch* moves when somebody comes, goes or subscribes to something else, or a topic
changes. Then *targets* are worked out for all members, under that epoch. Each member goes from what
it has to its target by itself: it gives up first, and gets what others have given up. A member's
epoch is that of the targets which it follows; a partition has one owner at any time, who has it
assigned or is still revoking it.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, MutableMapping, Sequence
from enum import StrEnum
from hashlib import blake2b
from itertools import chain
from typing import TypeVar

from raftka.coordinator.consumer.commands import Target
from raftka.coordinator.consumer.records import (
    CURRENT,
    FORM,
    GROUP,
    MEMBER,
    REGEX,
    TARGET,
    TARGETS,
    Current,
    Epoch,
    Epochs,
    Resolved,
    Said,
)
from raftka.coordinator.consumer.visible_topics import VisibleTopics
from raftka.coordinator.machine import Topics
from raftka.coordinator.memory_budget import MEMBER_BYTES, STRING_BYTES
from raftka.coordinator.modern.group import Member as CommonMember
from raftka.coordinator.modern.group import StaticGroup
from raftka.coordinator.modern.records import MemberState, Targets, Untyped
from raftka.coordinator.records import CommittedOffset, offset_prefix

K = TypeVar("K")
V = TypeVar("V")

LEFT = -1  # epochs of who goes for good
AWAY = -2  # and of a static member that will be back
FIRST_EPOCH = 1  # of a group nobody has joined yet; Kafka 4.3 begins there


class State(StrEnum):
    EMPTY = "Empty"
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
NO_TARGETS = Targets(-1)


class ConsumerGroup(StaticGroup[Member]):
    form = FORM
    of_member = (CURRENT, TARGET, MEMBER)
    layered = (
        "members",
        "static",
        "target",
        "owners",
        "subscriptions",
        "names",
        "regexes",
        "regex_members",
        "protocols",
    )

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.offset_prefix = offset_prefix(group_id)
        self.offsets: dict[str, dict[int, CommittedOffset]] = {}
        self.epoch = Epoch(FIRST_EPOCH)
        self.targets = NO_TARGETS
        self.target: MutableMapping[str, Target] = {}  # by member
        # of partitions: who has it, or is to give it up
        self.owners: MutableMapping[tuple[bytes, int], str] = {}
        # to topics by name: how many members have each
        self.subscriptions: MutableMapping[tuple[str, ...], int] = {}
        # of topics: how many of these subscriptions name each
        self.names: MutableMapping[str, int] = {}
        self.regexes: MutableMapping[str, Resolved] = {}
        self.regex_members: MutableMapping[str, int] = {}  # how many subscribe to each
        self.protocols: MutableMapping[str, int] = {}  # of classic members: how many have each
        self.classic_count = 0  # classic members
        # another one whenever the topics that are subscribed to may be others
        self.subscription = object()
        self.in_log = False
        self.pending = ()  # ids given out here are not waited for

    # what it is

    @property
    def weight(self) -> int:
        """Of its members in memory, about: bytes."""
        return sum([weight_of(member) for member in self.members.values()])

    @property
    def state(self) -> State:
        if not self.members:
            return State.EMPTY
        if self.epoch.epoch > self.targets.epoch:
            return State.ASSIGNING
        return (
            State.STABLE
            if all(member.follows(self.targets) for member in self.members.values())
            else State.RECONCILING
        )

    def owner(self, topic_id: bytes, partition: int) -> str | None:
        return self.owners.get((topic_id, partition))

    def topics_of(self, said: Said) -> set[str]:
        """A regular expression that is not resolved yet stands for nothing."""
        resolved = self.regexes.get(said.regex) if said.regex else None
        return {*said.topics, *resolved.topics} if resolved is not None else set(said.topics)

    def reads(self, said: Said, topic: str) -> bool:
        """Return whether a member with this subscription reads the topic: it may subscribe to
        thousands.
        """
        resolved = self.regexes.get(said.regex) if said.regex else None
        return _is_among(topic, said.topics) or (
            resolved is not None and _is_among(topic, resolved.topics)
        )

    @property
    def subscribed(self) -> set[str]:
        return {*self.names, *chain.from_iterable(resolved.topics for resolved in self._resolved())}

    def subscribes(self, topic: str) -> bool:
        return topic in self.names or any(
            _is_among(topic, resolved.topics) for resolved in self._resolved()
        )

    def _resolved(self) -> list[Resolved]:
        return [self.regexes[regex] for regex in self.regex_members if regex in self.regexes]

    # classic members

    def supports(self, protocols: Iterable[str]) -> bool:
        """Return whether a classic member with these protocols can understand all classic
        members.
        """
        return any(self.protocols.get(name, 0) == self.classic_count for name in protocols)

    # records

    def apply(self, what: int, name: str, value: Untyped) -> None:
        if what == GROUP:
            self.epoch = value
        elif what == TARGETS:
            self.targets = value if value is not None else NO_TARGETS
        elif what == MEMBER and value is not None:
            self._say(name, value)
        elif what == MEMBER:
            self._remove(name)
        elif what == CURRENT and (value is not None or name in self.members):
            self._have(name, value if value is not None else Current(LEFT, LEFT))
        elif what == TARGET:
            _put(self.target, name, value)
        elif what == REGEX:
            _put(self.regexes, name, value)
            self.subscription = object()

    def _say(self, member_id: str, said: Said) -> None:
        before = self.members.get(member_id)
        self.members[member_id] = Member(
            member_id, said, before.current if before is not None else NOTHING
        )
        if before is not None and before.said.instance_id != said.instance_id:
            self.forget_instance(before.said.instance_id, member_id)
        if said.instance_id is not None:
            self.static[said.instance_id] = member_id
        self._count(before.said if before is not None else NOBODY, -1)
        self._count(said, 1)

    def _have(self, member_id: str, current: Current) -> None:
        before = self.members.get(member_id)
        if before is not None:
            self._disown(before)
        self.members[member_id] = Member(
            member_id, before.said if before is not None else NOBODY, current
        )
        for topic_id, partition in _all(current):
            self.owners[topic_id, partition] = member_id

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._disown(member)
            self.forget_instance(member.said.instance_id, member_id)
            self._count(member.said, -1)

    def _count(self, said: Said, by: int) -> None:
        """Count the members of each subscription: a group of a thousand members is not looked
        through whenever one says something.

        Most of them subscribe to the same thousand topics, which are counted once.
        """
        before = len(self.names) + len(self.regex_members)
        members = self.subscriptions.get(said.topics, 0) + by
        if said.topics:
            _put(self.subscriptions, said.topics, members or None)
            if members == max(by, 0):  # the first of them, or the last
                for name in said.topics:
                    _put(self.names, name, self.names.get(name, 0) + by or None)
        if said.regex:
            _put(self.regex_members, said.regex, self.regex_members.get(said.regex, 0) + by or None)
        if len(self.names) + len(self.regex_members) != before:
            self.subscription = object()
        if said.classic is not None:
            self.classic_count += by
            for name in {protocol.name for protocol in said.classic.protocols}:
                _put(self.protocols, name, self.protocols.get(name, 0) + by or None)

    def _disown(self, member: Member) -> None:
        for topic_id, partition in _all(member.current):
            if self.owners.get((topic_id, partition)) == member.member_id:
                del self.owners[topic_id, partition]

    def record_names(self) -> dict[int, Iterable[str]]:
        return {
            CURRENT: self.members,
            TARGET: {**self.members, **self.target},
            TARGETS: ("",),
            MEMBER: self.members,
            REGEX: self.regexes,
            GROUP: ("",),
        }


def weight_of(member: Member | None) -> int:
    return MEMBER_BYTES + weight_of_names(member.said.topics) if member is not None else 0


def weight_of_names(names: Collection[str]) -> int:
    return STRING_BYTES * len(names) + sum(map(len, names))


def _all(current: Current) -> Iterator[tuple[bytes, int]]:
    for held in (current.assigned, current.revoking):
        for topic_id, partitions in held.items():
            for partition in partitions:
                yield topic_id, partition


def _put(values: MutableMapping[K, V], name: K, value: V | None) -> None:
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value


def _is_among(name: str, names: Sequence[str]) -> bool:
    """`names` are sorted."""
    place = bisect_left(names, name)
    return place < len(names) and names[place] == name


def without_epochs(epochs: Epochs) -> Target:
    return {
        topic_id: tuple(sorted(partitions)) for topic_id, partitions in epochs.items() if partitions
    }


def hash_of(names: Iterable[str], topics: Topics | VisibleTopics) -> int:
    """Another when one of them is made, deleted, or gets partitions; 0: none of them is there."""
    found = blake2b(digest_size=8)
    any_there = False
    for name in sorted(names):
        topic_id = topics.topic_id(name)
        if topic_id is not None:
            any_there = True
            found.update(
                topic_id + topics.partition_count(name).to_bytes(4, "big") + name.encode() + b"\0"
            )
    return int.from_bytes(found.digest(), "big", signed=True) if any_there else 0
