"""The segments of one log in order: which of them holds an offset, and at which position of it.

A segment list reads, adds, cuts, removes and replaces segments. Which batch may come, and when a
segment is full, the log decides. All that raises OSError leaves it to the log to fail.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from raftka.log.compaction.job import CLEANED, SWAP, Cleaned
from raftka.log.config import LogConfig
from raftka.log.durability import Durability
from raftka.log.producers.state import ProducerState
from raftka.log.segments.recycled_segment import RecycledSegments
from raftka.log.segments.rolling import roll_bounds
from raftka.log.segments.scan import READ_BYTES, cut_whole, first_with_records
from raftka.log.segments.segment import Segment, segment_path
from raftka.runtime.interfaces import Buffer, File, Files, FileSpan

ENTRIES_BEHIND = 64  # index entries that may wait in memory
POSITIONS_KEPT = 64
# of batches without records that one read passes by: some 4,000, which take half a millisecond
EMPTY_BYTES = 256 * 1024
RUNS_KEPT = 8  # for readers that stand at different places


class SegmentList(list[Segment]):
    """At least one segment. `active` is the last, and the only one that grows."""

    __slots__ = (
        "_directory",
        "_durability",
        "_files",
        "_swap",
        "active",
        "appended_before",
        "cleaned_offset",
        "config",
        "empty_runs",
        "on_retired",
        "positions",
        "recycled",
        "retired",
        "roll_offset",
        "roll_size",
        "roll_timestamp",
        "staged",
        "written_offset",
        "written_size",
    )

    def __init__(
        self,
        segments: Sequence[Segment],
        files: Files,
        directory: str,
        config: LogConfig,
        written_offset: int,
        durability: Durability,
    ) -> None:
        super().__init__(segments)
        self._files = files
        self._directory = directory
        self._durability = durability
        self.config = config
        # batches of the active segment that are counted, and are not in its file
        self.staged: list[Buffer] = []
        self._swap: Iterator[None] | None = None
        self.recycled = RecycledSegments(files)
        self.retired: list[File] = []
        # its segment is gone, but an answer on its way may still read from it
        self.on_retired: Callable[[File], None] = self.retired.append
        # from offset to offset: of batches without records, as reads have found; a cleaner adds
        # none
        self.empty_runs: dict[int, int] = {}
        self.cleaned_offset = 0  # before it a cleaner has left each key once
        self.active = segments[-1]
        self.appended_before = 0  # bytes of segments that were rolled
        self.written_offset = written_offset  # the end of what is in the files
        self.written_size = self.active.size  # the same, as a position in the active segment
        # offset to position, in the segment that holds the offset
        self.positions = {written_offset: self.written_size}
        self._set_roll_bounds()

    def configure(self, config: LogConfig) -> None:
        self.config = config
        self.active.index_interval_bytes = config.index_interval_bytes
        self._set_roll_bounds()

    def _set_roll_bounds(self) -> None:
        """A batch beyond one of these bounds begins a new segment, or has to be compared."""
        self.roll_size, self.roll_offset, self.roll_timestamp = roll_bounds(
            self.active, self.config
        )

    # finding positions

    def slot_of(self, offset: int) -> int:
        """Return the index of the segment that holds the offset; -1: it is before the first."""
        return bisect_right(self, offset, key=lambda segment: segment.base_offset) - 1

    def from_offset(self, offset: int) -> list[Segment]:
        """Return the segment that holds the offset, and all behind it."""
        return self[max(0, self.slot_of(offset)) :]

    def written_size_of(self, segment: Segment) -> int:
        return self.written_size if segment is self.active else segment.size

    def locate(self, segment: Segment, offset: int, begin: int = 0) -> int:
        """Return where the first batch that reaches `offset` begins; the segment's end when none
        does.
        """
        position = self.positions.get(offset)
        if position is None:
            size = self.written_size if segment is self.active else segment.size
            found = segment.locate(offset, size, begin)
            if found is None:
                return size
            position = found[0]
            self.remember(offset, position)
        return position

    def remember(self, offset: int, position: int) -> None:
        """Remember where a read or a write ended: there the next reads begin or end. `position` is
        one of the segment that holds the offset.
        """
        if len(self.positions) >= POSITIONS_KEPT:
            self.positions = {self.written_offset: self.written_size}
        self.positions[offset] = position

    def forget_positions(self) -> None:
        self.positions = {self.written_offset: self.written_size}

    def cut(self, segment: Segment, start: int, end: int, max_bytes: int, min_one: bool) -> int:
        """Return the end of the last whole batch that fits, and remember it: the next read begins
        there.
        """
        begin = max(start, segment.offset_index.boundary(start + max_bytes))
        next_offset, position = cut_whole(
            segment.file, begin, start + max_bytes, end, min_one and begin == start
        )
        if next_offset is not None:
            self.remember(next_offset, position)
        return position

    def read_sealed(
        self, offset: int, max_bytes: int, up_to_offset: int, min_one: bool
    ) -> tuple[list[FileSpan], int]:
        """As `Log.read`, from an offset before the active segment."""
        for at in range(max(0, self.slot_of(offset)), len(self)):
            segment = self[at]
            start = self.locate(segment, max(offset, segment.base_offset))
            if start == segment.size:
                # the batches that held it were compacted away: the next segment has what follows
                continue
            whole = at + 1 < len(self) and self[at + 1].base_offset <= up_to_offset
            end = segment.size if whole else self.locate(segment, up_to_offset, start)
            if end - start > max_bytes:
                end = self.cut(segment, start, end, max_bytes, min_one)
            if end <= start:
                return [], 0
            return [FileSpan(segment.file, start, end - start)], end - start
        return [], 0

    def slot_of_file(self, offset: int, file: File) -> int:
        """Return the index of the segment with this file, at or behind the one that holds
        `offset`.
        """
        at = max(0, self.slot_of(offset))
        while self[at].file is not file:
            at += 1
        return at

    def next_with_records(self, offset: int, up_to_offset: int) -> int:
        """Return where to begin: at `offset` if its batch has records, or if none with records
        follows. Each read passes by EMPTY_BYTES at the most; the next goes on.
        """
        runs, first, begin, left = self.empty_runs, offset, offset, EMPTY_BYTES
        if (
            runs
            and (known := next((run for run in runs.items() if run[0] <= offset < run[1]), None))
            is not None
        ):
            first, begin = known
        for segment in self.from_offset(begin):
            start = self.locate(segment, max(begin, segment.base_offset))
            end = self.written_size_of(segment)
            found = first_with_records(segment.file, start, end, left)
            if found is not None:
                self.remember(found[1], found[0])
                if found[1] <= offset:
                    return offset
                begin = found[1]
                break
            left -= max(end - start, READ_BYTES)
        else:
            begin = self.written_offset
        if first not in runs and len(runs) >= RUNS_KEPT:
            del runs[next(iter(runs))]
        runs[first] = begin
        return begin if begin < up_to_offset else offset

    # adding and removing

    def write_staged(self, end_offset: int) -> None:
        """Write everything staged with one call; it ends at the offset. Raises OSError."""
        segment, durability = self.active, self._durability
        flushes = durability.flushes
        segment.file.append(self.staged)
        if segment.entries_behind > ENTRIES_BEHIND:
            segment.write_index()
            self._set_roll_bounds()
        self.staged = []
        self.written_offset = end_offset
        self.written_size = size = segment.size
        if len(self.positions) >= POSITIONS_KEPT:
            self.positions = {}
        self.positions[end_offset] = size
        if segment.file not in flushes.dirty:
            flushes.dirty.append(segment.file)
        if not durability.syncs:
            flushes.flushed_offset = end_offset

    def roll(self, offset: int, producers: ProducerState, now_ms: int) -> None:
        """Begin a new segment at the end offset. Everything staged is written. Raises OSError."""
        segment, durability = self.active, self._durability
        durability.flush_before_point(segment.seal()[1:])
        self.trim()
        segment.index_files = None  # closed when they are flushed
        self.appended_before += segment.size
        durability.take_snapshot(offset, producers)
        self._begin(offset, now_ms)

    def trim(self) -> None:
        """Give reserved room of the active segment back that is not used, and cut old bytes off.
        Everything staged is written. Raises OSError.

        The file keeps the time of its last write: retention may go by it.
        """
        active, dirty = self.active, self._durability.flushes.dirty
        file, is_over = active.file, active.is_over
        if self.config.preallocate or is_over:
            modified_ms = file.modified_ms()
            file.truncate(file.size())
            file.set_modified(modified_ms)
            active.is_over = False
        # else a loss of power brings old bytes back, before records that count
        if is_over and file not in dirty:
            dirty.append(file)

    def _begin(self, base_offset: int, now_ms: int) -> None:
        """Begin a new segment, over a recycled file if there is one."""
        over = self.recycled.take(segment_path(self._directory, base_offset, ".log"))
        interval = self.config.index_interval_bytes
        segment = Segment(self._files, self._directory, base_offset, now_ms, interval, over=over)
        self._durability.flush_with_next(self._directory)
        self.append(segment)
        self._activate(segment)

    def _activate(self, segment: Segment) -> None:
        """Append to this segment, the last one, from now on."""
        self.active = segment
        self.written_size = segment.size
        self.positions = {self.written_offset: segment.size}
        self._set_roll_bounds()
        self.reserve_room()

    def reserve_room(self) -> None:
        if self.config.preallocate and not self.active.size:
            self.active.file.reserve(self.config.segment_bytes)

    def drop(self, segment: Segment, *, recycle: bool = False) -> None:
        """Remove a segment. Its file stays open: an answer on its way may still read from it.
        Raises OSError.
        """
        segment.remove(recycled=self.recycled if recycle else None)
        self.remove(segment)
        self._retire(segment)

    def _retire(self, segment: Segment) -> None:
        self._durability.flushes.remove(segment.file)
        self.on_retired(segment.file)

    def cut_from(self, offset: int) -> int:
        """Cut batches that reach `offset` or beyond. Return the new end offset, which is `offset`
        where a batch begins there. Everything staged is written. Raises OSError.
        """
        self.finish_swap()
        durability = self._durability
        doomed = [segment for segment in self[1:] if segment.base_offset >= offset]
        last = self[-1 - len(doomed)]
        found = last.locate(offset, last.size)
        self._before_cut(min(offset, found[1]) if found else offset)
        for segment in reversed(doomed):
            self.drop(segment)
        # else a crash could bring back what was removed, behind what is appended next
        durability.sync_names()
        position = found[0] if found else last.size
        if (old := last.leave_to_backup(position)) is not None:
            durability.flushes.remove(old)
            self.on_retired(old)
        end = min(last.truncate(position, offset), offset)
        durability.flush_cut(last.file)
        self.written_offset = end
        self._before_cut(end)  # it is lower when a cleaner has left a gap here
        durability.flushes.on_truncated(end)
        self._activate(last)
        return end

    def restart_at(self, offset: int, now_ms: int) -> None:
        """Remove all segments, and begin one at `offset`. Everything staged is written. Raises
        OSError.
        """
        self.finish_swap()
        self._before_cut(0)
        for segment in reversed(self.copy()):
            self.drop(segment)
        self.written_offset = offset
        self._durability.flushes.restart(offset)
        self._begin(offset, now_ms)
        self._durability.sync_names()

    def _before_cut(self, offset: int) -> None:
        """Forget what is known of records at `offset` and beyond, also on disk."""
        durability = self._durability
        durability.truncations += 1
        self.empty_runs.clear()
        self.recycled.drop()  # the next batches may have offsets of those in it
        if offset < max(durability.recovery_point, self.cleaned_offset):
            self.cleaned_offset = min(self.cleaned_offset, offset)
            durability.lower_recovery_point(offset)

    def truncate_files(self, offset: int) -> None:
        """Cut all files at the offset, as far as the disk lets. The log is not used any more."""
        for segment in self.from_offset(offset):
            try:
                found = segment.locate(offset, self.written_size_of(segment))
                if found is not None:
                    segment.file.truncate(found[0])
            except OSError:
                # then it cannot be read or written at all, and the next process does not start on
                # it
                pass

    def close(self) -> None:
        self._swap, self.staged = None, []  # nobody may rename or write what is closed
        self.recycled.drop()
        for file in self.retired:
            self._files.discard(file)
        for segment in self:
            segment.file.close()
        self.active.close_index()

    # replacing by a cleaner's segment

    def begin_swap(self, cleaned: Cleaned) -> None:
        """Begin to put a cleaned segment in the place of those it was made of; call `go_on_swap`
        each time the directory has been synced, until it returns False.

        A loss of power leaves either the old segments or the whole new one. Raises OSError.
        """
        assert self._swap is None
        self._swap = self._swapping(cleaned)
        next(self._swap)

    def go_on_swap(self) -> bool:
        """Return whether there is more to do, behind another sync of the directory. Raises
        OSError.
        """
        if self._swap is not None and next(self._swap, self) is self:
            self._swap = None
        return self._swap is not None

    def give_up_swap(self) -> None:
        self._swap = None

    def finish_swap(self) -> None:
        """Do all that is left of it at once: the caller is about to change the segments. Raises
        OSError.
        """
        while self._swap is not None:
            self._files.sync_directory(self._directory)
            self.go_on_swap()

    def remove_cleaned(self) -> None:
        """Remove the files that a round of the cleaner has left beside the log: it was given up."""
        for name in self._files.list(self._directory) if self._swap is None else ():
            if name.endswith(CLEANED):
                self._files.remove(f"{self._directory}/{name}")

    def _swapping(self, cleaned: Cleaned) -> Iterator[None]:
        base = cleaned.bases[0]
        log, *indexes = (
            segment_path(self._directory, base, suffix)
            for suffix in (".log", ".index", ".timeindex", ".txnindex")
        )
        self._files.rename(log + CLEANED, log + SWAP)
        yield  # from here on it is the new one that counts
        at = self.slot_of(base)
        old = self[at : at + len(cleaned.bases)]
        assert [segment.base_offset for segment in old] == cleaned.bases
        segment = Segment(
            self._files,
            self._directory,
            base,
            old[-1].created_ms,
            self.config.index_interval_bytes,
            SWAP,
        )
        segment.adopt(*cleaned[2:])
        segment.timeless = any(each.timeless for each in old)
        self[at : at + len(old)] = [segment]
        self.forget_positions()
        for each in old:
            each.remove(keep_log=each is old[0])
            self._retire(each)
        yield  # nothing in its range can come back beside it
        self._files.rename(log + SWAP, log)
        for index in indexes:
            self._files.rename(index + CLEANED, index)
        segment.settle()
        yield
