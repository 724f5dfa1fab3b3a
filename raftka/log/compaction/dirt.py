"""The choice of logs to compact, and of their parts: Kafka's rules of dirt, lag and urgency.
Compacts nothing (compaction.py), knows no process.

The dirty part begins where the last round ended, and ends before the active segment, before what is
not committed, too young, or above the recovery point as the disk has it: there recovery would take
a gap for damage. A log is worth a round when the dirty part is a large enough share of it, or when
a record of it has waited for too long.

Tombstones that a round leaves carry the time at which they may go (KIP-534). Then the log is worth
another round, although nothing was written since.
"""

from itertools import pairwise
from math import inf
from typing import NamedTuple

from raftka.log.compaction.job import NO_HORIZON, Ended, Job
from raftka.log.log import UNKNOWN_HORIZON, Log


class Dirt(NamedTuple):
    first_dirty: int
    end: int  # a segment begins there
    bytes: int
    ratio: float  # of the dirty part to all before its end
    overdue: bool


def dirt_of(log: Log, up_to: int, now_ms: int, settled: int | None = None) -> Dirt | None:
    """Return the part that may be compacted; None: nothing. `up_to`: committed, and decided where
    there are transactions.

    `settled`: as it would be if the recovery point on disk were this one.
    """
    config, segments = log.config, log.segments
    first_dirty = (
        log.segments.cleaned_offset
        if log.start_offset <= log.segments.cleaned_offset <= log.end_offset
        else log.start_offset
    )
    limit = min(up_to, log.durability.settled_point if settled is None else settled)
    oldest_left = now_ms - config.min_compaction_lag_ms
    end, clean_end, clean_bytes, dirty_bytes = first_dirty, log.start_offset, 0, 0
    overdue = horizon_passed(log, now_ms)
    for segment, following in pairwise(segments):
        if following.base_offset > limit:
            break
        if following.base_offset <= first_dirty:
            clean_bytes += segment.size
            clean_end = following.base_offset
            continue
        if config.min_compaction_lag_ms > 0 and segment.largest_timestamp > oldest_left:
            break
        dirty_bytes += segment.size
        end = following.base_offset
        overdue = (
            overdue or 0 < segment.first_batch_timestamp < now_ms - config.max_compaction_lag_ms
        )
    if not dirty_bytes:
        return Dirt(first_dirty, clean_end, 0, 0.0, overdue) if overdue and clean_bytes else None
    return Dirt(first_dirty, end, dirty_bytes, dirty_bytes / (clean_bytes + dirty_bytes), overdue)


def horizon_passed(log: Log, now_ms: int) -> bool:
    """Of a log that was compacted before it was opened the times are not known: its tombstones go a
    whole delete.retention.ms later at the latest.
    """
    if log.next_horizon_ms == UNKNOWN_HORIZON:
        log.next_horizon_ms = (
            now_ms + log.config.delete_retention_ms
            if log.segments.cleaned_offset > log.start_offset
            else inf
        )
    return log.next_horizon_ms <= now_ms


def cleaned(log: Log, ended: Ended) -> None:
    """A round has ended, and all its segments are in their places."""
    log.segments.cleaned_offset = max(
        ended.clean_until,
        log.segments.cleaned_offset if log.segments.cleaned_offset <= log.end_offset else 0,
    )
    log.next_horizon_ms = inf if ended.next_horizon_ms == NO_HORIZON else ended.next_horizon_ms


def is_worth_it(log: Log, dirt: Dirt) -> bool:
    return dirt.overdue or dirt.ratio > log.config.min_cleanable_dirty_ratio


def job_for(log: Log, dirt: Dirt, now_ms: int, *, map_bytes: int, read_bytes: int) -> Job:
    """`map_bytes`: of memory, for keys."""
    config = log.config
    remembered = log.producers.producers.items()
    return Job(
        directory=log.directory,
        segments=[
            (segment.base_offset, segment.size)
            for segment in log.segments
            if segment.base_offset < dirt.end
        ],
        first_dirty=dirt.first_dirty,
        end=dirt.end,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        map_bytes=map_bytes,
        read_bytes=read_bytes,
        producers={
            number: (producer.last_offset if producer.batches else -1, producer.epoch)
            for number, producer in remembered
        },
        aborted=[tuple(each) for each in log.aborted.find(log.start_offset, dirt.end)],
    )
