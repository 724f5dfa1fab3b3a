"""Brokers whose connections to this node have just broken, and the answers that are held until
their state is known.

A client that loses its leader asks another broker within a millisecond, before the controller has
named the next leader. If the answer names the dead leader, some clients ask again only a second
later. So an answer that would name a suspected broker as leader or coordinator is held back. It is
made again when the suspicion is over: the broker is fenced or registered again in the image, it has
answered this node, or SUSPECTED_S have passed. The broker is probed at once, so a single broken
connection costs a client about the time of one request.

The kernel closes the connections of a dying process one after the other. The runtime serves those
between controllers before those of clients (`Network.listen`, `first`), so that this node suspects
the broker before the client asks. Without suspects no answer is held.
"""

from collections.abc import Callable

from raftka.broker.context import BrokerContext
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import LongWork, Steps
from raftka.client.connection import ClientConnection, Intended, open_connection
from raftka.limits import HELD_ANSWERS
from raftka.metadata.image import MetadataImage
from raftka.runtime.interfaces import Timer
from raftka.wire.schema import Resp, Row

SUSPECTED_S = 0.3  # at most; the controller elects a new leader within 50 ms if it notices too

# makes the answer, and adds the brokers that it names as leaders or coordinators
Make = Callable[[set[int]], Steps[Resp]]


class _Suspicion:
    __slots__ = ("began", "epoch", "probe", "timer")

    def __init__(self, began: float, epoch: int, timer: Timer, probe: ClientConnection) -> None:
        self.began = began
        self.epoch = epoch  # of the broker's registration
        self.timer = timer
        self.probe = probe


class _Held:
    """An answer that is held until no broker in `waits_for` is suspected. It does not wait for
    brokers that are suspected later.
    """

    __slots__ = ("began", "make", "pending", "waits_for")

    def __init__(
        self, began: float, make: Make[Row], waits_for: set[int], pending: Delayed
    ) -> None:
        self.began = began
        self.make = make
        self.waits_for = waits_for
        self.pending = pending


class Suspects:
    def __init__(self, context: BrokerContext, long_work: LongWork) -> None:
        self._context = context
        self._long_work = long_work
        self._clock = context.runtime.clock
        self._suspected: dict[int, _Suspicion] = {}
        self._held: dict[_Held, None] = {}

    # events

    def broken(self, broker_id: int) -> None:
        """Suspect a broker: its connection broke, and this node did not close it."""
        context = self._context
        broker = context.metadata.image.brokers.get(broker_id)
        if (
            broker is None
            or not broker.alive
            or broker_id in self._suspected
            or broker_id == context.node_id
            or context.stopping
        ):
            return
        endpoint = broker.endpoint(context.metadata.settings.inter_broker_listener)
        if endpoint is None or not context.metadata.published:
            return
        now = self._clock.now()
        timer = self._clock.call_at(
            now + SUSPECTED_S, lambda: self._end_suspicion(broker_id, "time is up")
        )
        context.events.info("broker_suspected", broker=broker_id)
        name, address = f"broker-{context.node_id}-probe", (endpoint.host, endpoint.port)
        probe = open_connection(
            context.runtime.network,
            address,
            name,
            lambda: self.heard(broker_id),
            secured=context.secured(),
            intended=Intended.of(context.metadata.image.cluster_id, broker_id),
        )
        self._suspected[broker_id] = _Suspicion(now, broker.epoch, timer, probe)

    def heard(self, broker_id: int) -> None:
        """End the suspicion: the broker has answered on a new connection, or has connected."""
        self._end_suspicion(broker_id, "the broker answered")

    def on_image(self, image: MetadataImage) -> None:
        for broker_id, suspicion in tuple(self._suspected.items()):
            broker = image.brokers.get(broker_id)
            if broker is None or not broker.alive or broker.epoch != suspicion.epoch:
                self._end_suspicion(broker_id, "the controller has decided")

    # calls of handlers

    def answer(self, request: Request[Row], make: Make[Resp]) -> Steps[Resp | Delayed]:
        """Return the answer, or hold it until no broker that it names is suspected; then `make`
        runs a second time.
        """
        named: set[int] = set()
        row = yield from make(named)
        waits_for = named & self._suspected.keys()
        if not waits_for:
            return row
        if len(self._held) >= HELD_ANSWERS.value:
            self._context.metrics.hit(HELD_ANSWERS)
            return row
        return self._hold(request, make, waits_for)

    @property
    def suspected(self) -> frozenset[int]:
        return frozenset(self._suspected)

    @property
    def holding(self) -> int:
        """Return the number of held answers."""
        return len(self._held)

    def _hold(self, request: Request[Row], make: Make[Row], waits_for: set[int]) -> Delayed:
        def complete_early() -> None:
            if request.connection.gone:
                self._held.pop(held, None)

        held = _Held(self._clock.now(), make, waits_for, Delayed(request, complete_early))
        self._held[held] = None
        return held.pending

    def _end_suspicion(self, broker_id: int, reason: str) -> None:
        suspicion = self._suspected.pop(broker_id, None)
        if suspicion is None:
            return
        suspicion.timer.cancel()
        suspicion.probe.close("the suspicion is over")
        took_ms = round((self._clock.now() - suspicion.began) * 1000)
        self._context.events.info("suspicion_over", broker=broker_id, reason=reason, ms=took_ms)
        for held in tuple(self._held):
            held.waits_for.discard(broker_id)
            if not held.waits_for:
                del self._held[held]
                self._make_anew(held)

    def _make_anew(self, held: _Held) -> None:
        pending = held.pending

        def done(result: Row | Exception) -> None:
            self._context.metrics.held.add(self._clock.now() - held.began)
            pending.settle(result)

        self._long_work.run(
            pending.request.api.name, held.make(set()), done, lambda: not pending.over
        )
