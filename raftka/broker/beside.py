"""Work that a turn has no time for, in threads beside the loop: one at a time, in the order in which it came. Knows no request.

One, because it shares the interpreter with the loop: a second one would hold that up as much again and be no sooner done. What finds no room is
refused, and never done on the loop.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from raftka.broker.metrics import Metrics
from raftka.limits import BESIDE_BYTES, LimitExceeded
from raftka.runtime.door import Offload
from raftka.wire.errors import Code, KafkaError

Work = tuple[int, Callable[[], Any], Callable[[Any], None]]


class Beside:
    def __init__(self, offload: Offload, metrics: Metrics) -> None:
        self._offload = offload
        self._metrics = metrics
        self._waiting: deque[Work] = deque()
        self._bytes = 0  # of what waits and what is under way

    def check_room(self, size: int) -> None:
        """Raises REQUEST_TIMED_OUT, which clients try again, when more waits than may."""
        if self._bytes and self._bytes + size > BESIDE_BYTES.value:
            self._metrics.hit(BESIDE_BYTES)
            raise KafkaError(Code.REQUEST_TIMED_OUT, str(LimitExceeded(BESIDE_BYTES, self._bytes + size)))

    def run(self, size: int, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """`done` with the result, or the exception, in a later turn. `size`: bytes of memory that `work` may take."""
        self._bytes += size
        self._waiting.append((size, work, done))
        if len(self._waiting) == 1:
            self._next()

    def _next(self) -> None:
        size, work, done = self._waiting[0]

        def came(result: Any) -> None:
            self._waiting.popleft()
            self._bytes -= size
            if self._waiting:
                self._next()
            done(result)

        self._offload.run(work, came)
