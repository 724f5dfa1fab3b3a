"""Services beside the broker that a node may have: packages of their own, each switched on by a
setting and found by its name. Imports none of them.

The code that starts a node opens them right after its start, and closes them before it is shut
down. The broker does not import them.
"""

from errno import EADDRINUSE
from importlib import import_module
from typing import Protocol

from raftka.broker.handlers.services import Services
from raftka.broker.network.listening import CannotListen

EDGES = {  # setting: module with open_edge(services)
    "console.port": "raftka.cluster.services.console",
    "raftka.balance": "raftka.cluster.services.balance",
    "registry.port": "raftka.cluster.services.registry",
    "zookeeper.bridge.port": "zookeeper_bridge.edge",
}
EXTRAS = {"registry.port": "raftka[registry]"}  # the extra that installs the libraries of an edge
TOO = {"zookeeper.bridge.port": ("zookeeper.bridge.secure.port",)}  # settings that open it as well


class Edge(Protocol):
    @property
    def port(self) -> int | None: ...

    def close(self) -> None:
        """Accept no new connection and close the open ones."""


def open_edges(services: Services) -> dict[str, Edge]:
    """By setting. Raises ValueError when one can not be: its port is taken, or its package is not
    there.
    """
    settings = services.metadata.settings
    return {
        setting: _open(services, setting, module)
        for setting, module in EDGES.items()
        if any(settings[each] is not None for each in (setting, *TOO.get(setting, ())))
    }


def _open(services: Services, setting: str, module: str) -> Edge:
    try:
        edge: Edge = import_module(module).open_edge(services)
        return edge
    except ModuleNotFoundError as error:
        package = EXTRAS.get(setting, "raftka with all its packages")
        raise ValueError(
            f"{setting} is set, and there is no {error.name}: install {package}"
        ) from error
    except OSError as error:
        setting = error.setting if isinstance(error, CannotListen) else setting
        remedy = (
            f"; stop the process that listens there, or change `{setting}`"
            if error.errno == EADDRINUSE
            else ""
        )
        raise ValueError(
            f"{setting}={services.metadata.settings[setting]}: {error.strerror or error}{remedy}"
        ) from error


def close_edges(edges: dict[str, Edge]) -> None:
    for each in edges.values():
        each.close()
