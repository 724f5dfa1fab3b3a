"""Planted in a partition's log: what recovery believes, what a truncation leaves, where an index
points, what is forgotten when.
"""

from collections.abc import Iterator
from typing import Any

from raftka.broker.network import connection
from raftka.broker.node import Node
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.stray_logs import StrayLogs
from raftka.log import recovery
from raftka.log.checkpointing import Gathered
from raftka.log.checkpoints import START_OFFSETS
from raftka.log.durability import Durability
from raftka.log.log import Log
from raftka.log.manager import LogManager
from raftka.log.segments import segment
from raftka.log.segments.index import OffsetIndex, TimeIndex
from raftka.log.segments.recycled_segment import RecycledSegments
from raftka.log.segments.scan import Header, headers
from raftka.log.segments.segment import Segment
from raftka.log.segments.segment_list import SegmentList
from raftka.runtime import reused
from raftka.runtime.real.files import RealFile
from tests.mutants.registry import mutant, part_of


@mutant(segment, "checked")
def tail_not_checked(_: Any) -> Any:
    """Recovery believes a tail by its headers: a torn batch is served as if it were whole."""

    def bug(
        file: Any, position: int, end: int, next_offset: int, highest_offset: int
    ) -> Iterator[tuple[int, Header]]:
        for at, header in headers(file, position, end):
            if (
                header[0] < next_offset
                or header[3] != 2
                or header[6] < 0
                or at + header[1] + 12 > end
            ):
                return
            next_offset = header[0] + header[6] + 1
            yield at, header

    return bug


@mutant(recovery, "_make_durable")
def recovered_is_not_flushed(_: Any) -> Any:
    """Recovery claims data that it finds after a crash of the process, although they may be in the
    page cache alone.
    """

    def bug(files: Any, directory: str, segments: Any, believed_below: int) -> None: ...

    return bug


@mutant(recovery, "_agree")
def leader_epochs_are_believed(_: Any) -> Any:
    """The checkpoint of leader epochs is taken as it is: a bit that flipped in it decides where
    replicas are cut.
    """

    def bug(segments: Any, epochs: Any, end: int) -> bool:
        return True

    return bug


@mutant(recovery, "_is_sealed")
def sealed_at_the_recovery_point(_: Any) -> Any:
    """Off by one: a segment that ends at the recovery point is taken for sealed, and the last of
    its time index was never flushed.
    """

    def bug(end: int, believed_below: int) -> bool:
        return end <= believed_below

    return bug


@mutant(ReplicaManager, "_remove")
def closes_before_the_flush(remove: Any) -> Any:
    """A log goes in the turn at whose end it is to be flushed: it is closed by then, and its node
    stops (once real).
    """

    def bug(self: ReplicaManager, replicas: Any) -> None:
        waiting, self._to_flush = self._to_flush, {}
        remove(self, replicas)
        self._to_flush = waiting

    return bug


@mutant(Log, "close")
def closes_and_writes(close: Any) -> Any:
    """A log is closed with records that are still to be written: its node takes that for a broken
    disk (once real).
    """

    def bug(self: Log, clean: bool) -> None:
        staged = self.segments.staged
        close(self, clean)
        self.segments.staged = staged

    return bug


@mutant(segment.Segment, "truncate")
def index_files_are_not_cut(_: Any) -> Any:
    """A cut leaves closed index files as they are: a later checkpoint makes recovery believe
    entries of what was cut (once real).
    """

    def bug(self: segment.Segment, position: int, offset: int) -> int:
        self._keep_entries_below(offset)
        if self.index_files is not None:
            self._cut_index_files(self.index_files)
        self.file.truncate(position)
        self.size = position
        return self.resume(headers(self.file, self.resume_position, position))

    return bug


@mutant(Log, "_remembers_without_oldest")
def forgets_producers_with_their_batches(_: Any) -> Any:
    """A segment is deleted before the snapshot of its producers is on disk: after a loss of power a
    retry is taken for new (once real).
    """

    def bug(self: Log) -> bool:
        return True

    return bug


