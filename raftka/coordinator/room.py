"""How much memory the members of all groups of a coordinator may take together: one group's share has bounds of its own, but there are many groups.

What is asked for is added up. When that comes to too much it is counted anew, for most of it has gone by then. Knows no rule of groups.
"""

from collections.abc import Callable
from math import inf

from raftka.limits import MEMBER_BYTES_OF_COORDINATOR
from raftka.wire.errors import Code, LimitRefused

MEMBER_BYTES = 1_000  # what one takes beside what it says
PENDING_BYTES = 700  # an id that was given out
STRING_BYTES = 50  # a string or a pair, beside its characters
COUNT_EVERY_S = 1.0  # at most: a hundred thousand members are some milliseconds


class Room:
    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._at_most = 0  # bytes that are taken
        self._counted_at = -inf

    def take(self, size: int, now: float) -> None:
        """So much more. Raises LimitRefused."""
        most = MEMBER_BYTES_OF_COORDINATOR.value
        if self._at_most + size > most and now - self._counted_at >= COUNT_EVERY_S:
            self._at_most, self._counted_at = self._count(), now
        if size > 0 and self._at_most + size > most:
            raise LimitRefused(MEMBER_BYTES_OF_COORDINATOR, self._at_most + size, code=Code.GROUP_MAX_SIZE_REACHED)
        self._at_most += max(size, 0)
