"""Finding records by time, for ListOffsets: the one place where the log looks into batches,
compressed ones too. Knows segments, no partition.

A batch may have millions of records, so a search yields between some of them. Meanwhile segments
may come and go: it keeps the bytes of one batch.
"""

from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from raftka.log.segments.scan import READ_BYTES, Header, headers
from raftka.log.segments.segment import Segment
from raftka.log.segments.times import largest_time
from raftka.wire.errors import ProtocolError
from raftka.wire.record_bounds import outlines
from raftka.wire.records import LOG_APPEND_TIME, LOG_OVERHEAD_BYTES, BatchHeader

RECORDS_OF_STEP = 64  # some 0.1 ms
T = TypeVar("T")
Steps = Generator[None, None, T]


class Found(NamedTuple):
    timestamp: int  # ms
    offset: int
    leader_epoch: int


def at_once(steps: Steps[T]) -> T:
    """The result of a search, however long it takes."""
    try:
        while True:
            next(steps)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def first_at_or_after(
    segments: Sequence[Segment], timestamp: int, start_offset: int, up_to: int
) -> Steps[Found | None]:
    """The first record in [start_offset, up_to) that is not older than `timestamp` (ms)."""
    begin = start_offset
    while (place := _batch_with(segments, timestamp, begin, up_to)) is not None:
        segment, position, header = place
        records = _records(segment, position, BatchHeader._make(header), start_offset)
        while some := list(islice(records, RECORDS_OF_STEP)):
            for found in some:
                if found.timestamp >= timestamp and found.offset >= start_offset:
                    return found if found.offset < up_to else None
            yield
        begin = header[0] + header[6] + 1
    return None


def _batch_with(
    segments: Sequence[Segment], timestamp: int, begin: int, up_to: int
) -> tuple[Segment, int, Header] | None:
    """The first batch in [begin, up_to) that has such a record, by its header: where it is."""
    for segment in segments:
        if segment.max_timestamp_known < timestamp:
            continue
        start = segment.offset_index.lookup(max(begin, segment.time_index.lookup(timestamp)))
        for position, header in headers(segment.file, start, segment.size, READ_BYTES):
            if header[0] >= up_to:
                return None
            if (
                header[0] + header[6] >= begin
                and largest_time(header, segment.file, position) >= timestamp
            ):
                return segment, position, header
    return None


def first_of_largest(
    segments: Sequence[Segment], start_offset: int, up_to: int
) -> Steps[Found | None]:
    """The first record before `up_to` that has the largest timestamp; None when no record has
    one.
    """
    largest = max(segment.max_timestamp_known for segment in segments)
    return (
        (yield from first_at_or_after(segments, largest, start_offset, up_to))
        if largest >= 0
        else None
    )


def _records(
    segment: Segment, position: int, header: BatchHeader, start_offset: int
) -> Iterator[Found]:
    """Of one batch that reaches `start_offset`; read with the first of them. With LogAppendTime all
    its records have the same time.

    A payload that cannot be read stands for its first record.
    """
    first = Found(header.max_timestamp, max(header.base_offset, start_offset), header.leader_epoch)
    is_stamped = header.attributes & LOG_APPEND_TIME
    if is_stamped and header.count == header.last_offset - header.base_offset + 1:
        yield first
        return
    batch = memoryview(segment.file.read(position, header.length + LOG_OVERHEAD_BYTES))
    try:
        for record in outlines(batch):
            yield Found(
                header.max_timestamp if is_stamped else record.timestamp,
                record.offset,
                header.leader_epoch,
            )
    except ProtocolError:
        yield first
