"""TLS of a port that speaks no Kafka: the pages of a node, the ZooKeeper bridge. Knows no protocol
behind it.
"""

from collections.abc import Callable

from raftka.broker.context import BrokerContext
from raftka.broker.network.access.tls import FAILURES, HANDSHAKES, Handshakes, watch_certificates
from raftka.broker.telemetry.event_log import BoundedRate
from raftka.metadata.configs.values import Values
from raftka.runtime.interfaces import Connection
from raftka.security.tls_connection import Side, TlsConnection
from raftka.security.tls_context import TlsContexts, server_context
from raftka.security.tls_settings import TlsSettings


class PortTls:
    """The connection behind it sees no byte before the handshake is over, and ends it when that
    takes too long.
    """

    def __init__(
        self, context: BrokerContext, settings: Callable[[Values], TlsSettings], where: str
    ) -> None:
        """`where`: the port's name for the log and the metrics. Raises TlsError when its keys or
        certificates cannot be used.
        """
        self._context = context
        self._where = where
        clock = context.runtime.clock
        self._handshakes = Handshakes(clock)
        self._failed = BoundedRate(context.events.info, "tls_handshake_failed", clock.now)
        self.contexts = TlsContexts(
            lambda: settings(context.metadata.settings.values),
            server_context,
            context.store_files,
            clock.now,
        )
        watch_certificates(context, self.contexts, where)

    def protect(
        self,
        connection: Connection,
        established: Callable[[TlsConnection], None] = lambda tls: None,
    ) -> TlsConnection:
        """`established` is told when the handshake is over; it may raise RefusedByName."""

        def over(tls: TlsConnection) -> None:
            self._context.metrics.count(HANDSHAKES)
            established(tls)

        return TlsConnection(
            connection,
            self.contexts.current(),
            Side(None, over, self._tell, self._handshakes.add),
            self._context.later,
        )

    def _tell(self, tls: TlsConnection, reason: str) -> None:
        self._context.metrics.count(FAILURES)
        self._failed(peer=tls.peer, listener=self._where, reason=reason)
