"""Buffers for frames that have not come whole, shared by all connections of a node: used again, and counted. Knows no connection."""

from collections.abc import Callable

from raftka.limits import PARTIAL_BYTES, LimitExceeded

KEPT_BYTES = 32 * 1024 * 1024
WORTH_KEEPING_BYTES = 64 * 1024


class FramePool:
    """A fresh 1 MB buffer for each frame would cost 65 % more CPU than one that is used again (page faults)."""

    def __init__(self, at_turn_end: Callable[[Callable[[], None]], None]) -> None:
        self._at_turn_end = at_turn_end
        self._free: list[bytearray] = []
        self._free_bytes = 0
        self._returned: list[bytearray] = []
        self.taken_bytes = 0

    def take(self, size: int, total: int) -> bytearray:
        """A buffer of at least `size` bytes; a kept one that has room for `total` is preferred. Raises LimitExceeded."""
        if self.taken_bytes + size > PARTIAL_BYTES.value:
            raise LimitExceeded(PARTIAL_BYTES, self.taken_bytes + size)
        for index, buffer in enumerate(self._free):
            if total <= len(buffer) <= 4 * total:
                del self._free[index]
                self._free_bytes -= len(buffer)
                break
        else:
            buffer = bytearray(size)
        self.taken_bytes += len(buffer)
        return buffer

    def give_at_turn_end(self, buffer: bytearray) -> None:
        """Views of it live until then."""
        self.taken_bytes -= len(buffer)
        if len(buffer) >= WORTH_KEEPING_BYTES:
            if not self._returned:
                self._at_turn_end(self._keep)
            self._returned.append(buffer)

    def lends(self, frame: memoryview) -> bool:
        """Whether the frame lies in one of our buffers, and can be held; else it lies in memory that the next turn uses again."""
        return any(buffer is frame.obj for buffer in self._returned)

    def hold(self, frame: memoryview) -> None:
        """The frame is read in later turns too: nobody else gets its buffer."""
        self._returned = [buffer for buffer in self._returned if buffer is not frame.obj]

    def _keep(self) -> None:
        for buffer in self._returned:
            if self._free_bytes + len(buffer) <= KEPT_BYTES:
                self._free.append(buffer)
                self._free_bytes += len(buffer)
        self._returned.clear()
