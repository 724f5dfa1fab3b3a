"""Batches of clients, as the leader appends them: checked, given offsets, repaired where Kafka
repairs them. Batches that are appended as they are: log.py.
"""

from collections.abc import Callable, Sequence
from operator import eq, le
from struct import Struct
from typing import Protocol

from raftka.checksum import crc32c
from raftka.log.config import LogConfig
from raftka.log.delivery.due import Due
from raftka.log.delivery.held import HeldBatches
from raftka.log.leader_epoch import LeaderEpochs
from raftka.log.producers.state import ProducerState
from raftka.log.segments.segment import Segment
from raftka.log.segments.segment_list import SegmentList
from raftka.log.validation import Prepared, one_batch, repair, restamp
from raftka.wire.errors import Code, KafkaError
from raftka.wire.records import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER,
    BATCH_REST,
    BATCH_START,
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
)

# base offset, length, leader epoch: what a leader sets, none of it under the CRC
LEADERS_FIELDS = Struct(">qii")
AT_ONCE: tuple[Due, ...] = ()
ATTENTION = CONTROL | LOG_APPEND_TIME

_unpack = BATCH_HEADER.unpack_from
_pack = LEADERS_FIELDS.pack_into
_unpack_start, _unpack_rest = BATCH_START.unpack, BATCH_REST.unpack
# of a batch's header from the attributes on: its two timestamps, and the bytes around them
_times_in = Struct(">6sqq18s")
_pack_given = Struct(">iib").pack  # length, leader epoch, magic


class LedLog(Protocol):
    """The log that the batches come into."""

    config: LogConfig
    directory: str
    end_offset: int
    epochs: LeaderEpochs
    failed: OSError | None
    held: HeldBatches | None
    producers: ProducerState
    segments: SegmentList

    def begin_epoch(self, leader_epoch: int, offset: int) -> None: ...

    def make_room(self, size: int, timestamp: int, next_offset: int, now_ms: int) -> Segment: ...


