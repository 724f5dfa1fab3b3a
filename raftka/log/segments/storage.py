"""The segments of one log as one row of batches: stage, write, flush, roll, read, cut.

Knows positions and offsets; which batch may come is not its matter.

Batches are *staged* (counted at once), *written* with one call when the turn ends (`write_staged`),
*flushed* when a flush that began after that has come back. So there are three ends: end_offset >=
written_offset >= flushed_offset. A write that fails ends the log: `failed` is set, nothing that was
not written is claimed, every later write raises, and recovery at the next open finds what is there.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from raftka.checksum import crc32c
from raftka.log.compaction.job import CLEANED, SWAP, Cleaned
from raftka.log.config import LogConfig
from raftka.log.segments.flushes import Flushes
from raftka.log.segments.recycled_segment import Spare
from raftka.log.segments.scan import cut_whole
from raftka.log.segments.segment import Segment, segment_path
from raftka.runtime.interfaces import Buffer, File, Files, FileSpan
from raftka.wire.errors import Code, KafkaError

POSITIONS_KEPT = 64
UNKNOWN_HORIZON = -1
ENTRIES_BEHIND = 64  # index entries that may wait in memory
BY_AGE = -(1 << 63)  # for a timestamp: each batch is compared with the age of the segment


class Storage:
    __slots__ = (
        "_behind",
        "_empty_runs",
        "_files",
        "_flushes",
        "_names",
        "_positions",
        "_retired",
        "_roll_offset",
        "_roll_size",
        "_roll_timestamp",
        "_sealed_bytes",
        "_staged",
        "_swap",
        "_sync",
        "_truncations",
        "_written_size",
        "active",
        "cleaned_offset",
        "cleaning",
        "config",
        "directory",
        "end_offset",
        "failed",
        "next_horizon_ms",
        "on_recovery_point_lowered",
        "on_retired",
        "on_rolled",
        "recovery_point",
        "segments",
        "settled_point",
        "spare",
        "start_offset",
        "written_offset",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        config: LogConfig,
        segments: list[Segment],
        end_offset: int,
    ) -> None:
        self._files = files
        self.directory = directory
        self.segments = segments
        self.start_offset = segments[0].base_offset
        self.end_offset = self.written_offset = end_offset
        self.recovery_point = 0  # everything below it is on disk, indexes and all
        # the recovery point that is written down, on disk: whatever happens, recovery begins there
        # or behind it
        self.settled_point = 0
        self.cleaned_offset = 0  # before it a cleaner has left each key once
        # when the first of the tombstones that a cleaner has left may go; inf: there are none
        self.next_horizon_ms: float = UNKNOWN_HORIZON
        self.cleaning = False  # a cleaner has begun on it: no segment goes meanwhile
        self._swap: Iterator[None] | None = None
        self.on_rolled: Callable[[], None] | None = None  # a segment is complete
        # to write it down, before what it promised is cut
        self.on_recovery_point_lowered: Callable[[], None] | None = None
        self.failed: OSError | None = None
        self._flushes = Flushes(end_offset)
        self._staged: list[Buffer] = []
        # indexes and snapshots: to be on disk before the recovery point passes them, then closed
        self._behind: list[File] = []
        # paths to be flushed with the next records: where a file is new
        self._names = [] if segments[-1].size else [directory]
        self._retired: list[File] = []
        # its segment is gone, but an answer on its way may still read from it
        self.on_retired: Callable[[File], None] = self._retired.append
        self.spare = Spare(files)
        self._truncations = 0
        # offset to position, in the segment that holds the offset
        self._positions: dict[int, int] = {}
        # from offset to offset: of batches without records, as reads have found; a cleaner adds
        # none
        self._empty_runs: dict[int, int] = {}
        self._written_size = 0
        self._sealed_bytes = 0
        self._roll_size = self._roll_offset = self._roll_timestamp = 0
        self.active = segments[-1]
        self.configure(config)
        self._begin_segment(self.active)

    def configure(self, config: LogConfig) -> None:
        """The topic's configuration changed."""
        self.config = config
        self._sync = config.flush == "fsync" or config.flush_messages == 1
        if not self._sync and self.flushed_offset < self.written_offset:
            self._flushes.claim(self.written_offset)
        self.active.index_interval_bytes = config.index_interval_bytes
        self._set_roll_bounds()

    # rolling

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the end offset. Raises OSError, and then the log has failed."""
        self.write_staged()
        with self._failing():
            self._behind.extend(self.active.seal()[1:])
            self.trim()
            self.active.index_files = None  # closed when they are flushed
            self._sealed_bytes += self.active.size
            self._sealed()
            self._begin_segment(self._new_segment(self.end_offset, now_ms))
        if self.on_rolled is not None:
            self.on_rolled()

    def _sealed(self) -> None:
        """A segment is complete: for whoever keeps something beside each."""

    def _make_room(self, size: int, timestamp: int, next_offset: int, now_ms: int) -> Segment:
        """The active segment; some bound of it was met, or it has no record yet, or its first batch
        no timestamp. Raises KAFKA_STORAGE_ERROR.
        """
        segment = self.active
        if segment.size and (
            segment.size + size > self._roll_size
            or next_offset > self._roll_offset
            or self._is_late(timestamp, now_ms)
        ):
            try:
                self.roll(now_ms)
            except OSError as error:
                raise KafkaError(Code.KAFKA_STORAGE_ERROR) from error
            segment = self.active
        if segment.size == 0:
            segment.first_timestamp, segment.timeless = timestamp, timestamp < 0
            self._roll_timestamp = timestamp + self._roll_ms(segment) if timestamp >= 0 else BY_AGE
        return segment

    def _is_late(self, timestamp: int, now_ms: int) -> bool:
        """Return whether a batch comes too late for the active segment: by the time of the first
        batch, or else by the age of the segment.
        """
        if self.active.first_timestamp >= 0:
            return timestamp > self._roll_timestamp
        return now_ms - self.active.created_ms > self._roll_ms(self.active)

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        over = self.spare.take(segment_path(self.directory, base_offset, ".log"))
        segment = Segment(
            self._files,
            self.directory,
            base_offset,
            now_ms,
            self.config.index_interval_bytes,
            over=over,
        )
        self.flush_too(self.directory)
        self.segments.append(segment)
        return segment

    def flush_too(self, path: str) -> None:
        """With the next flush, before it counts: a directory in which a name is new, or a file."""
        if path not in self._names:
            self._names.append(path)

    def _begin_segment(self, segment: Segment) -> None:
        """The last segment is another one, or another than before."""
        self.active = segment
        self._written_size = segment.size
        self._positions = {self.written_offset: segment.size}
        self._set_roll_bounds()
        if self.config.preallocate and not segment.size:
            segment.file.reserve(self.config.segment_bytes)

    def trim(self) -> None:
        """Give reserved room back that is not used, and cut old bytes off. Everything staged is
        written. Raises OSError.

        The file keeps the time of its last write: retention may go by it.
        """
        file, is_over = self.active.file, self.active.is_over
        if self.config.preallocate or is_over:
            modified_ms = file.modified_ms()
            file.truncate(file.size())
            file.set_modified(modified_ms)
            self.active.is_over = False
        # else a loss of power brings old bytes back, before records that count
        if is_over and file not in self._flushes.dirty:
            self._flushes.dirty.append(file)

    def _set_roll_bounds(self) -> None:
        segment, config = self.active, self.config
        self._roll_size = (
            0 if segment.full_index(config.segment_index_bytes) else config.segment_bytes
        )
        self._roll_offset = segment.highest_offset + 1
        if segment.size == 0:
            self._roll_timestamp = BY_AGE  # the first batch meets it, and sets it
        else:
            self._roll_timestamp = (
                segment.first_timestamp + self._roll_ms(segment)
                if segment.first_timestamp >= 0
                else BY_AGE
            )

    def _roll_ms(self, segment: Segment) -> int:
        """Segments of many partitions that began together do not end together: their names are the
        chance that segment.jitter.ms asks for.
        """
        jitter = min(self.config.segment_jitter_ms, self.config.roll_ms)
        return self.config.roll_ms - (
            crc32c(segment.file.path.encode()) % jitter if jitter > 0 else 0
        )

    def _sync_names(self) -> None:
        for path in dict.fromkeys([*self._take_names(), self.directory]) if self._sync else ():
            # now; names that wait for the first records too, as a new log's own name does
            self._files.sync_directory(path)

    # writing and flushing

    @property
    def appended_bytes(self) -> int:
        """It grows with what is appended, whatever retention takes; only a truncation makes a
        difference of two meaningless.
        """
        return self._sealed_bytes + self.active.size

    def write_staged(self) -> None:
        """One write for everything staged. Raises OSError when that fails or the log had failed
        before; then nothing staged is claimed any more.
        """
        if not self._staged:
            if self.failed:
                raise self.failed
            return
        segment = self.active
        try:  # not `_failing`: this is the hot path
            segment.file.append(self._staged)
            if segment.entries_behind > ENTRIES_BEHIND:
                segment.write_index()
                self._set_roll_bounds()
        except OSError as error:
            self._fail(error)
            raise
        self._staged = []
        self.written_offset = self.end_offset
        self._written_size = segment.size
        self._remember(self.end_offset, segment.size)
        if segment.file not in self._flushes.dirty:
            self._flushes.dirty.append(segment.file)
        if not self._sync:
            self._flushes.flushed_offset = self.end_offset

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._fail(error)
            raise

    def _fail(self, error: OSError) -> None:
        self.failed = error
        self._staged = []
        self.end_offset = self.written_offset
        try:
            self.active.truncate(self._written_size, self.written_offset)
        except OSError:
            self.active.size = self._written_size  # recovery will cut it

    @property
    def syncs(self) -> bool:
        """Nothing is claimed before the disk has it."""
        return self._sync

    @property
    def truncations(self) -> int:
        """How often the log was cut: who works beside it looks whether it still is what it was."""
        return self._truncations

    @property
    def flushed_offset(self) -> int:
        """Everything below it is on disk (with flush=os: in the page cache)."""
        return self._flushes.flushed_offset

    def begin_flush(self) -> tuple[list[File | str], int]:
        """The files to flush now, and the offset to give to `flushed` when that has succeeded. What
        is still staged is not in it.
        """
        if not self._sync or self.failed or not self._flushes.dirty:
            return [], self.flushed_offset
        return [*self._flushes.begin(self.written_offset), *self._take_names()], self.written_offset

    def _take_names(self) -> list[str]:
        names, self._names = self._names, []
        return names

    def flushed(self, offset: int) -> None:
        self._flushes.came_back(offset)

    def abandon(self) -> None:
        """A flush failed, the process ends. What may not be on disk goes: the next process would
        read it from memory, and claim it.

        A kernel takes pages whose flush failed for clean: it shows them to readers, and does not
        write them again.
        """
        self._staged = []
        for segment in self.segments[max(0, self._slot_of(self.flushed_offset)) :]:
            try:
                found = segment.locate(
                    self.flushed_offset,
                    self._written_size if segment is self.active else segment.size,
                )
                if found is not None:
                    segment.file.truncate(found[0])
            except OSError:
                # then it can not be read or written at all, and the next process will not start on
                # it
                pass

    def give_up(self, error: OSError) -> None:
        """The directory it is in failed: the log with it, and nothing stays in memory of what the
        disk may not have.
        """
        if self.failed is None:
            self._fail(error)
        self.abandon()

    # reading

    def read(
        self, offset: int, max_bytes: int, up_to_offset: int, min_one: bool = True
    ) -> tuple[list[FileSpan], int]:
        """Whole batches from the one that holds `offset`, all of it before `up_to_offset`: where
        they are, and how many bytes.

        At most `max_bytes`, but one batch always with `min_one`. A read ends at a segment's end.
        Raises OFFSET_OUT_OF_RANGE outside of [start, end].
        """
        if offset < self.start_offset or offset > self.end_offset:
            raise KafkaError(Code.OFFSET_OUT_OF_RANGE)
        if up_to_offset > self.written_offset:
            up_to_offset = self._written_up_to(up_to_offset)
        if offset >= up_to_offset:
            return [], 0
        segment = self.active
        if offset < segment.base_offset:
            return self._read_sealed(offset, max_bytes, up_to_offset, min_one)
        start = self._positions.get(offset)
        if start is None:
            start = self._locate(segment, offset)
        end = self._positions.get(up_to_offset)
        if end is None:
            end = self._locate(segment, up_to_offset, start)
        if end - start > max_bytes:
            end = self._cut(segment, start, end, max_bytes, min_one)
        return (
            ([FileSpan(segment.file, start, end - start)], end - start) if end > start else ([], 0)
        )

    def _read_sealed(
        self, offset: int, max_bytes: int, up_to_offset: int, min_one: bool
    ) -> tuple[list[FileSpan], int]:
        for at in range(max(0, self._slot_of(offset)), len(self.segments)):
            segment = self.segments[at]
            start = self._locate(segment, max(offset, segment.base_offset))
            if start == segment.size:
                # the batches that held it were compacted away: what follows is in the next segment
                continue
            whole = (
                at + 1 < len(self.segments) and self.segments[at + 1].base_offset <= up_to_offset
            )
            end = segment.size if whole else self._locate(segment, up_to_offset, start)
            if end - start > max_bytes:
                end = self._cut(segment, start, end, max_bytes, min_one)
            return (
                ([FileSpan(segment.file, start, end - start)], end - start)
                if end > start
                else ([], 0)
            )
        return [], 0

    def bound_of(self, offset: int, found: FileSpan) -> int:
        """An offset behind all records of the last span that a read from `offset` has found, by the
        index alone.
        """
        at = max(0, self._slot_of(offset))
        while self.segments[at].file is not found.file:
            at += 1
        following = (
            self.segments[at + 1].base_offset if at + 1 < len(self.segments) else self.end_offset
        )
        return self.segments[at].offset_index.bound(found.position + found.size, following)

    def _written_up_to(self, offset: int) -> int:
        if self._staged:
            try:
                self.write_staged()
            except OSError as error:
                raise KafkaError(Code.KAFKA_STORAGE_ERROR) from error
        return min(offset, self.written_offset)

    def _slot_of(self, offset: int) -> int:
        """Which segment holds the offset; -1: it is before the first."""
        return bisect_right(self.segments, offset, key=lambda segment: segment.base_offset) - 1

    def _locate(self, segment: Segment, offset: int, begin: int = 0) -> int:
        """Where the first batch that reaches `offset` begins; the segment's end when none does."""
        position = self._positions.get(offset)
        if position is None:
            size = self._written_size if segment is self.active else segment.size
            found = segment.locate(offset, size, begin)
            if found is None:
                return size
            position = found[0]
            self._remember(offset, position)
        return position

    def _remember(self, offset: int, position: int) -> None:
        """Where reads and writes ended is where the next reads begin or end. A position is one of
        the segment that holds its offset.
        """
        if len(self._positions) >= POSITIONS_KEPT:
            self._positions = {self.written_offset: self._written_size}
        self._positions[offset] = position

    def _cut(self, segment: Segment, start: int, end: int, max_bytes: int, min_one: bool) -> int:
        """The end of the last whole batch that fits; where the next read will begin is
        remembered.
        """
        begin = max(start, segment.offset_index.boundary(start + max_bytes))
        next_offset, position = cut_whole(
            segment.file, begin, start + max_bytes, end, min_one and begin == start
        )
        if next_offset is not None:
            self._remember(next_offset, position)
        return position

    # a cleaner's segments

    def begin_swap(self, cleaned: Cleaned, now_ms: int) -> None:
        """A new segment begins to take the place of those it was made of; `go_on_swap` each time
        the directory has been synced, until it is done.

        Whatever moment the power goes in, recovery finds either the old ones or all of the new.
        Raises OSError, and then the log has failed.
        """
        assert self._swap is None
        self._swap = self._swapping(cleaned, now_ms)
        next(self._swap)

    def go_on_swap(self) -> bool:
        """Whether there is more to do, behind another sync of the directory. Raises OSError, and
        then the log has failed.
        """
        if self._swap is not None and (self.failed is not None or next(self._swap, self) is self):
            self._swap = None
        return self._swap is not None

    def drop_cleaned(self) -> None:
        """A round was given up: what it left beside the log goes."""
        for name in self._files.list(self.directory) if self._swap is None else ():
            if name.endswith(CLEANED):
                self._files.remove(f"{self.directory}/{name}")

    def _finish_swap(self) -> None:
        """Somebody is about to change the segments."""
        while self._swap is not None:
            with self._failing():
                self._files.sync_directory(self.directory)
            self.go_on_swap()

    def _swapping(self, cleaned: Cleaned, now_ms: int) -> Iterator[None]:
        base = cleaned.bases[0]
        log, *indexes = (
            segment_path(self.directory, base, suffix)
            for suffix in (".log", ".index", ".timeindex", ".txnindex")
        )
        with self._failing():
            self._files.rename(log + CLEANED, log + SWAP)
        yield  # from here on it is the new one that counts
        with self._failing():
            at = self._slot_of(base)
            old = self.segments[at : at + len(cleaned.bases)]
            assert [segment.base_offset for segment in old] == cleaned.bases
            segment = Segment(
                self._files,
                self.directory,
                base,
                old[-1].created_ms,
                self.config.index_interval_bytes,
                SWAP,
            )
            segment.adopt(*cleaned[2:])
            segment.timeless = any(each.timeless for each in old)
            self.segments[at : at + len(old)] = [segment]
            self._positions = {self.written_offset: self._written_size}
            for each in old:
                each.remove(keep_log=each is old[0])
                self._retire(each)
        yield  # nothing in its range can come back beside it
        with self._failing():
            self._files.rename(log + SWAP, log)
            for index in indexes:
                self._files.rename(index + CLEANED, index)
            segment.settle()
        yield

    # cutting

    def _cut_from(self, offset: int) -> int:
        """Batches that reach `offset` or beyond go; returns the new end offset, which is `offset`
        where a batch begins there. Raises OSError.
        """
        self.write_staged()
        self._finish_swap()
        doomed = [segment for segment in self.segments[1:] if segment.base_offset >= offset]
        last = self.segments[-1 - len(doomed)]
        with self._failing():
            found = last.locate(offset, last.size)
            self._lower_recovery_point(min(offset, found[1]) if found else offset)
            for segment in reversed(doomed):
                self._drop(segment)
            # else a crash could bring back what was removed, behind what is appended next
            self._sync_names()
            end = last.truncate(found[0] if found else last.size, offset)
            if self._sync:
                # else pages of the old tail could come back among those that are written over it
                last.file.sync()
            # before a checkpoint believes what is left: nothing may ever be appended to it again
            else:
                self._flushes.dirty = list(dict.fromkeys([*self._flushes.dirty, last.file]))
                self.flush_too(self.directory)
            self.end_offset = self.written_offset = min(end, offset)
            # it is lower when a cleaner has left a gap here
            self._lower_recovery_point(self.end_offset)
        self._flushes.truncated(self.end_offset)
        self.start_offset = min(self.start_offset, self.end_offset)
        self._begin_segment(last)
        return self.end_offset

    def _restart_at(self, offset: int, now_ms: int) -> None:
        """Every batch goes; the log is empty at `offset`. Raises OSError."""
        self.write_staged()
        self._finish_swap()
        with self._failing():
            self._lower_recovery_point(0)
            for segment in reversed(self.segments.copy()):
                self._drop(segment)
            self.start_offset = self.end_offset = self.written_offset = offset
            self._flushes.restarted(offset)
            self._begin_segment(self._new_segment(offset, now_ms))
            self._sync_names()

    def _drop(self, segment: Segment, *, to_spare: bool = False) -> None:
        """The file stays open: an answer on its way may still read from it."""
        segment.remove(spare=self.spare if to_spare and self.config.segment_reuse_ms else None)
        self.segments.remove(segment)
        self._retire(segment)

    def _retire(self, segment: Segment) -> None:
        self._flushes.remove(segment.file)
        self.on_retired(segment.file)

    def _lower_recovery_point(self, offset: int) -> None:
        self._truncations += 1
        self._empty_runs.clear()
        self.spare.drop()  # the next batches may have offsets of those in it
        if offset < max(self.recovery_point, self.cleaned_offset):
            self.recovery_point = min(self.recovery_point, offset)
            self.settled_point = min(self.settled_point, offset)
            self.cleaned_offset = min(self.cleaned_offset, offset)
            if self.on_recovery_point_lowered:
                self.on_recovery_point_lowered()
