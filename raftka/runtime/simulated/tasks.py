"""Trio tasks of simulated nodes: Trio runs as the guest of the world's heap, on the world's time,
in an order that the seed decides.

Trio's loop is stepped only when a task can run or a deadline has come, so a world without tasks
pays nothing for it. Two private names of Trio make its order repeatable; if they vanish, the first
spawn fails loudly. Knows no network and no disk.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from math import inf
from random import Random
from types import coroutine
from typing import Any

import trio
from trio.lowlevel import start_guest_run

from raftka.checksum import crc32c
from raftka.runtime.simulated.guard import guard_lifted
from raftka.runtime.simulated.process import Events, Process

TRIO_KNOWN = "0.35"  # the newest whose scheduler has the two names
STEP_S = 10e-6  # what one round of Trio's loop takes
ENDING_STEPS = 10_000


class NodeStopped(BaseException):
    """The node is dead: whatever runs on in its name ends here."""


class NotRepeatable(RuntimeError):
    """Trio has changed: its scheduling can not be made to follow the seed."""


def scheduler() -> Any:
    """Trio's module with the two names, after a look whether they are still there and mean what
    they did.
    """
    module = trio._core._run
    if not isinstance(
        getattr(module, "_ALLOW_DETERMINISTIC_SCHEDULING", None), bool
    ) or not isinstance(getattr(module, "_r", None), Random):
        raise NotRepeatable(
            f"the simulation cannot seed the order of tasks of Trio {trio.__version__}; Trio "
            f"{TRIO_KNOWN} works"
        )
    return module


class SimClock(trio.abc.Clock):
    """Trio never sleeps: the world steps it when its next deadline has come."""

    def __init__(self, world: Events) -> None:
        self._world = world
        self.next_deadline: float | None = None  # None: it was not asked, so tasks can run

    def start_clock(self) -> None: ...

    def current_time(self) -> float:
        return self._world.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        self.next_deadline = deadline
        return 0.0


class Tasks(trio.abc.Instrument):
    """Trio as guest. Begins with the first spawn, ends with the world."""

    def __init__(self, world: Events) -> None:
        self._world = world
        self._clock = SimClock(world)
        self._tick: Callable[[], object] | None = None
        self._nursery: trio.Nursery | None = None
        self._outcome: object = None
        self._due = inf  # when a step stands in the world's heap
        self._before: tuple[bool, object] | None = None
        self._stepping = False
        self._checksums: dict[str, int] = {}  # of the tasks' names

    def spawn(self, node: Process, task: Callable[[], Awaitable[object]], name: str) -> None:
        if self._nursery is None:
            self._begin()
        assert self._nursery is not None
        self._nursery.start_soon(self._run, node, task, name=name)

    def close(self) -> None:
        """All tasks are cancelled; what they do about it is done before this returns."""
        if self._nursery is None or self._outcome is not None:
            return
        self._nursery.cancel_scope.cancel()
        for _ in range(ENDING_STEPS):
            self._step_once()
            if self._outcome is not None:
                break
        else:
            raise RuntimeError("a task of the simulation does not end when it is cancelled")
        self._restore()

    # -- the guest
    # ----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        module = scheduler()
        self._before = module._ALLOW_DETERMINISTIC_SCHEDULING, module._r.getstate()
        module._ALLOW_DETERMINISTIC_SCHEDULING = True
        module._r.seed(f"{self._world.seed}/trio")
        with guard_lifted():  # Trio makes itself a pair of sockets to be woken by
            start_guest_run(
                self._main,
                run_sync_soon_threadsafe=self._set_tick,
                done_callback=self._done,
                host_uses_signal_set_wakeup_fd=True,
                clock=self._clock,
                instruments=[self],
            )
            while self._nursery is None:
                self._step_once()

    async def _main(self) -> None:
        async with trio.open_nursery() as self._nursery:
            await trio.sleep_forever()

    def _set_tick(self, tick: Callable[[], object]) -> None:
        self._tick = tick

    def _done(self, outcome: object) -> None:
        self._outcome = outcome

    def _restore(self) -> None:
        module = scheduler()
        assert self._before is not None
        module._ALLOW_DETERMINISTIC_SCHEDULING = self._before[0]
        module._r.setstate(self._before[1])

    def _step_once(self) -> None:
        tick, self._tick = self._tick, None
        assert tick is not None, "Trio's loop has ended"
        self._clock.next_deadline = None
        self._stepping = True
        try:
            tick()
        finally:
            self._stepping = False

    def _step(self, due: float, _: object) -> None:
        """One round of Trio's loop, as an event of the world."""
        if due != self._due or self._outcome is not None:
            return
        self._due = inf
        self._step_once()
        if self._outcome is not None:
            self._restore()
            self._outcome.unwrap()
        deadline = self._clock.next_deadline
        self._step_at(self._world.now + STEP_S if deadline is None else deadline)

    def _step_at(self, when: float) -> None:
        if when < self._due:
            self._due = when = max(when, self._world.now)
            if when < inf:
                self._world.push(when, self._step, when)

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        if not self._stepping:  # a callback of the world has woken it
            self._step_at(self._world.now)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        name = task.name
        checksum = self._checksums.get(name)
        if checksum is None:
            checksum = self._checksums[name] = crc32c(name.rpartition(".")[2].encode())
        self._world.note(b"t", 0, checksum, 0)

    # -- one task
    # ----------------------------------------------------------------------------------------------

    async def _run(self, node: Process, task: Callable[[], Awaitable[object]]) -> None:
        if not node.alive:
            return
        scope = trio.CancelScope()
        node.scopes[scope] = None
        try:
            with scope:
                await _frozen_while_paused(node, _as_coroutine(task))
        except Exception as error:
            if node.alive:  # a bug: the world ends with it
                self._world.task_failed(node, error)
        except NodeStopped as stopped:
            if node.alive:  # else nobody would hear that the task is gone
                self._world.task_failed(
                    node, RuntimeError(f"the task uses what is of {stopped}, which is dead")
                )
        except BaseExceptionGroup as group:
            if (rest := group.split(NodeStopped)[1]) is not None:
                raise rest from None
        finally:
            node.scopes.pop(scope, None)


async def _as_coroutine(task: Callable[[], Awaitable[object]]) -> object:
    return await task()


@coroutine
def _frozen_while_paused(
    node: Process, inner: Coroutine[Any, Any, Any]
) -> Generator[Any, Any, Any]:
    """Run `inner`; whatever it was waiting for reaches it only while its node runs. Tasks that it
    starts itself are not held.
    """
    value = None
    while True:
        while node.paused and node.alive:
            yield from _resumed(node).__await__()
        try:
            message = inner.send(value)
        except StopIteration as end:
            return end.value
        value = yield message


async def _resumed(node: Process) -> None:
    # it may have been woken by a cancellation: that is for the task to hear
    with trio.CancelScope(shield=True):
        await node.resumed.wait()
