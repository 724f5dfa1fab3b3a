"""TLS of a listener: who may come in by which certificate, and handshakes a few at a time. Knows no
request.

The handshake is a gate before the gate of logins: no byte reaches the connection before it is over.
"""

from collections import deque
from collections.abc import Callable

from raftka.broker.context import BrokerContext
from raftka.broker.network.connection import ServerConnection
from raftka.broker.telemetry.event_log import BoundedRate
from raftka.limits import LOGIN_SECONDS
from raftka.metadata.configs.logins import tls_of
from raftka.metadata.image import Endpoint
from raftka.runtime.interfaces import Clock, Connection
from raftka.security.client_security import uses_sasl
from raftka.security.distinguished_names import apply_rules, parse_rules, subject_of
from raftka.security.tls_connection import RefusedByName, Side, TlsConnection
from raftka.security.tls_context import LOOK_S, TlsContexts, server_context

HANDSHAKES, FAILURES = "raftka_tls_handshakes_total", "raftka_failed_tls_handshakes_total"
TURN_S = 0.005  # CPU time of handshakes in a row, before requests have their turn
DAY_S = 86400
WARN_S = 30 * DAY_S  # before a certificate ends
WATCH_S = LOOK_S + 1.0  # a look at the files, also while nobody connects
RULES = "ssl.principal.mapping.rules"


class Handshakes:
    """Runs the steps of all handshakes of a node in their order, as many in a turn as others can
    bear.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[Callable[[], None]] = deque()
        self._under_way = False

    def add(self, step: Callable[[], None]) -> None:
        self._waiting.append(step)
        if not self._under_way:
            self._under_way = True
            self._clock.call_at(self._clock.now(), self._run)

    def _run(self) -> None:
        until = self._clock.cpu_s() + TURN_S
        while self._waiting:
            self._waiting.popleft()()
            if self._clock.cpu_s() > until:
                break
        self._under_way = bool(self._waiting)
        if self._under_way:
            self._clock.call_at(self._clock.now(), self._run)


class HandshakeGate:
    """Stands until the handshake is over: who takes too long for it is closed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._opened = clock.now()

    @property
    def is_late(self) -> bool:
        return self._clock.now() - self._opened >= LOGIN_SECONDS.value

    def passes(self, frame: memoryview) -> bool:
        """Without a gate of its own the connection would be known by now."""
        return True


class ListenerTls:
    """Raises TlsError when the listener's keys or certificates cannot be used."""

    def __init__(self, context: BrokerContext, endpoint: Endpoint, handshakes: Handshakes) -> None:
        self._context = context
        self._listener = endpoint.listener
        # a certificate names the client; else its login does
        self._names = not uses_sasl(endpoint.security_protocol)
        self._handshakes = handshakes
        self._failed = BoundedRate(
            context.events.info, "tls_handshake_failed", context.runtime.clock.now
        )
        clock, files = context.runtime.clock, context.store_files
        self.contexts = TlsContexts(
            lambda: tls_of(
                context.metadata.settings.values, endpoint.listener, endpoint.security_protocol
            ),
            server_context,
            files,
            clock.now,
        )
        watch_certificates(context, self.contexts, endpoint.listener)

    def protect(self, connection: ServerConnection) -> TlsConnection:
        if self._names:
            connection.gate = HandshakeGate(self._context.runtime.clock)

        def established(tls: TlsConnection) -> None:
            if self._names:
                connection.session.principal = f"User:{self.name(tls.certificate)}"
                connection.gate = None

        return self.wrap(connection, established)

    def wrap(
        self, connection: Connection, established: Callable[[TlsConnection], None]
    ) -> TlsConnection:
        """`established`: the handshake is over; it may raise RefusedByName."""

        def counted(tls: TlsConnection) -> None:
            self._context.metrics.count(HANDSHAKES)
            established(tls)

        return TlsConnection(
            connection,
            self.contexts.current(),
            Side(None, counted, self._tell, self._handshakes.add),
            self._context.later,
        )

    def name(self, certificate: bytes | None) -> str:
        """The user's, by the rules of the listener. Raises RefusedByName."""
        if certificate is None:
            return "ANONYMOUS"
        settings = self._context.metadata.settings
        rules = settings.at(self._listener).text(RULES) or "DEFAULT"
        name = apply_rules(parse_rules(rules), subject_of(certificate))
        if not name:
            raise RefusedByName(f"no rule of {RULES} matches the name in the client's certificate")
        return name

    def _tell(self, tls: TlsConnection, reason: str) -> None:
        self._context.metrics.count(FAILURES)
        self._failed(peer=tls.peer, listener=self._listener, reason=reason)


def watch_certificates(context: BrokerContext, contexts: TlsContexts, where: str) -> None:
    """Load the certificates, look at their files now and then, and tell log and metrics of them.
    `where`: a listener's name, or `outgoing`.

    Raises TlsError when the first ones cannot be used.
    """

    clock = context.runtime.clock
    warned_s = -float(DAY_S)

    def left_s() -> int:
        return (contexts.expires_s or 0) - clock.wall_ms() // 1000

    def replaced() -> None:
        if contexts.expires_s is not None:
            context.events.info(
                "certificate_loaded", listener=where, expires_in_days=left_s() // DAY_S
            )
            context.metrics.certificates[where] = contexts.expires_s

    def looked() -> None:
        nonlocal warned_s
        if contexts.expires_s is not None and left_s() < WARN_S and clock.now() - warned_s >= DAY_S:
            warned_s = clock.now()
            context.events.warning(
                "certificate_expires", listener=where, expires_in_days=left_s() // DAY_S
            )

    def refused(reason: str) -> None:
        context.events.warning("certificate_refused", listener=where, reason=reason)

    def watch() -> None:
        if not context.stopped:
            contexts.current()
            clock.call_at(clock.now() + WATCH_S, watch)

    contexts.on_replaced, contexts.on_refused, contexts.on_looked = replaced, refused, looked
    watch()
