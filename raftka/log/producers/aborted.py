"""Aborted transactions of one log, for readers of committed records: the transaction indexes of its
segments, read or made when they are first needed. Knows no rule of appending.
"""

from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter
from typing import Protocol

from raftka.log.durability import Durability
from raftka.log.producers.snapshots import replayed
from raftka.log.producers.state import ProducerState
from raftka.log.segments.segment import Segment
from raftka.log.segments.segment_list import SegmentList
from raftka.log.segments.transaction_index import AbortedTransaction
from raftka.runtime.interfaces import FileSpan

NOTHING_KNOWN = 1 << 63
_base_offset = attrgetter("base_offset")


class GrowingLog(Protocol):
    """The log whose transactions they are: its last batches are staged."""

    end_offset: int

    def write_staged(self) -> None: ...


class AbortedTransactions:
    __slots__ = ("_durability", "_loading", "_log", "_segments", "known_from")

    def __init__(self, log: GrowingLog, segments: SegmentList, durability: Durability) -> None:
        self._log = log
        self._segments = segments
        self._durability = durability
        # the transaction indexes of all segments from this offset on are in memory
        self.known_from = NOTHING_KNOWN
        self._loading: Iterator[None] | None = None

    def find(self, offset: int, end: int) -> list[AbortedTransaction]:
        """Return those that may have records in [offset, end), in the order of their markers, which
        may lie behind the end. Raises OSError.

        From an offset before `known_from`, everything that `load` does is done at once.
        """
        if offset < self.known_from:
            for _ in self.load(offset):
                pass
        found: list[AbortedTransaction] = []
        for segment in self._segments.from_offset(offset):
            index = segment.transaction_index
            assert index is not None
            if index.find(offset, end, found):
                break
        return found

    def free_up_to(self, offset: int, found: FileSpan, stable: int) -> int:
        """Return a position in the file of `found`, which a read from `offset` has found: no batch
        from there up to it is in an aborted transaction, nor will be. `stable` is the last stable
        offset of now; `offset` is not before `known_from`.
        """
        segments = self._segments
        at = segments.slot_of_file(offset, found.file)
        segment = segments[at]
        for each in segments[at:]:
            index = each.transaction_index
            assert index is not None
            if (first := index.first_aborted(offset)) >= 0:
                stable = min(stable, first)
                break
        is_sealed = at + 1 < len(segments)
        if is_sealed and segments[at + 1].base_offset <= stable:
            return segment.size
        return segment.offset_index.lookup(stable)

    def load(self, offset: int) -> Iterator[None]:
        """Read the transaction indexes from this offset on, in pieces; all callers at a time share
        the work. Raises OSError.

        Of a segment whose file is lost the index is made from the batches: without it, readers
        would take aborted records for committed ones.
        """
        while offset < self.known_from:
            work = self._loading = self._loading or self._load_all()
            try:
                next(work, None)
            except BaseException:
                self._loading = None
                raise
            if self.known_from == 0:
                self._loading = None
            yield

    def _load_all(self) -> Iterator[None]:
        """Read the newest segment's first."""
        segments = self._segments
        while (at := bisect_left(segments, self.known_from, key=_base_offset) - 1) >= 0:
            segment = segments[at]
            if segment.transaction_index is None:
                yield from self._make_index(segment)
            else:
                self.known_from = segment.base_offset
                yield
        self.known_from = 0

    def _make_index(self, wanted: Segment) -> Iterator[None]:
        """Make it from the batches since the newest snapshot before it; make none when the log is
        cut meanwhile, or segments change.
        """
        log, segments, durability = self._log, self._segments, self._durability
        first, base = segments[0].base_offset, wanted.base_offset
        truncations = durability.truncations
        start, state = durability.snapshots.load(first, base, 0) or (first, ProducerState())
        walked = segments[segments.slot_of(start) : segments.index(wanted) + 1]
        found: dict[Segment, list[AbortedTransaction]] = {
            segment: [] for segment in walked if segment.base_offset >= start
        }
        while True:
            log.write_staged()
            end = log.end_offset if wanted is segments.active else None
            for segment, aborted in replayed(walked, start, state, 0):
                if aborted is not None:
                    if segment in found:
                        found[segment].append(aborted)
                    continue
                yield
                at = segments.slot_of(walked[0].base_offset)
                if (
                    durability.truncations != truncations
                    or segments[at : at + len(walked)] != walked
                ):
                    return
            if end is None or end == log.end_offset:
                break
            start, walked = end, [wanted]  # it has grown
        for segment, entries in found.items():
            if segment.transaction_index is None:
                self._take(segment, entries)

    def _take(self, segment: Segment, entries: list[AbortedTransaction]) -> None:
        try:
            segment.take_aborted(entries, durable=True)
        except OSError:
            if segment is self._segments.active:
                raise
            # nothing is appended to it any more: without the file it is found again
            segment.take_aborted(entries, durable=False)