@mutant(Node, "_publish")
def leads_after_its_end(publish: Any) -> Any:
    """A node that has closed its logs hears of a leadership, takes it, and writes into closed logs
    (once real).
    """

    def bug(self: Node, delta: Any) -> None:
        stopped, self.context.stopped = self.context.stopped, False
        publish(self, delta)
        self.context.stopped = stopped

    return bug


@mutant(OffsetIndex, "lookup")
def index_one_too_far(lookup: Any) -> Any:
    """Off by one: a search begins at the entry behind the one that it needs."""

    def bug(self: OffsetIndex, offset: int) -> int:
        found = int(lookup(self, offset))
        return next((position for position in self.positions if position > found), found)

    return bug


@mutant(TimeIndex, "lookup")
def time_index_one_too_far(lookup: Any) -> Any:
    """Off by one: a search by time begins behind records that are what is looked for."""

    def bug(self: TimeIndex, timestamp: int) -> int:
        found = int(lookup(self, timestamp)) - self.base_offset
        return self.base_offset + next((offset for offset in self.offsets if offset > found), found)

    return bug


@mutant(TimeIndex, "truncate")
def time_index_survives_truncation(_: Any) -> Any:
    """The time index keeps entries of records that were cut: a search by time begins behind records
    that were appended in their place.
    """

    def bug(self: TimeIndex, offset: int) -> None: ...

    return bug


@mutant(Gathered, "offsets")
def deleted_records_come_back(offsets: Any) -> Any:
    """The start of a log is not written down: records that DeleteRecords took are there again after
    a restart.
    """

    def bug(self: Gathered, name: str) -> Any:
        return {} if name == START_OFFSETS else offsets(self, name)

    return bug


@mutant(segment.Segment, "write_again")
def flushed_without_being_written(_: Any) -> Any:
    """Recovery flushes what a failed flush has left in the page cache, and does not write it anew:
    the kernel takes it for clean (once real).
    """

    def bug(self: segment.Segment, offset: int) -> None: ...

    return bug


@mutant(Log, "abandon")
def failed_flush_is_believed(_: Any) -> Any:
    """The next process reads data that a failed flush has left in the page cache, and claims them
    (once real).
    """

    def bug(self: Log) -> None:
        self.segments.staged = []

    return bug


part_of(failed_flush_is_believed, segment.Segment, "write_again")(flushed_without_being_written)


@mutant(LogManager, "_make_durable")
def names_are_not_flushed(_: Any) -> Any:
    """A log that an earlier process has made, and did not come to flush, is claimed: a power loss
    takes it whole (once real).
    """

    def bug(self: LogManager, log: Log, home: Any, is_new: bool) -> None: ...

    return bug


@mutant(LogManager, "_make_durable")
def clean_end_made_names_durable(make_durable: Any) -> Any:
    """A log without records is closed in good order; what it is given then is claimed, and a power
    loss takes it whole (once real).
    """

    def bug(self: LogManager, log: Log, home: Any, is_new: bool) -> None:
        if is_new or not home.was_clean:
            make_durable(self, log, home, is_new)

    return bug


@mutant(LogManager, "_not_that_topic")
def rotten_name_is_another_topic(_: Any) -> Any:
    """A log whose partition.metadata can not be read is taken for that of an earlier topic, and
    removed without a word (once real).
    """

    def bug(self: LogManager, key: Any, topic_id: bytes, whole: bool) -> None:
        self.remove([key])

    return bug


@mutant(StrayLogs, "remove", "width")
def moved_away_is_kept(_: Any) -> Any:
    """A log that went elsewhere while its broker was down stays, and is taken up again when the
    replica comes back (once real).
    """

    def bug(self: StrayLogs) -> None: ...

    return bug


@mutant(Durability, "sync_names")
def names_of_an_empty_log_wait(_: Any) -> Any:
    """A follower that begins anew without a record flushes its directory alone, not what says which
    topic it is of (once real).
    """

    def bug(self: Durability) -> None:
        if self.syncs:
            self._files.sync_directory(self._directory)

    return bug


