"""Nodes whose listener has TLS, and clients with and without certificates. Keys are such that every
handshake has the same size.
"""

from typing import Any

from raftka.client.connection import Wrap
from raftka.cluster.secured.authority import Authority, Issued
from raftka.runtime.real.files import lend
from raftka.security.tls_connection import Side, TlsConnection, at_once
from raftka.security.tls_context import StoreFiles, client_context, read_material
from raftka.security.tls_settings import StoreSettings, TlsSettings
from raftka.wire.messages.metadata import METADATA
from tests.broker.stage import CLIENT_PORT, Stage, Wire

AUTHORITY = Authority(edwards=True)
HOSTS = ["n1", "n2", "n3"]
NODE, ALICE = AUTHORITY.issue("node", HOSTS), AUTHORITY.issue("alice")
STRANGER = Authority("another", edwards=True).issue("alice")
SECURE: dict[str, Any] = {
    "listener_security_protocol_map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
    "ssl_keystore_key": NODE.key,
    "ssl_keystore_certificate_chain": NODE.chain,
    "ssl_truststore_certificates": AUTHORITY.trusted,
}


def wrapped(own: Issued | None = None, trusted: str = AUTHORITY.trusted) -> Wrap:
    """Return the function that puts a client's side of TLS around a connection."""
    settings = TlsSettings(
        StoreSettings(text=own.key_store if own is not None else ""), StoreSettings(text=trusted)
    )
    files = StoreFiles(lambda path: b"", lend)
    context = client_context(settings, read_material(settings, files), files)
    return lambda connection, host: TlsConnection(connection, context, Side(host), at_once)


def tls_wire(
    stage: Stage, own: Issued | None = None, node_id: int = 1, trusted: str = AUTHORITY.trusted
) -> Wire:
    return Wire(stage.world, stage.runtime, f"n{node_id}", CLIENT_PORT, wrapped(own, trusted))


def works(wire: Wire) -> bool:
    return bool(wire.ask(METADATA, METADATA.request(topics=[])).brokers)


def principal(stage: Stage, wire: Wire) -> str:
    """Of a connection that works, as the node has it."""
    assert works(wire)
    return stage.server_side().session.principal
