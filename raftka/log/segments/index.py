"""The sparse indexes of one segment: offset to position, timestamp to offset. In arrays, in Kafka's
file format; they know no batches.

Offset index: 8 bytes an entry, relative offset and position, both int32. The offset is that of the
*last* record of the batch that begins at the position, so the batch of the largest entry <= a
wanted offset ends at or before what is wanted. Time index: 12 bytes, the largest timestamp so far
(int64) and the relative last offset of the batch that has it.

Entries live in memory and are written behind the records; what a crash takes of them is rebuilt
from the log.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import lt
from struct import Struct

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")


class OffsetIndex:
    __slots__ = ("base_offset", "offsets", "positions", "written")

    def __init__(self, base_offset: int, data: bytes = b"") -> None:
        self.base_offset = base_offset
        self.offsets = array("I")  # relative to the base offset, last offset of the batch
        self.positions = array("I")
        offsets, positions = _columns(OFFSET_ENTRY, data)
        # a segment has a quarter of a million entries
        if _rising(offsets) and _rising(positions) and (not positions or positions[0] > 0):
            self.offsets.extend(offsets)
            self.positions.extend(positions)
        else:
            self._take_sane(data)
        self.written = len(self.offsets)  # entries the file has

    def _take_sane(self, data: bytes) -> None:
        for offset, position in _sane(OFFSET_ENTRY, data):
            if position <= (self.positions[-1] if self.positions else 0) or (
                self.offsets and offset <= self.offsets[-1]
            ):
                return  # not ours: zeros (a running Kafka reserves them), or a disk that lied
            self.offsets.append(offset)
            self.positions.append(position)

    def append(self, last_offset: int, position: int) -> None:
        self.offsets.append(last_offset - self.base_offset)
        self.positions.append(position)

    def lookup(self, offset: int) -> int:
        """The position to begin a search for `offset` at: no batch before it has the offset or a
        later one.
        """
        slot = bisect_right(self.offsets, offset - self.base_offset) - 1
        return self.positions[slot] if slot >= 0 else 0

    def boundary(self, position: int) -> int:
        """The largest indexed position <= `position`: a batch begins there. 0 when there is
        none.
        """
        slot = bisect_right(self.positions, position) - 1
        return self.positions[slot] if slot >= 0 else 0

    def bound(self, position: int, end: int) -> int:
        """The offset of the first entry at or behind the position: no batch before the position
        reaches it. `end` when there is no such entry.
        """
        slot = bisect_left(self.positions, position)
        return self.base_offset + self.offsets[slot] if slot < len(self.positions) else end

    def truncate(self, offset: int) -> None:
        """Forget entries of batches that reach `offset` or beyond."""
        keep = bisect_left(self.offsets, max(0, offset - self.base_offset))
        del self.offsets[keep:], self.positions[keep:]
        self.written = min(self.written, keep)

    def unwritten(self) -> bytes:
        return self.encoded(self.written)

    def encoded(self, start: int = 0) -> bytes:
        """The entries from number `start` on, as the file has them."""
        return b"".join(map(OFFSET_ENTRY.pack, self.offsets[start:], self.positions[start:]))

    def __len__(self) -> int:
        return len(self.offsets)


class TimeIndex:
    __slots__ = ("base_offset", "offsets", "timestamps", "written")

    def __init__(self, base_offset: int, data: bytes = b"") -> None:
        self.base_offset = base_offset
        self.timestamps = array("q")
        self.offsets = array("I")
        timestamps, offsets = _columns(TIME_ENTRY, data)
        if _rising(timestamps) and _rising(offsets) and timestamps and timestamps[0] > 0:
            self.timestamps.extend(timestamps)
            self.offsets.extend(offsets)
        else:
            self._take_sane(data)
        self.written = len(self.offsets)

    def _take_sane(self, data: bytes) -> None:
        for timestamp, offset in _sane(TIME_ENTRY, data):
            if timestamp == offset == 0 or (
                self.offsets and (timestamp <= self.timestamps[-1] or offset < self.offsets[-1])
            ):
                return
            self.timestamps.append(timestamp)
            self.offsets.append(offset)

    def append(self, timestamp: int, last_offset: int) -> None:
        """Takes only what moves time forward, as Kafka's maybeAppend."""
        if timestamp > (self.timestamps[-1] if self.timestamps else -1):
            self.timestamps.append(timestamp)
            self.offsets.append(last_offset - self.base_offset)

    def lookup(self, timestamp: int) -> int:
        """The offset to begin a search for `timestamp` at: everything before it is older."""
        slot = bisect_left(self.timestamps, timestamp) - 1
        return self.base_offset + self.offsets[slot] if slot >= 0 else self.base_offset

    def last(self) -> tuple[int, int]:
        """(largest timestamp, its offset), (-1, base offset) when empty."""
        return (
            (self.timestamps[-1], self.base_offset + self.offsets[-1])
            if self.timestamps
            else (-1, self.base_offset)
        )

    def largest_up_to(self, offset: int) -> int:
        """Return a bound of all timestamps of batches up to that last offset, in an index that is
        complete.
        """
        slot = bisect_left(self.offsets, offset - self.base_offset)
        return self.timestamps[slot] if slot < len(self.offsets) else self.last()[0]

    def truncate(self, offset: int) -> None:
        keep = bisect_left(self.offsets, max(0, offset - self.base_offset))
        del self.offsets[keep:], self.timestamps[keep:]
        self.written = min(self.written, keep)

    def unwritten(self) -> bytes:
        return self.encoded(self.written)

    def encoded(self, start: int = 0) -> bytes:
        """The entries from number `start` on, as the file has them."""
        return b"".join(map(TIME_ENTRY.pack, self.timestamps[start:], self.offsets[start:]))

    def __len__(self) -> int:
        return len(self.offsets)


def _columns(entry: Struct, data: bytes) -> tuple[Sequence[int], Sequence[int]]:
    whole = len(data) - len(data) % entry.size
    first, second = zip(*entry.iter_unpack(data[:whole]), strict=True) if whole else ((), ())
    return first, second


def _rising(numbers: Sequence[int]) -> bool:
    return not numbers or (numbers[0] >= 0 and all(map(lt, numbers, numbers[1:])))


def _sane(entry: Struct, data: bytes) -> Iterator[tuple[int, ...]]:
    """Whole entries without negative numbers: a cut or overwritten file gives fewer, never wrong
    ones.
    """
    whole = len(data) - len(data) % entry.size
    for fields in entry.iter_unpack(data[:whole]):
        if min(fields) < 0:
            return
        yield fields
