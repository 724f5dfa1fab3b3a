"""Operations that wait until a position is reached: an offset of a partition, an index of the
metadata log, a zxid of the bridge.

As Kafka's purgatories of delayed operations. Each partition or log that operations wait for has a
purgatory of its own, and calls `reached` with its new position.
"""

from bisect import bisect_right
from collections import deque
from math import inf
from typing import Protocol

from raftka.wire.errors import Code


class Operation(Protocol):
    def complete(self, code: Code) -> None:
        """Called once. NONE: the position is reached; else why it is not."""


class Purgatory:
    """The operations that wait for the lowest positions come first; of those with the same, the
    earlier one.
    """

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        # (position, deadline, operation); to be read alone
        self.waiting: deque[tuple[int, float, Operation]] = deque()

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, position: int, operation: Operation, deadline: float = inf) -> None:
        """Let an operation wait. `deadline`: a time of the clock, checked by `expire`."""
        waiting = self.waiting
        if not waiting or waiting[-1][0] <= position:
            waiting.append((position, deadline, operation))
        else:
            waiting.insert(
                bisect_right(waiting, position, key=_position), (position, deadline, operation)
            )

    def reached(self, position: int, code: Code = Code.NONE) -> None:
        """Complete the operations that wait for this position or a lower one."""
        waiting = self.waiting
        while waiting and waiting[0][0] <= position:
            waiting.popleft()[2].complete(code)

    def fail(self, code: Code) -> None:
        """Complete all of them with an error."""
        waiting, self.waiting = self.waiting, deque()
        for _, _, operation in waiting:
            operation.complete(code)

    def expire(self, now: float) -> None:
        """Complete those whose deadline has come with REQUEST_TIMED_OUT."""
        late = [operation for _, deadline, operation in self.waiting if deadline <= now]
        if late:
            self.waiting = deque(each for each in self.waiting if each[1] > now)
            for operation in late:
                operation.complete(Code.REQUEST_TIMED_OUT)

    def deadline(self) -> float:
        """Return the earliest deadline; infinite when no operation has any."""
        return min((deadline for _, deadline, _ in self.waiting), default=inf)


def _position(entry: tuple[int, float, Operation]) -> int:
    return entry[0]
