"""Rows that come from another thread, at most so many at a time: the thread waits while the reader
is behind.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from raftka.json_values import Json

MOST_WAITING = 10_000  # rows that wait for their reader
CHECK_S = 0.25  # so often a waiting reader looks whether more rows can come

Row = Sequence[Json]


class LiveRows(Iterator[Row]):
    def __init__(
        self, limit: int | None, check: Callable[[], bool], end: Callable[[], None]
    ) -> None:
        """`limit`: rows that are handed out. `check`: whether more rows can come; may raise the
        error of their source. `end`: called once, when no more rows are wanted.
        """
        self._left, self._check, self._end = limit, check, end
        self._changed = threading.Condition()
        self._rows: deque[Row] = deque()
        self._is_closed = False

    def put(self, row: Row) -> bool:
        """Wait until there is room. Return False when no more rows are wanted."""
        with self._changed:
            while len(self._rows) >= MOST_WAITING and not self._is_closed:
                self._changed.wait()
            self._rows.append(row)
            self._changed.notify_all()
            return not self._is_closed

    def __next__(self) -> Row:
        """Raise the error of the source."""
        try:
            row = self._next()
        except Exception:
            self.close()
            raise
        if row is None:
            self.close()
            raise StopIteration
        return row

    def _next(self) -> Row | None:
        """Wait for a row; None: no more are wanted, or there."""
        with self._changed:
            while not self._is_closed and self._left != 0:
                if self._rows:
                    self._left = None if self._left is None else self._left - 1
                    self._changed.notify_all()
                    return self._rows.popleft()
                if not self._changed.wait(CHECK_S) and not self._rows and not self._check():
                    return None
            return None

    def close(self) -> None:
        """May be called by any thread, and more than once."""
        with self._changed:
            is_first, self._is_closed = not self._is_closed, True
            self._rows.clear()
            self._changed.notify_all()
        if is_first:
            self._end()
