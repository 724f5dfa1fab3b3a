"""The records of __consumer_offsets, as Kafka writes and reads them. The first two bytes of a key
say what it is, those of a value its version.

Kafka 4.3 writes a committed offset in version 4 (version 1 when it carries a time to expire) and a
classic group in version 3; older ones are read. Knows no group and no rule. Offsets are packed by
hand: thousands a second are written, and read back at once.
"""

from functools import cache
from operator import attrgetter
from struct import Struct as Layout
from typing import Any, NamedTuple

from raftka.coordinator.machine import Record
from raftka.versions import CLASSIC_GROUP, COMMITTED_OFFSET, Format
from raftka.wire.decoder import Decoder, compile_decoder
from raftka.wire.encoder import compile_encoder
from raftka.wire.errors import ProtocolError
from raftka.wire.notation import parse_row
from raftka.wire.rows import ZERO_UUID, Struct

OFFSET_COMMIT_KEYS = (0, 1)
GROUP_METADATA_KEY = 2
FIRST_FLEXIBLE = 4  # version of a value
NEWEST_GROUP = 3  # version of a classic group that is written
NO_TIME = -1
LONGEST_STRING = 32767  # bytes of UTF-8, where a length has two bytes


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIME
    topic_id: bytes = ZERO_UUID  # zero: not known, as in what older versions have written


class GroupMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupMetadata(NamedTuple):
    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[GroupMember, ...] = ()


def kind(key: bytes) -> int:
    """Raises ValueError."""
    if len(key) < 2:
        raise ValueError(f"a key or value of {len(key)} bytes")
    return key[0] << 8 | key[1]


def string_of_key(text: str) -> bytes:
    """Return a string as it lies in the key of a record: behind its length."""
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def read_string_of_key(data: bytes, at: int, whose: str) -> tuple[str, int]:
    """Return the string, and where it ends. `whose`: of the error's text. Raises ValueError."""
    end = at + 2 + int.from_bytes(data[at : at + 2], "big")
    if at + 2 > len(data) or end > len(data):
        raise ValueError(f"the key of {whose} is cut: {data[:40]!r}")
    return data[at + 2 : end].decode(), end


# committed offsets

_HEAD = Layout(">hh")  # version, length of the group's id
_LENGTH = Layout(">h")
_PARTITION = Layout(">i")
_PLAIN = Layout(">hqiBqBBB16s")  # version 4 without metadata and with a topic id, whole
_START = Layout(">hqi")
_TIME = Layout(">q")
_TOPIC_ID = Layout(">BBB16s")
_V1_START = Layout(">hqh")
_V1_TIMES = Layout(">qq")


def offset_prefix(group_id: str) -> bytes:
    """Return the bytes that the keys of all offsets of a group begin with."""
    name = group_id.encode()
    return _HEAD.pack(1, len(name)) + name


def offset_topic_prefix(prefix: bytes, topic: str) -> bytes:
    name = topic.encode()
    return prefix + _LENGTH.pack(len(name)) + name


def offset_key(topic_prefix: bytes, partition: int) -> bytes:
    return topic_prefix + _PARTITION.pack(partition)


def read_offset_key(key: bytes) -> tuple[str, str, int]:
    """Group, topic, partition. Raises ValueError."""
    group_end = 4 + (key[2] << 8 | key[3]) if len(key) > 3 else 0
    topic = group_end + 2
    try:
        topic_end = topic + (key[group_end] << 8 | key[group_end + 1])
    except IndexError:
        topic_end = len(key)
    if not group_end or topic_end + 4 != len(key):
        raise ValueError(f"the key of an offset is cut: {key[:40]!r}")
    return (
        key[4:group_end].decode(),
        key[topic:topic_end].decode(),
        int.from_bytes(key[topic_end:], "big", signed=True),
    )


