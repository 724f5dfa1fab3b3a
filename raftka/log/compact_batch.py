"""One batch under compaction: which keys it has, and the batch that is left of it. Knows no file and no log.

Records are not made anew: what stays is copied as it is, so a batch keeps its base offset, its last offset and its producer's sequence, as Kafka
demands; its base timestamp stays too, or becomes the delete horizon (KIP-534), from which the timestamps are then counted.
"""

from collections.abc import Callable, Iterator
from hashlib import blake2b
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
Row = tuple[int, int, int, Key | None, bool]  # where it begins, timestamp delta (zigzag), offset delta, key, whether it is a tombstone


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


def rows_of(body: bytes, p: int, stop: int, count: int) -> list[Row]:
    """The only loop over records, so it is written out: varints of up to two bytes are read in place. Raises ProtocolError.

    It takes `bytes`, which Python indexes faster than a view.
    """
    rows: list[Row] = []
    add = rows.append
    try:
        for _ in range(count):
            start = p
            size = body[p]
            if size < 128:
                end = p + 1 + (size >> 1)
                p += 2
            elif (high := body[p + 1]) < 128:
                end = p + 2 + ((size & 127 | high << 7) >> 1)
                p += 3
            else:
                size, p = signed(body, p, 32)
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
                add((start, time, delta >> 1, digest(body[p:value]), body[value] == NULL))
            elif length == NULL:
                add((start, time, delta >> 1, None, False))
            else:
                value = p + (length >> 1)
                add((start, time, delta >> 1, body[p:value], body[value] == NULL))
            p = end
    except IndexError as error:
        raise ProtocolError("a record ends behind its batch") from error
    if p != stop:
        raise ProtocolError(f"{stop - p} bytes behind the last record")
    return rows


def keys_of(data: bytes, at: int, header: Header) -> tuple[dict[Key, int], bool]:
    """The last offset of each key, and whether there is a tombstone. Raises ProtocolError."""
    base = header[0]
    rows = rows_of(*body_of(data, at, header), header[12])
    return {key: base + delta for _, _, delta, key, _ in rows if key is not None}, any(row[4] for row in rows)


class Kept(NamedTuple):
    """What of a batch stays."""

    body: bytes
    runs: list[tuple[int, int]]  # from, to: neighbours are one
    records: int
    largest_delta: int  # of the timestamps that stay
    tombstone: bool  # one of them is


def kept_of(data: bytes, at: int, header: Header, last_of: Callable[[Key, int], int], expired: bool) -> Kept:
    """The records that are the last of their key; of them no tombstones when they are `expired`. `last_of(key, -1)`. Raises ProtocolError."""
    body, start, stop = body_of(data, at, header)
    base = header[0]
    rows = rows_of(body, start, stop, header[12])
    ends = [*(row[0] for row in rows[1:]), stop]
    runs: list[tuple[int, int]] = []
    count, begin, behind, largest, tombstone = 0, start, start, -(1 << 63), False
    for (at_, time, delta, key, null), end in zip(rows, ends, strict=False):  # an emptied batch has none
        if key is None or (null and expired) or last_of(key, -1) > base + delta:
            continue
        count += 1
        largest = max(largest, time >> 1 ^ -(time & 1))
        tombstone = tombstone or null
        if at_ != behind:
            if begin < behind:
                runs.append((begin, behind))
            begin = at_
        behind = end
    if begin < behind:
        runs.append((begin, behind))
    return Kept(body, runs, count, largest, tombstone)


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
