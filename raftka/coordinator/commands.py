"""Commands to the coordinator of classic groups and their offsets, and its answers. Knows no
message and no version.

Every command names one group, whose id picks the machine; ListGroups goes to all of them. Its
answer is what its docstring says, or a KafkaError where it says *refused*, at once (raised) or
later. Lists of errors stand in the order of what was asked. Where a version of an API makes a
difference, the command has a flag. Tuples rather than dataclasses: a commit makes some of them in
each of its few microseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from raftka.coordinator.consumer.commands import ConsumerSettings
from raftka.coordinator.share.commands import ShareSettings
from raftka.coordinator.streams.settings import StreamsSettings
from raftka.wire.errors import Code

NO_GENERATION = -1
NO_OFFSET = -1
NO_EPOCH = -1
NO_RETENTION_MS = -1


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The broker's settings that the machine goes by; `configure` replaces them."""

    min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    max_size: int = 2**31 - 1  # group.max.size, members
    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    offsets_retention_ms: int = 7 * 24 * 3_600_000  # offsets.retention.minutes
    offsets_retention_check_interval_ms: int = 600_000
    offset_metadata_max_bytes: int = 4096  # offset.metadata.max.bytes
    settle_ms: int = 0  # raftka.group.settle.ms
    consumer: ConsumerSettings = field(default_factory=ConsumerSettings)  # group.consumer.*
    # of groups that have some of their own
    consumer_of: Mapping[str, ConsumerSettings] = field(default_factory=dict)
    share: ShareSettings = field(default_factory=ShareSettings)  # group.share.*
    share_of: Mapping[str, ShareSettings] = field(default_factory=dict)
    streams: StreamsSettings = field(default_factory=StreamsSettings)  # group.streams.*
    # of groups that have some of their own
    streams_of: Mapping[str, StreamsSettings] = field(default_factory=dict)


class Protocol(NamedTuple):
    """One of a member's ways to share out partitions (an assignor's name), with what the member
    says under it.
    """

    name: str
    metadata: bytes


class Join(NamedTuple):
    """Answered with Joined when the rebalance is complete, or at once with MemberIdRequired.
    Refused: the answer echoes the request's member id, but for a consumer group's: that answer is
    JoinRefused.
    """

    group_id: str
    member_id: str  # "": a new one
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int  # version 0: the session time-out
    protocol_type: str
    protocols: tuple[Protocol, ...]
    # from version 4 on: a new dynamic member learns its id first (KIP-394)
    needs_member_id: bool = True
    may_skip: bool = True  # from version 9 on: understands skip_assignment (KIP-814)


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(NamedTuple):
    member_id: str
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    members: tuple[JoinedMember, ...] = ()  # for the leader alone
    skip_assignment: bool = False


class MemberIdRequired(NamedTuple):
    """MEMBER_ID_REQUIRED, with the id to join with."""

    member_id: str


class JoinRefused(NamedTuple):
    """A consumer group refuses a classic member; the answer has no member id."""

    code: Code


class Sync(NamedTuple):
    """Answered with Synced when the leader has sent the assignments. Refused."""

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[str, bytes], ...]  # by member id
    needs_protocol: bool = True  # from version 5 on: a request without type or name is refused


class Synced(NamedTuple):
    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes


class Heartbeat(NamedTuple):
    """Answered with None. Refused."""

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None


class LeavingMember(NamedTuple):
    member_id: str  # "" with an instance id: whoever is that instance
    instance_id: str | None


class Leave(NamedTuple):
    """Answered with Left. Refused for an empty group id alone."""

    group_id: str
    members: tuple[LeavingMember, ...]


class Left(NamedTuple):
    errors: tuple[Code, ...]


class CommitPartition(NamedTuple):
    partition: int
    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str | None = None


class CommitTopic(NamedTuple):
    name: str | None  # None: there is no topic with the id that was asked for
    partitions: tuple[CommitPartition, ...]


class CommitOffsets(NamedTuple):
    """Answered with OffsetsCommitted: also what concerns the whole group is said of each
    partition.
    """

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
    topics: tuple[CommitTopic, ...]
    retention_ms: int = NO_RETENTION_MS  # until version 4
    # from version 9 on, in a transaction from version 6 on: GROUP_ID_NOT_FOUND and
    # STALE_MEMBER_EPOCH, not ILLEGAL_GENERATION; and epochs of members for generations
    may_say_not_found: bool = True
    # id and epoch: the offsets count when this producer's transaction is committed
    producer: tuple[int, int] | None = None


class OffsetsCommitted(NamedTuple):
    errors: tuple[tuple[Code, ...], ...]  # by topic, by partition


class FetchTopic(NamedTuple):
    name: str | None  # None: there is no topic with the id that was asked for
    partitions: tuple[int, ...]


class FetchOffsets(NamedTuple):
    """Answered with OffsetsFetched. Refused for a member of a consumer group that is not at this
    epoch.
    """

    group_id: str
    topics: tuple[FetchTopic, ...] | None  # None: all that have an offset
    require_stable: bool = False
    member_id: str | None = None  # from version 9 on, of a consumer group
    member_epoch: int = -1


class FetchedPartition(NamedTuple):
    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    error: Code = Code.NONE


class FetchedTopic(NamedTuple):
    name: str | None
    partitions: tuple[FetchedPartition, ...]


class OffsetsFetched(NamedTuple):
    topics: tuple[FetchedTopic, ...]


class DeleteOffsets(NamedTuple):
    """Answered with OffsetsDeleted. Refused."""

    group_id: str
    topics: tuple[tuple[str, tuple[int, ...]], ...]  # name, partitions


class OffsetsDeleted(NamedTuple):
    errors: tuple[tuple[Code, ...], ...]  # by topic, by partition


class DescribeGroup(NamedTuple):
    """Answered with DescribedGroup. Refused: GROUP_ID_NOT_FOUND, which until version 5 reads as a
    group without error in the state Dead.
    """

    group_id: str


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    group_id: str
    state: str
    protocol_type: str
    protocol_name: str
    members: tuple[DescribedMember, ...]


class ListGroups(NamedTuple):
    """Answered with GroupsListed. Nothing in a filter: all."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    type: str


class GroupsListed(NamedTuple):
    groups: tuple[ListedGroup, ...]


class DeleteGroup(NamedTuple):
    """Answered with None. Refused."""

    group_id: str


class Rebalance(NamedTuple):
    """Begin a rebalance as if a member had changed its subscription; for tests of clients. Answered
    with None. Refused for a group without members.
    """

    group_id: str


Command = (
    Join
    | Sync
    | Heartbeat
    | Leave
    | CommitOffsets
    | FetchOffsets
    | DeleteOffsets
    | DescribeGroup
    | ListGroups
    | DeleteGroup
    | Rebalance
)
