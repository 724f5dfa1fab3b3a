"""The part of a node's runtime that is the same on each system. Knows no Kafka."""

import os
import random
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from math import inf
from typing import TypeVar

import trio

from raftka.runtime.interfaces import SECRETS, TurnWatch
from raftka.runtime.memory import VARIABLE
from raftka.runtime.real.choice import chosen
from raftka.runtime.real.clock import RealClock
from raftka.runtime.real.files import RealFiles, lend
from raftka.runtime.real.network import RealNetwork
from raftka.runtime.real.processes import Apart
from raftka.runtime.real.turn import Turn

T = TypeVar("T")
SWITCH_S = 0.0005


class RealOffload:
    """A few threads for work that would hold up the loop, names to resolve and directories to sync;
    processes for what computes.
    """

    def __init__(self, post: Callable[[Callable[[], None]], None]) -> None:
        self._post = post
        self._apart: list[Apart] = []
        self._running = 0
        self._switch_interval_s = 0.0  # of the interpreter, when no thread of ours runs

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """While there is a thread the interpreter goes from it to the loop within half a
        millisecond, instead of five.
        """
        if not self._running:
            self._switch_interval_s = sys.getswitchinterval()
            sys.setswitchinterval(min(SWITCH_S, self._switch_interval_s))
        self._running += 1

        def ended(result: T | BaseException) -> None:
            self._running -= 1
            if not self._running:
                sys.setswitchinterval(self._switch_interval_s)
            done(result)

        threading.Thread(
            target=self._work, args=(work, ended), name="raftka-offload", daemon=True
        ).start()

    def run_in_process(
        self,
        work: Callable[..., Iterator[T]],
        arguments: Sequence[object],
        each: Callable[[T], None],
        done: Callable[[BaseException | None], None],
        bytes_per_s: float = inf,
    ) -> Callable[[], None]:
        self._apart = [one for one in self._apart if one.thread.is_alive()]
        one = Apart(
            (work.__module__, work.__name__, tuple(arguments), bytes_per_s), each, done, self._post
        )
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
    """The runtime of one node. Its heirs have a loop, and what wakes it."""

    network: RealNetwork

    def __init__(self, nursery: trio.Nursery) -> None:
        self.kind = chosen()
        self._nursery = nursery
        self._streams: dict[str, random.Random] = {}
        self._posted: deque[Callable[[], None]] = deque()
        self.stopped = False
        self.paused = False  # it stands still, until
        self._going = trio.Event()
        self.failure: BaseException | None = None
        self._turn = Turn()
        self.clock = RealClock(self._turn)
        self.offload = RealOffload(self._post)
        self.files = RealFiles(self._post, self._turn.at_last)
        self._poisons = os.environ.get(VARIABLE) == "1"

    @property
    def poison(self) -> Callable[[bytearray], None] | None:
        return self.network.poisoned.append if self._poisons else None

    def random(self, stream: str) -> random.Random:
        if stream not in self._streams:
            self._streams[stream] = (
                random.SystemRandom() if stream == SECRETS else random.Random(os.urandom(16))
            )
        return self._streams[stream]

    def spawn(self, task: Callable[[], Awaitable[object]], name: str) -> None:
        async def guarded() -> None:
            try:
                await task()
            except Exception as error:
                self.fail(error)

        self._nursery.start_soon(guarded, name=name)

    def lend(self, data: bytes) -> AbstractContextManager[str]:
        return lend(data)

    def watch_turns(self, watch: TurnWatch) -> None:
        self.network.current.watch = watch

    def fail(self, error: BaseException) -> None:
        if self.failure is None and not self.stopped:
            self.failure = error
            self.stop(reset=True)

    def pause(self) -> None:
        """Nothing is received, sent or timed until `resume`, as in a process that SIGSTOP has hit.
        (Its threads go on.)
        """
        if not self.paused:
            self.paused, self._going = True, trio.Event()

    def resume(self) -> None:
        self.paused = False
        self._going.set()

    async def resumed(self) -> None:
        if self.paused:
            await self._going.wait()

    def stop(self, *, reset: bool) -> None:
        """Everything ends: with `reset` as a killed process would, else connections are closed."""
        if not self.stopped:
            self.stopped = True
            self._nursery.cancel_scope.cancel()
            self._end_loop()
            self.network.stop(reset=reset)
            self.offload.stop()
            self.files.stop()
            self._release()

    def _run_posted(self) -> None:
        posted = self._posted
        while posted:
            posted.popleft()()

    def _post(self, action: Callable[[], None]) -> None:
        """Run `action` in a turn. From any thread; nothing when the node has stopped."""
        raise NotImplementedError

    def _end_loop(self) -> None:
        raise NotImplementedError

    def _release(self) -> None:
        """Let go of what threads may have used until they ended."""
