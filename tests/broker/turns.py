"""CPU time that is counted in calls of the interpreter, Python's and C's: the same on each machine.

The nodes' CPU clocks tick with each call, so long work is cut into slices by calls. A call counts
for 0.5 us, which is more than it takes: a slice of 5 ms is 10,000 calls, so fewer entries show
whether work is cut.
"""

import cProfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from raftka.runtime.simulated import clock
from raftka.runtime.simulated.world import World
from raftka.wire.schema import Api, Req, Resp
from tests.broker.stage import Stage

CALL_S = 0.5e-6
# 15 ms, a slice with its writes and one command: 50 ms on a machine that is three times as slow
TURN_CALLS = 30_000
SETTLE_S = 0.5  # what follows from the answer


class Calls:
    """Counts calls of the interpreter, by events of the simulated world."""

    def __init__(self) -> None:
        # the profiler asks for the time as a call begins and as it ends
        self._tick = count().__next__
        self.most = 0
        self.total = 0

    def cpu_s(self, _: object = None) -> float:
        return self._tick() / 2 * CALL_S

    def event(self, action: Callable[[Any, Any], object], arguments: tuple[object, object]) -> None:
        began = self._tick()
        action(*arguments)
        calls = (self._tick() - began) // 2
        self.most = max(self.most, calls)
        self.total += calls

    @contextmanager
    def counted(self) -> Iterator[None]:
        self.most = self.total = 0
        profile = cProfile.Profile(self._tick)
        profile.enable()
        try:
            yield
        finally:
            profile.disable()


@contextmanager
def counting() -> Iterator[Calls]:
    """Let all nodes that are made meanwhile count."""
    calls = Calls()
    push = World.push

    def counted_push(
        self: World,
        when: float,
        action: Callable[[Any, Any], object],
        a: object = None,
        b: object = None,
    ) -> None:
        push(self, when, calls.event, action, (a, b))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(World, "push", counted_push)
        patch.setattr(clock.NodeClock, "cpu_s", calls.cpu_s)
        yield calls


def most_calls(
    calls: Calls, stage: Stage, api: Api[Req, Resp], row: Req, settle_s: float = SETTLE_S
) -> Resp | None:
    """The answer; None: the connection was closed. `calls.most` is what the longest event took."""
    wire = stage.wire()
    wire.request(api, row, api.announced.high)
    with calls.counted():
        frame = wire.frame()
        stage.world.run(stage.world.now + settle_s)
    wire.close()
    if frame is None:
        return None
    wire.frames.append(frame)
    return wire.answer(api, api.announced.high)
