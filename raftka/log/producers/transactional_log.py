"""The part of a log that serves readers of committed records: where they stop, which transactions
were aborted. Knows no rule of appending.
"""

from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter

from raftka.log.config import LogConfig
from raftka.log.durable import DurableLog
from raftka.log.producers.snapshots import replayed
from raftka.log.producers.state import ProducerState
from raftka.log.recovery import Recovered
from raftka.log.segments.segment import Segment
from raftka.log.segments.transaction_index import AbortedTransaction
from raftka.runtime.interfaces import Files, FileSpan

_base_offset = attrgetter("base_offset")


class TransactionalLog(DurableLog):
    __slots__ = ("_aborted_known_from", "_finding")

    def __init__(self, files: Files, directory: str, config: LogConfig, found: Recovered) -> None:
        super().__init__(files, directory, config, found)
        self._aborted_known_from = 1 << 63
        self._finding: Iterator[None] | None = None

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below it every transaction is over, and its marker committed."""
        producers = self.producers
        if not producers.unstable and high_watermark >= producers.restored_at:
            return high_watermark
        unstable = producers.first_unstable(high_watermark)
        return (
            high_watermark
            if unstable is None
            else min(high_watermark, max(unstable, self.start_offset))
        )

    def aborted(self, offset: int, end: int) -> list[AbortedTransaction]:
        """Those that may have records in [offset, end), in the order of their markers, which may
        lie behind the end. Raises OSError.

        Where it is not known (`knows_aborted`), everything that `find_aborted` does is done at
        once.
        """
        if offset < self._aborted_known_from:
            for _ in self.find_aborted(offset):
                pass
        found: list[AbortedTransaction] = []
        for segment in self.segments[max(0, self._slot_of(offset)) :]:
            index = segment.transaction_index
            assert index is not None
            if index.find(offset, end, found):
                break
        return found

    def unaborted(self, offset: int, found: FileSpan, stable: int) -> int:
        """A position in the file of `found`, which a read from `offset` has found: no batch from
        there up to it is in an aborted transaction, nor will be. Needs `knows_aborted`; `stable` is
        the last stable offset of now.
        """
        at = max(0, self._slot_of(offset))
        while self.segments[at].file is not found.file:
            at += 1
        segment = self.segments[at]
        for each in self.segments[at:]:
            index = each.transaction_index
            assert index is not None
            if (first := index.first_aborted(offset)) >= 0:
                stable = min(stable, first)
                break
        is_sealed = at + 1 < len(self.segments)
        return (
            segment.size
            if is_sealed and self.segments[at + 1].base_offset <= stable
            else segment.offset_index.lookup(stable)
        )

    def knows_aborted(self, offset: int) -> bool:
        """Return whether the transaction indexes of all segments from this offset on are in
        memory.
        """
        return offset >= self._aborted_known_from

    def find_aborted(self, offset: int) -> Iterator[None]:
        """Read the transaction indexes from this offset on, in pieces; all that call it at a time
        share the work. Raises OSError.

        Of a segment whose file is lost it is made from the batches: without it, readers would take
        what was aborted for committed.
        """
        while offset < self._aborted_known_from:
            work = self._finding = self._finding or self._find_aborted()
            try:
                next(work, None)
            except BaseException:
                self._finding = None
                raise
            if self._aborted_known_from == 0:
                self._finding = None
            yield

    def _find_aborted(self) -> Iterator[None]:
        """The newest segment first."""
        while (
            at := bisect_left(self.segments, self._aborted_known_from, key=_base_offset) - 1
        ) >= 0:
            segment = self.segments[at]
            if segment.transaction_index is None:
                yield from self._make_transaction_index(segment)
            else:
                self._aborted_known_from = segment.base_offset
                yield
        self._aborted_known_from = 0

    def _make_transaction_index(self, wanted: Segment) -> Iterator[None]:
        """From the batches since the newest snapshot before it; nothing is made when the log is cut
        meanwhile, or segments change.
        """
        first, base = self.segments[0].base_offset, wanted.base_offset
        truncations = self._truncations
        start, state = self._snapshots.load(first, base, 0) or (first, ProducerState())
        walked = self.segments[self._slot_of(start) : self.segments.index(wanted) + 1]
        found: dict[Segment, list[AbortedTransaction]] = {
            segment: [] for segment in walked if segment.base_offset >= start
        }
        while True:
            self.write_staged()
            end = self.end_offset if wanted is self.active else None
            for segment, aborted in replayed(walked, start, state, 0):
                if aborted is not None:
                    if segment in found:
                        found[segment].append(aborted)
                    continue
                yield
                at = self._slot_of(walked[0].base_offset)
                if (
                    self._truncations != truncations
                    or self.segments[at : at + len(walked)] != walked
                ):
                    return
            if end is None or end == self.end_offset:
                break
            start, walked = end, [wanted]  # it has grown
        for segment, entries in found.items():
            if segment.transaction_index is None:
                self._take_aborted(segment, entries)

    def _take_aborted(self, segment: Segment, entries: list[AbortedTransaction]) -> None:
        try:
            segment.take_aborted(entries, durable=True)
        except OSError:
            if segment is self.active:
                raise
            # nothing is appended to it any more: without the file it is found again
            segment.take_aborted(entries, durable=False)
