"""When a coordinator writes what it has decided: at the turn's end, or a little later together with more. Knows no coordinator.

A batch costs all replicas a write, a flush and a fetch, however few records it has. While a batch is on its way, new records join the next batch:
followers fetch one batch after the other anyway. And clients that were answered just now often ask again at once: as long as fewer clients ask than
were answered, the coordinator waits some turns longer for them. Where they do not come, because they commit every few seconds, it does not wait for
a while.
"""

LOOKS = 8  # turns, some 10 us each where nothing comes
PAUSE = 16  # batches without such looks, after a look in vain


class Pace:
    __slots__ = ("_answered", "_looks", "_on_their_way", "_pause")

    def __init__(self) -> None:
        self._on_their_way = 0  # batches that requests wait for
        self._answered = 0  # requests, since the last batch was written: their clients may ask again
        self._looks = 0
        self._pause = 0

    def sent(self) -> None:
        self._on_their_way += 1

    def arrived(self, replies: int) -> None:
        """A batch is committed, or will not be; so many requests were answered with it."""
        self._on_their_way -= 1
        self._answered += replies

    @property
    def waits(self) -> bool:
        """Whether new records wait for `arrived` of the batch before."""
        return self._on_their_way > 0

    def looks_for_more(self, waiting: int) -> bool:
        """Whether the batch waits another turn, with `waiting` requests that hope for a reply; False: it is written now."""
        if waiting < self._answered and not self._pause and self._looks < LOOKS:
            self._looks += 1
            return True
        if waiting < self._answered and self._looks:
            self._pause = PAUSE
        elif self._pause:
            self._pause -= 1
        self._answered = self._looks = 0
        return False
