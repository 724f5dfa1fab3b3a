"""Tasks of Trio that wait for sockets, in place of an epoll: one for each that is read, and one
more while output waits for its client.
"""

from collections.abc import Callable

import trio
from trio.lowlevel import wait_readable, wait_writable

from raftka.runtime.real.network import IN, OUT
from raftka.runtime.real.timers import Standing


class Parked:
    """The place where one task waits for another one to let it go on."""

    __slots__ = ("_task",)

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None

    async def wait(self) -> None:
        self._task = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def go_on(self) -> None:
        """Nothing when no task waits."""
        if self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task)


class Watched:
    """A descriptor: the events that are wanted of it, and its tasks."""

    __slots__ = ("events", "fd", "held", "is_read", "is_written", "over")

    def __init__(self, fd: int, events: int) -> None:
        self.fd, self.events = fd, events
        self.is_read = self.is_written = self.over = False
        self.held = Parked()  # its reading task, while reading is held


class TaskPoller:
    """As `Poller`. It tells nothing of a descriptor from which neither reading nor writing is
    wanted: that the peer is gone shows when it is read or written again.
    """

    def __init__(
        self, nursery: trio.Nursery, standing: Standing, on_ready: Callable[[int, int], None]
    ) -> None:
        """`on_ready`: gets a descriptor and an event."""
        self._nursery, self._standing, self._on_ready = nursery, standing, on_ready
        self._watched: dict[int, Watched] = {}

    def register(self, fd: int, eventmask: int) -> None:
        self._watched[fd] = watched = Watched(fd, eventmask)
        self._start(watched)

    def modify(self, fd: int, eventmask: int) -> None:
        watched = self._watched[fd]
        watched.events = eventmask
        if eventmask & IN:
            watched.held.go_on()
        self._start(watched)

    def unregister(self, fd: int) -> None:
        """To be called before it is closed."""
        watched = self._watched.pop(fd)
        watched.over = True
        watched.held.go_on()
        trio.lowlevel.notify_closing(fd)

    def close(self) -> None:
        for fd in tuple(self._watched):
            self.unregister(fd)

    def _start(self, watched: Watched) -> None:
        if watched.events & IN and not watched.is_read:
            watched.is_read = True
            self._nursery.start_soon(self._read, watched)
        if watched.events & OUT and not watched.is_written:
            watched.is_written = True
            self._nursery.start_soon(self._write, watched)

    async def _read(self, watched: Watched) -> None:
        fd, standing, on_ready = watched.fd, self._standing, self._on_ready
        try:
            while not watched.over:  # it may be closed before this task runs for the first time
                if not watched.events & IN:
                    await watched.held.wait()
                else:
                    await wait_readable(fd)
                if standing.paused:
                    await standing.resumed()
                if watched.over:
                    return
                if watched.events & IN:
                    on_ready(fd, IN)
        except trio.ClosedResourceError:
            pass

    async def _write(self, watched: Watched) -> None:
        try:
            while watched.events & OUT and not watched.over:
                await wait_writable(watched.fd)
                await self._standing.resumed()
                if watched.events & OUT and not watched.over:
                    self._on_ready(watched.fd, OUT)
        except trio.ClosedResourceError:
            pass
        finally:
            watched.is_written = False
