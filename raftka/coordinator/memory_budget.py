"""The memory that the members of all groups of a coordinator may take together: one group's share
has bounds of its own, but there are many groups.

What is asked for is added up. When that comes to too much it is counted anew, for most of it has
gone by then. Knows no rule of groups.
"""

from collections.abc import Callable
from math import inf

from raftka.limits import MEMBER_BYTES_OF_COORDINATOR
from raftka.wire.errors import Code, LimitRefused

MEMBER_BYTES = 1_000  # what one takes beside what it says
PENDING_BYTES = 700  # an id that was given out
STRING_BYTES = 50  # a string or a pair, beside its characters
# how long it is believed that it is full: a hundred thousand members are counted in some
# milliseconds
FULL_S = 1.0


class MemoryBudget:
    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._at_most = 0  # bytes that are taken
        self._full_until = -inf

    def check(self, size: int, now: float) -> None:
        """Check that there is room for so many bytes more. Raises LimitRefused."""
        most = MEMBER_BYTES_OF_COORDINATOR.value
        if size <= 0 or self._at_most + size <= most:
            return
        if now >= self._full_until:
            self._at_most = self._count()
            if self._at_most + size <= most:
                return
            self._full_until = now + FULL_S
        raise LimitRefused(
            MEMBER_BYTES_OF_COORDINATOR, self._at_most + size, code=Code.GROUP_MAX_SIZE_REACHED
        )

    def take(self, size: int) -> None:
        """Add the bytes that were allowed and are now in use."""
        self._at_most += max(size, 0)
