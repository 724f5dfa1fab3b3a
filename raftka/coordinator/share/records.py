"""The records of share groups (KIP-932) in __consumer_offsets, as Kafka 4.4 writes and reads them;
all values are flexible.

    10 member: its words of itself    11 group: its epoch           12 epoch of the targets
    13 member: its target             14 member: its assignment     15 the share partitions: those
                                      that are being initialised, are initialised, are deleted

Knows no group and no rule.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from raftka.coordinator.consumer.commands import Target
from raftka.coordinator.consumer.records import Epoch
from raftka.coordinator.machine import Record
from raftka.coordinator.modern.records import RecordForm, Targets
from raftka.versions import SHARE_GROUP
from raftka.wire.notation import parse_row
from raftka.wire.rows import Row

MEMBER, GROUP, TARGETS, TARGET, CURRENT, PARTITIONS = 10, 11, 12, 13, 14, 15
KINDS = frozenset((MEMBER, GROUP, TARGETS, TARGET, CURRENT, PARTITIONS))
# their keys have the group's id alone, the others' the member's too
OF_GROUP = (GROUP, TARGETS, PARTITIONS)
STABLE = 0  # the one state of a member


class Said(NamedTuple):
    """The member's own words: its subscription, client and address."""

    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...] = ()  # sorted


class Current(NamedTuple):
    """The partitions that a member has."""

    epoch: int = 0
    previous_epoch: int = 0
    assigned: Target = {}  # noqa: RUF012  # never changed in place


class Topic(NamedTuple):
    """Share partitions of one topic."""

    name: str
    partitions: frozenset[int]


Topics = Mapping[bytes, Topic]  # by topic id; never changed in place
NO_TOPICS: Topics = {}


class Partitions(NamedTuple):
    """The share partitions of a group, by the state of their persisted state."""

    initializing: Topics = NO_TOPICS
    initialized: Topics = NO_TOPICS
    deleting: Mapping[bytes, str] = {}  # names of topics, by id


Value = Epoch | Said | Targets | Target | Current | Partitions


class TargetTopic(Protocol):
    """A topic of a target, as its row has it."""

    topic_id: bytes
    partitions: Sequence[int]


class StateTopic(TargetTopic, Protocol):
    """A topic of the share partitions, as its row has it."""

    topic_name: str


def group_record(group_id: str, group: Epoch) -> Record:
    row = _GROUP(epoch=group.epoch, metadata_hash=group.metadata_hash)
    return FORM.record(GROUP, group_id, row)


def member_record(group_id: str, member_id: str, said: Said) -> Record:
    row = _MEMBER(
        rack_id=said.rack_id,
        client_id=said.client_id,
        client_host=said.client_host,
        topics=list(said.topics),
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
        state=STABLE,
        assigned=[
            _CURRENT.assigned(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in sorted(current.assigned.items())
        ],
    )
    return FORM.record(CURRENT, group_id, row, member_id)


def partitions_record(group_id: str, partitions: Partitions) -> Record:
    row = _PARTITIONS(
        initializing=_topic_rows(partitions.initializing),
        initialized=_topic_rows(partitions.initialized),
        deleting=[
            _PARTITIONS.deleting(topic_id=topic_id, topic_name=name)
            for topic_id, name in sorted(partitions.deleting.items())
        ],
    )
    return FORM.record(PARTITIONS, group_id, row)


def _topic_rows(topics: Topics) -> list[Row]:
    return [
        _PARTITIONS.initializing(
            topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions)
        )
        for topic_id, topic in sorted(topics.items())
    ]


def read_value(what: int, value: bytes) -> Value:
    """Raises ValueError, NewerFormat."""
    row = FORM.read_row(what, value)
    if what == MEMBER:
        topics = tuple(sorted(set(row.topics)))
        return Said(row.rack_id, row.client_id, row.client_host, topics)
    if what == GROUP:
        return Epoch(row.epoch, row.metadata_hash)
    if what == TARGETS:
        return Targets(row.epoch, row.timestamp_ms)
    if what == TARGET:
        return _read_target(row.topics)
    if what == CURRENT:
        return Current(row.epoch, row.previous_epoch, _read_target(row.assigned))
    deleting = {topic.topic_id: topic.topic_name for topic in row.deleting}
    return Partitions(_read_topics(row.initializing), _read_topics(row.initialized), deleting)


def _read_target(topics: Iterable[TargetTopic]) -> Target:
    return {topic.topic_id: tuple(sorted(topic.partitions)) for topic in topics}


def _read_topics(topics: Iterable[StateTopic]) -> Topics:
    return {
        topic.topic_id: Topic(topic.topic_name, frozenset(topic.partitions))
        for topic in topics
        if topic.partitions
    }


_GROUP = parse_row(
    "ShareGroupMetadataValue",
    """
    epoch                   int32
    metadata_hash           int64
    """,
)
_MEMBER = parse_row(
    "ShareGroupMemberMetadataValue",
    """
    rack_id                 string?
    client_id               string
    client_host             string
    topics                  string[]
    """,
)
_TARGETS = parse_row(
    "ShareGroupTargetAssignmentMetadataValue",
    """
    epoch                   int32
    timestamp_ms            int64       @0
    """,
)
_TARGET = parse_row(
    "ShareGroupTargetAssignmentMemberValue",
    """
    topics TopicPartition[]
        topic_id            uuid
        partitions          int32[]
    """,
)
_CURRENT = parse_row(
    "ShareGroupCurrentMemberAssignmentValue",
    """
    epoch                   int32
    previous_epoch          int32
    state                   int8
    assigned TopicPartitions[]
        topic_id            uuid
        partitions          int32[]
    """,
)
_PARTITIONS = parse_row(
    "ShareGroupStatePartitionMetadataValue",
    """
    initializing TopicPartitionsInfo[]
        topic_id            uuid
        topic_name          string
        partitions          int32[]
    initialized             TopicPartitionsInfo[]
    deleting TopicInfo[]
        topic_id            uuid
        topic_name          string
    """,
)
_ROWS = {
    GROUP: _GROUP,
    MEMBER: _MEMBER,
    TARGETS: _TARGETS,
    TARGET: _TARGET,
    CURRENT: _CURRENT,
    PARTITIONS: _PARTITIONS,
}
FORM = RecordForm("a share group", SHARE_GROUP, _ROWS, OF_GROUP)
read_key, tombstone = FORM.read_key, FORM.tombstone
