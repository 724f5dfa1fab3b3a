"""One segment: the file of batches from one base offset on, and its two indexes. It knows positions
and bounds; the log decides which batches are appended.

`size` counts what the log has staged too; the file may lag behind it until the turn ends.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from raftka.log.config import FOREVER
from raftka.log.segments.index import OFFSET_ENTRY, TIME_ENTRY, OffsetIndex, TimeIndex
from raftka.log.segments.recycled_segment import RecycledSegments
from raftka.log.segments.scan import READ_BYTES, WALK_BYTES, Header, checked, headers, locate
from raftka.log.segments.times import NO_TIMESTAMP, is_doubtful, largest_time
from raftka.log.segments.transaction_index import ENTRY as TRANSACTION_ENTRY
from raftka.log.segments.transaction_index import AbortedTransaction, TransactionIndex
from raftka.runtime.interfaces import File, Files
from raftka.wire.records import BATCH_HEADER, BATCH_HEADER_BYTES, LOG_OVERHEAD_BYTES

# batches of a segment, and those behind the last index entry, whose times are compared with its
# index
SAMPLES = 4


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    return f"{directory}/{base_offset:020d}{suffix}"


class Segment:
    __slots__ = (
        "_files",
        "_offset_index",
        "_suffix",
        "_time_index",
        "_transaction_index",
        "base_offset",
        "created_ms",
        "directory",
        "file",
        "first_timestamp",
        "index_files",
        "index_interval_bytes",
        "is_over",
        "linked_bytes",
        "max_timestamp",
        "max_timestamp_offset",
        "since_index",
        "size",
        "timeless",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        base_offset: int,
        now_ms: int,
        index_interval_bytes: int,
        suffix: str = "",
        *,
        over: bool = False,
    ) -> None:
        self._files = files
        self._suffix = suffix  # of one that is not in its place yet
        self.directory = directory
        self.base_offset = base_offset
        self.index_interval_bytes = index_interval_bytes
        # when it began, for rolling where the first batch has no timestamp
        self.created_ms = now_ms
        self.timeless = False  # records without a timestamp are in it, or may be
        self.file: File = files.open(self._path(".log"), create=True, over=over)
        # that a backup may have under another name; of a file that was there before: not known
        self.linked_bytes = FOREVER if self.file.size() else 0
        self.is_over = over  # old bytes may lie behind its end (recycled_segment.py)
        self.size = self.file.size()
        self.since_index = 0  # bytes
        self.first_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        # open while they may grow; of aborted transactions there is one once there are some
        self.index_files: tuple[File, ...] | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._transaction_index = None if self.size else TransactionIndex()

    def _path(self, suffix: str) -> str:
        return segment_path(self.directory, self.base_offset, suffix + self._suffix)

    # indexes, read when first needed

    @property
    def offset_index(self) -> OffsetIndex:
        if self._offset_index is None:
            self._load_indexes()
        assert self._offset_index is not None
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            self._load_indexes()
        assert self._time_index is not None
        return self._time_index

    @property
    def transaction_index(self) -> TransactionIndex | None:
        """None: its file is lost, or this log is of a broker that wrote none."""
        if self._transaction_index is None and (data := self._read(".txnindex")) is not None:
            self._transaction_index = TransactionIndex(data)
        return self._transaction_index

    def take_aborted(self, entries: Iterable[AbortedTransaction], *, durable: bool) -> None:
        """Its aborted transactions, as found in the batches. Raises OSError.

        `durable`: the file is whole and on the disk before anything is appended to it. The records
        may be below the recovery point: what a loss of power leaves of a file that was only
        appended to would be believed.
        """
        index = TransactionIndex()
        for entry in entries:
            index.append(entry)
        if durable:
            self._files.replace(self._path(".txnindex"), index.encoded())
            index.written = len(index)
        self._transaction_index = index

    def _load_indexes(self) -> None:
        """Take the entries of the files, if they can be this log's; else make them from the
        headers. The segment's records must be sound.

        A segment that has just begun has no such files: the first entries make them.
        """
        if not self.size and not any(
            self._files.exists(self._path(suffix)) for suffix in (".index", ".timeindex")
        ):
            self._offset_index, self._time_index = (
                OffsetIndex(self.base_offset),
                TimeIndex(self.base_offset),
            )
        elif not self.read_indexes():
            self._offset_index, self._time_index = (
                OffsetIndex(self.base_offset),
                TimeIndex(self.base_offset),
            )
            self.resume(headers(self.file, 0, self.size))
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
            try:
                self._replace_index_files()
            except OSError:
                pass  # found again next time

    def _replace_index_files(self) -> None:
        """Whole and durable, or not at all: half of what was found would be believed after a loss
        of power.
        """
        times, offsets = self.time_index, self.offset_index
        self._files.replace(self._path(".timeindex"), times.encoded())
        self._files.replace(self._path(".index"), offsets.encoded())
        times.written, offsets.written = len(times), len(offsets)

    def read_indexes(self, below: int = FOREVER) -> bool:
        """Entries up to the offset `below` from the files; False, and none, when they are missing
        or do not fit the batches.
        """
        index, time_index = self._read(".index"), self._read(".timeindex")
        self._offset_index, self._time_index = (
            OffsetIndex(self.base_offset, index or b""),
            TimeIndex(self.base_offset, time_index or b""),
        )
        # of a segment that is sealed
        whole = below != FOREVER or len(self._time_index) * TIME_ENTRY.size == len(
            time_index or b""
        )
        if self.size and below != FOREVER:
            # what the file has: nothing that was found in batches above `below` is believed
            self._transaction_index = None
        self._keep_entries_below(below)
        self.first_timestamp = self._first_time()
        if (
            index is not None
            and time_index is not None
            and whole
            and self._index_fits(self._offset_index)
            and self._times_fit(below == FOREVER)
        ):
            return True
        self._distrust_positions()
        return False

    def _index_fits(self, index: OffsetIndex) -> bool:
        """The last entry's word is held against the batch it points to."""
        if not index.positions:
            return True
        header = self.file.read(index.positions[-1], BATCH_HEADER_BYTES)
        if len(header) < BATCH_HEADER_BYTES:
            return False
        base, _, _, _, _, _, delta = BATCH_HEADER.unpack(header)[:7]
        return bool(base + delta == self.base_offset + index.offsets[-1])

    def _times_fit(self, complete: bool) -> bool:
        """Retention goes by the last entry: a bit that flips in it must not delete what is young.

        An older raftka has made entries of wrong headers: some batches are compared with the
        entries that are to cover them. `complete`: the last entry covers all batches.
        """
        size = self.file.size()
        timestamp, offset = self.time_index.last()
        if timestamp >= 0:
            found = self.locate(offset, size)
            if found is None:
                return False
            header = BATCH_HEADER.unpack(self.file.read(found[0], BATCH_HEADER_BYTES))
            if (
                header[0] + header[6] != offset
                or largest_time(header, self.file, found[0]) != timestamp
            ):
                return False
        return not complete or all(
            self._is_covered(position, header)
            for position, header in self._samples(size)
            if is_doubtful(header)
        )

    def _samples(self, size: int) -> Iterator[tuple[int, Header]]:
        """Some batches, evenly spread, and all from the last index entry on."""
        positions = self.offset_index.positions
        for position in positions[:: len(positions) // SAMPLES + 1]:
            yield from islice(headers(self.file, position, size, BATCH_HEADER_BYTES), 1)
        yield from headers(self.file, self.resume_position, size, READ_BYTES)

    def _is_covered(self, position: int, header: Header) -> bool:
        return largest_time(header, self.file, position) <= self.time_index.largest_up_to(
            header[0] + header[6]
        )

    def _read(self, suffix: str) -> bytes | None:
        path = self._path(suffix)
        return self._files.read(path) if self._files.exists(path) else None

    def _keep_entries_below(self, offset: int) -> None:
        self.offset_index.truncate(offset)
        self.time_index.truncate(offset)
        if self.transaction_index is not None:
            self.transaction_index.truncate(offset)

    def _distrust_positions(self) -> None:
        """The offset and time index are made again from the headers. Nothing in these tells of
        aborts: the transaction index stands for itself.
        """
        self.offset_index.truncate(self.base_offset)
        self.time_index.truncate(self.base_offset)

    # not in its place yet: a cleaner has made it

    def empty(self) -> None:
        """Nothing of what an earlier attempt left in the file."""
        self.file.truncate(0)
        self.size = 0
        self._offset_index, self._time_index = (
            OffsetIndex(self.base_offset),
            TimeIndex(self.base_offset),
        )
        self._transaction_index = TransactionIndex()
        for file in self._open_index_files():
            file.close()

    def discard(self) -> None:
        """It is not wanted."""
        self.remove()
        self.file.close()

    def adopt(
        self,
        offset_index: bytes,
        time_index: bytes,
        aborted: bytes,
        first_timestamp: int,
        max_timestamp: int,
        max_timestamp_offset: int,
    ) -> None:
        """Take over what its maker knows of it."""
        self._transaction_index = TransactionIndex(aborted)
        self._offset_index, self._time_index = (
            OffsetIndex(self.base_offset, offset_index),
            TimeIndex(self.base_offset, time_index),
        )
        self.first_timestamp = first_timestamp
        self.max_timestamp, self.max_timestamp_offset = max_timestamp, max_timestamp_offset

    def settle(self) -> None:
        """It has got its name."""
        self._suffix = ""

    # growing

    def note(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """A batch of `size` bytes is at `position`: the bounds and the sparse indexes follow,
        exactly as Kafka's do.
        """
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        elif max_timestamp < 0:
            self.timeless = True
        if self.since_index > self.index_interval_bytes:
            self.index(position, last_offset)
        self.since_index += size
        if position == 0:
            self.first_timestamp = max_timestamp
        self.size = position + size

    def index(self, position: int, last_offset: int) -> None:
        offsets, times = self._offset_index, self._time_index
        if offsets is None or times is None:
            offsets, times = self.offset_index, self.time_index
        offsets.append(last_offset, position)
        times.append(self.max_timestamp, self.max_timestamp_offset)
        self.since_index = 0

    def resume(self, batches: Iterable[tuple[int, Header]]) -> int:
        """Bounds and indexes from the last index entry on, where `batches` begin;

        returns the end offset, and leaves `size` at the end of the last batch.
        """
        position = self.resume_position
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last()
        self.since_index = 0
        end = self.base_offset
        for position, header in batches:
            end = header[0] + header[6] + 1
            self.note(
                position,
                header[1] + LOG_OVERHEAD_BYTES,
                end - 1,
                largest_time(header, self.file, position),
            )
            position += header[1] + LOG_OVERHEAD_BYTES
        self.size = position
        if self.transaction_index is not None:
            self.transaction_index.truncate(end)
        return end

    def check(self, believed_below: int) -> Iterator[tuple[int, Header]]:
        """The sound batches from the last index entry below that offset on; nothing else in the
        file is believed.
        """
        self.read_indexes(believed_below)
        size = self.file.size()
        if self.resume_position and not any(
            True
            for _ in checked(
                self.file, self.resume_position, size, self.base_offset, self.highest_offset
            )
        ):
            self._distrust_positions()
        return checked(self.file, self.resume_position, size, self.base_offset, self.highest_offset)

    @property
    def highest_offset(self) -> int:
        """The indexes have 31 bits for what is above the base offset."""
        return self.base_offset + (1 << 31) - 1

    @property
    def resume_position(self) -> int:
        return self.offset_index.positions[-1] if self.offset_index.positions else 0

    def full_index(self, limit_bytes: int) -> bool:
        return (len(self.time_index) + 2) * TIME_ENTRY.size > limit_bytes

    @property
    def entries_behind(self) -> int:
        """Index entries that are not in the files yet."""
        offsets, transactions = self._offset_index, self._transaction_index
        if offsets is None:
            offsets = self.offset_index
        behind = len(offsets.offsets) - offsets.written
        return (
            behind
            if transactions is None
            else behind + len(transactions.entries) - transactions.written
        )

    # what is asked

    @property
    def largest_timestamp(self) -> int:
        """Of its records: what retention by time goes by. Where some have no timestamp the last
        write to the file counts too. Raises OSError.
        """
        known = self.max_timestamp_known
        return max(known, self.file.modified_ms()) if known < 0 or self.timeless else known

    @property
    def first_batch_timestamp(self) -> int:
        """-1 when it has none."""
        if self.first_timestamp < 0:
            self.first_timestamp = self._first_time()
        return self.first_timestamp

    def _first_time(self) -> int:
        if self.size < BATCH_HEADER_BYTES:
            return NO_TIMESTAMP
        return largest_time(
            BATCH_HEADER.unpack(self.file.read(0, BATCH_HEADER_BYTES)), self.file, 0
        )

    @property
    def max_timestamp_known(self) -> int:
        """-1 when no record has a timestamp. Of a sealed segment the index tells it."""
        if self.max_timestamp == NO_TIMESTAMP:
            self.max_timestamp, self.max_timestamp_offset = self.time_index.last()
        return self.max_timestamp

    def locate(self, offset: int, end: int, begin: int = 0) -> tuple[int, int, int] | None:
        """(position, base offset, size) of the first batch that reaches `offset`, among those from
        the position `begin` to `end`.
        """
        return locate(self.file, max(begin, self.offset_index.lookup(offset)), end, offset)

    # shrinking, writing, going

    def truncate(self, position: int, offset: int) -> int:
        """Nothing at or behind `position` stays, where the first batch that reaches `offset`
        begins; returns the end offset.
        """
        self._keep_entries_below(offset)
        if self.index_files is None:
            # and cuts them: else entries of what goes would be believed after the next checkpoint
            self.index_files = self._open_index_files()
        else:
            self._cut_index_files(self.index_files)
        self.file.truncate(position)
        self.size = position
        return self.resume(headers(self.file, self.resume_position, position))

    def link(self, path: str, size: int) -> None:
        """Give the file of batches another name, under which a backup finds `size` bytes. From then
        on these are not cut in place. Raises OSError.
        """
        self._files.link(self._path(".log"), path)
        self.linked_bytes = size

    def leave_to_backup(self, size: int) -> File | None:
        """Go on with a copy of the first `size` bytes, if a cut there would take bytes from a
        backup: only after an unclean election. Return the file that is not used any more. Raises
        OSError.
        """
        if size >= self.linked_bytes or not self.file.is_linked:
            return None
        path = self._path(".log")
        copy = self._files.open(path + ".tmp", create=True)
        copy.truncate(0)
        for position in range(0, size, WALK_BYTES):
            copy.append([self.file.read(position, min(WALK_BYTES, size - position))])
        copy.sync()
        copy.close()
        self._files.rename(path + ".tmp", path)
        self._files.sync_directory(self.directory)
        old, self.file = self.file, self._files.open(path)
        self.linked_bytes = 0
        return old

    def write_again(self, offset: int) -> None:
        """Write the batches that reach `offset`, and all behind them, over themselves: the kernel
        takes their pages for dirty then, whatever it did before. Everything staged is written. What
        lies before stays as it is: a write that fails may take it from the disk.
        """
        found = self.locate(offset, self.size)
        for position in range(found[0] if found is not None else self.size, self.size, WALK_BYTES):
            self.file.write(
                position, self.file.read(position, min(WALK_BYTES, self.size - position))
            )

    def write_index(self) -> None:
        """Behind the records, in the page cache; `index_files` are to be flushed where it must
        last.
        """
        if self.index_files is None:
            self.index_files = self._open_index_files()
        offsets, times = self.offset_index, self.time_index
        if offsets.written < len(offsets):
            self.index_files[0].append([offsets.unwritten()])
            offsets.written = len(offsets)
        if times.written < len(times):
            self.index_files[1].append([times.unwritten()])
            times.written = len(times)
        transactions = self.transaction_index
        if transactions is not None and transactions.written < len(transactions):
            self._open_transaction_file()[2].append([transactions.unwritten()])
            transactions.written = len(transactions)

    def _open_index_files(self) -> tuple[File, ...]:
        files = self._files
        opened = [
            files.open(self._path(suffix), create=True) for suffix in (".index", ".timeindex")
        ]
        if self.transaction_index is not None and files.exists(self._path(".txnindex")):
            opened.append(files.open(self._path(".txnindex"), create=True))
        self._cut_index_files(opened)
        return tuple(opened)

    def _open_transaction_file(self) -> tuple[File, ...]:
        """The index files, that of aborted transactions too."""
        assert self.index_files is not None
        if len(self.index_files) == 2:
            self.index_files = (
                *self.index_files,
                self._files.open(self._path(".txnindex"), create=True),
            )
        return self.index_files

    def _cut_index_files(self, opened: Sequence[File]) -> None:
        """A file may hold more than is believed: entries of records that are gone, or the zeros a
        running Kafka reserves.
        """
        for file, size in zip(opened, self._believed_sizes(), strict=False):
            if file.size() != size:
                file.truncate(size)

    def _believed_sizes(self) -> tuple[int, ...]:
        """Of the index files: entries that belong to records which are there."""
        sizes = (
            self.offset_index.written * OFFSET_ENTRY.size,
            self.time_index.written * TIME_ENTRY.size,
        )
        transactions = self.transaction_index
        return (
            sizes
            if transactions is None
            else (*sizes, transactions.written * TRANSACTION_ENTRY.size)
        )

    def forget_stale_entries(self) -> tuple[File, ...]:
        """The index files may have reached the disk before records that were lost: such entries go.
        Returns the files to flush.
        """
        believed = zip((".index", ".timeindex", ".txnindex"), self._believed_sizes(), strict=False)
        if all(len(self._read(suffix) or b"") <= size for suffix, size in believed):
            return ()
        self.write_index()
        return self.index_files or ()

    def seal(self) -> tuple[File, ...]:
        """It will not grow for now: the largest timestamp goes into the index, also where no
        interval is full. Returns the files to flush.
        """
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self.write_index()
        if self.transaction_index is not None:
            # an empty one says that nothing was aborted; none says that it is lost
            self._open_transaction_file()
        assert self.index_files is not None
        return (self.file, *self.index_files)

    def close_index(self) -> None:
        for file in self.index_files or ():
            file.close()
        self.index_files = None

    def remove(self, *, keep_log: bool = False, recycled: RecycledSegments | None = None) -> None:
        """The names go, the indexes first: an index without its log is swept, a log without its
        index is scanned. The file stays open for readers.

        `recycled` keeps the file of batches, if it wants it.
        """
        is_kept = recycled is not None and recycled.wants(self.file)
        self.close_index()
        for suffix in (".timeindex", ".index", ".txnindex", ".log")[
            : 3 if keep_log or is_kept else 4
        ]:
            path = self._path(suffix)
            if self._files.exists(path):
                self._files.remove(path)
        if recycled is not None and is_kept:
            recycled.keep(self.file, self._path(".log"))
