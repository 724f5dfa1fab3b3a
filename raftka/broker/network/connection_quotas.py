"""Decide which connections are accepted and kept: Kafka's limits for a node, a listener, an address
and a second; and idle time. Knows no request.

A connection beyond a limit is closed at once. Kafka lets it wait unaccepted, where the client
cannot tell a queue from a dead broker.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from ipaddress import ip_address
from math import inf

from raftka.broker.context import BrokerContext
from raftka.broker.network.access.authentication import SaslGate
from raftka.broker.network.access.mechanisms import ListenerMechanisms
from raftka.broker.network.access.tls import Handshakes, ListenerTls
from raftka.broker.network.connection import ServerConnection
from raftka.broker.network.dispatch import Dispatcher
from raftka.broker.network.frame_pool import FramePool
from raftka.broker.network.quotas.precedence import Quotas, plain_address, rates_of_addresses
from raftka.broker.network.quotas.sensors import Sensors
from raftka.limits import (
    CONNECTION_RATE,
    CONNECTIONS,
    CONNECTIONS_OF_ADDRESS,
    CONNECTIONS_OF_LISTENER,
    HELD_CONNECTIONS,
    UNBOUNDED,
    Limit,
)
from raftka.metadata.image import Endpoint
from raftka.metadata.quotas import CONNECTION_CREATION_RATE
from raftka.runtime.interfaces import Connection
from raftka.security.client_security import uses_sasl, uses_tls

TOO_FAST = "connections from that address come too fast"
SWEEP_S = 20.0  # between two checks for idle connections


class Rate:
    """A bucket that holds what may come in a second."""

    __slots__ = ("_at", "_left")

    def __init__(self) -> None:
        self._left, self._at = inf, 0.0

    def left(self, now: float, per_s: int) -> bool:
        self._left, self._at = min(per_s, self._left + (now - self._at) * per_s), now
        return self._left >= 1

    def take(self) -> None:
        self._left -= 1


class ConnectionQuotas:
    def __init__(self, context: BrokerContext, dispatcher: Dispatcher, pool: FramePool) -> None:
        self._context = context
        self._dispatcher = dispatcher
        self._pool = pool
        self._connections = dispatcher.connections
        self._clock = context.runtime.clock
        self._handshakes = Handshakes(self._clock)
        self._of_address: Counter[str] = Counter()
        self._of_listener: Counter[str] = Counter()
        self._rates: dict[str, Rate] = {}  # by listener; "": of all
        self._sweeping = False
        # connections a second; None: of the others
        self._rates_of_addresses: Mapping[str | None, float] = {}
        self._sensors = Sensors(context)
        self._held = 0  # connections that came too fast, until they are closed

    # new connections

    def acceptor(self, endpoint: Endpoint) -> Callable[[], Connection | None]:
        """Raises TlsError when the listener's keys or certificates cannot be used."""
        listener = endpoint.listener
        logins = (
            ListenerMechanisms(self._context, listener).logins()
            if uses_sasl(endpoint.security_protocol)
            else None
        )
        tls = (
            ListenerTls(self._context, endpoint, self._handshakes)
            if uses_tls(endpoint.security_protocol)
            else None
        )

        def accept() -> Connection | None:
            if not self._context.metadata.published:
                return None
            connection = self.admit(self._dispatcher, listener)
            if connection is None:
                return None
            if logins is not None:
                connection.gate = SaslGate(connection, logins)
            return connection if tls is None else tls.protect(connection)

        return accept

    def admit(self, dispatcher: Dispatcher, listener: str) -> ServerConnection | None:
        """Return a new connection of that listener; None: a limit is reached."""
        limit = self._reached(listener)
        if limit is not None:
            self._context.metrics.hit(limit)
            return None
        connection = ServerConnection(dispatcher, self._pool, listener)
        self._connections[connection] = None
        self._of_listener[listener] += 1
        self._context.metrics.connections_made += 1
        if not self._sweeping:
            self._sweep_later()
        return connection

    def opened(self, connection: ServerConnection) -> None:
        """Check the limits of the client's address."""
        address = _address(connection.session.peer)
        self._of_address[address] += 1
        settings = self._context.metadata.settings
        allowed = overrides(settings["max.connections.per.ip.overrides"]).get(
            address, settings["max.connections.per.ip"]
        )
        if self._of_address[address] > allowed:
            self._context.metrics.hit(
                replace(
                    CONNECTIONS_OF_ADDRESS,
                    value=allowed,
                    reason=f"{CONNECTIONS_OF_ADDRESS.reason}, {address}",
                )
            )
            connection.abort("too many connections from that address")
        elif self._rates_of_addresses and not self._protected(connection.session.listener):
            self._check_rate(connection, address)

    def on_quotas(self, quotas: Quotas) -> None:
        self._rates_of_addresses = rates_of_addresses(quotas)

    def _check_rate(self, connection: ServerConnection, address: str) -> None:
        """A connection that comes too fast is not read, and closed when its address may come again,
        at most a sample of the window later.
        """
        per_s = self._rates_of_addresses.get(address, self._rates_of_addresses.get(None))
        if per_s is None:
            return
        rate, now = self._sensors.rate((CONNECTION_CREATION_RATE, address, None)), self._clock.now()
        rate.record(1, now)
        delay_s = min(rate.delay_s(per_s, now), self._sensors.window.sample_s)
        if not delay_s:
            return
        rate.record(-1, now)
        self._context.metrics.count("raftka_throttled_connections_total")
        if self._held >= HELD_CONNECTIONS.value:
            self._context.metrics.hit(HELD_CONNECTIONS)
            connection.abort(TOO_FAST)
            return
        self._held += 1
        connection.hold()
        self._clock.call_at(now + delay_s, lambda: self._close_held(connection))

    def _close_held(self, connection: ServerConnection) -> None:
        self._held -= 1
        connection.abort(TOO_FAST)

    def closed(self, connection: ServerConnection) -> None:
        if connection in self._connections:
            del self._connections[connection]
            _less(self._of_listener, connection.session.listener)
            if connection.session.peer:  # else it was never opened
                _less(self._of_address, _address(connection.session.peer))

    def _reached(self, listener: str) -> Limit | None:
        """Return the limit that another connection would exceed. A broker on a listener of brokers
        takes the place of a client.
        """
        own = self._context.metadata.settings.of_listener(listener, "max.connections")
        if own is not None and self._of_listener[listener] >= own:
            return replace(
                CONNECTIONS_OF_LISTENER,
                value=own,
                reason=f"{CONNECTIONS_OF_LISTENER.reason}, {listener}",
            )
        protected = self._protected(listener)
        if len(self._connections) >= self._allowed() and (
            not protected or self._of_listener[listener] >= CONNECTIONS.value
        ):
            return replace(CONNECTIONS, value=self._allowed())
        if (limit := self._too_fast(listener, protected)) is None and protected:
            self.keep_within(self._allowed() - 1)
        return limit

    def _too_fast(self, listener: str, protected: bool) -> Limit | None:
        settings = self._context.metadata.settings
        asked = [] if protected else [("", settings["max.connection.creation.rate"])]
        if (own := settings.of_listener(listener, "max.connection.creation.rate")) is not None:
            asked.append((listener, own))
        rates = [
            (self._rates.setdefault(of, Rate()), of, per_s)
            for of, per_s in asked
            if per_s < UNBOUNDED
        ]
        for rate, of, per_s in rates:
            if not rate.left(self._clock.now(), per_s):
                return replace(
                    CONNECTION_RATE,
                    value=per_s,
                    reason=f"{CONNECTION_RATE.reason}, {of}" if of else CONNECTION_RATE.reason,
                )
        for rate, _, _ in rates:
            rate.take()
        return None

    def _allowed(self) -> int:
        return min(CONNECTIONS.value, int(self._context.metadata.settings["max.connections"]))

    def _protected(self, listener: str) -> bool:
        settings = self._context.metadata.settings
        return len(settings.listeners) > 1 and listener == settings.inter_broker_listener

    # connections that are closed

    def keep_within(self, allowed: int | None = None) -> None:
        """Close the connections that have been silent longest: the limit may have become less, or a
        broker connects.
        """
        excess = len(self._connections) - (self._allowed() if allowed is None else allowed)
        if excess > 0:
            staying = [each for each in self._connections if not each.gone]
            others = [each for each in staying if not self._protected(each.session.listener)]
            others.sort(key=lambda each: (each.active, -each.silent_s))
            for connection in others[: max(0, excess - (len(self._connections) - len(staying)))]:
                self._context.metrics.hit(replace(CONNECTIONS, value=self._allowed()))
                connection.abort("there are too many connections")

    def _sweep_later(self) -> None:
        self._sweeping = True
        self._clock.call_at(self._clock.now() + SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        """Close idle connections. Runs only while there are connections."""
        for connection in tuple(self._connections):
            if (limit := connection.overdue(SWEEP_S)) is not None:
                self._context.metrics.refused(limit)
                self._context.events.info(
                    "connection_idle",
                    peer=connection.session.peer,
                    limit=limit.name,
                    allowed_s=limit.value,
                )
                connection.abort("idle")
        self._sweeping = False
        if self._connections:
            self._sweep_later()


def overrides(text: str) -> dict[str, int]:
    """Read `address:count,...`."""
    return {
        str(ip_address(address.strip(" []"))): int(count)
        for address, _, count in (each.rpartition(":") for each in text.split(",") if each)
    }


def _address(peer: str) -> str:
    """Return the address of `host:port`, as `overrides` writes it."""
    return plain_address(peer.rpartition(":")[0].strip("[]"))


def _less(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
