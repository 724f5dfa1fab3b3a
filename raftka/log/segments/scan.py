"""Walking over the batches of one file by their headers, in few reads. Knows positions and headers,
nothing of what the batches mean to a log.

`locate` and `headers` trust the file (everything below the log's end was checked when it was
appended or recovered); `checked` trusts nothing.
"""

from collections.abc import Iterator
from struct import Struct

from raftka.checksum import crc32c
from raftka.runtime.interfaces import File
from raftka.runtime.reused import zeros_behind
from raftka.wire.records import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
)

SMALLEST_LENGTH = BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES
BOUNDS = Struct(">qi11xi")  # base offset, length, last offset delta
COUNTED = Struct(">qi45xi")  # base offset, length, number of records
READ_BYTES = 4096  # a search walks one index interval
WALK_BYTES = 256 * 1024
MAGIC_POSITION = 16  # of a batch

# as BATCH_HEADER has them
Header = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]


def locate(file: File, position: int, end: int, offset: int) -> tuple[int, int, int] | None:
    """(position, base offset, size) of the first batch at or behind `position` that reaches
    `offset`; None when none before `end` does.
    """
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


def cut_whole(
    file: File, position: int, limit: int, end: int, at_least_one: bool
) -> tuple[int | None, int]:
    """The whole batches from `position` that end at or before `limit`, or the first: (base offset
    or None, position) of what is behind.
    """
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


def first_with_records(
    file: File, position: int, end: int, most_bytes: int
) -> tuple[int, int] | None:
    """(position, base offset) of the first batch from `position` to `end` that has records: mostly
    the very first. None: there is none.

    Of a longer run of batches without records it passes by `most_bytes`, and returns the next of
    them.
    """
    size, enough = COUNTED.size, position + most_bytes
    while position + COUNTED.size <= end:
        data = file.read(position, size)
        at, last = 0, min(len(data), end - position) - COUNTED.size
        if last < 0:
            return None
        while at <= last:
            base, length, count = COUNTED.unpack_from(data, at)
            if count or position + at >= enough:
                return position + at, base
            at += length + LOG_OVERHEAD_BYTES
        position, size = position + at, READ_BYTES
    return None


def headers(
    file: File, position: int, end: int, read_bytes: int = WALK_BYTES
) -> Iterator[tuple[int, Header]]:
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


def ends_here(file: File, position: int) -> bool:
    """Return whether the batches were written over other bytes and end at `position`: just those
    zeros follow that an append writes behind itself.
    """
    zeros = zeros_behind(position, file.size())
    return position + len(zeros) < file.size() and file.read(position, len(zeros)) == zeros


def has_sound_batch(file: File, position: int, next_offset: int, highest_offset: int) -> bool:
    """Is there, at `position` or anywhere behind it, a batch that is as it was written? In what a
    crash has torn off there is none.
    """
    size = file.size()
    for place in range(position, size, WALK_BYTES):
        window = file.read(place, WALK_BYTES + BATCH_HEADER_BYTES)
        at = window.find(MAGIC, MAGIC_POSITION, WALK_BYTES + MAGIC_POSITION)
        while at >= 0:
            start = at - MAGIC_POSITION
            if len(window) - start >= BATCH_HEADER_BYTES:
                base, length, _, _, crc, _, delta, *_ = BATCH_HEADER.unpack_from(window, start)
                rest = (
                    place + start + ATTRIBUTES_POSITION,
                    length + LOG_OVERHEAD_BYTES - ATTRIBUTES_POSITION,
                )
                fits = (
                    length >= SMALLEST_LENGTH
                    and sum(rest) <= size
                    and next_offset <= base <= base + delta <= highest_offset
                )
                if fits and crc32c(file.read(*rest)) == crc:
                    return True
            at = window.find(MAGIC, at + 1, WALK_BYTES + MAGIC_POSITION)
    return False


def checked(
    file: File, position: int, end: int, next_offset: int, highest_offset: int
) -> Iterator[tuple[int, Header]]:
    """As `headers`, but stops before the first batch that is cut, damaged, or not in order: where
    it stops the sound part of the file ends.
    """
    unpack = BATCH_HEADER.unpack_from
    while position + BATCH_HEADER_BYTES <= end:
        data = memoryview(file.read(position, min(end - position, WALK_BYTES)))
        at, room = 0, len(data)
        while room - at >= BATCH_HEADER_BYTES:
            header: Header = unpack(data, at)
            base, length, _, magic, crc, _, delta, *_ = header
            stop = at + length + LOG_OVERHEAD_BYTES
            last_offset = base + delta
            if (
                length < SMALLEST_LENGTH
                or magic != MAGIC
                or delta < 0
                or base < next_offset
                or last_offset > highest_offset
                or position + stop > end
            ):
                return
            if stop > room:
                if at:
                    break  # begins in this piece and ends in the next
                data = memoryview(file.read(position, stop))
                room = len(data)
            if room < stop or crc32c(data[at + ATTRIBUTES_POSITION : stop]) != crc:
                return
            yield position + at, header
            next_offset = last_offset + 1
            at = stop
        if at == 0:
            return
        position += at
