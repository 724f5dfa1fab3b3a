"""Buffers for frames that have not come whole, shared by all connections of a node: used again, and
counted. Knows no connection.
"""

from collections.abc import Callable

from raftka.limits import PARTIAL_BYTES, LimitExceeded

KEPT_BYTES = 32 * 1024 * 1024
WORTH_KEEPING_BYTES = 64 * 1024
LOOK = 256  # buffers that come back between two searches for spare ones


class FramePool:
    """A fresh 1 MB buffer for each frame would cost 65 % more CPU than one that is used again (page
    faults).
    """

    def __init__(
        self,
        at_turn_end: Callable[[Callable[[], None]], None],
        poison: Callable[[bytearray], None] | None = None,
    ) -> None:
        """`poison`: in a debug run, overwrites a buffer that came back when its turn is over."""
        self._at_turn_end = at_turn_end
        self._poison = poison
        self._free: list[bytearray] = []
        self._free_bytes = 0
        self._least_free = 0  # buffers since the last search: so many were never taken
        self._came_back = 0  # buffers since the last search
        self._returned: list[bytearray] = []
        self.taken_bytes = 0

    def take(self, size: int, total: int) -> bytearray:
        """Return a buffer of at least `size` bytes, a kept one if there is one; one that has room
        for `total` is preferred. Raises LimitExceeded.
        """
        if self.taken_bytes + size > PARTIAL_BYTES.value:
            raise LimitExceeded(PARTIAL_BYTES, self.taken_bytes + size)
        buffer = self._kept(total) or self._kept(size) or bytearray(size)
        self.taken_bytes += len(buffer)
        return buffer

    def _kept(self, size: int) -> bytearray | None:
        """Return the buffer that was given last of those that fit."""
        for index in range(len(self._free) - 1, -1, -1):
            if size <= len(self._free[index]) <= 4 * size:
                buffer = self._free.pop(index)
                self._free_bytes -= len(buffer)
                self._least_free = min(self._least_free, len(self._free))
                return buffer
        return None

    def give_at_turn_end(self, buffer: bytearray) -> None:
        """Take the buffer back at the turn's end: views of it are read until then."""
        self.taken_bytes -= len(buffer)
        if len(buffer) >= WORTH_KEEPING_BYTES:
            if not self._returned:
                self._at_turn_end(self._keep)
            self._returned.append(buffer)
        elif self._poison is not None:
            self._poison(buffer)  # no frame gets it again, but a view of it may not be kept either

    def discard(self, buffer: bytearray) -> None:
        self.taken_bytes -= len(buffer)

    def lends(self, frame: memoryview) -> bool:
        """Return whether the frame lies in a buffer of the pool, and can be held; else the next
        turn uses its memory again.
        """
        return any(buffer is frame.obj for buffer in self._returned)

    def hold(self, frame: memoryview) -> None:
        """Give the frame's buffer to no other frame: it is read in later turns, too."""
        self._returned = [buffer for buffer in self._returned if buffer is not frame.obj]

    def _keep(self) -> None:
        for buffer in self._returned:
            if self._poison is not None:
                self._poison(buffer)
            if self._free_bytes + len(buffer) <= KEPT_BYTES:
                self._free.append(buffer)
                self._free_bytes += len(buffer)
        self._came_back += len(self._returned)
        self._returned.clear()
        if self._came_back >= LOOK:
            self._drop_unneeded()

    def _drop_unneeded(self) -> None:
        """Drop the buffers at the front, which have been free for longest."""
        self._free_bytes -= sum([len(buffer) for buffer in self._free[: self._least_free]])
        del self._free[: self._least_free]
        self._least_free, self._came_back = len(self._free), 0
