"""Planted in TLS and at the controller's door: whose certificate counts, and for what."""

from ssl import CERT_OPTIONAL, SSLContext
from typing import Any

from raftka.broker.controller import peer_security
from raftka.broker.controller.peer import Kind, Peer
from raftka.broker.controller.peer_security import PeerSecurity
from raftka.broker.network.access import tls as access_tls
from raftka.broker.network.access.tls import HandshakeGate, ListenerTls
from raftka.security.tls_connection import RefusedByName, TlsConnection
from raftka.security.tls_context import TlsContexts
from tests.mutants.registry import mutant


@mutant(PeerSecurity, "_identify")
def any_certificate_of_the_authority_is_a_nodes(_: Any) -> Any:
    """A client that has a certificate of the cluster's authority comes in at the controller's
    listener.
    """

    def bug(self: PeerSecurity, peer: Peer, connection: TlsConnection, tls: ListenerTls) -> None:
        pass

    return bug


@mutant(peer_security, "nodes_of")
def certificate_of_a_node_is_good_for_all_nodes(_: Any) -> Any:
    """A node poses as another one: the ids in its certificate are not looked at."""

    def bug(certificate: bytes) -> frozenset[int]:
        return frozenset()

    return bug


@mutant(Peer, "_log_in")
def greeting_counts_as_a_login(log_in: Any) -> Any:
    """A node that greets the controller without having logged in comes in."""

    def bug(self: Peer, kind: Kind, fields: list[object]) -> None:
        if kind is Kind.HELLO:
            self._login = None
            self._read_hello(kind, fields)
        else:
            log_in(self, kind, fields)

    return bug


@mutant(ListenerTls, "name")
def name_without_a_rule_is_anonymous(name: Any) -> Any:
    """A certificate whose name no rule matches is let in as a client without a name."""

    def bug(self: ListenerTls, certificate: bytes | None) -> str:
        try:
            return str(name(self, certificate))
        except RefusedByName:
            return "ANONYMOUS"

    return bug


@mutant(TlsContexts, "_look")
def certificates_are_read_once(look: Any) -> Any:
    """New files of certificates are not taken: the old one ends, and no client can connect any
    more.
    """

    def bug(self: TlsContexts, settings: Any) -> None:
        if self._context is None:
            look(self, settings)

    return bug


@mutant(access_tls, "server_context")
def certificates_of_clients_are_not_required(server_context: Any) -> Any:
    """ssl.client.auth=required is taken for requested: a client without a certificate comes in."""

    def bug(*given: Any) -> SSLContext:
        context: SSLContext = server_context(*given)
        context.verify_mode = CERT_OPTIONAL
        return context

    return bug


@mutant(HandshakeGate, "is_late")
def slow_handshakes_are_kept(_: Any) -> Any:
    """A client that begins a handshake and says nothing more keeps its connection until it is
    idle.
    """
    return property(lambda self: False)


@mutant(peer_security, "client_context")
def any_host_is_the_controller(client_context: Any) -> Any:
    """A node that connects to a controller does not look for which host the certificate is: a
    client can pose as the controller.
    """

    def bug(*given: Any) -> SSLContext:
        context: SSLContext = client_context(*given)
        context.check_hostname = False
        return context

    return bug
