"""Timers of a state machine: thousands of sessions, most of which are put off again and again and never end. Knows no clock.

Putting one off is an assignment: the heap learns of it when the time comes that it knew. Only an earlier time is told it at once.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any

from raftka.coordinator.machine import Steps

FEW = 100


class Alarm:
    """`ring` is called once `due` has come. It may be a generator, whose steps are then to be taken."""

    __slots__ = ("_known", "due", "owner", "ring")

    def __init__(self, owner: Any, ring: Callable[[Any], Steps[None] | None]) -> None:
        self.owner = owner
        self.ring = ring
        self.due = inf
        self._known = inf  # when the heap looks at it next


class Alarms:
    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Alarm]] = []
        self._order = count()
        self._off = 0  # entries of the heap that wait for nothing, about

    def __len__(self) -> int:
        """Of the heap: what all alarms cost, also those that are off."""
        return len(self._heap)

    def set(self, alarm: Alarm, due: float) -> None:
        alarm.due = due
        if due < alarm._known:
            self._push(alarm)

    def off(self, alarm: Alarm) -> None:
        if alarm.due < inf:
            alarm.due = inf
            self._off += 1
            if self._off > FEW and self._off > len(self._heap) // 2:
                self._clear()

    def next(self) -> float:
        """Not later than the first one is due."""
        heap = self._heap
        while heap:
            when, _, alarm = heap[0]
            if when == alarm._known and alarm.due == when:
                return when
            self._look_again()
        return inf

    def due(self, now: float) -> Alarm | None:
        """One whose time has come; it is off now."""
        while self.next() <= now:
            alarm = heappop(self._heap)[2]
            alarm._known = alarm.due = inf
            return alarm
        return None

    def _look_again(self) -> None:
        """What the heap knew of its first one is not so any more."""
        when, _, alarm = heappop(self._heap)
        if when == alarm._known:
            alarm._known = inf
            if alarm.due < inf:
                self._push(alarm)

    def _clear(self) -> None:
        """Else members that come and go would be remembered for as long as their sessions might have been."""
        alarms = {id(alarm): alarm for _, _, alarm in self._heap}.values()
        self._heap, self._off = [], 0
        for alarm in alarms:
            alarm._known = inf
            if alarm.due < inf:
                self._push(alarm)

    def _push(self, alarm: Alarm) -> None:
        alarm._known = alarm.due
        heappush(self._heap, (alarm.due, next(self._order), alarm))
