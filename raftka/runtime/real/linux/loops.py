"""Two ways for a node's turns and the tasks of Trio to share one thread. Knows no Kafka.

BesideOthers   Trio's loop is outside: one task waits for the node's epoll, another one for its
               timers. For any number of nodes in one process.
AroundTrio     the node's epoll is outside, and Trio's is in it as one more descriptor: one wait
               serves sockets, timers and tasks. Trio's
               loop runs when one of its tasks can go on. For a process that has one node: a round
               of Trio costs as much as a small request.
"""

from collections import deque
from collections.abc import Callable, Sequence
from select import epoll
from time import monotonic

import trio

from raftka.runtime.real.clock import RealClock
from raftka.runtime.real.linux.network import LinuxNetwork
from raftka.runtime.real.timers import Standing, Timers

TURNS_IN_A_ROW = 32  # then Trio's other tasks get their turn

Events = Sequence[tuple[int, int]]  # descriptors, and what epoll says of them


class BesideOthers:
    def __init__(
        self, network: LinuxNetwork, clock: RealClock, standing: Standing, wake: Callable[[], None]
    ) -> None:
        """`wake`: make the node's epoll ready."""
        self._network, self._clock, self._standing = network, clock, standing
        self._timers = Timers(clock, standing, network.turn_of)
        network.current.kick = wake

    def start(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self._drive)
        nursery.start_soon(self._timers.run)

    async def _drive(self) -> None:
        network, standing = self._network, self._standing
        while not standing.stopped:
            try:
                await trio.lowlevel.wait_readable(network.epoll.fileno())
            except trio.ClosedResourceError:
                return
            await standing.resumed()
            try:
                turns = 0
                while (
                    turns < TURNS_IN_A_ROW
                    and not standing.stopped
                    and not standing.paused
                    and network.turn()
                ):
                    turns += 1
            except Exception as error:  # handlers answer for their own errors; this is a core part
                standing.fail(error)


class AroundTrio:
    """Takes the place of what Trio waits with. No code runs outside of a turn or of Trio's loop, so
    only threads have to wake it, by a descriptor.
    """

    def __init__(self, network: LinuxNetwork, clock: RealClock, standing: Standing) -> None:
        """For the loop that runs this task. Raises AttributeError where Trio has other private
        names than 0.35.
        """
        self._network, self._clock, self._standing = network, clock, standing
        self._runner = runner = trio._core._run.GLOBAL_RUN_CONTEXT.runner
        self._trio = trios = runner.io_manager
        self._tasks, self._next_deadline = runner.runq, runner.deadlines.next_deadline
        self._trio_ready = False
        self.process_events, self.statistics = trios.process_events, trios.statistics
        self.force_wakeup, self.close = trios.force_wakeup, trios.close
        self.wait_readable, self.wait_writable = trios.wait_readable, trios.wait_writable
        self.notify_closing = trios.notify_closing
        trios_epoll = trios._epoll
        if (
            not isinstance(self._tasks, deque)
            or not isinstance(trios_epoll, epoll)
            or runner.is_guest
        ):
            raise AttributeError("this is another Trio")
        network.current.kick = lambda: None
        network.watch(trios_epoll.fileno(), self)
        runner.io_manager = self  # type: ignore[assignment]  # it has all that Trio's has

    def end(self) -> None:
        self._runner.io_manager = self._trio

    def ready(self, events: int) -> None:
        self._trio_ready = True

    def get_events(self, timeout: float) -> Events:
        """Trio calls this, and runs the tasks that can go on then: of what has come, of a turn, or
        when the time is over.
        """
        standing, turn, deadline = self._standing, self._network.current, self._next_deadline()
        turn.began = monotonic()  # the time of Trio's tasks is not this turn's
        until = turn.began + timeout
        self._trio_ready = False
        while not standing.stopped and not standing.paused:
            self._turn(until)
            if self._trio_ready:
                return self._trio.get_events(0)
            if self._tasks or turn.began >= until or self._next_deadline() != deadline:
                return []
        return self._trio.get_events(0 if self._tasks else max(0.0, until - monotonic()))

    def _turn(self, until: float) -> None:
        """`began` of the network's turn is the time of now: its last piece has just ended."""
        network, clock, turn = self._network, self._clock, self._network.current
        try:
            if clock.next_at <= turn.began:
                network.turn_of(clock.run_due)
            elif turn.actions or turn.woken or turn.last:  # tasks of Trio have asked for them
                network.end_turn()
            if not self._standing.stopped:
                first = until if until < clock.next_at else clock.next_at
                network.turn(0 if self._tasks or first < turn.began else first - turn.began)
        except Exception as error:  # handlers answer for their own errors; this is a core part
            self._standing.fail(error)
