"""When new requests are passed on: at once, or some turns later together with more. Knows no
partition and no coordinator.

To pass requests on costs a flush, and a write, a flush and a fetch of each follower, however few
they are. Clients that were answered just now often ask again at once: as long as fewer requests
have come than were answered, the node looks for the rest. Where these do not come, because clients
send every few seconds, it does not look for a while.
"""

from math import inf

LOOKS = 8  # turns, some 10 us each where nothing comes
LOOK_S = 0.002  # for all of them together: requests of others may make turns long
PAUSE = 16  # times without such looks, after a look in vain


class Looks:
    __slots__ = ("_answered", "_looks", "_pause", "_until")

    def __init__(self) -> None:
        self._answered = 0  # requests, since something was passed on: their clients may ask again
        self._looks = 0
        self._until = inf
        self._pause = 0

    def answered(self, requests: int) -> None:
        self._answered += requests

    def looks_for_more(self, waiting: int, now: float) -> bool:
        """Return whether `waiting` requests stay for another turn; False: they are passed on now
        (seconds on the runtime's clock).
        """
        if (
            waiting < self._answered
            and not self._pause
            and self._looks < LOOKS
            and now < self._until
        ):
            if not self._looks:
                self._until = now + LOOK_S
            self._looks += 1
            return True
        if waiting < self._answered and self._looks:
            self._pause = PAUSE
        elif self._pause:
            self._pause -= 1
        self._answered = self._looks = 0
        self._until = inf
        return False
