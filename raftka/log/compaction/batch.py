"""One batch under compaction: which keys it has, and the batch that is left of it. Knows no file
and no log.

Records are not made anew: what stays is copied as it is, so a batch keeps its base offset, its last
offset and its producer's sequence, as Kafka demands; its base timestamp stays too, or becomes the
delete horizon (KIP-534), from which the timestamps are then counted.
"""

from collections.abc import Container, Iterator, Sequence
from operator import lt
from typing import NamedTuple

from raftka.log.rows import Key, Row, all_rows, body_of, rows_of
from raftka.log.segments.scan import Header
from raftka.runtime.interfaces import Buffer
from raftka.wire.compression import compress
from raftka.wire.errors import ProtocolError
from raftka.wire.records import (
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    COMPRESSION_MASK,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    put_signed,
    seal,
    signed,
)

# a record's place is its offset and, in so many bits, where in its batch's (decompressed) records
# it begins
PLACE_BITS = 27
PLACE_MASK = (1 << PLACE_BITS) - 1


def keys_of(data: bytes, at: int, header: Header) -> tuple[dict[Key, int], bool]:
    """Of each key the *place* of its last record, and whether there is a tombstone. Raises
    ProtocolError, also for offsets out of order.
    """
    body, begin, stop = body_of(data, at, header)
    rows = all_rows(body, begin, stop, header)
    deltas = [row[3] for row in rows]
    if rows and (deltas[-1] > header[6] or not all(map(lt, deltas, deltas[1:]))):
        raise ProtocolError("the offsets of a batch are not in order")
    base = header[0]
    places: dict[Key, int] = {
        row[4]: base + row[3] << PLACE_BITS | row[0] - begin for row in rows if row[4] is not None
    }
    return places, any(row[5] for row in rows)


class Kept(NamedTuple):
    """The part of a batch that stays."""

    body: bytes
    runs: list[tuple[int, int]]  # from, to: neighbours are one
    records: int
    largest_delta: int  # of the timestamps that stay
    tombstone: bool  # one of them is


NOTHING = Kept(b"", [], 0, 0, False)


def kept_of(data: bytes, at: int, header: Header, gone: Container[Key], expired: bool) -> Kept:
    """The records whose key is not `gone`; of them no tombstones when they are `expired`. Raises
    ProtocolError.
    """
    body, start, stop = body_of(data, at, header)
    rows = all_rows(body, start, stop, header)
    return _kept(
        body,
        [
            row
            for row in rows
            if row[4] is not None and row[4] not in gone and not (expired and row[5])
        ],
    )


def kept_at(data: bytes, at: int, header: Header, places: Sequence[int], expired: bool) -> Kept:
    """The records at these places; of them no tombstones when they are `expired`."""
    body, begin, _ = body_of(data, at, header)
    starts = [begin + (place & PLACE_MASK) for place in places]
    rows = rows_of(body, starts, -1)
    return _kept(body, [row for row in rows if not row[5]] if expired else rows)


def kept_beside(data: bytes, header: Header, gone: Container[int]) -> Kept:
    """The records of a batch but for those at these places in it. Raises ProtocolError."""
    body, start, stop = body_of(data, 0, header)
    return _kept(
        body,
        [row for place, row in enumerate(all_rows(body, start, stop, header)) if place not in gone],
    )


def _kept(body: bytes, rows: list[Row]) -> Kept:
    runs: list[tuple[int, int]] = []
    begin = behind = -1
    for start, end, *_ in rows:
        if start != behind:
            if begin < behind:
                runs.append((begin, behind))
            begin = start
        behind = end
    if begin < behind:
        runs.append((begin, behind))
    largest = max((row[2] >> 1 ^ -(row[2] & 1) for row in rows), default=0)
    return Kept(body, runs, len(rows), largest, any(row[5] for row in rows))


def rebuilt(header: Header, kept: Kept, horizon_ms: int | None) -> bytearray:
    """The batch with the kept records alone; with `horizon_ms` as its delete horizon, which the
    timestamps are then counted from.
    """
    (
        base,
        _,
        epoch,
        magic,
        _,
        attributes,
        last_delta,
        base_timestamp,
        timestamp,
        producer_id,
        producer_epoch,
        sequence,
        _,
    ) = header
    if not attributes & LOG_APPEND_TIME:
        timestamp = base_timestamp + kept.largest_delta
    pieces: Iterator[bytes] = (kept.body[start:stop] for start, stop in kept.runs)
    if horizon_ms is not None:
        pieces = _restamped(kept, base_timestamp - horizon_ms)
        base_timestamp = horizon_ms
        attributes |= DELETE_HORIZON
    body: Buffer = b"".join(pieces)
    codec = attributes & COMPRESSION_MASK
    if codec:
        body = compress(codec, body)
    batch = bytearray(BATCH_HEADER_BYTES)
    batch += body
    BATCH_HEADER.pack_into(
        batch, 0, base, len(batch) - LOG_OVERHEAD_BYTES, epoch, magic, 0, attributes, last_delta,
        base_timestamp, timestamp, producer_id, producer_epoch, sequence, kept.records,
    )  # fmt: skip
    seal(batch)
    return batch


def _restamped(kept: Kept, shift_ms: int) -> Iterator[bytes]:
    body = kept.body
    for p, stop in kept.runs:
        while p < stop:
            size, p = signed(body, p, 32)
            end = p + size
            time, rest = signed(body, p + 1)
            moved = bytearray(body[p : p + 1])
            put_signed(moved, time + shift_ms)
            moved += body[rest:end]
            whole = bytearray()
            put_signed(whole, len(moved))
            yield bytes(whole + moved)
            p = end


def emptied(header: Header) -> bytearray:
    """The batch without its records: what offset and what sequence it ended with is still told."""
    (
        base,
        _,
        epoch,
        magic,
        _,
        attributes,
        last_delta,
        _,
        timestamp,
        producer_id,
        producer_epoch,
        sequence,
        _,
    ) = header
    batch = bytearray(BATCH_HEADER_BYTES)
    BATCH_HEADER.pack_into(
        batch, 0, base, BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES, epoch, magic, 0,
        attributes & ~(COMPRESSION_MASK | DELETE_HORIZON), last_delta,
        -1, timestamp, producer_id, producer_epoch, sequence, 0,
    )  # fmt: skip
    seal(batch)
    return batch


def whole(data: bytes, at: int, header: Header) -> Kept:
    """All of a control batch: a marker has one record."""
    body, start, stop = body_of(data, at, header)
    time, _ = signed(body, signed(body, start, 32)[1] + 1)
    return Kept(body, [(start, stop)], header[12], time, False)
