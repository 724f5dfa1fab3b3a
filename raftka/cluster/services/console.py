"""The console as a service of a node: what raftka starts where `console.port` is set. The node
holds the port only; a process of its own, started with the first browser, is a client of the
cluster like any other.
"""

import socket
from collections.abc import Callable

import trio

from raftka.broker.handlers.services import Services
from raftka.client.connection import Address
from raftka.console.door import Door
from raftka.console.order import check_console, connection_of, listener_of_clients, order_of
from raftka.json_values import JsonObject


class Edge:
    def __init__(self, services: Services) -> None:
        """Raises OSError for a port that is taken, ValueError for settings of no use."""
        settings, events = services.metadata.settings, services.context.events
        self._services = services
        check_console(settings)
        self._listener = listener_of_clients(settings)
        self._properties, self._login = connection_of(settings, self._listener)
        has_tls = settings["console.ssl.certificate.location"] is not None
        if self._login and not has_tls:
            events.warning("http_logins_in_the_open", port="console")
        self._door = Door(
            (settings["console.host"], settings["console.port"]),
            self._order,
            lambda error: events.error("console_failed", error=error),
            has_tls=has_tls,
        )
        services.context.runtime.spawn(self._keep, "console")
        events.info("console_offered", url=self._door.url)

    @property
    def port(self) -> int | None:
        return self._door.port

    @property
    def url(self) -> str:
        return self._door.url

    def let_control(self, begin: Callable[[socket.socket], None]) -> None:
        """Let consoles control the node; `begin` gets this end of the channel of each."""
        self._door.control = begin

    def close(self) -> None:
        if not self._door.is_closed:
            trio.lowlevel.notify_closing(self._door.fileno())
            self._door.close()

    async def _keep(self) -> None:
        """Until the node ends, however it ends."""
        door = self._door
        try:
            while not door.is_closed:
                await trio.lowlevel.wait_readable(door.fileno())
                # to start a process takes milliseconds, in which the node serves clients
                await trio.to_thread.run_sync(door.step)
                await trio.sleep(door.rest_s)
        except trio.ClosedResourceError:
            pass
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(door.end)

    def _order(self) -> JsonObject:
        settings = self._services.metadata.settings
        registry = next(iter(self._services.schemas.registry.urls), "")
        addresses = [] if "bootstrap.servers" in self._properties else self._bootstrap()
        return order_of(
            settings,
            self._door.port,
            addresses,
            self._properties,
            self._login,
            registry,
            has_sql=settings["console.sql"],
        )

    def _bootstrap(self) -> list[Address]:
        """Return addresses of brokers, this node first. Raises ValueError while there are none."""
        settings, image = self._services.metadata.settings, self._services.metadata.image
        known = sorted(
            (broker for broker in image.brokers.values() if broker.alive),
            key=lambda broker: broker.broker_id != settings.node_id,
        )
        found = [broker.endpoint(self._listener.listener) for broker in known]
        addresses = [(each.host, each.port) for each in found if each is not None]
        if not addresses:
            raise ValueError("no broker has registered yet")
        return addresses


def open_edge(services: Services) -> Edge:
    return Edge(services)
