"""The records of __share_group_state, as Kafka 4.4 writes and reads them. Knows no rule.

A snapshot holds the whole state of a share partition, an update the changes since: its
`snapshot_epoch` names the snapshot that it belongs to. Values are of version 0, and flexible; keys
are not.
"""

from collections.abc import Sequence
from functools import cache
from struct import Struct as Layout
from typing import NamedTuple

from raftka.coordinator.machine import Record
from raftka.coordinator.records import kind
from raftka.share.state import NO_COUNT, SharePartitionKey, StateBatch
from raftka.versions import SHARE_STATE
from raftka.wire.codec import varint
from raftka.wire.decoder import Decoder, compile_decoder
from raftka.wire.errors import ProtocolError
from raftka.wire.notation import parse_row

SNAPSHOT_KEY, UPDATE_KEY = 0, 1


class Snapshot(NamedTuple):
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start: int
    complete_count: int
    created_ms: int  # since the epoch; so is `written_ms`
    written_ms: int
    batches: Sequence[StateBatch]


class Update(NamedTuple):
    snapshot_epoch: int
    leader_epoch: int
    start: int  # or NO_START
    complete_count: int
    batches: Sequence[StateBatch]


# writing

_LENGTH = Layout(">hh")  # of a group's id, behind the kind of the record
_INDEX = Layout(">i")
_SNAPSHOT = Layout(">hiiiqqq")
_UPDATE = Layout(">hiiq")
_BATCH = Layout(">qqbhx")  # without tags
_COUNT = Layout(">BBBi")  # the tagged section: one tag, 0, of four bytes


def snapshot_record(key: SharePartitionKey, snapshot: Snapshot) -> Record:
    head = _SNAPSHOT.pack(
        0,
        snapshot.snapshot_epoch,
        snapshot.state_epoch,
        snapshot.leader_epoch,
        snapshot.start,
        snapshot.created_ms,
        snapshot.written_ms,
    )
    return Record(_key(SNAPSHOT_KEY, key), head + _rest(snapshot.batches, snapshot.complete_count))


def update_record(key: SharePartitionKey, update: Update) -> Record:
    head = _UPDATE.pack(0, update.snapshot_epoch, update.leader_epoch, update.start)
    return Record(_key(UPDATE_KEY, key), head + _rest(update.batches, update.complete_count))


def tombstone(key: SharePartitionKey) -> Record:
    return Record(_key(SNAPSHOT_KEY, key), None)


def _key(what: int, key: SharePartitionKey) -> bytes:
    group_id = key.group_id.encode()
    return b"".join(
        (_LENGTH.pack(what, len(group_id)), group_id, key.topic_id, _INDEX.pack(key.partition))
    )


def _rest(batches: Sequence[StateBatch], complete_count: int) -> bytes:
    pack = _BATCH.pack
    return b"".join(
        (
            varint(len(batches) + 1),
            *[pack(*batch) for batch in batches],
            b"\0" if complete_count == NO_COUNT else _COUNT.pack(1, 0, 4, complete_count),
        )
    )


# reading


def read_key(key: bytes) -> SharePartitionKey:
    """Raises ValueError."""
    if len(key) < 4 or (end := 4 + (key[2] << 8 | key[3])) + 20 != len(key):
        raise ValueError(f"the key of a share partition is cut: {key[:40]!r}")
    (partition,) = _INDEX.unpack_from(key, end + 16)
    return SharePartitionKey(key[4:end].decode(), key[end : end + 16], partition)


def read_snapshot(value: bytes) -> Snapshot:
    """Raises ValueError, NewerFormat."""
    numbers, batches = _read(SNAPSHOT_KEY, value)
    return Snapshot._make([*numbers, batches])


def read_update(value: bytes) -> Update:
    """Raises ValueError, NewerFormat."""
    numbers, batches = _read(UPDATE_KEY, value)
    return Update._make([*numbers, batches])


def _read(what: int, value: bytes) -> tuple[list[int], list[StateBatch]]:
    """Return the fields in the order of Snapshot or Update, and the batches."""
    version = kind(value)
    SHARE_STATE.check(version, SHARE_STATE.place)
    try:
        row, _ = _decoder(what)(memoryview(value), 2)
    except ProtocolError as error:
        raise ValueError(f"the state of a share partition cannot be read: {error}") from error
    batches = [
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in row.state_batches
    ]
    return [getattr(row, name) for name in _NUMBERS[what]], batches


_NUMBERS = {
    SNAPSHOT_KEY: (
        "snapshot_epoch",
        "state_epoch",
        "leader_epoch",
        "start_offset",
        "delivery_complete_count",
        "create_timestamp",
        "write_timestamp",
    ),
    UPDATE_KEY: ("snapshot_epoch", "leader_epoch", "start_offset", "delivery_complete_count"),
}
_BATCHES = """
    state_batches StateBatch[]
        first_offset            int64
        last_offset             int64
        delivery_state          int8
        delivery_count          int16
    delivery_complete_count     int32=-1    0+ @0
"""
_VALUES = {
    SNAPSHOT_KEY: parse_row(
        "ShareSnapshotValue",
        """
    snapshot_epoch              int32
    state_epoch                 int32
    leader_epoch                int32
    start_offset                int64
    create_timestamp            int64
    write_timestamp             int64
"""
        + _BATCHES,
    ),
    UPDATE_KEY: parse_row(
        "ShareUpdateValue",
        """
    snapshot_epoch              int32
    leader_epoch                int32
    start_offset                int64
"""
        + _BATCHES,
    ),
}


@cache
def _decoder(what: int) -> Decoder:
    return compile_decoder(_VALUES[what].struct, 0, flexible=True, bounded=False)
