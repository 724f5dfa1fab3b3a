"""Timers of a state machine: thousands of sessions, most of which are put off again and again and
never end. Knows no clock.

Putting one off is an assignment: the heap learns of it when the time comes that it knew. Only an
earlier time is told it at once.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any

from raftka.coordinator.machine import Steps

FEW = 100


class Timer:
    """`ring` is called once `due` has come. It may be a generator, whose steps are then to be
    taken.
    """

    __slots__ = ("_known", "due", "owner", "ring")

    def __init__(self, owner: Any, ring: Callable[[Any], Steps[None] | None]) -> None:
        self.owner = owner
        self.ring = ring
        self.due = inf
        self._known = inf  # when the heap looks at it next


class Timers:
    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = count()
        self._off = 0  # entries of the heap that wait for nothing, about

    def __len__(self) -> int:
        """Of the heap: what all timers cost, also those that are off."""
        return len(self._heap)

    def set(self, timer: Timer, due: float) -> None:
        timer.due = due
        if due < timer._known:
            self._push(timer)

    def off(self, timer: Timer) -> None:
        if timer.due < inf:
            timer.due = inf
            self._off += 1
            if self._off > FEW and self._off > len(self._heap) // 2:
                self._clear()

    def next(self) -> float:
        """Not later than the first one is due."""
        heap = self._heap
        while heap:
            when, _, timer = heap[0]
            if when == timer._known and timer.due == when:
                return when
            self._reschedule()
        return inf

    def due(self, now: float) -> Timer | None:
        """One whose time has come; it is off now."""
        while self.next() <= now:
            timer = heappop(self._heap)[2]
            timer._known = timer.due = inf
            return timer
        return None

    def _reschedule(self) -> None:
        """Put the first timer where it belongs now: its time has changed."""
        when, _, timer = heappop(self._heap)
        if when == timer._known:
            timer._known = inf
            if timer.due < inf:
                self._push(timer)

    def _clear(self) -> None:
        """Else members that come and go would be remembered for as long as their sessions might
        have been.
        """
        timers = {id(timer): timer for _, _, timer in self._heap}.values()
        self._heap, self._off = [], 0
        for timer in timers:
            timer._known = inf
            if timer.due < inf:
                self._push(timer)

    def _push(self, timer: Timer) -> None:
        timer._known = timer.due
        heappush(self._heap, (timer.due, next(self._order), timer))
