"""When a coordinator writes what it has decided: at the turn's end, or a little later together with
more. Knows no coordinator.

A batch costs all replicas a write, a flush and a fetch, however few records it has. While a batch
is on its way, new records join the next batch: followers fetch one batch after the other anyway.
Then it looks for the clients that were answered just now.
"""

from raftka.broker.work.batching import Looks


class Pace(Looks):
    __slots__ = ("_on_their_way",)

    def __init__(self) -> None:
        super().__init__()
        self._on_their_way = 0  # batches that requests wait for

    def sent(self) -> None:
        self._on_their_way += 1

    def arrived(self, replies: int) -> None:
        """A batch is committed, or will not be; so many requests were answered with it."""
        self._on_their_way -= 1
        self.answered(replies)

    @property
    def waits(self) -> bool:
        """Whether new records wait until the batch before them is committed, or will not be."""
        return self._on_their_way > 0
