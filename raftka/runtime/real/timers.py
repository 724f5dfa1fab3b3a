"""Timers of a node that a task of Trio waits for."""

from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Protocol

import trio

from raftka.runtime.real.clock import RealClock


class Standing(Protocol):
    """The standing of the node: it goes on, is paused, or has stopped."""

    stopped: bool
    paused: bool

    async def resumed(self) -> None:
        """Return when the node does not stand still."""

    def fail(self, error: BaseException) -> None: ...


class Timers:
    def __init__(
        self,
        clock: RealClock,
        standing: Standing,
        turn_of: Callable[[Callable[[], None]], None],
    ) -> None:
        """`turn_of`: make a turn of an action."""
        self._clock, self._standing, self._turn_of = clock, standing, turn_of
        self._scope: trio.CancelScope | None = None
        clock.earlier = self._earlier

    async def run(self) -> None:
        """Run what is due, until it is cancelled."""
        clock = self._clock
        while True:
            with trio.CancelScope(deadline=_trio_time(clock.next_at)) as self._scope:
                await trio.sleep_forever()
            if not self._scope.cancelled_caught:
                return
            await self._standing.resumed()
            try:
                self._turn_of(clock.run_due)
            except Exception as error:  # handlers answer for their own errors; this is a core part
                self._standing.fail(error)

    def _earlier(self, when: float) -> None:
        if self._scope is not None:
            self._scope.deadline = _trio_time(when)


def _trio_time(when: float) -> float:
    return inf if when == inf else trio.current_time() + when - monotonic()