def offset_value(
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_ms: int,
    expire_ms: int = NO_TIME,
    topic_id: bytes = ZERO_UUID,
) -> bytes:
    """Fields as those of CommittedOffset."""
    if not metadata and expire_ms == NO_TIME and topic_id != ZERO_UUID:
        return _PLAIN.pack(4, offset, leader_epoch, 1, commit_ms, 1, 0, 16, topic_id)
    text = metadata.encode()
    if expire_ms != NO_TIME:
        return _V1_START.pack(1, offset, len(text)) + text + _V1_TIMES.pack(commit_ms, expire_ms)
    tags = b"\0" if topic_id == ZERO_UUID else _TOPIC_ID.pack(1, 0, 16, topic_id)
    return (
        _START.pack(4, offset, leader_epoch)
        + _varint(len(text) + 1)
        + text
        + _TIME.pack(commit_ms)
        + tags
    )


def read_offset_value(value: bytes) -> CommittedOffset:
    """Raises ValueError, NewerFormat."""
    if len(value) == _PLAIN.size and value[1] == 4 and value[14] == 1:
        version, offset, leader_epoch, _, commit_ms, tags, tag, size, topic_id = _PLAIN.unpack(
            value
        )
        if (version, tags, tag, size) == (4, 1, 0, 16):
            return CommittedOffset(offset, leader_epoch, "", commit_ms, NO_TIME, topic_id)
    row = _read(_OFFSET_VALUE.struct, value, COMMITTED_OFFSET)
    return CommittedOffset(
        row.offset,
        row.leader_epoch,
        row.metadata,
        row.commit_timestamp,
        row.expire_timestamp,
        row.topic_id,
    )


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


# classic groups


def group_key(group_id: str) -> bytes:
    name = group_id.encode()
    return _HEAD.pack(GROUP_METADATA_KEY, len(name)) + name


def read_group_key(key: bytes) -> str:
    """Raises ValueError."""
    if len(key) < 4 or 4 + (key[2] << 8 | key[3]) != len(key):
        raise ValueError(f"the key of a group is cut: {key[:40]!r}")
    return key[4:].decode()


def group_record(group_id: str, group: GroupMetadata) -> Record:
    parts: list[Any] = [_LENGTH.pack(NEWEST_GROUP)]
    _group_encoder()(group, parts)
    return Record(group_key(group_id), b"".join(parts))


def group_tombstone(group_id: str) -> Record:
    return Record(group_key(group_id), None)


def read_group_value(value: bytes) -> GroupMetadata:
    """Raises ValueError, NewerFormat."""
    row = _read(_GROUP_VALUE.struct, value, CLASSIC_GROUP)
    members = [GroupMember._make(_MEMBER_VALUES(member)) for member in row.members]
    members = [
        m if m.rebalance_timeout_ms >= 0 else m._replace(rebalance_timeout_ms=m.session_timeout_ms)
        for m in members
    ]
    return GroupMetadata._make((*_GROUP_VALUES(row)[:-1], tuple(members)))


_OFFSET_VALUE = parse_row(
    "OffsetCommitValue",
    """
    offset                  int64
    leader_epoch            int32=-1    3+
    metadata                string
    commit_timestamp        int64
    expire_timestamp        int64=-1    1
    topic_id                uuid        4+ @0
    """,
)
_GROUP_VALUE = parse_row(
    "GroupMetadataValue",
    """
    protocol_type           string
    generation_id           int32
    protocol_name           string?0+
    leader                  string?0+
    state_timestamp_ms      int64=-1    2+
    members MemberMetadata[]
        member_id           string
        instance_id         string?     3+
        client_id           string
        client_host         string
        rebalance_timeout_ms int32=-1   1+
        session_timeout_ms  int32
        subscription        bytes
        assignment          bytes
    """,
)
_GROUP_VALUES = attrgetter(*GroupMetadata._fields)
_MEMBER_VALUES = attrgetter(*GroupMember._fields)


@cache
def _group_encoder() -> Any:
    """It takes what has these fields: a thousand members need not be made rows."""
    return compile_encoder(_GROUP_VALUE.struct, NEWEST_GROUP, flexible=False)


@cache
def _decoder(struct: Struct, version: int) -> Decoder:
    return compile_decoder(struct, version, flexible=version >= FIRST_FLEXIBLE, bounded=False)


def _read(struct: Struct, value: bytes, of: Format) -> Any:
    version = kind(value)
    of.check(version, of.place)
    try:
        row, _ = _decoder(struct, version)(memoryview(value), 2)
    except ProtocolError as error:
        raise ValueError(f"{of.name} cannot be read: {error}") from error
    return row
