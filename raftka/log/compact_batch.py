"""One batch under compaction: which keys it has, and the batch that is left of it. Knows no file and no log.

Records are not made anew: what stays is copied as it is, so a batch keeps its base offset, its last offset and its producer's sequence, as Kafka
demands; its base timestamp stays too, or becomes the delete horizon (KIP-534), from which the timestamps are then counted.
"""

from collections.abc import Container, Iterator, Sequence
from hashlib import blake2b
from operator import lt
from typing import NamedTuple

from raftka.log.scan import Header
from raftka.runtime.door import Buffer
from raftka.wire.compression import compress, decompress
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

NULL = 1  # -1 as a varint

Key = bytes | int
Row = tuple[int, int, int, int, Key | None, bool]  # from, to, timestamp delta (zigzag), offset delta, key, whether it is a tombstone
PLACE_BITS = 27  # a record's place is its offset and, in so many bits, where in its batch's (decompressed) records it begins
PLACE_MASK = (1 << PLACE_BITS) - 1


def digest(key: bytes) -> int:
    """Stands in for a key of 64 bytes and more; being no bytes, it equals no shorter one."""
    return int.from_bytes(blake2b(key, digest_size=16).digest())


def body_of(data: bytes, at: int, header: Header) -> tuple[bytes, int, int]:
    """The records of the batch at `at`: where, from, to. Raises ProtocolError."""
    stop = at + header[1] + LOG_OVERHEAD_BYTES
    codec = header[5] & COMPRESSION_MASK
    if codec == 0:
        return data, at + BATCH_HEADER_BYTES, stop
    body = bytes(decompress(codec, memoryview(data)[at + BATCH_HEADER_BYTES : stop]))
    return body, 0, len(body)


def rows_of(body: bytes, starts: list[int], stop: int) -> list[Row]:
    """The only loop over records, so it is written out: varints of up to two bytes are read in place. Raises ProtocolError.

    From one start on, up to `stop`; or with -1 those at `starts`. It takes `bytes`, which Python indexes faster than a view.
    """
    rows: list[Row] = []
    add, go_on = rows.append, starts.append
    end = -1
    try:
        for start in starts:
            p = start + 2
            size = body[start]
            if size < 128:
                end = start + 1 + (size >> 1)
            elif (high := body[start + 1]) < 128:
                end = start + 2 + ((size & 127 | high << 7) >> 1)
                p += 1
            else:
                size, p = signed(body, start, 32)
                end = p + size
                p += 1
            time = body[p]
            p += 1
            if time > 127:
                if (high := body[p]) < 128:
                    time = time & 127 | high << 7
                    p += 1
                else:
                    time, p = signed(body, p - 1)
                    time = time << 1 ^ time >> 63
            delta = body[p]
            p += 1
            if delta > 127:
                if (high := body[p]) < 128:
                    delta = delta & 127 | high << 7
                    p += 1
                else:
                    delta, p = signed(body, p - 1, 32)
                    delta <<= 1
            length = body[p]
            p += 1
            if length > 127:
                length, p = signed(body, p - 1, 32)
                value = p + length
                add((start, end, time, delta >> 1, digest(body[p:value]), body[value] == NULL))
            elif length == NULL:
                add((start, end, time, delta >> 1, None, False))
            else:
                value = p + (length >> 1)
                add((start, end, time, delta >> 1, body[p:value], body[value] == NULL))
            if start < end < stop:
                go_on(end)
    except IndexError as error:
        raise ProtocolError("a record ends behind its batch") from error
    if end != stop >= 0:
        raise ProtocolError(f"{stop - end} bytes behind the last record")
    return rows


def _all_rows(body: bytes, start: int, stop: int, header: Header) -> list[Row]:
    rows = rows_of(body, [start], stop) if header[12] else []
    if len(rows) != header[12] or (not rows and start != stop):
        raise ProtocolError(f"{len(rows)} records in a batch of {header[12]}")
    return rows


def keys_of(data: bytes, at: int, header: Header) -> tuple[dict[Key, int], bool]:
    """Of each key the *place* of its last record, and whether there is a tombstone. Raises ProtocolError, also for offsets out of order."""
    body, begin, stop = body_of(data, at, header)
    rows = _all_rows(body, begin, stop, header)
    deltas = [row[3] for row in rows]
    if rows and (deltas[-1] > header[6] or not all(map(lt, deltas, deltas[1:]))):
        raise ProtocolError("the offsets of a batch are not in order")
    base = header[0]
    places: dict[Key, int] = {row[4]: base + row[3] << PLACE_BITS | row[0] - begin for row in rows if row[4] is not None}
    return places, any(row[5] for row in rows)


class Kept(NamedTuple):
    """What of a batch stays."""

    body: bytes
    runs: list[tuple[int, int]]  # from, to: neighbours are one
    records: int
    largest_delta: int  # of the timestamps that stay
    tombstone: bool  # one of them is


NOTHING = Kept(b"", [], 0, 0, False)


def kept_of(data: bytes, at: int, header: Header, gone: Container[Key], expired: bool) -> Kept:
    """The records whose key is not `gone`; of them no tombstones when they are `expired`. Raises ProtocolError."""
    body, start, stop = body_of(data, at, header)
    rows = _all_rows(body, start, stop, header)
    return _kept(body, [row for row in rows if row[4] is not None and row[4] not in gone and not (expired and row[5])])


def kept_at(data: bytes, at: int, header: Header, places: Sequence[int], expired: bool) -> Kept:
    """The records at these places; of them no tombstones when they are `expired`."""
    body, begin, _ = body_of(data, at, header)
    starts = [begin + (place & PLACE_MASK) for place in places]
    rows = rows_of(body, starts, -1)
    return _kept(body, [row for row in rows if not row[5]] if expired else rows)


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
    """The batch with the kept records alone; with `horizon_ms` as its delete horizon, which the timestamps are then counted from."""
    base, _, epoch, magic, _, attributes, last_delta, base_timestamp, timestamp, producer_id, producer_epoch, sequence, _ = header
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
        batch, 0, base, len(batch) - LOG_OVERHEAD_BYTES, epoch, magic, 0, attributes, last_delta, base_timestamp, timestamp,
        producer_id, producer_epoch, sequence, kept.records,
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
    base, _, epoch, magic, _, attributes, last_delta, _, timestamp, producer_id, producer_epoch, sequence, _ = header
    batch = bytearray(BATCH_HEADER_BYTES)
    BATCH_HEADER.pack_into(
        batch, 0, base, BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES, epoch, magic, 0, attributes & ~(COMPRESSION_MASK | DELETE_HORIZON), last_delta,
        -1, timestamp, producer_id, producer_epoch, sequence, 0,
    )  # fmt: skip
    seal(batch)
    return batch


def whole(data: bytes, at: int, header: Header) -> Kept:
    """All of a control batch: a marker has one record."""
    body, start, stop = body_of(data, at, header)
    time, _ = signed(body, signed(body, start, 32)[1] + 1)
    return Kept(body, [(start, stop)], header[12], time, False)
