"""The records of consumer groups of the new protocol (KIP-848) in __consumer_offsets, as Kafka 4.3
writes and reads them; all values are flexible.

    3 group: its epoch    5 member: what it says of itself    7 member: what it is to have    8
                          member: what it has
    4 partitions of topics (until 4.0)    6 epoch of the targets    16 regular expression: the
                                          topics it stands for

Knows no group and no rule.
"""

from typing import NamedTuple

from raftka.coordinator.commands import Protocol
from raftka.coordinator.consumer.commands import Target
from raftka.coordinator.machine import Record
from raftka.coordinator.modern.records import MemberState, RecordForm, Targets, Untyped
from raftka.versions import CONSUMER_GROUP
from raftka.wire.notation import parse_row
from raftka.wire.rows import Row

GROUP, PARTITIONS, MEMBER, TARGETS, TARGET, CURRENT, REGEX = 3, 4, 5, 6, 7, 8, 16
KINDS = frozenset((GROUP, PARTITIONS, MEMBER, TARGETS, TARGET, CURRENT, REGEX))
# their keys have the group's id alone, the others' one name more
OF_GROUP = (GROUP, PARTITIONS, TARGETS)

# topic id, partition: the epoch at which the member was given it
Epochs = dict[bytes, dict[int, int]]


class Classic(NamedTuple):
    """Of a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]


class Said(NamedTuple):
    """The member's own words: its subscription, client and addresses."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...] = ()  # sorted
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: Classic | None = None


class Current(NamedTuple):
    """The partitions that a member has."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Epochs = {}  # noqa: RUF012  # never changed in place
    revoking: Epochs = {}  # noqa: RUF012


class Epoch(NamedTuple):
    """Of a group."""

    epoch: int
    metadata_hash: int = 0  # of the topics that it subscribes to


class Resolved(NamedTuple):
    """A regular expression's topics."""

    topics: tuple[str, ...]  # sorted
    version: int  # of the metadata
    timestamp_ms: int


def group_record(group_id: str, group: Epoch) -> Record:
    row = _GROUP(epoch=group.epoch, metadata_hash=group.metadata_hash)
    return FORM.record(GROUP, group_id, row)


def member_record(group_id: str, member_id: str, said: Said) -> Record:
    row = _MEMBER(
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        client_id=said.client_id,
        client_host=said.client_host,
        topics=list(said.topics),
        regex=said.regex,
        rebalance_timeout_ms=said.rebalance_timeout_ms,
        assignor=said.assignor,
    )
    if said.classic is not None:
        protocols = [
            _MEMBER.classic.protocols(name=each.name, metadata=each.metadata)
            for each in said.classic.protocols
        ]
        row.classic = _MEMBER.classic(
            session_timeout_ms=said.classic.session_timeout_ms, protocols=protocols
        )
    return FORM.record(MEMBER, group_id, row, member_id)


def targets_record(group_id: str, targets: Targets) -> Record:
    row = _TARGETS(epoch=targets.epoch, timestamp_ms=targets.timestamp_ms)
    return FORM.record(TARGETS, group_id, row)


def target_record(group_id: str, member_id: str, target: Target) -> Record:
    topics = [
        _TARGET.topics(topic_id=topic_id, partitions=list(partitions))
        for topic_id, partitions in sorted(target.items())
    ]
    return FORM.record(TARGET, group_id, _TARGET(topics=topics), member_id)


def current_record(group_id: str, member_id: str, current: Current) -> Record:
    row = _CURRENT(
        epoch=current.epoch,
        previous_epoch=current.previous_epoch,
        state=int(current.state),
        assigned=[_epochs(*topic) for topic in sorted(current.assigned.items())],
        revoking=[_epochs(*topic) for topic in sorted(current.revoking.items())],
    )
    return FORM.record(CURRENT, group_id, row, member_id)


def regex_record(group_id: str, regex: str, resolved: Resolved) -> Record:
    row = _REGEX(
        topics=list(resolved.topics), version=resolved.version, timestamp_ms=resolved.timestamp_ms
    )
    return FORM.record(REGEX, group_id, row, regex)


def read_value(what: int, value: bytes) -> Untyped:
    """Epoch, Said, Targets, Target, Current or Resolved. Raises ValueError, NewerFormat."""
    return _READ[what](FORM.read_row(what, value))


