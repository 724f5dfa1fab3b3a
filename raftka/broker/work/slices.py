"""Work over thousands of items, some in each turn, in the order in which they were added. So no
change of all partitions blocks the loop.

An item that is added while others wait goes behind them; an item that waits already is not added
again. As long as few are added, none waits.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from raftka.runtime.interfaces import Clock

T = TypeVar("T")


class Slices(Generic[T]):
    __slots__ = ("_at_work", "_clock", "_left", "_of_turn", "_scheduled", "_waiting", "_work")

    def __init__(self, clock: Clock, of_turn: int, work: Callable[[list[T]], None]) -> None:
        self._clock = clock
        self._of_turn = self._left = of_turn
        self._work = work
        self._waiting: OrderedDict[T, None] = OrderedDict()
        self._scheduled = False
        self._at_work = False

    def add(self, items: Iterable[T]) -> None:
        """Add items; work on as many now as this turn has room for."""
        for item in items:
            self._waiting[item] = None
        self._work_off()

    def clear(self) -> None:
        self._waiting.clear()

    def __len__(self) -> int:
        return len(self._waiting)

    def _work_off(self) -> None:
        if self._at_work or not self._waiting:
            return
        if not self._scheduled:
            self._scheduled = True
            self._clock.call_at(self._clock.now(), self._next_turn)
        some = [
            self._waiting.popitem(last=False)[0] for _ in range(min(self._left, len(self._waiting)))
        ]
        self._left -= len(some)
        if some:
            self._at_work = True
            try:
                self._work(some)
            finally:
                self._at_work = False

    def _next_turn(self) -> None:
        self._scheduled = False
        self._left = self._of_turn
        self._work_off()
