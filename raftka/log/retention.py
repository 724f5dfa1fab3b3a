"""Retention: the oldest segments of a log that may go (cleanup.policy=delete, and what
DeleteRecords left behind). Knows no files.
"""

from collections.abc import Sequence

from raftka.log.config import LogConfig
from raftka.log.segments.segment import Segment


def outlived(
    segments: Sequence[Segment],
    config: LogConfig,
    now_ms: int,
    start_offset: int,
    end_offset: int,
    up_to: int,
) -> int:
    """Leading segments that may go. None that reaches beyond `up_to` (the high watermark), and not
    an empty last one.

    A segment goes when its largest timestamp is older than retention.ms, when all without it is
    still at least retention.bytes, or when it lies before the log's start. A timestamp in the
    future keeps its segment, and all behind it, as in Kafka.
    """
    by_age = config.retention_ms if config.deleted_by_age else -1
    excess = (
        sum(segment.size for segment in segments) - config.retention_bytes
        if config.deleted_by_age and config.retention_bytes >= 0
        else -1
    )
    count = 0
    for segment, following in zip(
        segments, [*(later.base_offset for later in segments[1:]), end_offset], strict=True
    ):
        last = count == len(segments) - 1
        if following > up_to or (last and segment.size == 0):
            break
        too_old = 0 <= by_age < now_ms - segment.largest_timestamp
        before_start = not last and following <= start_offset
        if not (too_old or before_start or excess >= segment.size):
            break
        excess -= segment.size
        count += 1
    return count
