"""ZooKeeper's four-letter words: what a health check or a monitor asks before anything else. Text
from figures; knows no packet.
"""

from collections.abc import Callable, Iterable

from zookeeper_bridge.server import figures
from zookeeper_bridge.server.bridge import Bridge
from zookeeper_bridge.server.connection import ClientConnection


def answer(bridge: Bridge, words: frozenset[bytes], word: bytes) -> str | None:
    """`words` are those that are answered. None: these four bytes are no word of ZooKeeper's, but
    the size of a packet.
    """
    if word in words:
        return WORDS[word](bridge)
    if word in WORDS or word in NOT_HERE:
        return f"{word.decode()} is not executed because it is not in the whitelist.\n"
    return None


def whitelist(names: Iterable[str], *, read_only_mode: bool = False) -> frozenset[bytes]:
    """The words to answer, of a whitelist as in ZooKeeper's `4lw.commands.whitelist`. `srvr` is
    always one, and `isro` where there is the mode.
    """
    given = {name.strip().encode() for name in names} | ({b"isro"} if read_only_mode else set())
    return frozenset(WORDS) if b"*" in given else ALWAYS | (given & set(WORDS))


def _server(bridge: Bridge) -> str:
    said = figures.monitor(bridge)
    return (
        f"Latency min/avg/max: {said['min_latency']}/{said['avg_latency']}/{said['max_latency']}\n"
        f"Received: {said['packets_received']}\n"
        f"Sent: {said['packets_sent']}\n"
        f"Connections: {said['num_alive_connections']}\n"
        f"Outstanding: {said['outstanding_requests']}\n"
        f"Zxid: {said['last_proposed_zxid']:#x}\n"
        f"Mode: {said['server_state']}\n"
        f"Node count: {said['znode_count']}\n"
    )


def _banner() -> str:
    return f"Zookeeper version: {figures.VERSION}\n"


def _srvr(bridge: Bridge) -> str:
    return _banner() + _mode(bridge) + _server(bridge)


def _mode(bridge: Bridge) -> str:
    return "READ-ONLY mode; serving only read-only clients\n" if bridge.read_only else ""


def _stat(bridge: Bridge) -> str:
    return (
        f"{_banner()}{_mode(bridge)}Clients:\n"
        f"{''.join(_line(each) for each in bridge.connections)}\n{_server(bridge)}"
    )


def _line(connection: ClientConnection) -> str:
    counts = f"queued={connection.outstanding},recved={connection.received},sent={connection.sent}"
    return f" /{connection.peer}[{int(connection.attached)}]({counts})\n"


def _cons(bridge: Bridge) -> str:
    return "".join(
        _line(each).rstrip(")\n")
        + (f",sid={each.session_id:#x},to={each.timeout_ms}" if each.attached else "")
        + ")\n"
        for each in bridge.connections
    )


def _mntr(bridge: Bridge) -> str:
    return "".join(f"zk_{name}\t{value}\n" for name, value in figures.monitor(bridge).items())


def _envi(bridge: Bridge) -> str:
    return (
        f"Environment:\nzookeeper.version={figures.VERSION}\n"
        f"host.name={bridge.services.context.node_id}\n"
    )


def _conf(bridge: Bridge) -> str:
    names = {
        "client_port": "clientPort",
        "data_dir": "dataDir",
        "tick_time": "tickTime",
        "server_id": "serverId",
    }
    names |= {
        "min_session_timeout": "minSessionTimeout",
        "max_session_timeout": "maxSessionTimeout",
    }
    text = "".join(
        f"{names[name]}={value}\n" for name, value in figures.configuration(bridge).items()
    )
    return (
        text
        if len(bridge.services.quorum.addresses.voters) == 1
        else f"{text}membership: \n{bridge.tree.membership.decode()}"
    )


def _wchs(bridge: Bridge) -> str:
    watchers, paths = list(bridge.watches.by_connection()), list(bridge.watches.by_path())
    return (
        f"{len(watchers)} connections watching {len(paths)} paths\nTotal "
        f"watches:{bridge.watches.count}\n"
    )


def _wchc(bridge: Bridge) -> str:
    return "".join(
        f"{each.session_id:#x}\n" + "".join(f"\t{path}\n" for path in paths)
        for each, paths in bridge.watches.by_connection()
    )


def _wchp(bridge: Bridge) -> str:
    return "".join(
        f"{path}\n" + "".join(f"\t{each.session_id:#x}\n" for each in watchers)
        for path, watchers in bridge.watches.by_path()
    )


def _dump(bridge: Bridge) -> str:
    tree = bridge.tree
    owned = "".join(
        f"{session_id:#x}:\n" + "".join(f"\t{path}\n" for path in paths)
        for session_id, paths in tree.owned.items()
    )
    sessions = "".join(
        f"{session_id:#x}\t{session.timeout_ms}ms\n"
        for session_id, session in tree.sessions.items()
    )
    heads = (
        f"SessionTracker dump:\nGlobal Sessions({tree.session_count}):\n",
        f"ephemeral nodes dump:\nSessions with Ephemerals ({len(tree.owned)}):\n",
    )
    return f"{heads[0]}{sessions}{heads[1]}{owned}"


def _reset(bridge: Bridge) -> str:
    figures.reset(bridge)
    return "Server stats reset.\n"


def _reset_connections(bridge: Bridge) -> str:
    figures.reset_connections(bridge)
    return "Connection stats reset.\n"


WORDS: dict[bytes, Callable[[Bridge], str]] = {
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
    b"isro": lambda bridge: "ro" if bridge.read_only else "rw",
    b"srst": _reset,
    b"crst": _reset_connections,
}
ALWAYS = frozenset((b"srvr",))
NOT_HERE = (b"gtmk", b"hash", b"stmk")  # ZooKeeper has them
