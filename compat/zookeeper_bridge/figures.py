"""What a bridge knows of itself, by ZooKeeper's names: for the four-letter words and for the pages of the admin port. Knows neither text nor JSON."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zookeeper_bridge.connection import ClientConnection
    from zookeeper_bridge.server import Bridge

# Go's client wants the version to look just so: a build date with slashes, a time and a zone.
VERSION = "3.9.3-raftka, built on 10/17/2024 23:21 GMT"


class Latency:
    """Of writes, from the request to its result, in ms. Reads have none: they are answered in the turn in which they come."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.least = self.most = self._sum = 0.0
        self._count = 0

    def took(self, ms: float) -> None:
        self.least = min(self.least, ms) if self._count else ms
        self.most = max(self.most, ms)
        self._sum += ms
        self._count += 1

    @property
    def average(self) -> float:
        return round(self._sum / max(1, self._count), 4)


def mode(bridge: "Bridge") -> str:
    quorum = bridge.node.quorum
    if quorum.core is None:
        return "observer"
    if len(bridge.node.settings.voters) == 1:
        return "standalone"
    return "leader" if quorum.leader == bridge.node.node_id else "follower"


def monitor(bridge: "Bridge") -> dict[str, str | int | float]:
    tree, latency = bridge.tree, bridge.latency
    return {
        "version": VERSION,
        "server_state": mode(bridge),
        "avg_latency": latency.average,
        "max_latency": round(latency.most),
        "min_latency": round(latency.least),
        "packets_received": bridge.packets_received,
        "packets_sent": bridge.packets_sent,
        "num_alive_connections": len(bridge.connections),
        "outstanding_requests": bridge.submissions.outstanding,
        "znode_count": tree.node_count,
        "watch_count": bridge.watches.count,
        "ephemerals_count": sum(len(each) for each in tree.owned.values()),
        "approximate_data_size": tree.size_bytes,
        "global_sessions": tree.session_count,
        "last_proposed_zxid": tree.offset,
    }


def configuration(bridge: "Bridge") -> dict[str, str | int]:
    tick_ms, settings = bridge.tick_ms, bridge.node.settings
    return {
        "client_port": settings["zookeeper.bridge.port"],
        "data_dir": settings.metadata_directory,
        "tick_time": tick_ms,
        "min_session_timeout": 2 * tick_ms,
        "max_session_timeout": 20 * tick_ms,
        "server_id": bridge.node.node_id,
    }


def connection(found: "ClientConnection") -> dict[str, str | int]:
    return {
        "remote_socket_address": found.peer,
        "outstanding_requests": found.outstanding,
        "packets_received": found.received,
        "packets_sent": found.sent,
        "session_id": found.session_id,
        "session_timeout": found.timeout_ms,
    }


def reset(bridge: "Bridge") -> None:
    bridge.packets_received = bridge.packets_sent = 0
    bridge.latency.reset()


def reset_connections(bridge: "Bridge") -> None:
    for each in bridge.connections:
        each.received = each.sent = 0
