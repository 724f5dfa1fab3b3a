"""The real side of the door: one Trio task drives a persistent epoll with callbacks, another one the timers; the kernel flushes, threads unlink.

A Trio task per connection would cost 25 microseconds a request instead of 14; handlers can not tell the difference. Knows no Kafka.
"""

import heapq
import os
import random
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from math import inf
from typing import TypeVar

import trio

from raftka.runtime.interfaces import SECRETS, TurnWatch
from raftka.runtime.real.files import RealFiles, lend
from raftka.runtime.real.network import EPOLLIN, RealNetwork, Turn
from raftka.runtime.real.processes import Apart

T = TypeVar("T")
TURNS_IN_A_ROW = 32  # then Trio's other tasks get their turn
LINGER_S = 0.001  # epoll's finest; under load the next request comes sooner, and a round of Trio's own loop costs as much as a request


SWITCH_S = 0.0005
SWEPT = 1000  # timers, before it is worth a look


class NodeFailed(Exception):
    """A core part of the node could not go on; the cause is what it could not go on from."""


class RealTimer:
    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class RealClock:
    """Timers lie in a heap; one task sleeps until the first. Setting a timer costs no Trio call unless it is the earliest.

    Cancelled ones are swept out when they may be the most: who asks with a time-out of weeks is answered at once, again and again.
    """

    def __init__(self, turn: Turn) -> None:
        self.now = time.monotonic
        self.cpu_s = time.thread_time
        self._heap: list[tuple[float, int, RealTimer]] = []
        self._count = 0
        self._sweep_at = SWEPT
        self._turn = turn
        self._scope: trio.CancelScope | None = None
        self._next = inf

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_at(self, when: float, action: Callable[[], None]) -> RealTimer:
        timer = RealTimer(action)
        self._count += 1
        if len(self._heap) >= self._sweep_at:
            self._sweep()
        heapq.heappush(self._heap, (when, self._count, timer))
        if when < self._next:
            self._next = when
            if self._scope is not None:
                self._scope.deadline = self._trio_time(when)
        return timer

    def at_turn_end(self, action: Callable[[], None]) -> None:
        self._turn.actions.append(action)
        if not self._turn.active:
            self._turn.kick()

    async def run(self, end_turn: Callable[[], None], going: Callable[[], trio.Event]) -> None:
        while True:
            with trio.CancelScope(deadline=self._trio_time(self._next)) as self._scope:
                await trio.sleep_forever()
            if not self._scope.cancelled_caught:
                return
            if not going().is_set():
                await going().wait()
            began = self._turn.began = time.monotonic()
            self._run_due()
            end_turn()
            if self._turn.watch is not None:
                self._turn.watch.turn(self._turn.began - began)

    def _sweep(self) -> None:
        self._heap[:] = [entry for entry in self._heap if entry[2].action is not None]
        heapq.heapify(self._heap)
        self._sweep_at = SWEPT + 2 * len(self._heap)

    def _run_due(self) -> None:
        heap, now = self._heap, time.monotonic()
        self._next = -inf  # what is set meanwhile does not touch the scope, which has ended
        while heap and heap[0][0] <= now:
            timer = heapq.heappop(heap)[2]
            if timer.action is not None:
                timer.action()
                self._turn.done(timer.action)
        while heap and heap[0][2].action is None:
            heapq.heappop(heap)
        self._next = heap[0][0] if heap else inf

    @staticmethod
    def _trio_time(when: float) -> float:
        return inf if when == inf else trio.current_time() + when - time.monotonic()


