"""Work that a turn has no time for, in threads beside the loop: one piece at a time, in the order
in which it came. Knows no request.

One, because a thread shares the interpreter with the loop: a second one would delay the loop as
much again, and neither would be done sooner. Work without room is refused, and never done on the
loop.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from raftka.broker.telemetry.metrics import Metrics
from raftka.limits import BESIDE_BYTES, LimitExceeded
from raftka.runtime.interfaces import Offload
from raftka.wire.errors import Code, KafkaError

Done = Callable[[Any], None]  # called with the result of the work, or its exception
Work = tuple[int, Callable[[], object], Done, Callable[[], bool]]


class BackgroundWorker:
    def __init__(self, offload: Offload, metrics: Metrics) -> None:
        self._offload = offload
        self._metrics = metrics
        self._waiting: deque[Work] = deque()
        self._bytes = 0  # of the work that waits or is under way

    def check_room(self, size: int) -> None:
        """Raise REQUEST_TIMED_OUT, after which clients try again, when too much work waits."""
        if self._bytes and self._bytes + size > BESIDE_BYTES.value:
            self._metrics.hit(BESIDE_BYTES)
            raise KafkaError(
                Code.REQUEST_TIMED_OUT, str(LimitExceeded(BESIDE_BYTES, self._bytes + size))
            )

    def run(
        self,
        size: int,
        work: Callable[[], object],
        done: Done,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Do the work, and call `done` with the result or the exception in a later turn. `size`:
        bytes of memory that `work` may take.

        `wanted` is called before the work begins: if it returns False, the work is not done, and
        `done` is called with a KafkaError.
        """
        self._bytes += size
        self._waiting.append((size, work, done, wanted))
        if len(self._waiting) == 1:
            self._next()

    def _next(self) -> None:
        dropped = []
        while self._waiting and not self._waiting[0][3]():
            dropped.append(self._waiting.popleft())
        if self._waiting:
            self._begin(*self._waiting[0][:3])
        for size, _, done, _ in dropped:
            self._bytes -= size
            done(KafkaError(Code.REQUEST_TIMED_OUT, "the client has gone"))

    def _begin(self, size: int, work: Callable[[], object], done: Done) -> None:
        def came(result: object) -> None:
            self._waiting.popleft()
            self._bytes -= size
            if self._waiting:
                self._next()
            done(result)

        self._offload.run(work, came)
