"""Rolling: when a segment is full or too old, and the next batch begins a new one."""

from raftka.checksum import crc32c
from raftka.log.config import LogConfig
from raftka.log.segments.segment import Segment

BY_AGE = -(1 << 63)  # for a timestamp: each batch is compared with the age of the segment


def roll_bounds(segment: Segment, config: LogConfig) -> tuple[int, int, int]:
    """Return (size in bytes, next offset, timestamp in ms): a batch beyond one of them begins a new
    segment. Without a first timestamp each batch has to be compared: BY_AGE.
    """
    size = 0 if segment.full_index(config.segment_index_bytes) else config.segment_bytes
    return size, segment.highest_offset + 1, roll_timestamp(segment, config)


def roll_timestamp(segment: Segment, config: LogConfig) -> int:
    if segment.size == 0 or segment.first_timestamp < 0:
        return BY_AGE  # the first batch of an empty segment meets it, and sets it
    return segment.first_timestamp + roll_ms(segment, config)


def roll_ms(segment: Segment, config: LogConfig) -> int:
    """Return segment.ms less some jitter. Segments of many partitions that began together do not
    end together: their names are the chance that segment.jitter.ms asks for.
    """
    jitter = min(config.segment_jitter_ms, config.roll_ms)
    return config.roll_ms - (crc32c(segment.file.path.encode()) % jitter if jitter > 0 else 0)


def is_late(segment: Segment, config: LogConfig, timestamp: int, now_ms: int) -> bool:
    """Return whether a batch comes too late for the segment: by the time of the first batch, or
    else by the age of the segment.
    """
    if segment.first_timestamp >= 0:
        return timestamp > segment.first_timestamp + roll_ms(segment, config)
    return now_ms - segment.created_ms > roll_ms(segment, config)
