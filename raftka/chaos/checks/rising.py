"""The highest value of each name that was known when an operation began: from all operations that
had ended before. For values that never go back.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from raftka.chaos.history import OK, History, Operation

T = TypeVar("T")


class Rising(Generic[T]):
    """learn() in the order in which operations end; known() is asked for a position up to which all
    was learned.
    """

    def __init__(self, higher: Callable[[T, T], T]) -> None:
        self._higher = higher
        # positions, values, who told
        self._tops: dict[Hashable, tuple[list[int], list[T], list[Operation]]] = {}

    def learn(
        self, name: Hashable, value: T, operation: Operation, position: int | None = None
    ) -> None:
        """`position`: since when it is known, if not the end of the operation."""
        tops = self._tops.get(name)
        if tops is None:
            tops = self._tops[name] = ([], [], [])
        positions, values, operations = tops
        if values and (
            (last := values[-1]) == value or (value := self._higher(last, value)) == last
        ):
            return
        positions.append(operation.ended if position is None else position)
        values.append(value)
        operations.append(operation)

    def top(self, name: Hashable) -> T | None:
        """The highest value learned so far."""
        tops = self._tops.get(name)
        return None if tops is None else tops[1][-1]

    def known(self, name: Hashable, position: int) -> tuple[T, Operation] | None:
        """With the operation that told it, or the last part of it."""
        tops = self._tops.get(name)
        if tops is None or (place := bisect_left(tops[0], position) - 1) < 0:
            return None
        return tops[1][place], tops[2][place]

    def first(self, name: Hashable, enough: Callable[[T], bool]) -> Operation:
        """The operation that brought the first value that is `enough`."""
        _, values, operations = self._tops[name]
        return operations[bisect_left(values, True, key=enough)]


def as_they_ended(history: History) -> list[Operation]:
    """Those that are ok."""
    return [
        each
        for position, each in enumerate(history.events)
        if each.ended == position and each.outcome == OK
    ]
