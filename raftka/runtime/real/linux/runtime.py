"""A node on Linux: a loop drives a persistent epoll with callbacks, and timers; the kernel flushes,
threads unlink. A Trio task for each connection would cost 25 microseconds a request instead of 14.
"""

import os
import select
from collections.abc import Callable

import trio

from raftka.runtime.real.base import RealRuntime
from raftka.runtime.real.linux.loops import AroundTrio, BesideOthers
from raftka.runtime.real.linux.network import LinuxNetwork


class LinuxRuntime(RealRuntime):
    network: LinuxNetwork

    def __init__(self, nursery: trio.Nursery, *, alone: bool) -> None:
        self._eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._woken = False
        super().__init__(nursery)
        self.network = LinuxNetwork(self._turn, self.offload.run, poisons=self._poisons)
        self.network.watch(self._eventfd, self)
        if (kernel := self.files.flusher.kernel) is not None:
            self.network.watch(kernel.eventfd, self.files.flusher, select.EPOLLET)
        self._loop = self._around_trio() if alone else None
        if self._loop is None:
            BesideOthers(self.network, self.clock, self, self._wake).start(nursery)

    def _around_trio(self) -> AroundTrio | None:
        try:
            return AroundTrio(self.network, self.clock, self)
        except AttributeError:  # of another Trio than it was written for: slower, and as good
            return None

    def ready(self, events: int) -> None:
        """The eventfd: threads have results, or someone outside a turn wants one."""
        os.eventfd_read(self._eventfd)
        self._woken = False
        self._run_posted()

    def _post(self, action: Callable[[], None]) -> None:
        self._posted.append(action)
        try:
            os.eventfd_write(self._eventfd, 1)
        except OSError:
            pass  # the node has stopped

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            os.eventfd_write(self._eventfd, 1)

    def _end_loop(self) -> None:
        if self._loop is not None:
            self._loop.end()
        else:
            trio.lowlevel.notify_closing(self.network.epoll.fileno())

    def _release(self) -> None:
        os.close(self._eventfd)
