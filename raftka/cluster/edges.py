"""Services beside the broker that a node may have: packages of their own, each switched on by a setting and found by its name. Imports none of them.

The code that starts a node opens them right after its start, and closes them before it is shut down. The broker knows nothing of it.
"""

from errno import EADDRINUSE
from importlib import import_module
from typing import Protocol

from raftka.broker.handlers.services import Services

EDGES = {"zookeeper.bridge.port": "zookeeper_bridge.edge"}  # setting: module with open_edge(services)


class Edge(Protocol):
    @property
    def port(self) -> int: ...

    def close(self) -> None:
        """Accept no new connection and close the open ones."""


def open_edges(services: Services) -> dict[str, Edge]:
    """By setting. Raises ValueError when one can not be: its port is taken, or its package is not there."""
    return {setting: _open(services, setting, module) for setting, module in EDGES.items() if services.metadata.settings[setting] is not None}


def _open(services: Services, setting: str, module: str) -> Edge:
    try:
        edge: Edge = import_module(module).open_edge(services)
        return edge
    except ModuleNotFoundError as error:
        raise ValueError(f"{setting} is set, and there is no {error.name}: install raftka with all its packages") from error
    except OSError as error:
        remedy = f"; stop the process that listens there, or change `{setting}`" if error.errno == EADDRINUSE else ""
        raise ValueError(f"{setting}={services.metadata.settings[setting]}: {error.strerror or error}{remedy}") from error


def close_edges(edges: dict[str, Edge]) -> None:
    for each in edges.values():
        each.close()
