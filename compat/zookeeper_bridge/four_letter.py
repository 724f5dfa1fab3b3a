"""ZooKeeper's four-letter words: what a health check or a monitor asks before anything else. Text from numbers; knows no packet."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zookeeper_bridge.connection import ClientConnection
    from zookeeper_bridge.server import Bridge

# Go's client wants the version to look just so: a build date with slashes, a time and a zone.
VERSION = "3.9.3-raftka"
BUILT = "10/17/2024 23:21 GMT"


def answer(bridge: "Bridge", word: bytes) -> str | None:
    """None: that is none of them, but the size of a packet."""
    verb = WORDS.get(word)
    return verb(bridge) if verb is not None else None


def _server(bridge: "Bridge") -> str:
    tree = bridge.tree
    return (
        f"Latency min/avg/max: 0/0.0/0\n"
        f"Received: {bridge.packets_received}\n"
        f"Sent: {bridge.packets_sent}\n"
        f"Connections: {len(bridge.connections)}\n"
        f"Outstanding: {bridge.submissions.outstanding}\n"
        f"Zxid: {tree.offset:#x}\n"
        f"Mode: {_mode(bridge)}\n"
        f"Node count: {tree.node_count}\n"
    )


def _mode(bridge: "Bridge") -> str:
    quorum = bridge.node.quorum
    if quorum.core is None:
        return "observer"
    if len(bridge.node.settings.voters) == 1:
        return "standalone"
    return "leader" if quorum.leader == bridge.node.node_id else "follower"


def _banner() -> str:
    return f"Zookeeper version: {VERSION}, built on {BUILT}\n"


def _srvr(bridge: "Bridge") -> str:
    return _banner() + _server(bridge)


def _stat(bridge: "Bridge") -> str:
    return f"{_banner()}Clients:\n{''.join(_line(each) for each in bridge.connections)}\n{_server(bridge)}"


def _line(connection: "ClientConnection") -> str:
    counts = f"queued={connection.outstanding},recved={connection.received},sent={connection.sent}"
    return f" /{connection.peer}[{int(connection.attached)}]({counts})\n"


def _cons(bridge: "Bridge") -> str:
    return "".join(
        _line(each).rstrip(")\n") + (f",sid={each.session_id:#x},to={each.timeout_ms}" if each.attached else "") + ")\n"
        for each in bridge.connections
    )


def _mntr(bridge: "Bridge") -> str:
    tree = bridge.tree
    numbers = {
        "version": f"{VERSION}, built on {BUILT}",
        "server_state": _mode(bridge),
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
    return "".join(f"zk_{name}\t{value}\n" for name, value in numbers.items())


def _envi(bridge: "Bridge") -> str:
    return f"Environment:\nzookeeper.version={VERSION}, built on {BUILT}\nhost.name={bridge.node.node_id}\n"


def _conf(bridge: "Bridge") -> str:
    tick_ms = bridge.tick_ms
    return f"tickTime={tick_ms}\nminSessionTimeout={2 * tick_ms}\nmaxSessionTimeout={20 * tick_ms}\nserverId={bridge.node.node_id}\n"


def _wchs(bridge: "Bridge") -> str:
    watchers, paths = list(bridge.watches.by_connection()), list(bridge.watches.by_path())
    return f"{len(watchers)} connections watching {len(paths)} paths\nTotal watches:{bridge.watches.count}\n"


def _wchc(bridge: "Bridge") -> str:
    return "".join(f"{each.session_id:#x}\n" + "".join(f"\t{path}\n" for path in paths) for each, paths in bridge.watches.by_connection())


def _wchp(bridge: "Bridge") -> str:
    return "".join(f"{path}\n" + "".join(f"\t{each.session_id:#x}\n" for each in watchers) for path, watchers in bridge.watches.by_path())


def _dump(bridge: "Bridge") -> str:
    tree = bridge.tree
    owned = "".join(f"{session_id:#x}:\n" + "".join(f"\t{path}\n" for path in paths) for session_id, paths in tree.owned.items())
    sessions = "".join(f"{session_id:#x}\t{session.timeout_ms}ms\n" for session_id, session in tree.sessions.items())
    heads = (
        f"SessionTracker dump:\nGlobal Sessions({tree.session_count}):\n",
        f"ephemeral nodes dump:\nSessions with Ephemerals ({len(tree.owned)}):\n",
    )
    return f"{heads[0]}{sessions}{heads[1]}{owned}"


def _reset(bridge: "Bridge") -> str:
    bridge.packets_received = bridge.packets_sent = 0
    return "Server stats reset.\n"


def _reset_connections(bridge: "Bridge") -> str:
    for each in bridge.connections:
        each.received = each.sent = 0
    return "Connection stats reset.\n"


WORDS: dict[bytes, Callable[["Bridge"], str]] = {
    b"ruok": lambda bridge: "imok",
    b"srvr": _srvr,
    b"stat": _stat,
    b"cons": _cons,
    b"mntr": _mntr,
    b"envi": _envi,
    b"conf": _conf,
    b"wchs": _wchs,
    b"wchc": _wchc,
    b"wchp": _wchp,
    b"dump": _dump,
    b"dirs": lambda bridge: f"datadir_size: {bridge.tree.size_bytes}\nlogdir_size: 0\n",
    b"isro": lambda bridge: "rw",
    b"srst": _reset,
    b"crst": _reset_connections,
}
