"""A classic group: its members, who waits for what, and the vote on their protocol. Knows no
request; the modules beside it hold the verbs.

Hard: what its last record says (generation, protocol, leader, members with their assignments), and
its offsets. Soft: a rebalance under way, which begins anew with another coordinator. So in
PreparingRebalance and CompletingRebalance the members and the generation here are ahead of the
record.
"""

import struct
from collections.abc import Iterable
from enum import StrEnum
from itertools import chain
from math import inf

from raftka.coordinator.commands import JoinedMember, Protocol
from raftka.coordinator.machine import Ticket
from raftka.coordinator.memory_budget import MEMBER_BYTES, PENDING_BYTES, STRING_BYTES
from raftka.coordinator.records import (
    NO_TIME,
    CommittedOffset,
    GroupMember,
    GroupMetadata,
    offset_prefix,
)
from raftka.coordinator.timers import Timer
from raftka.limits import MEMBER_PROTOCOL_BYTES

CONSUMER = "consumer"  # the type of protocol whose subscriptions can be read


class State(StrEnum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"  # waits for members to join
    COMPLETING = "CompletingRebalance"  # waits for the leader's assignments
    STABLE = "Stable"


class Member:
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_ticket",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
        "sync_ticket",
        "weight",
    )

    def __init__(
        self, member_id: str, instance_id: str | None, client_id: str, client_host: str
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = self.session_timeout_ms = 0
        self.protocols: tuple[Protocol, ...] = ()
        self.assignment = b""
        self.join_ticket: Ticket | None = None
        self.sync_ticket: Ticket | None = None
        # no join of it has been answered: a session of its own would be too short to wait for one
        self.is_new = False
        self.session: Timer
        self.weight = MEMBER_BYTES

    def metadata(self, protocol_name: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""


class ClassicGroup:
    """Members change through `add`, `remove`, `replace` and `tell` alone: they keep the counts."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.offset_prefix = offset_prefix(group_id)
        self.state = State.EMPTY
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.state_timestamp_ms = NO_TIME  # of the last record
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}  # member id by instance id
        self._subscribed: frozenset[str] | None = None  # None: not known
        # what its members say, while it is not read
        self._subscriptions: frozenset[bytes] | None = None
        self.offsets: dict[str, dict[int, CommittedOffset]] = {}  # by topic, by partition
        self.in_log = False  # a record made it, or keeps it
        # soft
        self.pending: dict[str, Timer] = {}  # ids given out that nobody has joined with (KIP-394)
        self.joining: set[str] = set()  # members that wait for the end of the join phase
        # members of this generation that have not asked for their assignment yet
        self.syncing: set[str] = set()
        self.initial = False  # PREPARING began when nobody was there
        self.grown = False  # a member has come since the initial delay was last looked at
        self.delay_ms = self.delay_left_ms = 0
        self.join_phase: Timer
        self.sync_phase: Timer
        # until then a generation with new members is not given its assignments: more may come
        self.settles_at = -inf
        self.assignments: dict[str, bytes] = {}  # what its leader has sent meanwhile
        self.settling: Timer
        self._supported: dict[str, int] = {}  # by protocol, how many members

    # members

    def add(self, member: Member) -> None:
        if not self.members:
            self._supported.clear()
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        self.leader = self.leader or member.member_id
        self._count(member, 1)

    def remove(self, member: Member) -> None:
        member_id = member.member_id
        del self.members[member_id]
        if member.instance_id is not None and self.static.get(member.instance_id) == member_id:
            del self.static[member.instance_id]
        self.joining.discard(member_id)
        self.syncing.discard(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self._count(member, -1)

    def replace(self, old: Member, new: Member) -> None:
        """A static member has come back under another id."""
        leads = self.leader == old.member_id
        self.remove(old)
        self.add(new)
        if leads:
            self.leader = new.member_id

    def update_member(
        self,
        member: Member,
        protocols: tuple[Protocol, ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Take over the member's own words of its JoinGroup."""
        counted = self.members.get(member.member_id) is member
        if counted:
            self._count(member, -1)
        member.protocols = protocols
        member.weight = MEMBER_BYTES + len(member.instance_id or "") + weight_of(protocols)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        if counted:
            self._count(member, 1)

    def _count(self, member: Member, by: int) -> None:
        for name in {protocol.name for protocol in member.protocols}:
            count = self._supported.get(name, 0) + by
            if count:
                self._supported[name] = count
            else:
                self._supported.pop(name, None)

    @property
    def weight(self) -> int:
        """Of its members in memory, about: bytes."""
        return sum([member.weight for member in self.members.values()]) + PENDING_BYTES * len(
            self.pending
        )

    @property
    def all_joined(self) -> bool:
        return len(self.joining) == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def is_nothing(self) -> bool:
        """Neither the log nor a member knows it."""
        return not (self.in_log or self.members or self.pending or self.offsets)

    # the protocol

    def supports(self, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
        """Return whether a newcomer has a protocol in common with all members."""
        if self.state is State.EMPTY:
            return bool(protocol_type and protocols)
        everybody = len(self.members)
        return protocol_type == self.protocol_type and any(
            self._supported.get(each.name, 0) == everybody for each in protocols
        )

    def elect_protocol(self) -> str:
        """Every member votes for the first of its protocols that all have; most votes win."""
        everybody = len(self.members)
        common = {name for name, count in self._supported.items() if count == everybody}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(each.name for each in member.protocols if each.name in common)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def know_topics(self) -> None:
        """Has to be told when members or their protocol are others."""
        self._subscribed = self._subscriptions = None
        if self.protocol_type == CONSUMER and not self.members:
            self._subscribed = frozenset()
        elif self.protocol_type == CONSUMER and self.protocol_name is not None:
            self._subscriptions = frozenset(
                [member.metadata(self.protocol_name) for member in self.members.values()]
            )

    @property
    def subscribed(self) -> frozenset[str] | None:
        """The topics of its consumers; None: not known. They are read when somebody asks: few do,
        and a thousand members may name a thousand each.
        """
        if self._subscriptions is not None:
            # else the group has no record, and never will
            small = sum(map(len, self._subscriptions)) <= MEMBER_PROTOCOL_BYTES.value
            self._subscribed = topics_of(self._subscriptions) if small else None
            self._subscriptions = None
        return self._subscribed

    def subscribes(self, topic: str) -> bool:
        """As far as it is known; of consumers whose words cannot be read it is believed."""
        return (
            self.protocol_type == CONSUMER if self.subscribed is None else topic in self.subscribed
        )

    # records

    def joined_members(self) -> tuple[JoinedMember, ...]:
        name = self.protocol_name
        return tuple(
            [
                JoinedMember(each.member_id, each.instance_id, each.metadata(name))
                for each in self.members.values()
            ]
        )

    def as_record(self, wall_ms: int, assignments: dict[str, bytes]) -> GroupMetadata:
        members = [
            _recorded(member, self.protocol_name, assignments.get(member.member_id, b""))
            for member in self.members.values()
        ]
        return GroupMetadata(
            self.protocol_type or "",
            self.generation_id,
            self.protocol_name,
            self.leader,
            wall_ms,
            tuple(members),
        )

    def as_empty_record(self, wall_ms: int) -> GroupMetadata:
        return GroupMetadata(self.protocol_type or "", self.generation_id + 1, None, None, wall_ms)

    def restore(self, record: GroupMetadata) -> list[Member]:
        """Apply the record; return the members that are new. Members that are here keep their soft
        state.
        """
        known, self.members, self.static = self.members, {}, {}
        self._supported.clear()
        self.leader = None
        unknown = []
        for each in record.members:
            member = known.get(each.member_id)
            if member is None:
                member = Member(each.member_id, each.instance_id, each.client_id, each.client_host)
                unknown.append(member)
            times = each.rebalance_timeout_ms, each.session_timeout_ms
            if (
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(record.protocol_name),
            ) != (*times, each.subscription):
                self.update_member(
                    member, (Protocol(record.protocol_name or "", each.subscription),), *times
                )
            member.assignment = each.assignment
            self.add(member)
        self.state = State.STABLE if self.members else State.EMPTY
        self.generation_id = record.generation_id
        self.protocol_type = record.protocol_type or None
        self.protocol_name, self.leader = record.protocol_name, record.leader
        self.state_timestamp_ms = record.state_timestamp_ms
        self.joining &= self.members.keys()
        self.syncing &= self.members.keys()
        self.in_log = True
        self.know_topics()
        return unknown


def weight_of(protocols: Iterable[Protocol]) -> int:
    pieces = list(chain.from_iterable(protocols))  # two each; a client may have tens of thousands
    return sum(map(len, pieces)) + STRING_BYTES * len(pieces) // 2


def _recorded(member: Member, protocol_name: str | None, assignment: bytes) -> GroupMember:
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.metadata(protocol_name),
        assignment,
    )


SUBSCRIPTION_HEAD = struct.Struct(">hi")  # version, number of topics
USER_DATA = struct.Struct(">i")  # number of bytes


def topics_of(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics that classic consumers subscribe to, of all members; None when the
    subscription of one of them cannot be read. Nothing else is read in what members tell each
    other.
    """
    names: set[bytes] = set()
    try:
        for data in subscriptions:
            names.update(_topics_in(data))
        return frozenset([name.decode() for name in names])
    except (IndexError, ValueError, struct.error):
        return None


def _topics_in(data: bytes) -> list[bytes]:
    """Every version of ConsumerProtocolSubscription begins as the first: version, topics, user
    data.
    """
    version, count = SUBSCRIPTION_HEAD.unpack_from(data)
    if version < 0 or count < 0:
        raise ValueError("a version or a count below zero")
    names = []
    at = SUBSCRIPTION_HEAD.size
    for _ in range(count):
        start = at + 2
        if data[at] > 127:
            raise ValueError("a name of null")
        at = start + (data[at] << 8 | data[at + 1])
        names.append(data[start:at])
    (size,) = USER_DATA.unpack_from(data, at)
    if at + USER_DATA.size + size > len(data):
        raise IndexError("cut")
    return names
