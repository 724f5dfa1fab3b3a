"""The pages of ZooKeeper's AdminServer: /commands, and /commands/NAME as JSON, named and shaped as
in 3.9. They show and reset numbers, and change no znode.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from raftka.http.messages import Reply, Request, Response
from raftka.http.pages import Page
from raftka.json_values import JsonObject
from zookeeper_bridge.server import figures

if TYPE_CHECKING:
    from zookeeper_bridge.server.bridge import Bridge

HOME = "/commands"
Command = Callable[["Bridge"], JsonObject]


class Commands(Mapping[str, Page]):
    """Pages by path. There is one for each name: an unknown command is answered in JSON, with 200,
    as by ZooKeeper.
    """

    def __init__(self, bridge: "Bridge") -> None:
        self._bridge = bridge

    def __getitem__(self, path: str) -> Page:
        if path in (HOME, HOME + "/"):
            return _show_index
        if not path.startswith(HOME + "/"):
            raise KeyError(path)
        name = path.removeprefix(HOME + "/")
        return partial(_run_command, self._bridge, ALIASES.get(name, name))

    def __iter__(self) -> Iterator[str]:
        return iter((HOME, *(f"{HOME}/{name}" for name in COMMANDS)))

    def __len__(self) -> int:
        return 1 + len(COMMANDS)


def _show_index(request: Request, reply: Reply) -> None:
    links = "".join(f'<a href="{HOME}/{name}">{name}</a>\n<br/>\n' for name in COMMANDS)
    reply(Response(200, "text/html; charset=utf-8", links.encode()))


def _run_command(bridge: "Bridge", name: str, request: Request, reply: Reply) -> None:
    command = COMMANDS.get(name)
    if command is None:
        found: JsonObject = {"command": name, "error": f"Unknown command: {name}"}
    else:
        found = command(bridge)
        found = {**found, "command": name, "error": found.get("error")}
    text = json.dumps(found, indent=2, separators=(",", " : "))
    reply(Response(200, "application/json", text.encode() + b"\n"))


def _stats(bridge: "Bridge") -> dict[str, object]:
    monitor = figures.monitor(bridge)
    server = {
        "packets_sent": monitor["packets_sent"],
        "packets_received": monitor["packets_received"],
        "data_dir_size": monitor["approximate_data_size"],
        "last_processed_zxid": monitor["last_proposed_zxid"],
        "outstanding_requests": monitor["outstanding_requests"],
        "server_state": monitor["server_state"],
        "avg_latency": monitor["avg_latency"],
        "max_latency": monitor["max_latency"],
        "min_latency": monitor["min_latency"],
        "num_alive_client_connections": monitor["num_alive_connections"],
    }
    return {
        "version": figures.VERSION,
        "read_only": bridge.read_only,
        "server_stats": server,
        "node_count": monitor["znode_count"],
    }


def _connections(bridge: "Bridge") -> JsonObject:
    return {
        "connections": [figures.connection(each) for each in bridge.connections],
        "secure_connections": [],
    }


def _leader(bridge: "Bridge") -> dict[str, object]:
    """Return the leader as ZooKeeper does: a server that is alone has none."""
    quorum = bridge.services.quorum
    voters = {each.node_id: each for each in bridge.services.quorum.addresses.voters}
    if len(voters) == 1 and quorum.core is not None:
        return {"error": "server is not initialized"}
    leader = voters.get(quorum.leader) if quorum.leader is not None else None
    if leader is None:
        return {"is_leader": False, "leader_id": 0, "leader_ip": ""}
    return {
        "is_leader": leader.node_id == bridge.services.context.node_id,
        "leader_id": leader.node_id,
        "leader_ip": leader.host,
    }


def _voters(bridge: "Bridge") -> dict[str, object]:
    """Return the quorum's addresses: those of raftka's controllers."""
    found = {}
    for each in bridge.services.quorum.addresses.voters:
        address = f"{each.host}:{each.port}"
        found[str(each.node_id)] = {
            "server_addresses": [address],
            "election_addresses": [address],
            "learner_type": "participant",
        }
    return {"current_config": found}


def _watches(bridge: "Bridge") -> dict[str, object]:
    return {
        "session_id_to_watched_paths": {
            str(each.session_id): list(paths) for each, paths in bridge.watches.by_connection()
        }
    }


def _watches_by_path(bridge: "Bridge") -> dict[str, object]:
    return {
        "path_to_session_ids": {
            path: [each.session_id for each in watchers]
            for path, watchers in bridge.watches.by_path()
        }
    }


def _watch_summary(bridge: "Bridge") -> dict[str, object]:
    watches = bridge.watches
    watchers, paths = len(list(watches.by_connection())), len(list(watches.by_path()))
    return {"num_connections": watchers, "num_paths": paths, "num_total_watches": watches.count}


def _dump(bridge: "Bridge") -> dict[str, object]:
    """Return sessions without the times at which they expire: the controller alone knows them."""
    owned = {str(session_id): list(paths) for session_id, paths in bridge.tree.owned.items()}
    return {"session_ids": list(bridge.tree.sessions), "session_id_to_ephemeral_paths": owned}


def _reset(act: Callable[["Bridge"], None], bridge: "Bridge") -> JsonObject:
    act(bridge)
    return {}


COMMANDS: dict[str, Command] = {
    "configuration": figures.configuration,
    "connection_stat_reset": partial(_reset, figures.reset_connections),
    "connections": _connections,
    "dirs": lambda bridge: {"datadir_size": bridge.tree.size_bytes, "logdir_size": 0},
    "dump": _dump,
    "environment": lambda bridge: {
        "zookeeper.version": figures.VERSION,
        "host.name": str(bridge.services.context.node_id),
    },
    "is_read_only": lambda bridge: {"read_only": bridge.read_only},
    "leader": _leader,
    "monitor": figures.monitor,
    "ruok": lambda bridge: {},
    "server_stats": _stats,
    "stat_reset": partial(_reset, figures.reset),
    "stats": lambda bridge: _stats(bridge) | _connections(bridge),
    "voting_view": _voters,
    "watch_summary": _watch_summary,
    "watches": _watches,
    "watches_by_path": _watches_by_path,
}
ALIASES = {
    "conf": "configuration",
    "crst": "connection_stat_reset",
    "cons": "connections",
    "envi": "environment",
    "isro": "is_read_only",
    "lead": "leader",
    "mntr": "monitor",
    "srvr": "server_stats",
    "srst": "stat_reset",
    "stat": "stats",
    "wchs": "watch_summary",
    "wchc": "watches",
    "wchp": "watches_by_path",
}
