"""Restarts of a host's brokers that ended by themselves: their number and their pauses. Knows no
process and no clock.

As a unit of systemd with Restart=on-failure and a start limit: after a pause that doubles, at most
so many times within ten minutes. One more end is the host's, so that the supervisor of the host
sees it.
"""

from collections import defaultdict, deque

from raftka.limits import HOST_RESTARTS

WINDOW_S = 600.0  # in which HOST_RESTARTS counts
FIRST_S, LONGEST_S = 0.5, 30.0  # pauses


class Restarts:
    def __init__(self) -> None:
        # by broker: the moments of the ends within the window, in seconds
        self._begun: dict[int, deque[float]] = defaultdict(deque)

    def pause_after(self, broker: int, now: float) -> float | None:
        """Seconds from this end to the next start; None: it has ended too often."""
        ends = self._begun[broker]
        while ends and ends[0] <= now - WINDOW_S:
            ends.popleft()
        if len(ends) >= HOST_RESTARTS.value:
            return None
        ends.append(now)
        return min(LONGEST_S, FIRST_S * 2.0 ** (len(ends) - 1))
