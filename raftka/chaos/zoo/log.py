"""Planted in a partition's log: what recovery believes, what a truncation leaves, where an index points, what is forgotten when."""

from collections.abc import Iterator
from typing import Any

from raftka.broker.replica_manager import ReplicaManager
from raftka.chaos.zoo.planting import part_of, plant
from raftka.log import recovery, segment
from raftka.log.checkpointing import Checkpointing
from raftka.log.index import OffsetIndex, TimeIndex
from raftka.log.leader_epoch import LeaderEpochs
from raftka.log.log import Log
from raftka.log.manager import LogManager
from raftka.log.scan import Header, headers
from raftka.log.storage import Storage


@plant(segment, "checked")
def tail_not_checked(_: Any) -> Any:
    """Recovery believes a tail by its headers: a torn batch is served as if it were whole."""

    def bug(file: Any, position: int, end: int, next_offset: int, highest_offset: int) -> Iterator[tuple[int, Header]]:
        for at, header in headers(file, position, end):
            if header[0] < next_offset or header[3] != 2 or header[6] < 0 or at + header[1] + 12 > end:
                return
            next_offset = header[0] + header[6] + 1
            yield at, header

    return bug


@plant(recovery, "_make_durable")
def recovered_is_not_flushed(_: Any) -> Any:
    """What recovery finds after a crash of the process is claimed, although it may be in the page cache alone."""

    def bug(files: Any, directory: str, segments: Any, believed_below: int) -> None: ...

    return bug


@plant(Log, "begin_checkpoint")
def recovery_point_ahead_of_the_disk(begin: Any) -> Any:
    """The recovery point is where the log ends, not where the disk is: recovery does not look at what may be torn."""

    def bug(self: Log) -> Any:
        files, settle = begin(self)

        def too_far() -> Any:
            names = settle()
            self.recovery_point = self.end_offset
            return names

        return files, too_far

    return bug


@plant(Storage, "_lower_recovery_point")
def recovery_point_outlives_a_truncation(_: Any) -> Any:
    """A log is cut below its recovery point, and what is written there next is believed without a look."""

    def bug(self: Storage, offset: int) -> None:
        self._truncations += 1

    return bug


@plant(Storage, "_begin_segment")
def positions_outlive_a_truncation(begin: Any) -> Any:
    """Where reads had ended is remembered beyond the cut: another batch begins elsewhere there now."""

    def bug(self: Storage, segment: Any) -> None:
        known = dict(self._positions)
        begin(self, segment)
        self._positions = {**known, **self._positions}

    return bug


@plant(LeaderEpochs, "truncate_from_end")
def epochs_outlive_a_truncation(_: Any) -> Any:
    """The leader epoch cache is not cut with the log: it tells of epochs whose records are gone."""

    def bug(self: LeaderEpochs, end_offset: int) -> None: ...

    return bug


@plant(Log, "append_as_leader")
def appends_in_the_epoch_before(append: Any) -> Any:
    """A leader stamps its batches with the epoch of the last one that is there: whose they are cannot be told."""

    def bug(self: Log, batch: memoryview, leader_epoch: int, now_ms: int) -> Any:
        return append(self, batch, self._epoch if self._epoch >= 0 else leader_epoch, now_ms)

    return bug


@part_of(appends_in_the_epoch_before, Log, "assign_epoch")
def _it_is_not_noted(_: Any) -> Any:
    def bug(self: Log, epoch: int) -> None: ...

    return bug


@plant(OffsetIndex, "lookup")
def index_one_too_far(lookup: Any) -> Any:
    """Off by one: a search begins at the entry behind the one that it needs."""

    def bug(self: OffsetIndex, offset: int) -> int:
        found = int(lookup(self, offset))
        return next((position for position in self.positions if position > found), found)

    return bug


@plant(OffsetIndex, "truncate")
def index_outlives_a_truncation(_: Any) -> Any:
    """Entries of batches that were cut stay, and lead reads into the middle of others."""

    def bug(self: OffsetIndex, offset: int) -> None: ...

    return bug


@plant(TimeIndex, "lookup")
def time_index_one_too_far(lookup: Any) -> Any:
    """Off by one: a search by time begins behind records that are what is looked for."""

    def bug(self: TimeIndex, timestamp: int) -> int:
        found = int(lookup(self, timestamp)) - self.base_offset
        return self.base_offset + next((offset for offset in self.offsets if offset > found), found)

    return bug


@plant(Log, "delete_oldest")
def retention_takes_one_segment_too_many(delete: Any) -> Any:
    """Off by one: when retention takes a segment it takes the next with it."""

    def bug(self: Log, now_ms: int, up_to: int) -> int:
        count = int(delete(self, now_ms, up_to))
        if count and len(self.segments) > 1 and self.segments[1].base_offset <= up_to:
            with self._failing():
                self._drop(self.segments[0])
            self.start_offset = max(self.start_offset, self.segments[0].base_offset)
        return count

    return bug


@plant(Checkpointing, "offsets_of")
def deleted_records_come_back(offsets_of: Any) -> Any:
    """Where a log starts is not written down: what DeleteRecords took is there again after a restart."""

    def bug(self: Checkpointing, home: Any, high_watermarks: Any) -> Any:
        return {name: {} if "start" in name else offsets for name, offsets in offsets_of(self, home, high_watermarks).items()}

    return bug


@plant(Storage, "abandon")
def failed_flush_is_believed(_: Any) -> Any:
    """What a failed flush has left in the page cache is read by the next process, and claimed (once real)."""

    def bug(self: Log) -> None:
        self._staged = []

    return bug


@plant(LogManager, "_make_durable")
def names_are_not_flushed(_: Any) -> Any:
    """A log that an earlier process has made, and did not come to flush, is claimed: a power loss takes it whole (once real)."""

    def bug(self: LogManager, log: Log, home: Any, is_new: bool) -> None: ...

    return bug


@plant(ReplicaManager, "_remove_strays", "width")
def moved_away_is_kept(_: Any) -> Any:
    """A log that went elsewhere while its broker was down stays, and is taken up again when the replica comes back (once real)."""

    def bug(self: ReplicaManager, image: Any) -> None: ...

    return bug
