"""The bridge as a service of a node: what raftka starts where `zookeeper.bridge.port` is set. Knows
how the parts hang together, and nothing else.
"""

from collections.abc import Callable
from functools import partial

from raftka.broker.exporter.guarded import guarded_server
from raftka.broker.handlers.services import Services
from raftka.broker.network.access.port_tls import PortTls
from raftka.broker.network.listening import CannotListen
from raftka.metadata.configs.ports import bridge_tls_of
from raftka.metadata.configs.settings import NodeSettings
from raftka.runtime.interfaces import Connection, Listener
from zookeeper_bridge.server.admin import Commands
from zookeeper_bridge.server.bridge import Bridge
from zookeeper_bridge.server.four_letter import answer, whitelist
from zookeeper_bridge.server.login import LoginRules
from zookeeper_bridge.tree.store import PACKAGE

PORT, SECURE_PORT = "zookeeper.bridge.port", "zookeeper.bridge.secure.port"
ADMIN_PORT = "zookeeper.bridge.admin.port"


class Edge:
    """Open after the node's start: the image may have something already."""

    def __init__(self, services: Services) -> None:
        settings, context = services.metadata.settings, services.context
        self.bridge = Bridge(
            services,
            settings["zookeeper.bridge.tick.ms"],
            LoginRules.of(settings.values),
            read_only_mode=settings["zookeeper.bridge.readonlymode.enabled"],
            enforce_quotas=settings["zookeeper.bridge.enforce.quota"],
            guarded=_guarded(settings),
        )
        words = whitelist(
            settings["zookeeper.bridge.4lw.commands.whitelist"],
            read_only_mode=settings["zookeeper.bridge.readonlymode.enabled"],
        )
        self.bridge.answer_word = partial(answer, self.bridge, words)
        services.extensions[PACKAGE] = self.bridge
        self.bridge.load(services.metadata.image)
        self._listeners: dict[str, Listener] = {}
        try:
            self._listen(services)
        except (OSError, ValueError):
            self._close_listeners()
            raise
        context.events.info(
            "bridge_started",
            port=self.port,
            secure_port=self.secure_port,
            admin_port=self.admin_port,
        )

    def _listen(self, services: Services) -> None:
        settings, context = services.metadata.settings, services.context
        accepts: dict[str, Callable[[], Connection | None]] = {}
        if settings["zookeeper.bridge.port"] is not None:
            accepts[PORT] = self.bridge.accept
        if settings["zookeeper.bridge.secure.port"] is not None:
            accepts[SECURE_PORT] = _behind_tls(
                self.bridge, PortTls(context, bridge_tls_of, "bridge")
            )
        if settings["zookeeper.bridge.admin.port"] is not None:
            accepts[ADMIN_PORT] = guarded_server(
                services.context, Commands(self.bridge), {}, "bridge admin"
            ).accept
        for name, accept in accepts.items():
            try:
                self._listeners[name] = context.runtime.network.listen(
                    settings["zookeeper.bridge.host"], settings[name], accept
                )
            except OSError as error:
                raise CannotListen(error, name) from None

    @property
    def port(self) -> int | None:
        return self._port(PORT)

    @property
    def secure_port(self) -> int | None:
        return self._port(SECURE_PORT)

    @property
    def admin_port(self) -> int | None:
        return self._port(ADMIN_PORT)

    def _port(self, name: str) -> int | None:
        return self._listeners[name].port if name in self._listeners else None

    def close(self) -> None:
        """Clients go to other nodes."""
        self._close_listeners()
        for connection in list(self.bridge.connections):
            connection.end("this node stops")

    def _close_listeners(self) -> None:
        for each in self._listeners.values():
            each.close()


def _guarded(settings: NodeSettings) -> bool:
    """A cluster that has ACLs does not let everybody write past them."""
    given = settings["zookeeper.bridge.set.acl"]
    return bool(settings["authorizer.class.name"]) if given is None else bool(given)


def _behind_tls(bridge: Bridge, tls: PortTls) -> Callable[[], Connection | None]:
    def accept() -> Connection | None:
        connection = bridge.accept(secure=True)
        if connection is None:
            return None
        return tls.protect(
            connection, lambda found: bridge.certified(connection, found.certificate)
        )

    return accept


def open_edge(services: Services) -> Edge:
    """Raises OSError when a port is taken, ValueError when it cannot be secured as the settings
    say.
    """
    return Edge(services)
