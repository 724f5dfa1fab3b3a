"""Delays of new requests, so that they share a flush: none, or some turns. Knows no partition and
no coordinator.

Each flush comes with a write, a flush and a fetch of every follower, however few requests share it.
Clients that were answered just now often send again at once: as long as fewer requests have come
than were answered, new ones wait for the rest. Where these do not come, because clients send every
few seconds, new ones do not wait for a while.
"""

from math import inf

WAITS = 8  # turns, some 10 us each where nothing comes
WAIT_S = 0.002  # for all of them together: requests of others may make turns long
PAUSE = 16  # flushes without such a wait, after a wait in vain


class Batching:
    __slots__ = ("_answered", "_pause", "_until", "_waits")

    def __init__(self) -> None:
        self._answered = 0  # requests, since the last flush: their clients may send again
        self._waits = 0
        self._until = inf
        self._pause = 0

    def note_answered(self, requests: int) -> None:
        self._answered += requests

    def waits_for_more(self, waiting: int, now: float) -> bool:
        """Return whether `waiting` requests stay for another turn; False: they are flushed now
        (seconds on the runtime's clock).
        """
        if (
            waiting < self._answered
            and not self._pause
            and self._waits < WAITS
            and now < self._until
        ):
            if not self._waits:
                self._until = now + WAIT_S
            self._waits += 1
            return True
        if waiting < self._answered and self._waits:
            self._pause = PAUSE
        elif self._pause:
            self._pause -= 1
        self._answered = self._waits = 0
        self._until = inf
        return False


class CoordinatorBatching(Batching):
    """The batching of what a coordinator decides. While its last batch is on its way, new records
    join the next one: followers fetch one batch after the other anyway.
    """

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
