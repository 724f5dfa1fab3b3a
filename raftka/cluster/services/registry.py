"""The registry as a service of a node: what raftka starts where `registry.port` is set. It is a
client of the cluster like any other.

It has threads of its own, so it takes no turn of the node's loop, and it goes on while the node is
paused in a test.
"""

from functools import partial
from pathlib import Path

import trio

from raftka.broker.handlers.services import Services
from raftka.client.blocking.client import Client, Unreachable
from raftka.client.blocking.connection import addresses_of
from raftka.client.connection import Address
from raftka.http.messages import url_of
from raftka.properties_file import parse_properties
from raftka.registry.access import User
from raftka.registry.broker_access import as_user
from raftka.registry.server import CLIENT_ID, Port, RegistryServer, port_tls
from raftka.security.client_security import ClientSecurity, client_security


class Edge:
    def __init__(self, services: Services) -> None:
        """Raises OSError for a port that is taken, ValueError for settings of no use."""
        settings, events = services.metadata.settings, services.context.events
        self._services = services
        file: str | None = settings["registry.client.config"]
        properties = parse_properties(Path(file).read_text()) if file is not None else {}
        servers = properties.get("bootstrap.servers")
        self._bootstrap = addresses_of(servers) if servers else []
        self._security = client_security(properties)
        tls = port_tls(
            settings["registry.ssl.certificate.location"], settings["registry.ssl.key.location"]
        )
        mechanism: str | None = settings["registry.login.mechanism"]
        if mechanism and tls is None:
            events.warning("http_logins_in_the_open", port="registry")
        self._server = RegistryServer(
            partial(self._client, self._security),
            Port(settings["registry.host"], settings["registry.port"], tls),
            settings["registry.topic"],
            client_of=partial(self._client_of, mechanism) if mechanism else None,
            report=lambda what, why: events.warning("registry_failed", request=what, error=why),
            lost=lambda error: events.error("registry_failed", request="reading", error=str(error)),
        )
        self._server.start_later()
        host = settings["registry.host"] or "127.0.0.1"
        services.schemas.registry.own_url = url_of(host, self._server.port, has_tls=tls is not None)
        services.context.runtime.spawn(self._until_the_end, "registry")
        events.info("registry_started", port=self._server.port)

    @property
    def port(self) -> int | None:
        return self._server.port

    def close(self) -> None:
        self._server.stop_soon()

    async def _until_the_end(self) -> None:
        """Of the node, however it ends."""
        try:
            await trio.sleep_forever()
        finally:
            self._server.stop_soon()

    def _client(self, security: ClientSecurity) -> Client:
        """Raises Unreachable while no broker is known."""
        brokers = self._bootstrap or self._brokers()
        if not brokers:
            raise Unreachable("no broker has registered yet")
        return Client(brokers, CLIENT_ID, security=security)

    def _client_of(self, mechanism: str, user: User) -> Client:
        return self._client(as_user(self._security, mechanism, user))

    def _brokers(self) -> list[Address]:
        """This node first."""
        settings, image = self._services.metadata.settings, self._services.metadata.image
        known = sorted(
            (broker for broker in image.brokers.values() if broker.alive),
            key=lambda broker: broker.broker_id != settings.node_id,
        )
        found = [broker.endpoint(settings.inter_broker_listener) for broker in known]
        return [(each.host, each.port) for each in found if each is not None]


def open_edge(services: Services) -> Edge:
    return Edge(services)