class ClientBatches:
    __slots__ = (
        "_after_ms",
        "_before_ms",
        "_index_interval",
        "_log",
        "_log_append_time",
        "_max_bytes",
        "_prepared",
        "_segment_bytes",
        "_special",
        "_takes_any",
    )

    def __init__(self, log: LedLog) -> None:
        self._log = log
        self._prepared: Prepared | None = None
        self.configure(log.config)

    def configure(self, config: LogConfig) -> None:
        """Take the topic's configuration, the first or another one."""
        self._log_append_time = config.message_timestamp_type == "LogAppendTime"
        self._takes_any = (
            not self._log_append_time
            and config.compression_type == "producer"
            and config.schemas is None
            and config.delivery is None
        )
        self._special = (
            not self._takes_any
            or config.compacted
            or config.bounds_opened
            or config.delivery is not None
            or config.validation == "records"
        )
        self._after_ms = config.message_timestamp_after_max_ms
        self._before_ms = config.message_timestamp_before_max_ms
        self._max_bytes = config.max_message_bytes
        self._segment_bytes = config.segment_bytes
        self._index_interval = config.index_interval_bytes

    # one function, because it is the hot path: what is not a plain batch leaves it at `one_batch`,
    # `_repair`, `admit` and `make_room`
    def append(
        self, batch: memoryview, leader_epoch: int, now_ms: int
    ) -> tuple[int, int, int, bool]:
        """Stage a client's batch: (base offset, next offset, log append time or -1, it was a
        duplicate). Raises KafkaError, TakesLong, NeedsSchemas.

        The view is writable, and valid until `write_staged`. All checks come before all changes.
        """
        size = len(batch)
        if size < 61:
            one_batch(batch)
        (base, length, _, magic, crc, attributes, delta, base_timestamp, timestamp,
         producer_id, epoch, sequence, count) = _unpack(batch)  # fmt: skip
        if length + 12 != size or magic != 2:
            batch = one_batch(batch)
            size = len(batch)
        log = self._log
        if size > self._max_bytes or log.failed:
            self._refuse()
        if crc32c(batch[21:]) != crc:
            raise KafkaError(Code.CORRUPT_MESSAGE)
        again, due = None, AT_ONCE
        if (
            self._special
            or base
            or not 0 < count < size >> 2
            or delta != count - 1
            or (attributes and (attributes & ATTENTION or attributes & 7 > 4))
            or timestamp - now_ms > self._after_ms
            or now_ms - base_timestamp > self._before_ms
            or not 0 <= base_timestamp <= timestamp <= (base_timestamp if count == 1 else timestamp)
            or size > self._segment_bytes
            or (epoch < 0 or sequence < 0 if producer_id >= 0 else attributes & TRANSACTIONAL)
        ):
            batch, size, timestamp, again, count, due = self._repair(batch, now_ms)
        if producer_id >= 0:
            known, mode = log.producers.producers.get(producer_id), attributes & TRANSACTIONAL
            if mode if known is None else (
                known.next_sequence != sequence or known.epoch != epoch
                or known.transactional != mode
            ):  # fmt: skip
                duplicate = log.producers.admit(producer_id, epoch, sequence, count, mode)
                if duplicate is not None:
                    return duplicate[2], duplicate[2] + count, duplicate[3], True

        next_offset = (offset := log.end_offset) + count
        if due and log.held is not None:
            log.held.add(offset, next_offset, due)
        segment = (segments := log.segments).active
        full = segment.size + size > segments.roll_size
        if full or timestamp > segments.roll_timestamp or next_offset > segments.roll_offset:
            segment = log.make_room(size, timestamp, next_offset, now_ms)
        if again is not None:
            restamp(batch, again, timestamp)
        _pack(batch, 0, offset, size - 12, leader_epoch)
        if leader_epoch != log.epochs.latest:
            log.begin_epoch(leader_epoch, offset)
        segments.staged.append(batch)
        log.end_offset = next_offset

        if timestamp > segment.max_timestamp and not due:
            segment.max_timestamp, segment.max_timestamp_offset = timestamp, next_offset - 1
        if segment.since_index > self._index_interval:
            segment.index(segment.size, next_offset - 1)
        segment.since_index += size
        segment.size += size
        if producer_id >= 0:
            record = log.producers.record
            record(producer_id, epoch, sequence, count, offset, timestamp, now_ms, mode)
        return offset, next_offset, now_ms if self._log_append_time else -1, False

    def append_uniform(
        self,
        start: bytes,
        headers: Sequence[bytes],
        crcs: tuple[int, ...],
        bodies: Sequence[bytes],
        pack: Callable[..., bytes],
        leader_epoch: int,
        now_ms: int,
    ) -> list[int] | None:
        """As `append`, of plain batches of one size: return their base offsets. None: nothing was
        done, append them one by one.

        `start`: the bytes of each before its CRC; `headers`: from the attributes to the count;
        `bodies`: what the CRC covers; `pack` joins base offset, rest of the start, CRC and body.
        """
        base, length, _, magic = _unpack_start(start)
        attributes, delta, base_timestamp, timestamp, producer_id, _, _, count = _unpack_rest(
            headers[0]
        )
        number, size = len(bodies), len(bodies[0]) + ATTRIBUTES_POSITION
        log, segments = self._log, self._log.segments
        offset, segment = log.end_offset, segments.active
        next_offset = offset + number * count
        times: tuple[int, ...] = (timestamp,) * number
        oldest: tuple[int, ...] = (base_timestamp,)
        if headers.count(headers[0]) != number:
            firsts, oldest, times, lasts = zip(
                *_times_in.iter_unpack(b"".join(headers)), strict=True
            )
            if firsts.count(firsts[0]) != number or lasts.count(lasts[0]) != number:
                return None  # more differs than timestamps
            base_timestamp, timestamp = min(oldest), max(times)
        if (
            base
            or length + 12 != size
            or magic != 2
            or attributes
            or producer_id >= 0
            or not 0 < delta + 1 == count < size >> 2
            or size > self._max_bytes
            or log.failed
            or self._special
            or timestamp - now_ms > self._after_ms
            or now_ms - base_timestamp > self._before_ms
            or not (base_timestamp >= 0 and all(map(le if count > 1 else eq, oldest, times)))
            or leader_epoch != log.epochs.latest
            or segment.size + number * size > segments.roll_size
            or timestamp > segments.roll_timestamp
            or next_offset > segments.roll_offset
            or tuple(map(crc32c, bodies)) != crcs
        ):
            return None
        bases = list(range(offset, next_offset, count))
        fields: list[object] = [0, _pack_given(size - 12, leader_epoch, 2), 0, 0] * number
        fields[0::4], fields[2::4], fields[3::4] = bases, crcs, bodies
        segments.staged.append(pack(*fields))
        log.end_offset = next_offset
        # no index entry is due
        if segment.since_index + (number - 1) * size <= self._index_interval:
            if timestamp > segment.max_timestamp:
                segment.max_timestamp = timestamp
                segment.max_timestamp_offset = bases[times.index(timestamp)] + count - 1
            segment.since_index += number * size
            segment.size += number * size
        else:
            for base, each in zip(bases, times, strict=True):
                segment.note(segment.size, size, base + count - 1, each)
        return bases

    def append_prepared(
        self, prepared: Prepared, leader_epoch: int, now_ms: int
    ) -> tuple[int, int, int, bool]:
        """As `append`, of a batch that a TakesLong has prepared: its records are not read again."""
        self._prepared = prepared
        try:
            return self.append(prepared.batch, leader_epoch, now_ms)
        finally:
            self._prepared = None

    def takes_unchanged(self, size: int) -> bool:
        """Return whether a coordinator's batch of this size needs neither checks nor changes."""
        return self._takes_any and size <= self._max_bytes and size <= self._segment_bytes

    def _refuse(self) -> None:
        if self._log.failed:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR)
        raise KafkaError(Code.MESSAGE_TOO_LARGE)

    def _repair(
        self, batch: memoryview, now_ms: int
    ) -> tuple[memoryview, int, int, int | None, int, tuple[Due, ...]]:
        """As `repair`, with the size and the number of offsets: records may have been removed."""
        log = self._log
        batch, timestamp, again, due = repair(
            batch, now_ms, log.config, log.directory.rpartition("/")[2], self._prepared
        )
        log.segments.active.timeless |= timestamp < 0
        return batch, len(batch), timestamp, again, _unpack(batch)[6] + 1, due
