"""Long work on the loop, in slices: a request over many items, or anything else that is written as
a generator which yields between items.

Each turn of the loop has SLICE_S seconds of CPU time for all long work of the node together. Work
that begins gets the rest of its turn's slice; if it is not done then, it waits in line. From then
on each turn's slice goes to the work at the front, which goes to the back if that was not enough.
So a request of 100,000 items delays the requests of other connections by one slice, not by its own
length.
"""

from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from math import inf
from typing import Any, Generic, TypeVar

import trio

from raftka.runtime.interfaces import Clock

T = TypeVar("T")
Steps = Generator[None, None, T]  # yields between items, returns the result

SLICE_S = 0.005  # CPU time
# of work that begins, before the clock is read: nearly all requests are done with these
FIRST_STEPS = 16
STEPS = 8  # between two readings of the clock, which cost some 0.3 us each


def counted_as(items: int) -> Steps[None]:
    """Count the step before as so many steps: the clock is read between every few of them, and a
    command for 200 items is a long step.
    """
    for _ in range(items):
        yield


def drained(steps: Steps[T]) -> T:
    """Take all steps now and return the result: for work of few items."""
    try:
        while True:
            next(steps)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


class Unfinished(Exception):
    """The slice is over before the work is done."""


class LongWork:
    def __init__(self, clock: Clock, failed: Callable[[str, Exception], None]) -> None:
        """`failed` is called with the name of work whose `done` raised, when that work has no
        `failed` of its own: the node goes on.
        """
        self._clock = clock
        self.failed = failed
        self.handled: str | None = None  # the work that had the last slice
        self._queue: deque[_Work[Any]] = deque()
        self._turn_ends = inf  # on the CPU clock; inf: this turn has had no long work yet
        self._scheduled = False
        # number of slices so far: work that sees another number than before has been interrupted
        self.slices = 0

    def begin(self, steps: Steps[T]) -> T:
        """Run new work in the rest of this turn's slice. Raises Unfinished (then call `resume`),
        and the errors of the work.
        """
        try:
            for _ in range(FIRST_STEPS):
                next(steps)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        return self._some_steps(steps, self._until())

    def resume(
        self,
        name: str,
        steps: Steps[T],
        done: Callable[[T | Exception], None],
        wanted: Callable[[], bool] = lambda: True,
        failed: Callable[[Exception], None] | None = None,
        spent: Callable[[float], None] | None = None,
    ) -> None:
        """Run the rest of `steps` in later turns, then call `done` with its result, or with the
        exception that ended it.

        `wanted` is called before each slice: if it returns False, the generator is closed and
        `done` is not called. `failed` is called with an error of `done`: a bug of the broker, which
        ends this work alone. `spent` is called with the CPU time of each slice.
        """
        self._queue.append(
            _Work(name, steps, done, wanted, failed or partial(self.failed, name), spent)
        )
        self._schedule()

    def run(
        self,
        name: str,
        steps: Steps[T],
        done: Callable[[T | Exception], None],
        wanted: Callable[[], bool] = lambda: True,
        failed: Callable[[Exception], None] | None = None,
        spent: Callable[[float], None] | None = None,
    ) -> None:
        """Begin now, and go on in later turns if the slice is not enough. Raises the errors of
        `done` in this turn.
        """
        try:
            result = self.begin(steps) if spent is None else self._counted(self.begin, steps, spent)
        except Unfinished:
            self.resume(name, steps, done, wanted, failed, spent)
        except Exception as error:
            done(error)
        else:
            done(result)

    def _counted(
        self, work: Callable[[Steps[T]], T], steps: Steps[T], spent: Callable[[float], None]
    ) -> T:
        began = self._clock.cpu_s()
        try:
            return work(steps)
        finally:
            spent(self._clock.cpu_s() - began)

    async def finish(
        self, name: str, steps: Steps[T], spent: Callable[[float], None] | None = None
    ) -> T:
        """Run `steps` to its end, for async handlers; return its result, or raise its error."""
        ended = trio.Event()
        outcome: list[T | Exception] = []

        def done(result: T | Exception) -> None:
            outcome.append(result)
            ended.set()

        self.run(name, steps, done, spent=spent)
        await ended.wait()
        (result,) = outcome
        if isinstance(result, Exception):
            raise result
        return result

    @property
    def waiting(self) -> int:
        """The number of pieces of work that wait for their next slice."""
        return len(self._queue)

    def _until(self) -> float:
        if self._turn_ends == inf:
            self._turn_ends = self._clock.cpu_s() + SLICE_S
            self._clock.at_turn_end(self._end_turn)
        return self._turn_ends

    def _end_turn(self) -> None:
        self._turn_ends = inf

    def _schedule(self) -> None:
        if not self._scheduled and self._queue:
            self._scheduled = True
            self._clock.call_at(self._clock.now(), self._slice)

    def _slice(self) -> None:
        self._scheduled = False
        self.slices += 1
        until = self._until()
        while self._queue and self._clock.cpu_s() < until:
            work = self._queue.popleft()
            self.handled = work.name
            try:
                if not work.wanted():
                    work.steps.close()
                    continue
                some = partial(self._some_steps, until=until)
                result = (
                    some(work.steps)
                    if work.spent is None
                    else self._counted(some, work.steps, work.spent)
                )
            except Unfinished:
                self._queue.append(work)
            except Exception as error:
                work.end(error)
            else:
                work.end(result)
        self._schedule()

    def _some_steps(self, steps: Steps[T], until: float) -> T:
        try:
            while self._clock.cpu_s() < until:
                for _ in range(STEPS):
                    next(steps)
            raise Unfinished
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]


class _Work(Generic[T]):
    __slots__ = ("done", "failed", "name", "spent", "steps", "wanted")

    def __init__(
        self,
        name: str,
        steps: Steps[T],
        done: Callable[[T | Exception], None],
        wanted: Callable[[], bool],
        failed: Callable[[Exception], None],
        spent: Callable[[float], None] | None,
    ) -> None:
        self.name = name
        self.steps = steps
        self.done = done
        self.wanted = wanted
        self.failed = failed
        self.spent = spent

    def end(self, result: T | Exception) -> None:
        try:
            self.done(result)
        except Exception as error:
            self.failed(error)
