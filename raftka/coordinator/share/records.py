"""The records of share groups (KIP-932) in __consumer_offsets, as Kafka 4.4 writes and reads them;
all values are flexible.

    10 member: its words of itself    11 group: its epoch           12 epoch of the targets
    13 member: its target             14 member: its assignment     15 the share partitions: those
                                      that are being initialised, are initialised, are deleted

Knows no group and no rule.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, Protocol

from raftka.coordinator.consumer.commands import Target
from raftka.coordinator.consumer.records import Epoch, Targets
from raftka.coordinator.machine import Record
from raftka.coordinator.records import kind, read_string_of_key, string_of_key
from raftka.versions import SHARE_GROUP
from raftka.wire.decoder import Decoder, compile_decoder
from raftka.wire.encoder import Encoder, compile_encoder, encode_row
from raftka.wire.errors import ProtocolError
from raftka.wire.notation import parse_row
from raftka.wire.rows import Row

MEMBER, GROUP, TARGETS, TARGET, CURRENT, PARTITIONS = 10, 11, 12, 13, 14, 15
KINDS = frozenset((MEMBER, GROUP, TARGETS, TARGET, CURRENT, PARTITIONS))
# their keys have the group's id alone, the others' the member's too
OF_GROUP = (GROUP, TARGETS, PARTITIONS)
STABLE = 0  # the one state of a member
WHOSE = "a share group"  # a key that cannot be read


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


# keys


def key(what: int, group_id: str, member_id: str = "") -> bytes:
    parts = [what.to_bytes(2, "big"), string_of_key(group_id)]
    if what not in OF_GROUP:
        parts.append(string_of_key(member_id))
    return b"".join(parts)


def read_key(data: bytes) -> tuple[int, str, str]:
    """Return the record's kind, the group, and the member, "" where there is none. Raises
    ValueError.
    """
    what = kind(data)
    group_id, at = read_string_of_key(data, 2, WHOSE)
    member_id = ""
    if what not in OF_GROUP:
        member_id, at = read_string_of_key(data, at, WHOSE)
    if at != len(data):
        raise ValueError(f"the key of {WHOSE} is too long: {data[:40]!r}")
    return what, group_id, member_id


def tombstone(what: int, group_id: str, member_id: str = "") -> Record:
    return Record(key(what, group_id, member_id), None)


# values


def group_record(group_id: str, group: Epoch) -> Record:
    row = _GROUP(epoch=group.epoch, metadata_hash=group.metadata_hash)
    return Record(key(GROUP, group_id), _write(GROUP, row))


def member_record(group_id: str, member_id: str, said: Said) -> Record:
    row = _MEMBER(
        rack_id=said.rack_id,
        client_id=said.client_id,
        client_host=said.client_host,
        topics=list(said.topics),
    )
    return Record(key(MEMBER, group_id, member_id), _write(MEMBER, row))


def targets_record(group_id: str, targets: Targets) -> Record:
    row = _TARGETS(epoch=targets.epoch, timestamp_ms=targets.timestamp_ms)
    return Record(key(TARGETS, group_id), _write(TARGETS, row))


def target_record(group_id: str, member_id: str, target: Target) -> Record:
    topics = [
        _TARGET.topics(topic_id=topic_id, partitions=list(partitions))
        for topic_id, partitions in sorted(target.items())
    ]
    return Record(key(TARGET, group_id, member_id), _write(TARGET, _TARGET(topics=topics)))


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
    return Record(key(CURRENT, group_id, member_id), _write(CURRENT, row))


def partitions_record(group_id: str, partitions: Partitions) -> Record:
    row = _PARTITIONS(
        initializing=_topic_rows(partitions.initializing),
        initialized=_topic_rows(partitions.initialized),
        deleting=[
            _PARTITIONS.deleting(topic_id=topic_id, topic_name=name)
            for topic_id, name in sorted(partitions.deleting.items())
        ],
    )
    return Record(key(PARTITIONS, group_id), _write(PARTITIONS, row))


def _topic_rows(topics: Topics) -> list[Row]:
    return [
        _PARTITIONS.initializing(
            topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions)
        )
        for topic_id, topic in sorted(topics.items())
    ]


def read_value(what: int, value: bytes) -> Value:
    """Raises ValueError, NewerFormat."""
    SHARE_GROUP.check(kind(value), SHARE_GROUP.place)
    try:
        row, _ = _decoder(what)(memoryview(value), 2)
    except ProtocolError as error:
        raise ValueError(
            f"the value of a share group's record {what} cannot be read: {error}"
        ) from error
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


@cache
def _decoder(what: int) -> Decoder:
    return compile_decoder(_ROWS[what].struct, 0, flexible=True, bounded=False)


@cache
def _encoder(what: int) -> Encoder:
    return compile_encoder(_ROWS[what].struct, 0, flexible=True)


def _write(what: int, row: Row) -> bytes:
    return encode_row(_encoder(what), row, b"\0\0")
