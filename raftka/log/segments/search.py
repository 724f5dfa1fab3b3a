"""Finding records by time, for ListOffsets: the one place where the log looks into batches, compressed ones too. Knows segments, no partition."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from raftka.log.segments.scan import READ_BYTES, headers
from raftka.log.segments.segment import Segment
from raftka.log.segments.times import largest_time
from raftka.wire.errors import ProtocolError
from raftka.wire.records import LOG_APPEND_TIME, LOG_OVERHEAD_BYTES, BatchHeader, records_of


class Found(NamedTuple):
    timestamp: int  # ms
    offset: int
    leader_epoch: int


def first_at_or_after(segments: Sequence[Segment], timestamp: int, start_offset: int, up_to: int) -> Found | None:
    """The first record in [start_offset, up_to) that is not older than `timestamp` (ms)."""
    for segment in segments:
        if segment.max_timestamp_known < timestamp:
            continue
        start = segment.offset_index.lookup(segment.time_index.lookup(timestamp))
        for position, header in headers(segment.file, start, segment.size, READ_BYTES):
            if header[0] >= up_to:
                return None
            if header[0] + header[6] < start_offset or largest_time(header, segment.file, position) < timestamp:
                continue
            for found in _records(segment, position, BatchHeader._make(header), start_offset):
                if found.timestamp >= timestamp and found.offset >= start_offset:
                    return found if found.offset < up_to else None
    return None


def first_of_largest(segments: Sequence[Segment], start_offset: int, up_to: int) -> Found | None:
    """The first record before `up_to` that has the largest timestamp; None when no record has one."""
    best: Segment | None = None
    for segment in segments:
        if segment.max_timestamp_known >= 0 and (best is None or segment.max_timestamp_known > best.max_timestamp_known):
            best = segment
    if best is None:
        return None
    return first_at_or_after([best], best.max_timestamp_known, start_offset, up_to)


def _records(segment: Segment, position: int, header: BatchHeader, start_offset: int) -> Iterator[Found]:
    """Of one batch that reaches `start_offset`. With LogAppendTime all its records have the same time.

    A payload that cannot be read stands for its first record.
    """
    first = Found(header.max_timestamp, max(header.base_offset, start_offset), header.leader_epoch)
    is_stamped = header.attributes & LOG_APPEND_TIME
    if is_stamped and header.count == header.last_offset - header.base_offset + 1:
        yield first
        return
    batch = memoryview(segment.file.read(position, header.length + LOG_OVERHEAD_BYTES))
    try:
        for record in records_of(batch):
            yield Found(header.max_timestamp if is_stamped else record.timestamp, record.offset, header.leader_epoch)
    except ProtocolError:
        yield first
