"""TLS and logins between nodes at the controller's listeners: nodes prove with a certificate or a
login that they belong to the cluster.

A certificate may name the nodes that it is for (security/node_certificates.py): then no other node
can use it. With an authorizer, a certificate that names no node must be a super user's, because
clients may have certificates of the same authority. A Kafka client at such a listener is let in by
the same certificates and logins.
"""

from collections.abc import Callable
from functools import cache, partial

from raftka.broker.context import BrokerContext
from raftka.broker.controller.accepted_connection import AcceptedConnection
from raftka.broker.controller.peer import Peer
from raftka.broker.controller.peer_login import AcceptingLogin, DialingLogin
from raftka.broker.network.access.authentication import SaslGate
from raftka.broker.network.access.mechanisms import ListenerMechanisms
from raftka.broker.network.access.tls import Handshakes, ListenerTls, watch_certificates
from raftka.broker.network.connection import ServerConnection
from raftka.client.connection import Secured
from raftka.metadata.configs.logins import jaas_of, mechanisms_of
from raftka.metadata.image import Endpoint
from raftka.runtime.interfaces import SECRETS, Connection
from raftka.security.client_security import uses_sasl, uses_tls
from raftka.security.mechanism import ServerMechanism
from raftka.security.node_certificates import nodes_of
from raftka.security.plain import PLAIN, PlainServer
from raftka.security.scram import ScramCredential, ScramServer, make_credential
from raftka.security.tls_connection import RefusedByName, Side, TlsConnection
from raftka.security.tls_context import TlsContexts, client_context

NONCE_BYTES, SALT_BYTES = 18, 16


class PeerSecurity:
    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._own = context.metadata.settings.between_controllers
        self._random = context.runtime.random(SECRETS)
        self._secret = self._random.randbytes(SALT_BYTES)
        self._handshakes = Handshakes(context.runtime.clock)
        settings = context.metadata.settings
        self._contexts = TlsContexts(
            lambda: settings.between_controllers.tls,
            client_context,
            context.store_files,
            context.runtime.clock.now,
        )
        self._credential = cache(self._derive)

    def start(self) -> None:
        """Raises TlsError when the certificates cannot be used."""
        if self._own.uses_tls:
            watch_certificates(self._context, self._contexts, "outgoing to controllers")

    # this node dials

    def dialing_login(self) -> DialingLogin | None:
        begin = self._own.login(self._random)
        return DialingLogin(begin("")) if begin is not None else None

    def dial(self, peer: Peer, host: str) -> Connection:
        """Return the connection to a controller: the peer, or TLS around it."""
        if not self._own.uses_tls:
            return peer
        return self._wrap(peer, Side(host, lambda tls: self._note_nodes(peer, tls)))

    def secured(self) -> Secured:
        """TLS and the login of this node's connections to controllers as a Kafka client."""

        def wrap(connection: Connection, host: str) -> TlsConnection:
            return self._wrap(connection, Side(host))

        return Secured(self._own.login(self._random), wrap if self._own.uses_tls else None)

    def _wrap(self, connection: Connection, side: Side) -> TlsConnection:
        return TlsConnection(connection, self._contexts.current(), side, self._context.later)

    @staticmethod
    def _note_nodes(peer: Peer, tls: TlsConnection) -> None:
        peer.certified = nodes_of(tls.certificate or b"") or None

    # other nodes dial

    def acceptor(self, endpoint: Endpoint) -> Callable[[AcceptedConnection], Connection]:
        """Return a function that wraps a connection accepted at that listener. Raises TlsError."""
        if not uses_tls(endpoint.security_protocol):
            return lambda accepted: accepted
        tls = ListenerTls(self._context, endpoint, self._handshakes)
        if uses_sasl(endpoint.security_protocol):
            return lambda accepted: tls.wrap(accepted, lambda _: None)
        return lambda accepted: tls.wrap(
            accepted, lambda connection: self._identify(accepted, connection, tls)
        )

    def client_gate(self, endpoint: Endpoint) -> Callable[[ServerConnection], SaslGate] | None:
        """Return a function that makes the gate of a Kafka client at that listener; None: the
        listener has no SASL. The users are those of nodes.
        """
        if not uses_sasl(endpoint.security_protocol):
            return None
        listener = endpoint.listener
        logins = ListenerMechanisms(self._context, listener).logins(partial(self._start, listener))
        return lambda connection: SaslGate(connection, logins)

    def accepting_login(self, endpoint: Endpoint) -> AcceptingLogin | None:
        listener, clock = endpoint.listener, self._context.runtime.clock
        if not uses_sasl(endpoint.security_protocol):
            return None

        def later(refuse: Callable[[], None]) -> None:
            clock.call_at(
                clock.now()
                + self._context.metadata.settings.seconds(
                    "connection.failed.authentication.delay.ms"
                ),
                refuse,
            )

        return AcceptingLogin(lambda mechanism: self._start(listener, mechanism), later)

    def _identify(
        self, accepted: AcceptedConnection, connection: TlsConnection, tls: ListenerTls
    ) -> None:
        """Raises RefusedByName."""
        certificate = connection.certificate
        if certificate is None:
            raise RefusedByName("a node must show a certificate")
        settings, nodes = self._context.metadata.settings, nodes_of(certificate)
        accepted.name = lambda: tls.name(certificate)
        if nodes:
            accepted.peer.certified = nodes
            return
        if settings["raftka.controller.node.certificates"]:
            raise RefusedByName(
                "the certificate does not name the nodes that it is for, and "
                "raftka.controller.node.certificates asks for that"
            )
        principal = f"User:{tls.name(certificate)}"
        if settings["authorizer.class.name"] and principal not in settings["super.users"].split(
            ";"
        ):
            raise RefusedByName(
                f"the certificate names no node, and {principal} is none of super.users"
            )

    def _start(self, listener: str, mechanism: str) -> ServerMechanism | None:
        values = self._context.metadata.settings.values
        jaas = (
            jaas_of(values, listener, mechanism)
            if mechanism in mechanisms_of(values, listener)
            else None
        )
        if jaas is None:
            return None
        if mechanism == PLAIN:
            return PlainServer(jaas.users)

        def lookup(user: str) -> ScramCredential | None:
            return self._credential(mechanism, jaas.users[user]) if user in jaas.users else None

        return ScramServer(
            mechanism, lookup, self._random.randbytes(NONCE_BYTES).hex(), self._secret
        )

    def _derive(self, mechanism: str, password: str) -> ScramCredential:
        return make_credential(mechanism, password, self._random.randbytes(SALT_BYTES))
