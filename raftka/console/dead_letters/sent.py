"""Memory of the letters that were sent again, so that a second redrive passes them over.

It belongs to the process of the console, which stays for a day after the last redrive. A topic is
known by its id: a new topic of the same name has letters of its own.
"""

import threading
from bisect import bisect_right
from collections.abc import Iterable

from raftka.console.limits import REMEMBERED_RANGES

Topic = str  # its id, or its name where brokers tell no ids


class Offsets:
    """A set of offsets as ranges: redrives send neighbours."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []  # behind the last one of each range

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._begins, offset) - 1
        return at >= 0 and offset < self._ends[at]

    def __len__(self) -> int:
        """Return the number of ranges."""
        return len(self._begins)

    def add(self, offset: int) -> None:
        if offset in self:
            return
        at = bisect_right(self._begins, offset)
        joins_left = at > 0 and self._ends[at - 1] == offset
        joins_right = at < len(self._begins) and self._begins[at] == offset + 1
        if joins_left and joins_right:
            self._ends[at - 1] = self._ends.pop(at)
            del self._begins[at]
        elif joins_left:
            self._ends[at - 1] = offset + 1
        elif joins_right:
            self._begins[at] = offset
        else:
            self._begins.insert(at, offset)
            self._ends.insert(at, offset + 1)

    def discard(self, offset: int) -> None:
        if offset not in self:
            return
        at = bisect_right(self._begins, offset) - 1
        begin, end = self._begins[at], self._ends[at]
        kept = [(low, high) for low, high in ((begin, offset), (offset + 1, end)) if low < high]
        self._begins[at : at + 1] = [low for low, _ in kept]
        self._ends[at : at + 1] = [high for _, high in kept]


class Sent:
    """Letters that were sent, and letters that may have been: their answer was lost. For many
    threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent: dict[tuple[Topic, int], Offsets] = {}
        self._in_doubt: dict[tuple[Topic, int], Offsets] = {}

    @property
    def is_empty(self) -> bool:
        with self._lock:
            return not self._sent and not self._in_doubt

    @property
    def is_full(self) -> bool:
        """Return whether nothing more can be remembered. Nothing is ever forgotten: a redrive ends
        before it would send what it cannot note.
        """
        with self._lock:
            notes = (*self._sent.values(), *self._in_doubt.values())
            return sum(map(len, notes)) >= REMEMBERED_RANGES.value

    def was_sent(self, topic: Topic, partition: int, offset: int) -> bool:
        with self._lock:
            return offset in self._sent.get((topic, partition), ())

    def is_in_doubt(self, topic: Topic, partition: int, offset: int) -> bool:
        with self._lock:
            return offset in self._in_doubt.get((topic, partition), ())

    def note_sent(self, topic: Topic, letters: Iterable[tuple[int, int]]) -> None:
        """`letters`: partitions and offsets."""
        with self._lock:
            for partition, offset in letters:
                self._sent.setdefault((topic, partition), Offsets()).add(offset)
                if (doubtful := self._in_doubt.get((topic, partition))) is not None:
                    doubtful.discard(offset)

    def note_in_doubt(self, topic: Topic, letters: Iterable[tuple[int, int]]) -> None:
        with self._lock:
            for partition, offset in letters:
                if offset not in self._sent.get((topic, partition), ()):
                    self._in_doubt.setdefault((topic, partition), Offsets()).add(offset)
