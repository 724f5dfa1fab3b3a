"""Partitions whose logs are still to be opened: some in each turn, so that thousands at once do not
keep the node from its heartbeats.

New ones are made off the loop first: while a disk is flushed, a kernel may take a millisecond for
each name. Those that lie on the disk are opened off the loop: a crash may have left gigabytes to be
read again. Until a partition's turn has come this broker answers for it as one that does not lead
it, and clients ask again. Knows no log and no role.
"""

from collections.abc import Callable

from raftka.runtime.interfaces import Clock

# some 10 ms; prepared in two parts at a time, as a new file can cost the kernel more than all else
# here
OPENED_IN_A_TURN = 25

Key = tuple[bytes, int]  # topic id, partition
Prepare = Callable[[list[Key], Callable[[], None]], None]


class LogOpener:
    def __init__(
        self, clock: Clock, prepare: Prepare, open_prepared: Callable[[list[Key]], None]
    ) -> None:
        self._clock = clock
        self._prepare = prepare
        self._open_prepared = open_prepared
        self._waiting: dict[Key, None] = {}
        self._left = OPENED_IN_A_TURN
        self._busy = False
        self._preparing = 0  # parts that threads prepare
        self._prepared_now = False  # `open_prepared` is under way

    def may_open(self, key: Key, *, new: bool) -> bool:
        """Return whether the log may be opened now; else its turn comes later. A log that is not
        `new` is prepared first.
        """
        if not self._busy:
            self._later()
        if self._left > 0 and (new or self._prepared_now):
            self._left -= 1
            return True
        self._waiting[key] = None
        return False

    def __bool__(self) -> bool:
        """Return whether logs are still to be opened."""
        return bool(self._waiting)

    def gone(self, topic_id: bytes, partition: int | None = None) -> bool:
        """Forget a partition, or all of the topic; return whether some were waiting: their logs on
        disk are strays now.
        """
        doomed = (
            [key for key in self._waiting if key[0] == topic_id and partition in (None, key[1])]
            if self._waiting
            else []
        )
        for key in doomed:
            del self._waiting[key]
        return bool(doomed)

    def _later(self) -> None:
        self._busy = True
        self._clock.call_at(self._clock.now(), self._open_next)

    def _open_next(self) -> None:
        keys = list(self._waiting)[:OPENED_IN_A_TURN]
        if keys:
            parts = [part for part in (keys[::2], keys[1::2]) if part]
            self._preparing = len(parts)
            for part in parts:
                self._prepare(part, lambda: self._part_prepared(keys))
        else:
            self._left, self._busy = OPENED_IN_A_TURN, False

    def _part_prepared(self, keys: list[Key]) -> None:
        self._preparing -= 1
        if not self._preparing:
            self._prepared(keys)

    def _prepared(self, keys: list[Key]) -> None:
        due = [key for key in keys if key in self._waiting]
        for key in due:
            del self._waiting[key]
        self._left = len(due)
        self._prepared_now = True
        try:
            self._open_prepared(due)
        finally:
            self._prepared_now = False
        self._left = 0  # partitions that come meanwhile wait behind the others
        self._later()