@mutant(Segment, "_times_fit")
def time_index_is_believed(_: Any) -> Any:
    """A bit flips in a time index while its broker is down: retention deletes a week too early
    (once real).
    """

    def bug(self: Segment) -> bool:
        return True

    return bug


@mutant(reused, "zeros_behind")
def old_bytes_follow_at_once(_: Any) -> Any:
    """A segment is written over the file of a deleted one, and nothing marks its end: what a
    deleted record holds there is taken for a batch.
    """

    def bug(end: int, old_end: int) -> memoryview:
        return memoryview(b"")

    return bug


@mutant(recovery, "ends_here")
def old_records_are_searched_for_damage(_: Any) -> Any:
    """After a crash recovery finds a batch in a deleted record, behind the end of the segment that
    is written over it, and opens no such log.
    """

    def bug(file: Any, position: int) -> bool:
        return False

    return bug


@mutant(recovery, "_check_reach")
def missing_batches_are_believed(_: Any) -> Any:
    """A log has lost its last committed batches, each of them whole: it is opened, and its broker
    stays in the ISR without them.
    """

    def bug(segments: Any, end: int, whole: int) -> None:
        pass

    return bug


@mutant(SegmentList, "trim")
def old_bytes_are_sealed(_: Any) -> Any:
    """A segment that was written over a deleted one is full: its file keeps the old bytes behind
    its last batch.
    """

    def bug(self: SegmentList) -> None:
        if self.config.preallocate:
            self.active.file.truncate(self.active.file.size())

    return bug


@mutant(SegmentList, "trim")
def cut_of_old_bytes_is_not_flushed(trim: Any) -> Any:
    """The old bytes behind a full segment are cut off, but the next segment's records count before
    the disk knows: recovery cuts these.
    """

    def bug(self: SegmentList) -> None:
        dirty = self._durability.flushes.dirty.copy()
        trim(self)
        self._durability.flushes.dirty = dirty

    return bug


@mutant(RecycledSegments, "keep")
def name_of_a_written_over_segment_comes_back(keep: Any) -> Any:
    """The file of a deleted segment is written over before the disk has its new name: the segment
    comes back, with other records in it.
    """

    def bug(self: RecycledSegments, file: Any, path: str) -> None:
        keep(self, file, path)
        self.directory_flushed()

    return bug


@mutant(RecycledSegments, "keep")
def written_over_while_it_is_read(keep: Any) -> Any:
    """The file of a deleted segment is written over while answers still read its records."""

    def bug(self: RecycledSegments, file: Any, path: str) -> None:
        keep(self, file, path)
        self.release(file, 0.0)

    return bug


@mutant(RealFile, "is_shared")
def pages_in_a_socket_are_written_over(_: Any) -> Any:
    """The file of a deleted segment is written over while sockets have its pages: a client that
    reads late gets records that it was not sent.
    """
    return property(lambda self: self.pins > 0)


@mutant(RecycledSegments, "drop")
def spare_outlives_a_truncation(_: Any) -> Any:
    """After a truncation the log has offsets again that are in the file it writes over: recovery
    takes an old batch for a new one.
    """

    def bug(self: RecycledSegments) -> None: ...

    return bug


@mutant(recovery, "_cut")
def removed_segments_come_back(cut: Any) -> Any:
    """Recovery removes segments behind one that has lost all its records, and does not wait for the
    disk: they are there again later (once real).
    """

    def bug(segments: Any, at: int, end: int, torn: int) -> Any:
        found = cut(segments, at, end, torn)
        found.segments = 0
        return found

    return bug


@mutant(Log, "begin_checkpoint")
def closes_without_the_checkpoint_under_way(begin: Any) -> Any:
    """A log is closed in good order during a checkpoint: nobody waits for what that flushes, and a
    loss of power takes it (once real).
    """

    def bug(self: Log) -> Any:
        found = begin(self)
        self.durability._checkpointed = []
        return found

    return bug


@mutant(connection, "pin")
def waiting_answers_are_not_pinned(_: Any) -> Any:
    """An answer waits for a slow client, and the segment of its records is deleted and written
    over: the client gets other records (once real).
    """

    def bug(items: Any) -> None: ...

    return bug
