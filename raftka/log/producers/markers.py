"""Transaction markers: the control batches that end a producer's transaction in a partition
(KIP-98). Knows no log and no coordinator.
"""

from dataclasses import dataclass
from struct import Struct, error

from raftka.wire.records import (
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    CONTROL,
    TRANSACTIONAL,
    batch_of,
    encode_record,
)

ABORT, COMMIT = 0, 1  # types of a marker
# of transactions: the end of one of version 2 raises its producer's epoch (KIP-890)
VERSION_1, VERSION_2 = 1, 2
KEY = Struct(">hh")  # version, type
VALUE = Struct(">hi")  # version, coordinator epoch
NO_SEQUENCE = -1
# of the only record: behind its size, attributes, deltas and lengths, which take one byte each
CONTENT = Struct(">5x4sx6s")


@dataclass(frozen=True, slots=True)
class Marker:
    """The message of a transaction coordinator to a partition: the transaction of this producer is
    committed, or aborted.
    """

    producer_id: int
    epoch: int  # of the producer
    coordinator_epoch: int
    commit: bool
    version: int  # the transaction's version (KIP-1228): 2 when its end raises the producer's epoch


def marker_batch(marker: Marker, offset: int, leader_epoch: int, now_ms: int) -> bytearray:
    """The batch as Kafka stores it: 78 bytes."""
    key = KEY.pack(0, COMMIT if marker.commit else ABORT)
    value = VALUE.pack(0, marker.coordinator_epoch)
    record = encode_record(0, now_ms, (key, value, (), now_ms))
    producer = marker.producer_id, marker.epoch, NO_SEQUENCE
    return batch_of(
        record, 1, CONTROL | TRANSACTIONAL, (now_ms, now_ms), producer, offset, leader_epoch
    )


def read_marker(batch: bytes | bytearray | memoryview) -> Marker | None:
    """The marker in a control batch; None when it has another content, or none: a cleaner has
    emptied it. `version` is not stored: 0.
    """
    header = BATCH_HEADER.unpack_from(batch)
    try:
        key, value = CONTENT.unpack_from(batch, BATCH_HEADER_BYTES)
    except error:
        return None
    _, kind = KEY.unpack(key)
    if not header[5] & CONTROL or header[12] != 1 or kind not in (ABORT, COMMIT):
        return None
    return Marker(header[9], header[10], VALUE.unpack(value)[1], kind == COMMIT, 0)
