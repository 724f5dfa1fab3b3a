"""Partitions whose logs are still to be opened: some in each turn, so that thousands at once do not keep the node from its heartbeats.

Until then this broker answers for them as one that does not lead them, and clients ask again. Knows no log and no role.
"""

from collections.abc import Callable

from raftka.runtime.door import Clock

OPENED_IN_A_TURN = 50  # some 20 ms

Key = tuple[bytes, int]  # topic id, partition


class Openings:
    def __init__(self, clock: Clock, look_again: Callable[[list[Key]], None]) -> None:
        self._clock = clock
        self._look_again = look_again
        self._waiting: dict[Key, None] = {}
        self._left = OPENED_IN_A_TURN
        self._busy = False

    def may_open(self, key: Key) -> bool:
        """Now; else it is remembered, and its turn comes."""
        if self._left <= 0:
            self._waiting[key] = None
        self._left -= 1
        if not self._busy:
            self._busy = True
            self._clock.call_at(self._clock.now(), self._go_on)
        return self._left >= 0

    def gone(self, topic_id: bytes, partition: int | None = None) -> bool:
        """It, or all of the topic, need not be opened any more. True when some were waiting: what lies on disk of them is nobody's now."""
        doomed = [key for key in self._waiting if key[0] == topic_id and partition in (None, key[1])] if self._waiting else []
        for key in doomed:
            del self._waiting[key]
        return bool(doomed)

    def _go_on(self) -> None:
        self._busy = False
        self._left = OPENED_IN_A_TURN
        keys = list(self._waiting)[:OPENED_IN_A_TURN]
        for key in keys:
            del self._waiting[key]
        if keys:
            self._look_again(keys)
            if self._waiting and not self._busy:
                self._busy = True
                self._clock.call_at(self._clock.now(), self._go_on)
