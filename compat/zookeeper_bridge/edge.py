"""The bridge as a service of a node: what raftka starts where `zookeeper.bridge.port` is set. Knows how the parts hang together, and nothing else."""

from functools import partial

from raftka.broker.exporter.pages import guarded_server
from raftka.broker.handlers.services import Services
from raftka.runtime.interfaces import Listener
from zookeeper_bridge.server.admin import Commands
from zookeeper_bridge.server.bridge import Bridge
from zookeeper_bridge.server.four_letter import answer, whitelist
from zookeeper_bridge.tree.store import PACKAGE


class Edge:
    """Open after the node's start: the image may have something already."""

    def __init__(self, services: Services) -> None:
        settings, context = services.metadata.settings, services.context
        self.bridge = Bridge(
            services,
            settings["zookeeper.bridge.tick.ms"],
            settings["zookeeper.bridge.super.digest"] or "",
            read_only_mode=settings["zookeeper.bridge.readonlymode.enabled"],
            enforce_quotas=settings["zookeeper.bridge.enforce.quota"],
        )
        words = whitelist(settings["zookeeper.bridge.4lw.commands.whitelist"], read_only_mode=settings["zookeeper.bridge.readonlymode.enabled"])
        self.bridge.answer_word = partial(answer, self.bridge, words)
        services.extensions[PACKAGE] = self.bridge
        self.bridge.load(services.metadata.image)
        self._listener: Listener = context.runtime.network.listen(
            settings["zookeeper.bridge.host"], settings["zookeeper.bridge.port"], self.bridge.accept
        )
        self._admin_listener: Listener | None = None
        if settings["zookeeper.bridge.admin.port"] is not None:
            pages = guarded_server(services, Commands(self.bridge), {}, "bridge admin")
            port = settings["zookeeper.bridge.admin.port"]
            try:
                self._admin_listener = context.runtime.network.listen(settings["zookeeper.bridge.host"], port, pages.accept)
            except OSError as error:
                self._listener.close()
                raise OSError(f"zookeeper.bridge.admin.port={port}: {error.strerror or error}") from error
        context.events.info("bridge_started", port=self.port, admin_port=self.admin_port)

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def admin_port(self) -> int | None:
        return self._admin_listener.port if self._admin_listener is not None else None

    def close(self) -> None:
        """Clients go to other nodes."""
        self._listener.close()
        if self._admin_listener is not None:
            self._admin_listener.close()
        for connection in list(self.bridge.connections):
            connection.end("this node stops")


def open_edge(services: Services) -> Edge:
    """Raises OSError when the port is taken."""
    return Edge(services)