def _read_member(row: Untyped) -> Said:
    classic = None
    if row.classic is not None:
        classic = Classic(
            row.classic.session_timeout_ms,
            tuple([Protocol(each.name, bytes(each.metadata)) for each in row.classic.protocols]),
        )
    said = (
        row.instance_id,
        row.rack_id,
        row.client_id,
        row.client_host,
        tuple(sorted(set(row.topics))),
        row.regex,
    )
    return Said(*said, row.rebalance_timeout_ms, row.assignor, classic)


def _read_target(row: Untyped) -> Target:
    return {topic.topic_id: tuple(sorted(topic.partitions)) for topic in row.topics}


def _read_current(row: Untyped) -> Current:
    """Before Kafka 4.2 there are no epochs of partitions: then they count as given at the
    member's.
    """
    try:
        state = MemberState(row.state)
    except ValueError:
        state = MemberState.UNRELEASED  # of a later Kafka: reconciled anew
    return Current(
        row.epoch,
        row.previous_epoch,
        state,
        _read_epochs(row.assigned, row.epoch),
        _read_epochs(row.revoking, row.epoch),
    )


def _read_epochs(topics: Untyped, epoch: int) -> Epochs:
    found = {}
    for topic in topics:
        epochs = (
            topic.epochs
            if topic.epochs is not None and len(topic.epochs) == len(topic.partitions)
            else [epoch] * len(topic.partitions)
        )
        found[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return found


def _epochs(topic_id: bytes, partitions: dict[int, int]) -> Row:
    ordered = sorted(partitions)
    made: Row = _CURRENT.assigned(
        topic_id=topic_id, partitions=ordered, epochs=[partitions[each] for each in ordered]
    )
    return made


_GROUP = parse_row(
    "ConsumerGroupMetadataValue",
    """
    epoch                   int32
    metadata_hash           int64       @0
    """,
)
_PARTITIONS = parse_row(
    "ConsumerGroupPartitionMetadataValue",
    """
    topics TopicMetadata[]
        topic_id            uuid
        topic_name          string
        num_partitions      int32
        partition_metadata PartitionMetadata[]
            partition       int32
            racks           string[]
    """,
)
_MEMBER = parse_row(
    "ConsumerGroupMemberMetadataValue",
    """
    instance_id             string?
    rack_id                 string?
    client_id               string
    client_host             string
    topics                  string[]
    regex                   string?
    rebalance_timeout_ms    int32=-1
    assignor                string?
    classic ClassicMemberMetadata? @0
        session_timeout_ms  int32
        protocols ClassicProtocol[]
            name            string
            metadata        bytes
    """,
)
_TARGETS = parse_row(
    "ConsumerGroupTargetAssignmentMetadataValue",
    """
    epoch                   int32
    timestamp_ms            int64       @0
    """,
)
_TARGET = parse_row(
    "ConsumerGroupTargetAssignmentMemberValue",
    """
    topics TopicPartition[]
        topic_id            uuid
        partitions          int32[]
    """,
)
_CURRENT = parse_row(
    "ConsumerGroupCurrentMemberAssignmentValue",
    """
    epoch                   int32
    previous_epoch          int32
    state                   int8
    assigned TopicPartitions[]
        topic_id            uuid
        partitions          int32[]
        epochs              int32[]?    @0
    revoking                TopicPartitions[]
    """,
)
_REGEX = parse_row(
    "ConsumerGroupRegularExpressionValue",
    """
    topics                  string[]
    version                 int64
    timestamp_ms            int64
    """,
)
_ROWS = {
    GROUP: _GROUP,
    PARTITIONS: _PARTITIONS,
    MEMBER: _MEMBER,
    TARGETS: _TARGETS,
    TARGET: _TARGET,
    CURRENT: _CURRENT,
    REGEX: _REGEX,
}
_READ: dict[int, Untyped] = {
    GROUP: lambda row: Epoch(row.epoch, row.metadata_hash),
    PARTITIONS: lambda row: None,
    MEMBER: _read_member,
    TARGETS: lambda row: Targets(row.epoch, row.timestamp_ms),
    TARGET: _read_target,
    CURRENT: _read_current,
    REGEX: lambda row: Resolved(tuple(sorted(row.topics)), row.version, row.timestamp_ms),
}
FORM = RecordForm("a consumer group", CONSUMER_GROUP, _ROWS, OF_GROUP)
read_key, tombstone = FORM.read_key, FORM.tombstone