class RealOffload:
    """A few threads for work that would hold up the loop, names to resolve and directories to sync; processes for what computes."""

    def __init__(self, post: Callable[[Callable[[], None]], None]) -> None:
        self._post = post
        self._apart: list[Apart] = []
        self._running = 0
        self._switch_interval_s = 0.0  # of the interpreter, when no thread of ours runs

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """While there is a thread the interpreter goes from it to the loop within half a millisecond, instead of five."""
        if not self._running:
            self._switch_interval_s = sys.getswitchinterval()
            sys.setswitchinterval(min(SWITCH_S, self._switch_interval_s))
        self._running += 1

        def ended(result: T | BaseException) -> None:
            self._running -= 1
            if not self._running:
                sys.setswitchinterval(self._switch_interval_s)
            done(result)

        threading.Thread(target=self._work, args=(work, ended), name="raftka-offload", daemon=True).start()

    def run_in_process(
        self,
        work: Callable[..., Iterator[T]],
        arguments: Sequence[object],
        each: Callable[[T], None],
        done: Callable[[BaseException | None], None],
        bytes_per_s: float = inf,
    ) -> Callable[[], None]:
        self._apart = [one for one in self._apart if one.thread.is_alive()]
        one = Apart((work.__module__, work.__name__, tuple(arguments), bytes_per_s), each, done, self._post)
        self._apart.append(one)
        return one.cancel

    def stop(self) -> None:
        """Processes are killed; threads end by themselves."""
        for one in self._apart:
            one.cancel()
        for one in self._apart:
            one.thread.join()

    def _work(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        result: T | BaseException
        try:
            result = work()
        except BaseException as error:
            result = error
        self._post(lambda: done(result))


class RealRuntime:
    def __init__(self, nursery: trio.Nursery, *, alone: bool) -> None:
        self._nursery = nursery
        self._alone = alone
        self._tasks = 0  # that were spawned and have not ended: while there are some, the loop is not held up in the hope for more
        self._streams: dict[str, random.Random] = {}
        self._posted: deque[Callable[[], None]] = deque()
        self._kicked = False
        self._stopped = False
        self._going = trio.Event()  # not set: it stands still
        self._going.set()
        self.failure: BaseException | None = None
        turn = Turn(self._kick)
        self._eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.clock = RealClock(turn)
        self.offload = RealOffload(self._post)
        self.files = RealFiles(self._post, turn.at_last)
        self.network = RealNetwork(turn, self.offload.run)
        self._told = {self._eventfd: self, self.files.flusher.eventfd: self.files.flusher}
        for fd, whom in self._told.items():
            self.network.epoll.register(fd, EPOLLIN)
            self.network.transports[fd] = whom  # type: ignore[assignment]  # it is `ready` like any other

    def random(self, stream: str) -> random.Random:
        if stream not in self._streams:
            self._streams[stream] = random.SystemRandom() if stream == SECRETS else random.Random(os.urandom(16))
        return self._streams[stream]

    def spawn(self, task: Callable[[], Awaitable[object]], name: str) -> None:
        async def guarded() -> None:
            try:
                await task()
            except Exception as error:
                self.fail(error)
            finally:
                self._tasks -= 1

        self._tasks += 1
        self._nursery.start_soon(guarded, name=name)

    def lend(self, data: bytes) -> AbstractContextManager[str]:
        return lend(data)

    def watch_turns(self, watch: TurnWatch) -> None:
        self.network.current.watch = watch

    def fail(self, error: BaseException) -> None:
        if self.failure is None and not self._stopped:
            self.failure = error
            self.stop(reset=True)

    @property
    def paused(self) -> bool:
        return not self._going.is_set()

    def pause(self) -> None:
        """Nothing is received, sent or timed until `resume`, as in a process that SIGSTOP has hit. (Its threads go on.)"""
        if not self.paused:
            self._going = trio.Event()

    def resume(self) -> None:
        self._going.set()

    def stop(self, *, reset: bool) -> None:
        """Everything ends: with `reset` as a killed process would, else connections are closed."""
        if not self._stopped:
            self._stopped = True
            self._nursery.cancel_scope.cancel()
            for fd in self._told:
                del self.network.transports[fd]
            trio.lowlevel.notify_closing(self.network.epoll.fileno())
            self.network.stop(reset=reset)
            self.offload.stop()
            self.files.stop()
            os.close(self._eventfd)

    def ready(self, events: int) -> None:
        """The eventfd: threads have results, or someone outside a turn wants one."""
        os.eventfd_read(self._eventfd)
        self._kicked = False
        posted = self._posted
        while posted:
            posted.popleft()()

    async def drive(self) -> None:
        network = self.network
        while not self._stopped:
            try:
                await trio.lowlevel.wait_readable(network.epoll.fileno())
            except trio.ClosedResourceError:
                return
            if not self._going.is_set():
                await self._going.wait()
            try:
                turns = 0
                while (
                    turns < TURNS_IN_A_ROW
                    and not self._stopped
                    and self._going.is_set()
                    and network.turn(LINGER_S if self._alone and not self._tasks else 0.0)
                ):
                    turns += 1
            except Exception as error:  # handlers answer for their own errors; this is a core part
                self.fail(error)

    async def tick(self) -> None:
        try:
            await self.clock.run(self.network.end_turn, lambda: self._going)
        except Exception as error:
            self.fail(error)

    def _post(self, action: Callable[[], None]) -> None:
        """From any thread."""
        self._posted.append(action)
        try:
            os.eventfd_write(self._eventfd, 1)
        except OSError:
            pass  # the node has stopped

    def _kick(self) -> None:
        if not self._kicked:
            self._kicked = True
            os.eventfd_write(self._eventfd, 1)


@asynccontextmanager
async def open_runtime(*, alone: bool = False) -> AsyncIterator[RealRuntime]:
    """A runtime for one node. Leaving the block stops it; raises NodeFailed when `fail` was called inside.

    `alone`: nothing else in this process minds waiting a millisecond, so that under load most requests need no round of Trio's loop.
    """
    async with trio.open_nursery() as nursery:
        runtime = RealRuntime(nursery, alone=alone)
        nursery.start_soon(runtime.drive)
        nursery.start_soon(runtime.tick)
        try:
            yield runtime
        finally:
            runtime.stop(reset=runtime.failure is not None)
    if runtime.failure is not None:
        raise NodeFailed(str(runtime.failure)) from runtime.failure
