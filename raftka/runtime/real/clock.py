"""Time, and timers in a heap: whichever loop drives the node runs those that are due."""

import heapq
import time
from collections.abc import Callable
from math import inf

from raftka.runtime.real.turn import Turn

SWEPT = 1000  # timers, before it is worth a look


class RealTimer:
    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class RealClock:
    """Setting a timer costs no call of the loop unless it is the earliest.

    Cancelled ones are swept out when they may be the most: who asks with a time-out of weeks is
    answered at once, again and again.
    """

    def __init__(self, turn: Turn) -> None:
        self.now = time.monotonic
        self.cpu_s = time.thread_time
        self.next_at = inf  # when the first timer is due
        # a timer was set that is the first now
        self.earlier: Callable[[float], None] = lambda when: None
        self._heap: list[tuple[float, int, RealTimer]] = []
        self._count = 0
        self._sweep_at = SWEPT
        self._turn = turn

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_at(self, when: float, action: Callable[[], None]) -> RealTimer:
        timer = RealTimer(action)
        self._count += 1
        if len(self._heap) >= self._sweep_at:
            self._sweep()
        heapq.heappush(self._heap, (when, self._count, timer))
        if when < self.next_at:
            self.next_at = when
            self.earlier(when)
        return timer

    def at_turn_end(self, action: Callable[[], None]) -> None:
        self._turn.actions.append(action)
        if not self._turn.active:
            self._turn.kick()

    def run_due(self) -> None:
        heap, now = self._heap, time.monotonic()
        self.next_at = -inf  # what is set meanwhile is not told as earlier
        while heap and heap[0][0] <= now:
            timer = heapq.heappop(heap)[2]
            if timer.action is not None:
                timer.action()
                self._turn.done(timer.action)
        while heap and heap[0][2].action is None:
            heapq.heappop(heap)
        self.next_at = heap[0][0] if heap else inf

    def _sweep(self) -> None:
        self._heap[:] = [entry for entry in self._heap if entry[2].action is not None]
        heapq.heapify(self._heap)
        self._sweep_at = SWEPT + 2 * len(self._heap)
