"""What was known to all when something began: the highest of each name among what had ended before. For whatever may never go back."""

from bisect import bisect_left
from collections.abc import Hashable, Iterator

from raftka.chaos.history import NEVER, History, Operation


class Rising:
    """learn() in the order in which operations end; known() is asked for a position up to which all was learned."""

    def __init__(self) -> None:
        self._tops: dict[Hashable, tuple[list[int], list[int], list[Operation]]] = {}  # positions, values, who told; all rising

    def learn(self, name: Hashable, value: int, operation: Operation, position: int | None = None) -> None:
        """`position`: since when it is known, if not the end of the operation."""
        tops = self._tops.get(name)
        if tops is None:
            tops = self._tops[name] = ([], [], [])
        positions, values, operations = tops
        if not values or value > values[-1]:
            positions.append(operation.ended if position is None else position)
            values.append(value)
            operations.append(operation)

    def known(self, name: Hashable, position: int) -> tuple[int, Operation] | None:
        tops = self._tops.get(name)
        if tops is None or (place := bisect_left(tops[0], position) - 1) < 0:
            return None
        return tops[1][place], tops[2][place]


def as_they_ended(history: History) -> Iterator[Operation]:
    """Those of which it is known when."""
    return (operation for position, operation in enumerate(history.events) if operation.ended == position != NEVER)
