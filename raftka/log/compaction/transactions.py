"""Transactions under compaction: which batches were aborted, and which markers nobody needs any
more. Knows no keys and no files.

One pass over the batches in order, with the aborted transactions of the log's transaction indexes;
`kept` is the index of the new segment.
"""

from collections.abc import Sequence

from raftka.log.producers.markers import ABORT, COMMIT
from raftka.log.segments.scan import Header
from raftka.log.segments.transaction_index import AbortedTransaction
from raftka.wire.records import TRANSACTIONAL


class Transactions:
    __slots__ = ("_aborting", "_aborts", "_committing", "_seen", "kept")

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._aborts = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        # by producer, the transactions that the pass is in
        self._aborting: dict[int, AbortedTransaction] = {}
        self._seen: set[int] = set()  # producers of them that had a batch
        self._committing: set[int] = set()
        self.kept: list[AbortedTransaction] = []

    def is_aborted(self, header: Header) -> bool:
        """A batch of data comes; asked once for each."""
        self._enter(header)
        producer_id = header[9]
        if not header[5] & TRANSACTIONAL:
            return False
        if producer_id in self._aborting:
            self._seen.add(producer_id)
            return True
        self._committing.add(producer_id)
        return False

    def is_empty(self, header: Header, kind: int | None) -> bool:
        """A marker comes (None: one that was emptied): nothing of its transaction was there any
        more in this pass, so it may go in its time.
        """
        self._enter(header)
        producer_id = header[9]
        if kind == ABORT:
            aborted = self._aborting.pop(producer_id, None)
            if aborted is not None and producer_id in self._seen:
                self._seen.discard(producer_id)
                self.kept.append(aborted)
                return False
            return True
        if kind == COMMIT:
            had_data = producer_id in self._committing
            self._committing.discard(producer_id)
            return not had_data
        return kind is None

    def _enter(self, header: Header) -> None:
        last_offset = header[0] + header[6]
        while self._aborts and self._aborts[-1].first_offset <= last_offset:
            aborted = self._aborts.pop()
            if aborted.last_offset >= header[0]:  # else its marker lies before the pass
                self._aborting[aborted.producer_id] = aborted
