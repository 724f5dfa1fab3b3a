"""Planted where times of records decide: what retention deletes, what a search finds, when a
segment ends. And where a reader needs a record.
"""

from typing import Any

from raftka.log import log as log_module
from raftka.log import validation
from raftka.log.config import LogConfig
from raftka.log.log import Log
from raftka.log.segments import search
from raftka.log.segments.segment import Segment
from raftka.log.segments.segment_list import SegmentList
from raftka.wire.records import LOG_APPEND_TIME, BatchHeader
from tests.mutants.registry import mutant


@mutant(Segment, "largest_timestamp", "archive")
def retention_counts_from_the_first_sight(_: Any) -> Any:
    """Retention goes by the segment's beginning where records have no time: acknowledged records of
    the last second are deleted (once real).
    """

    def bug(self: Segment) -> int:
        return self.max_timestamp_known if self.max_timestamp_known >= 0 else self.created_ms

    return property(bug)


@mutant(validation, "is_wrong_time", "archive")
def largest_timestamp_is_believed(_: Any) -> Any:
    """A largest timestamp of -1 is stored as the client wrote it: searches by time pass over the
    records (once real).
    """

    def bug(base_timestamp: int, timestamp: int, count: int) -> bool:
        return False

    return bug


@mutant(log_module, "is_late")
def timeless_segments_never_end(is_late: Any) -> Any:
    """A segment whose first batch has no time is never rolled by its age, so retention by time
    keeps all of it (once real).
    """

    def bug(segment: Segment, config: LogConfig, timestamp: int, now_ms: int) -> bool:
        return segment.first_timestamp >= 0 and bool(is_late(segment, config, timestamp, now_ms))

    return bug


@mutant(Log, "read_for_consumer", "left-alone")
def fetch_ends_at_batches_without_records(_: Any) -> Any:
    """A fetch gives nothing but batches without records, where a record follows in the next
    segment: some readers stand still (once real).
    """

    def bug(self: Log, offset: int, max_bytes: int, up_to_offset: int, min_one: bool = True) -> Any:
        return self.read(offset, max_bytes, up_to_offset, min_one)

    return bug


@mutant(search, "_records")
def search_passes_by_the_rest_of_a_stamped_batch(records: Any) -> Any:
    """With LogAppendTime a batch stands for its first record alone: where DeleteRecords has taken
    that, a search passes by the others (once real).
    """

    def bug(segment: Segment, position: int, header: BatchHeader, start_offset: int) -> Any:
        if header.attributes & LOG_APPEND_TIME:
            return iter(
                [search.Found(header.max_timestamp, header.base_offset, header.leader_epoch)]
            )
        return records(segment, position, header, start_offset)

    return bug


@mutant(SegmentList, "_before_cut")
def runs_without_records_outlive_a_truncation(before_cut: Any) -> Any:
    """A log that is cut still knows where it had no records: readers pass by those that are
    appended there.
    """

    def bug(self: SegmentList, offset: int) -> None:
        runs = self.empty_runs.copy()
        before_cut(self, offset)
        self.empty_runs.update(runs)

    return bug
