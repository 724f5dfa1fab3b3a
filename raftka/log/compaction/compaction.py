"""A compaction of one log, from its files to files beside them: the part that costs, and so runs in
a process of its own.

Two passes, as Kafka's cleaner: over the dirty part, for the last offset of each key (in bounded
memory: the pass ends where it is full), then over everything before that, which is written anew,
small segments joined. What is written waits as `.cleaned`, flushed, for the log to take it
(swap.py); nothing that exists is touched. Works on whole batches: one of which everything stays is
copied as bytes, and is not even decompressed when the first pass has told so.

Job and results are plain values, because they come from another process and go there. Knows nothing
of a running log.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from raftka.log.compaction.batch import (
    NOTHING,
    PLACE_BITS,
    Kept,
    emptied,
    kept_at,
    kept_of,
    keys_of,
    rebuilt,
    whole,
)
from raftka.log.compaction.files import Batches, Output
from raftka.log.compaction.job import CLEANED, NO_HORIZON, Cleaned, Ended, Job
from raftka.log.compaction.transactions import Transactions
from raftka.log.rows import Key
from raftka.log.segments.index import OFFSET_ENTRY, TIME_ENTRY
from raftka.log.segments.scan import Header
from raftka.log.segments.segment import Segment, segment_path
from raftka.log.segments.transaction_index import AbortedTransaction, TransactionIndex
from raftka.runtime.interfaces import File, Files
from raftka.wire.errors import ProtocolError
from raftka.wire.records import CONTROL, DELETE_HORIZON, LOG_OVERHEAD_BYTES, records_of

# of memory, for a key beside its own bytes: the table at its emptiest, the key's object and the
# offset's
ENTRY_BYTES = 200
POSITION_BITS = 31  # of an index entry


def compact(files: Files, *fields: Any) -> Iterator[tuple[Any, ...]]:
    """`fields` are a Job's. Yields the fields of a Cleaned for each new segment, in order, then
    those of an Ended. Raises OSError, Damaged.
    """
    yield from Compaction(files, Job(*fields)).run()


class Compaction:
    def __init__(self, files: Files, job: Job) -> None:
        self.files = files
        self.job = job
        self.latest: dict[Key, int] = {}  # the place of each key's last record in the dirty part
        self.survivors: list[int] = []  # all of these, in order
        self.with_tombstones: set[int] = set()  # base offsets of batches of the dirty part
        self.unreadable: set[int] = set()
        self.clean_until = job.end
        self.bytes_read = self.bytes_written = 0
        self.next_horizon_ms = NO_HORIZON
        self._aborted = [AbortedTransaction(*each) for each in job.aborted]
        self._transactions = Transactions(self._aborted)
        self._follows = dict(
            zip(
                (base for base, _ in job.segments),
                [*(base for base, _ in job.segments[1:]), job.end],
                strict=True,
            )
        )

    def run(self) -> Iterator[tuple[Any, ...]]:
        self._look_for_keys()
        self.survivors = sorted(self.latest.values())
        groups = list(self._groups())
        last = max(
            (number for number, group in enumerate(groups) if any(size for _, size in group)),
            default=-1,
        )
        for number, group in enumerate(groups):
            cleaned = self._rewrite(group, last=number == last)
            if cleaned is not None:
                yield tuple(cleaned)
        figures = (
            self.bytes_read,
            self.bytes_written,
            len(self.latest),
            self.next_horizon_ms,
            len(self.unreadable),
        )
        yield tuple(Ended(self.clean_until, *figures))

    # the first pass

    def _look_for_keys(self) -> None:
        job = self.job
        room = job.map_bytes
        transactions = Transactions(self._aborted)
        for base, size in job.segments:
            if self._follows[base] <= job.first_dirty:
                continue
            batches = self._batches(base, size)
            for data, position, header in batches:
                if header[0] + header[6] < job.first_dirty:
                    continue
                if room <= 0:
                    self.clean_until = header[0]
                    return
                if header[5] & CONTROL:
                    transactions.is_empty(header, marker_kind(data, position, header))
                elif not transactions.is_aborted(header):
                    room -= self._note_keys(data, position, header)
                self.bytes_read += header[1] + LOG_OVERHEAD_BYTES
            batches.close()

    def _note_keys(self, data: bytes, position: int, header: Header) -> int:
        """Returns what they take of the memory."""
        try:
            keys, tombstone = keys_of(data, position, header)
        except ProtocolError:
            self.unreadable.add(header[0])
            return 0
        if tombstone:
            self.with_tombstones.add(header[0])
        before = len(self.latest)
        self.latest.update(keys)
        new = len(self.latest) - before
        mean = sum(len(key) for key in keys if isinstance(key, bytes)) // len(keys) if new else 0
        return new * (ENTRY_BYTES + mean)

    # the second

    def _groups(self) -> Iterator[list[tuple[int, int]]]:
        """Segments that become one: no larger, with no larger index, than one may be."""
        job = self.job
        group: list[tuple[int, int]] = []
        size = index = 0
        for base, bytes_ in job.segments:
            if base >= self.clean_until:
                break
            entries = (
                max(
                    self._size(base, ".index") // OFFSET_ENTRY.size,
                    self._size(base, ".timeindex") // TIME_ENTRY.size,
                )
                * TIME_ENTRY.size
            )
            full = size + bytes_ > job.segment_bytes or index + entries > job.index_bytes
            if group and (full or self._follows[base] - 1 - group[0][0] >= 1 << POSITION_BITS):
                yield group
                group, size, index = [], 0, 0
            group.append((base, bytes_))
            size += bytes_
            index += entries
        if group:
            yield group

    def _size(self, base: int, suffix: str) -> int:
        path = segment_path(self.job.directory, base, suffix)
        if not self.files.exists(path):
            return 0
        file = self.files.open(path)
        size = file.size()
        file.close()
        return size

    def _rewrite(self, group: list[tuple[int, int]], last: bool) -> Cleaned | None:
        job = self.job
        segment = Segment(
            self.files, job.directory, group[0][0], job.now_ms, job.index_interval_bytes, CLEANED
        )
        segment.empty()
        sources = [self._batches(base, size) for base, size in group]
        out = Output(segment, self._open(group[0][0]) if len(group) == 1 else None)
        previous: tuple[bytes, int, Header] | None = None
        modified_ms = 0
        for source in sources:
            for batch in source:
                if previous is not None:
                    self._settle(out, *previous, last=False)
                previous = batch
                self.bytes_read += batch[2][1] + LOG_OVERHEAD_BYTES
            modified_ms = max(modified_ms, source.modified_ms())
            source.close()
        if previous is not None:
            self._settle(out, *previous, last=last)
        kept, self._transactions.kept = self._transactions.kept, []
        segment.take_aborted(kept, durable=False)
        if not out.finish(modified_ms):
            segment.discard()
            return None
        self.bytes_written += segment.size
        transactions = segment.transaction_index or TransactionIndex()
        cleaned = Cleaned(
            [base for base, _ in group],
            segment.size,
            segment.offset_index.encoded(),
            segment.time_index.encoded(),
            transactions.encoded(),
            segment.first_timestamp,
            segment.max_timestamp,
            segment.max_timestamp_offset,
        )
        segment.close_index()
        segment.file.close()
        return cleaned

    def _open(self, base: int) -> File:
        return self.files.open(segment_path(self.job.directory, base, ".log"))

    def _batches(self, base: int, size: int) -> Batches:
        return Batches(
            self.files,
            segment_path(self.job.directory, base, ".log"),
            size,
            base,
            self._follows[base],
            self.job.read_bytes,
        )

    def _settle(self, out: Output, data: bytes, at: int, header: Header, last: bool) -> None:
        """Write the part of one batch that stays. The `last` of the round always stays, so that who
        reads there gets on, and who follows learns the end.
        """
        base, last_offset = header[0], header[0] + header[6]
        horizon = header[7] if header[5] & DELETE_HORIZON else None
        expired = horizon is not None and horizon <= self.job.now_ms
        if horizon is not None and not expired:
            self._waits_until(horizon)
        if base >= self.clean_until:
            out.copy(data, at, header)
            return
        kept: Kept | None
        if header[5] & CONTROL:
            kept, sets_horizon = self._marker(data, at, header, expired)
        elif self._transactions.is_aborted(header):
            kept, sets_horizon = NOTHING, False
        else:
            kept = self._kept(data, at, header, last_offset, expired)
            if kept is None:
                out.copy(data, at, header)
                return
            sets_horizon = kept.tombstone
        if kept.records == 0:
            if last or self._is_last_of_producer(header, last_offset):
                self._put_empty(out, data, at, header)
            else:
                out.differ()
        elif kept.records == header[12] and (horizon is not None or not sets_horizon):
            out.copy(data, at, header)
        else:
            ends = (
                self.job.now_ms + self.job.delete_retention_ms
                if sets_horizon and horizon is None
                else None
            )
            if ends is not None:
                self._waits_until(ends)
            out.add(rebuilt(header, kept, ends))

    def _waits_until(self, horizon: int) -> None:
        self.next_horizon_ms = (
            horizon if self.next_horizon_ms == NO_HORIZON else min(self.next_horizon_ms, horizon)
        )

    @staticmethod
    def _put_empty(out: Output, data: bytes, at: int, header: Header) -> None:
        if header[12]:
            out.add(emptied(header))
        else:
            out.copy(data, at, header)

    def _kept(
        self, data: bytes, at: int, header: Header, last_offset: int, expired: bool
    ) -> Kept | None:
        """None: all of it, as it is. So stays also what has no payload that could be read."""
        base, survivors = header[0], self.survivors
        if base in self.unreadable:
            return None
        try:
            if last_offset < self.job.first_dirty:
                return kept_of(data, at, header, self.latest, expired)
            start = bisect_left(survivors, base << PLACE_BITS)
            stop = bisect_left(survivors, last_offset + 1 << PLACE_BITS, start)
            if start == stop:
                return NOTHING
            may_wait = base not in self.with_tombstones or header[5] & DELETE_HORIZON
            if stop - start == header[12] and may_wait and not expired:
                return None
            return kept_at(data, at, header, survivors[start:stop], expired)
        except ProtocolError:
            self.unreadable.add(base)
            return None

    def _marker(self, data: bytes, at: int, header: Header, expired: bool) -> tuple[Kept, bool]:
        """Return the part that stays, and whether it begins to wait for its end: a marker whose
        transaction is gone, as tombstones do. Readers may be between.
        """
        if header[12] == 0:
            self._transactions.is_empty(header, None)
            return NOTHING, False
        empty = self._transactions.is_empty(header, marker_kind(data, at, header))
        return (NOTHING, False) if empty and expired else (whole(data, at, header), empty)

    def _is_last_of_producer(self, header: Header, last_offset: int) -> bool:
        known = self.job.producers.get(header[9]) if header[9] >= 0 else None
        if known is None:
            return False
        return (
            last_offset == known[0]
            if known[0] >= 0
            else bool(header[5] & CONTROL) and header[10] == known[1]
        )


def marker_kind(data: bytes, at: int, header: Header) -> int | None:
    """Of a control batch: its type, None when it was emptied."""
    for record in records_of(memoryview(data)[at : at + header[1] + LOG_OVERHEAD_BYTES]):
        return int.from_bytes((record.key or b"")[2:4], "big", signed=True)
    return None
