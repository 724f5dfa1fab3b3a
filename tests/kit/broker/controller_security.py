"""Certificates, settings and a stranger for the controllers' listener."""

from typing import Any

from raftka.broker.controller.peer import Hello, Kind, Peer, Traffic
from raftka.broker.controller.peer_login import DialingLogin
from raftka.cluster.secured.authority import Issued
from raftka.runtime.interfaces import Connection
from raftka.security.node_certificates import node_uri
from tests.broker.stage import CONTROLLER_PORT, Stage
from tests.broker.tls import AUTHORITY, HOSTS, wrapped

SHARED = AUTHORITY.issue("node", HOSTS)
NODES = {
    node_id: AUTHORITY.issue(f"node-{node_id}", [f"n{node_id}"], uris=[node_uri(node_id)])
    for node_id in (1, 2, 3)
}
CLIENT = AUTHORITY.issue("client")
TLS: dict[str, Any] = {
    "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
    "listener.name.controller.ssl.client.auth": "required",
    "ssl_keystore_key": SHARED.key,
    "ssl_keystore_certificate_chain": SHARED.chain,
    "ssl_truststore_certificates": AUTHORITY.trusted,
}
MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}


def sasl(
    mechanism: str, user: str = "node", password: str = "n-secret", **more: Any
) -> dict[str, Any]:
    users = 'user_node="n-secret" user_next="next-secret"'
    line = (
        f'org.apache.kafka.common.security.{MODULES[mechanism]} required username="{user}" '
        f'password="{password}" {users};'
    )
    return {
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "listener.name.controller.sasl.enabled.mechanisms": mechanism,
        "sasl_mechanism_controller_protocol": mechanism,
        f"listener.name.controller.{mechanism.lower()}.sasl.jaas.config": line,
        **more,
    }


class Dialer:
    """A node that is not of the cluster, or says that it is another one."""

    def __init__(
        self,
        stage: Stage,
        hello: Hello,
        own: Issued | None = None,
        *,
        tls: bool = True,
        login: DialingLogin | None = None,
    ) -> None:
        self.hello: Hello | None = None  # what the controller has answered
        self.reason: str | None = None
        peer = Peer(
            lambda _: hello,
            self._greeted,
            self._message,
            self._closed,
            dialed=True,
            traffic=Traffic(),
            login=login,
        )
        connection: Connection = wrapped(own)(peer, "n1") if tls else peer
        stage.runtime.network.connect("n1", CONTROLLER_PORT, connection)
        stage.wait(lambda: self.reason is not None or self.hello is not None, at_most_s=30)
        stage.world.run(stage.world.now + 1)
        if self.reason is None:
            peer.send(Kind.PING)
            stage.world.run(stage.world.now + 1)

    def _greeted(self, peer: Peer) -> None:
        self.hello = peer.hello

    def _message(self, peer: Peer, kind: Kind, fields: list[Any]) -> None: ...

    def _closed(self, peer: Peer, reason: str) -> None:
        self.reason = reason

    @property
    def is_in(self) -> bool:
        return self.reason is None


def hello(node_id: int = 4) -> Hello:
    return Hello(None, node_id, broker=True, controller=False)
