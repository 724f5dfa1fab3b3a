"""Delays of a coordinator's records, so that they share a batch. Knows no coordinator.

A batch costs all replicas a write, a flush and a fetch, however few records it has. While a batch
is on its way, new records join the next batch: followers fetch one batch after the other anyway.
Then new records wait for clients that were answered just now.
"""

from raftka.broker.work.batching import Batching


class CoordinatorBatching(Batching):
    __slots__ = ("_on_their_way",)

    def __init__(self) -> None:
        super().__init__()
        self._on_their_way = 0  # batches that requests wait for

    def note_sent(self) -> None:
        self._on_their_way += 1

    def note_committed(self, replies: int) -> None:
        """Note that a batch is committed, or will not be; so many requests were answered."""
        self._on_their_way -= 1
        self.note_answered(replies)

    @property
    def is_under_way(self) -> bool:
        """Return whether a batch is not committed yet: new records wait for its end."""
        return self._on_their_way > 0
