"""The records of a batch as rows of numbers: the fast way to their keys, offsets and times. Makes
no records, knows no log.

`records_of` (wire/records.py) is the thorough way: it looks at every byte.
"""

from hashlib import blake2b

from raftka.limits import DECOMPRESSED_BYTES
from raftka.log.segments.scan import Header
from raftka.wire.compression import decompress
from raftka.wire.errors import ProtocolError
from raftka.wire.records import BATCH_HEADER_BYTES, COMPRESSION_MASK, LOG_OVERHEAD_BYTES, signed

NULL = 1  # -1 as a varint

Key = bytes | int
# from, to, timestamp delta (zigzag), offset delta, key, whether it is a tombstone
Row = tuple[int, int, int, int, Key | None, bool]


def digest(key: bytes) -> int:
    """Stands in for a key of 64 bytes and more; being no bytes, it equals no shorter one."""
    return int.from_bytes(blake2b(key, digest_size=16).digest())


def body_of(
    data: bytes, at: int, header: Header, limit_bytes: int = DECOMPRESSED_BYTES.value
) -> tuple[bytes, int, int]:
    """The records of the batch at `at`: where, from, to. Raises ProtocolError."""
    stop = at + header[1] + LOG_OVERHEAD_BYTES
    codec = header[5] & COMPRESSION_MASK
    if codec == 0:
        return data, at + BATCH_HEADER_BYTES, stop
    body = bytes(decompress(codec, memoryview(data)[at + BATCH_HEADER_BYTES : stop], limit_bytes))
    return body, 0, len(body)


def rows_of(body: bytes, starts: list[int], stop: int) -> list[Row]:
    """The only loop over records, so it is written out: varints of up to two bytes are read in
    place. Raises ProtocolError.

    From one start on, up to `stop`; or with -1 those at `starts`. It takes `bytes`, which Python
    indexes faster than a view.
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


def all_rows(body: bytes, start: int, stop: int, header: Header) -> list[Row]:
    rows = rows_of(body, [start], stop) if header[12] else []
    if len(rows) != header[12] or (not rows and start != stop):
        raise ProtocolError(f"{len(rows)} records in a batch of {header[12]}")
    return rows
