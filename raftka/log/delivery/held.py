"""Held batches of one log: which offsets consumers do not see, and which records are pending. Knows
no file: the log and a scan of it (scan.py) say what there is.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from raftka.limits import PENDING_RECORDS
from raftka.log.delivery.due import Due
from raftka.wire.errors import Code, KafkaError, check_limit

# a pending record is one number: time, offset, offset behind that of its batch, place in the batch
DELTA_SHIFT, OFFSET_SHIFT, TIME_SHIFT = 31, 62, 126
INT_MASK, OFFSET_MASK = (1 << 31) - 1, (1 << 64) - 1
NEVER = 1 << 62


class DueRecord(NamedTuple):
    """A pending record."""

    at_ms: int
    offset: int
    base: int  # the base offset of its held batch
    place: int  # in that batch, as Due has it


class Pending:
    """Held records that are not delivered yet, by their time; those of one time by their offset."""

    __slots__ = ("_heap", "_left", "on_sooner")

    def __init__(self, left: OrderedDict[int, int]) -> None:
        """`left`: the number of pending records of each held batch by its base offset, in the order
        of the log. Each of the records follows by `push`.
        """
        self._heap: list[int] = []
        self._left = left
        # called when a record is due before all others
        self.on_sooner: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_ms(self) -> int:
        """The time of the next record; NEVER: none is pending."""
        return self._heap[0] >> TIME_SHIFT if self._heap else NEVER

    def push(self, record: DueRecord) -> None:
        at_ms, offset, base, place = record
        delta = offset - base
        heappush(
            self._heap,
            at_ms << TIME_SHIFT | offset << OFFSET_SHIFT | delta << DELTA_SHIFT | place,
        )

    def add(self, base: int, due: Sequence[Due]) -> None:
        """Add the records of a batch that was appended just now."""
        before = self.next_ms
        for delta, at_ms, place in due:
            self.push(DueRecord(at_ms, base + delta, base, place))
        self._left[base] = len(due)
        if self.next_ms < before and self.on_sooner is not None:
            self.on_sooner()

    def take(self, now_ms: int, at_most: int) -> list[DueRecord]:
        """Remove records that are due; return them in the order of their delivery."""
        heap, limit = self._heap, now_ms + 1 << TIME_SHIFT
        taken: list[DueRecord] = []
        while heap and heap[0] < limit and len(taken) < at_most:
            entry = heappop(heap)
            offset = entry >> OFFSET_SHIFT & OFFSET_MASK
            base = offset - (entry >> DELTA_SHIFT & INT_MASK)
            taken.append(DueRecord(entry >> TIME_SHIFT, offset, base, entry & INT_MASK))
        return taken

    @property
    def offsets(self) -> list[int]:
        """Return the offsets of all pending records, in no order."""
        return [entry >> OFFSET_SHIFT & OFFSET_MASK for entry in self._heap]

    def delivered(self, base: int) -> None:
        """Note that one more record of this held batch is delivered."""
        left = self._left[base] - 1
        if left:
            self._left[base] = left
        else:
            del self._left[base]

    def first(self, end_offset: int) -> int:
        """Return the base offset of the first held batch with a pending record, or the log's end
        where none is pending.
        """
        return next(iter(self._left), end_offset)


class HeldBatches:
    """Ranges of offsets that consumers do not see; held batches that follow each other are one."""

    __slots__ = ("_ends", "_starts", "known_from", "pending")

    def __init__(self, known_from: int) -> None:
        # all ranges from here on are known; 0: all of the log's
        self.known_from = known_from
        self._starts, self._ends = array("q"), array("q")
        self.pending: Pending | None = None  # of a leader that has read its log

    def note(self, start: int, end: int) -> None:
        """Note a held batch at the log's end."""
        if self._ends and self._ends[-1] == start:
            self._ends[-1] = end
        else:
            self._starts.append(start)
            self._ends.append(end)

    def add(self, base: int, end: int, due: Sequence[Due]) -> None:
        """Add a client's batch that is appended now. Raises POLICY_VIOLATION where it has no
        room.
        """
        if self.pending is not None:  # else the scan under way comes to it
            check_limit(PENDING_RECORDS, len(self.pending) + len(due))
            self.pending.add(base, due)
        self.note(base, end)

    def prepend(self, older: "HeldBatches") -> None:
        """Take the ranges of the segment before `known_from`."""
        starts, ends = older._starts, older._ends
        if ends and self._starts and ends[-1] == self._starts[0]:
            ends[-1] = self._ends[0]
            del self._starts[0], self._ends[0]
        self._starts, self._ends = starts + self._starts, ends + self._ends
        self.known_from = older.known_from

    def cut(self, end: int) -> None:
        """Forget what lies at `end` and beyond: the log was truncated."""
        count = bisect_left(self._starts, end)
        del self._starts[count:], self._ends[count:]
        if self._ends and self._ends[-1] > end:
            self._ends[-1] = end
        self.known_from = min(self.known_from, end)
        self.pending = None

    def forget_before(self, start: int) -> None:
        """Forget the ranges before the log's start."""
        count = bisect_right(self._ends, start)
        del self._starts[:count], self._ends[:count]

    @property
    def begins_seen(self) -> bool:
        """Return whether a consumer sees the first batch from `known_from` on."""
        return self.known_from == 0 or not self._starts or self._starts[0] > self.known_from

    def visible_run(self, offset: int, up_to: int) -> tuple[int, int]:
        """Return the first offset at or behind `offset` that consumers see, and the end, at most
        `up_to`, of what they see from there without a gap. Raises OFFSET_NOT_AVAILABLE.
        """
        if offset < self.known_from:
            raise KafkaError(Code.OFFSET_NOT_AVAILABLE)
        at = bisect_right(self._ends, offset)
        if at < len(self._starts) and self._starts[at] <= offset:
            offset = self._ends[at]
            at += 1
        return offset, min(up_to, self._starts[at]) if at < len(self._starts) else up_to

    def visible_end(self, offset: int) -> int:
        """Return the end of what consumers see before `offset`: held batches that end there are
        left out. Raises OFFSET_NOT_AVAILABLE.
        """
        at = bisect_left(self._starts, offset) - 1
        end = self._starts[at] if at >= 0 and self._ends[at] >= offset else offset
        if end <= self.known_from > 0:
            raise KafkaError(Code.OFFSET_NOT_AVAILABLE)
        return end
