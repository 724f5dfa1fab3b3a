"""Keeps the brokers of a host: starts them, starts again what ends by itself, ends them in order.
Knows no page and no systemd.

A broker that ends alone is started again after a pause; Restarts says how often. The host fails,
and ends all its brokers, when one ends too often, when one cannot start the first time, and when
the process that forks them is gone: then the service manager decides.
"""

import signal
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Protocol

import trio

from raftka.broker.telemetry.event_log import Events
from raftka.broker.telemetry.metrics import Metrics
from raftka.cluster.host.plan import BrokerPlan
from raftka.cluster.processes import STOP_SECONDS, how
from raftka.limits import HOST_RESTARTS


class Running(Protocol):
    """A broker's process."""

    pid: int

    async def until_ready(self) -> None: ...

    async def until_end(self) -> int: ...

    def signal(self, number: int) -> None: ...


class Broker:
    """One broker, dead or alive."""

    def __init__(self, plan: BrokerPlan) -> None:
        self.plan = plan
        self.running: Running | None = None
        self.ready = False
        self.was_ready = False  # in some life
        self.restarts = 0
        self.ended = trio.Event()  # for good


WINDOW_S = 600.0  # in which HOST_RESTARTS counts
FIRST_S, LONGEST_S = 0.5, 30.0  # pauses


class Restarts:
    """Restarts of brokers that ended by themselves: their number and their pauses.

    As a unit of systemd with Restart=on-failure and a start limit: after a pause that doubles, at
    most so many times within ten minutes. One more end is the host's, so that the supervisor of the
    host sees it.
    """

    def __init__(self) -> None:
        # by broker: the moments of its ends within the window, in seconds
        self._begun: dict[int, deque[float]] = defaultdict(deque)

    def pause_after(self, broker: int, now: float) -> float | None:
        """Seconds from this end to the next start; None: it has ended too often."""
        ends = self._begun[broker]
        while ends and ends[0] <= now - WINDOW_S:
            ends.popleft()
        if len(ends) >= HOST_RESTARTS.value:
            return None
        ends.append(now)
        return min(LONGEST_S, FIRST_S * 2.0 ** (len(ends) - 1))


class Supervisor:
    def __init__(
        self,
        plans: Iterable[BrokerPlan],
        launch: Callable[[BrokerPlan], Running],
        events: Events,
        metrics: Metrics,
        announce: Callable[[], None],
    ) -> None:
        """`launch` raises OSError when no process can be made any more. `announce` is called once,
        when all brokers are ready.
        """
        self.brokers = [Broker(plan) for plan in plans]
        self.failure: str | None = None
        self.stopping = False
        self._launch, self._events, self._metrics = launch, events, metrics
        self._announce = announce
        self._restarts = Restarts()
        self._stop, self._at_once = trio.Event(), trio.Event()

    async def run(self) -> None:
        """Return when all brokers have ended for good; `failure` says why, unless `stop` was
        called.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_in_order)
            for broker in self.brokers:
                nursery.start_soon(self._keep, broker)

    def stop(self) -> None:
        """End the brokers in order; called again: at once."""
        (self._at_once if self.stopping else self._stop).set()
        self.stopping = True

    def _fail(self, text: str) -> None:
        if not self.stopping:
            self.failure = text
            self._events.error("host_failed", error=text)
            self.stop()

    # one broker

    async def _keep(self, broker: Broker) -> None:
        while not self.stopping:
            try:
                broker.running = self._launch(broker.plan)
            except OSError as error:
                self._fail(f"broker {broker.plan.node_id} cannot be forked: {error}")
                break
            self._events.info(
                "host_broker_started", broker=broker.plan.node_id, pid=broker.running.pid
            )
            code = await self._live(broker, broker.running)
            pause_s = None if self.stopping else self._judge(broker, code)
            if pause_s is not None:
                with trio.move_on_after(pause_s):
                    await self._stop.wait()
        broker.ended.set()

    async def _live(self, broker: Broker, running: Running) -> int:
        """One life; returns its exit code."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._note_ready, broker, running)
            code = await running.until_end()
            nursery.cancel_scope.cancel()
        broker.running, broker.ready = None, False
        return code

    async def _note_ready(self, broker: Broker, running: Running) -> None:
        await running.until_ready()
        first_time = not all(each.was_ready for each in self.brokers)
        broker.ready = broker.was_ready = True
        if first_time and all(each.was_ready for each in self.brokers) and not self.stopping:
            self._events.info("host_ready")
            self._announce()

    def _judge(self, broker: Broker, code: int) -> float | None:
        """The pause before its next start; None: the host fails."""
        node_id, end = broker.plan.node_id, how(code)
        if code >= 0 and not broker.was_ready:
            self._fail(
                f"broker {node_id} {end} before it was ready; its last lines in the log say why"
            )
            return None
        pause_s = self._restarts.pause_after(node_id, trio.current_time())
        if pause_s is None:
            self._metrics.refused(HOST_RESTARTS)
            self._fail(
                f"broker {node_id} {end}, for the {HOST_RESTARTS.value + 1}th time within "
                f"{WINDOW_S / 60:g} minutes; the log says why"
            )
            return None
        broker.restarts += 1
        self._events.warning("host_broker_ended", broker=node_id, how=end, again_in_s=pause_s)
        return pause_s

    # the end

    async def _end_in_order(self) -> None:
        """Brokers without a vote first, together: the voter is needed for their controlled
        shutdowns.
        """
        await self._stop.wait()
        self._events.info("host_stopping")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_at_once)
            for has_vote in (False, True):
                async with trio.open_nursery() as together:
                    for broker in self.brokers:
                        if broker.plan.has_vote == has_vote:
                            together.start_soon(self._end, broker)
            nursery.cancel_scope.cancel()
        self._events.info("host_stopped")

    async def _end_at_once(self) -> None:
        await self._at_once.wait()
        for broker in self.brokers:
            if broker.running is not None:
                broker.running.signal(signal.SIGTERM)
                # behind the other it ends a broker whose leaderships have not moved yet
                broker.running.signal(signal.SIGINT)

    @staticmethod
    async def _end(broker: Broker) -> None:
        if broker.running is not None:
            broker.running.signal(signal.SIGCONT)
            broker.running.signal(signal.SIGTERM)
            with trio.move_on_after(STOP_SECONDS):
                await broker.ended.wait()
            if broker.running is not None:
                broker.running.signal(signal.SIGKILL)
        await broker.ended.wait()
