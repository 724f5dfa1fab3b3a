"""When a coordinator writes what it has decided: at the turn's end, or a little later together with more. Knows no coordinator.

A batch costs all replicas a write, a flush and a fetch, whatever is in it. While one is on its way, what is decided joins the next one: followers
fetch one after the other anyway. And who was answered just now often asks again at once: as long as fewer ask than were answered, the coordinator
looks for them some turns longer. Where they do not come, as from clients that commit every few seconds, it does without that for a while.
"""

LOOKS = 8  # turns, some 10 us each where nothing comes
PAUSE = 16  # batches without such looks, after looks that were in vain


class Pace:
    __slots__ = ("_answered", "_looks", "_on_their_way", "_pause")

    def __init__(self) -> None:
        self._on_their_way = 0  # batches that somebody waits for
        self._answered = 0  # who may ask again
        self._looks = 0
        self._pause = 0

    def sent(self) -> None:
        self._on_their_way += 1

    def arrived(self, replies: int) -> None:
        """A batch is committed, or will not be; so many heard of it."""
        self._on_their_way -= 1
        self._answered += replies

    @property
    def waits(self) -> bool:
        """Whether what is decided now goes with the next batch, when `arrived` tells of the one before."""
        return self._on_their_way > 0

    def looks_for_more(self, waiting: int) -> bool:
        """Whether it is worth another turn, where so many wait for replies; False: it is written now."""
        if waiting < self._answered and not self._pause and self._looks < LOOKS:
            self._looks += 1
            return True
        if waiting < self._answered and self._looks:
            self._pause = PAUSE
        elif self._pause:
            self._pause -= 1
        self._answered = self._looks = 0
        return False
