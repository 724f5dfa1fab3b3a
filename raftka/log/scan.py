"""Walking over the batches of one file by their headers, in few reads. Knows positions and headers, nothing of what the batches mean to a log.

`locate` and `headers` trust the file (everything below the log's end was checked when it was appended or recovered); `checked` trusts nothing.
"""

from collections.abc import Iterator
from struct import Struct

from crc32c import crc32c

from raftka.runtime.door import File
from raftka.wire.records import ATTRIBUTES_POSITION, BATCH_HEADER, BATCH_HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC

SMALLEST_LENGTH = BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES
BOUNDS = Struct(">qi11xi")  # base offset, length, last offset delta
READ_BYTES = 4096  # a search walks one index interval
WALK_BYTES = 256 * 1024

Header = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]  # as BATCH_HEADER has them


def locate(file: File, position: int, end: int, offset: int) -> tuple[int, int, int] | None:
    """(position, base offset, size) of the first batch at or behind `position` that reaches `offset`; None when none before `end` does."""
    bounds, size = BOUNDS.unpack_from, BOUNDS.size
    while position < end:
        data = file.read(position, READ_BYTES)
        if len(data) < size:
            return None
        at, last = 0, len(data) - size
        while at <= last and position + at < end:
            base, length, delta = bounds(data, at)
            if base + delta >= offset:
                return position + at, base, length + LOG_OVERHEAD_BYTES
            at += length + LOG_OVERHEAD_BYTES
        position += at
    return None


def cut_whole(file: File, position: int, limit: int, end: int, at_least_one: bool) -> tuple[int | None, int]:
    """The whole batches from `position` that end at or before `limit`, or the first: (base offset or None, position) of what is behind."""
    while position < end:
        data = file.read(position, READ_BYTES)
        at, last = 0, len(data) - BOUNDS.size
        while at <= last and position + at < end:
            base, length, _ = BOUNDS.unpack_from(data, at)
            if position + at + length + LOG_OVERHEAD_BYTES > limit and not at_least_one:
                return base, position + at
            at_least_one = False
            at += length + LOG_OVERHEAD_BYTES
        position += at
    return None, position


def headers(file: File, position: int, end: int, read_bytes: int = WALK_BYTES) -> Iterator[tuple[int, Header]]:
    """(position, header) of every batch from `position` to `end`."""
    unpack = BATCH_HEADER.unpack_from
    while position + BATCH_HEADER_BYTES <= end:
        data = file.read(position, read_bytes)
        at, last = 0, min(len(data), end - position) - BATCH_HEADER_BYTES
        if last < 0:
            return
        while at <= last:
            header: Header = unpack(data, at)
            if header[1] < SMALLEST_LENGTH:
                return
            yield position + at, header
            at += header[1] + LOG_OVERHEAD_BYTES
        position += at


def checked(file: File, position: int, end: int, next_offset: int, highest_offset: int) -> Iterator[tuple[int, Header]]:
    """As `headers`, but stops before the first batch that is cut, damaged, or not in order: where it stops the sound part of the file ends."""
    while position + BATCH_HEADER_BYTES <= end:
        data = memoryview(file.read(position, min(end - position, WALK_BYTES)))
        at = 0
        while len(data) - at >= BATCH_HEADER_BYTES:
            header: Header = BATCH_HEADER.unpack_from(data, at)
            size = header[1] + LOG_OVERHEAD_BYTES
            if not _plausible(header, next_offset, highest_offset) or position + at + size > end:
                return
            if at + size > len(data):
                if at:
                    break  # begins in this piece and ends in the next
                data = memoryview(file.read(position, size))
            if len(data) < size or crc32c(data[at + ATTRIBUTES_POSITION : at + size]) != header[4]:
                return
            yield position + at, header
            next_offset = header[0] + header[6] + 1
            at += size
        if at == 0:
            return
        position += at


def _plausible(header: Header, next_offset: int, highest_offset: int) -> bool:
    base, length, _, magic, _, _, delta = header[:7]
    return length >= SMALLEST_LENGTH and magic == MAGIC and delta >= 0 and next_offset <= base and base + delta <= highest_offset
