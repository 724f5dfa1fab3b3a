"""ZooKeeper's admin pages: the names and the shapes that 3.9.3 gives them, and numbers that follow
what clients do.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from raftka.broker.network.listening import CannotListen
from tests.kit.broker.http import Browser
from tests.zookeeper_bridge.stage import BridgeStage
from zookeeper_bridge.edge import open_edge
from zookeeper_bridge.server.admin import ALIASES, COMMANDS

PORT = 8080
HEAD = b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

# What ZooKeeper 3.9.3 answers each command with, alone and in a quorum; of it what is known here.
SHAPES: dict[str, dict[str, type]] = {
    "configuration": {
        "client_port": int,
        "data_dir": str,
        "tick_time": int,
        "min_session_timeout": int,
        "max_session_timeout": int,
        "server_id": int,
    },
    "connection_stat_reset": {},
    "connections": {"connections": list, "secure_connections": list},
    "dirs": {"datadir_size": int, "logdir_size": int},
    "dump": {"session_ids": list, "session_id_to_ephemeral_paths": dict},
    "environment": {"zookeeper.version": str, "host.name": str},
    "is_read_only": {"read_only": bool},
    "leader": {"is_leader": bool, "leader_id": int, "leader_ip": str},
    "monitor": {
        **{
            "version": str,
            "server_state": str,
            "avg_latency": float,
            "max_latency": int,
            "min_latency": int,
        },
        **dict.fromkeys(
            (
                "packets_received",
                "packets_sent",
                "num_alive_connections",
                "outstanding_requests",
                "znode_count",
            ),
            int,
        ),
        **dict.fromkeys(
            (
                "watch_count",
                "ephemerals_count",
                "approximate_data_size",
                "global_sessions",
                "last_proposed_zxid",
            ),
            int,
        ),
        **dict.fromkeys(
            ("local_sessions", "uptime", "auth_failed_count", "quorum_size", "synced_observers"),
            int,
        ),
        **dict.fromkeys(("open_file_descriptor_count", "max_file_descriptor_count"), int),
        "peer_state": str,
    },
    "ruok": {},
    "server_stats": {"version": str, "read_only": bool, "server_stats": dict, "node_count": int},
    "stat_reset": {},
    "stats": {
        "version": str,
        "read_only": bool,
        "server_stats": dict,
        "node_count": int,
        "connections": list,
        "secure_connections": list,
    },
    "voting_view": {"current_config": dict},
    "watch_summary": {"num_connections": int, "num_paths": int, "num_total_watches": int},
    "watches": {"session_id_to_watched_paths": dict},
    "watches_by_path": {"path_to_session_ids": dict},
}


@pytest.fixture(scope="module")
def stage() -> Iterator[BridgeStage]:
    with BridgeStage(3, zookeeper_bridge_admin_port=str(PORT)) as stage:
        yield stage
        assert not stage.world.failures


def page(stage: BridgeStage, path: str, node_id: int = 1) -> tuple[int, bytes]:
    status, _, body = Browser(stage, node_id, PORT).answer_to(b"GET " + path.encode() + HEAD)
    return status, body


def said(stage: BridgeStage, name: str, node_id: int = 1) -> dict[str, Any]:
    status, body = page(stage, f"/commands/{name}", node_id)
    assert status == 200
    found: dict[str, Any] = json.loads(body)
    return found


def test_the_index_names_every_command(stage: BridgeStage) -> None:
    status, body = page(stage, "/commands")

    assert status == 200
    assert body.decode().count("<a href=") == len(COMMANDS)
    assert all(f'"/commands/{name}"' in body.decode() for name in COMMANDS)
    assert page(stage, "/commands/") == (status, body)


@pytest.mark.parametrize("name", SHAPES)
def test_a_command_has_zookeepers_shape(stage: BridgeStage, name: str) -> None:
    found = said(stage, name)

    assert (found.pop("command"), found.pop("error")) == (name, None)
    assert {each: type(value) for each, value in found.items()} == SHAPES[name]


def test_short_names_are_the_long_ones(stage: BridgeStage) -> None:
    assert {name: said(stage, short)["command"] for short, name in ALIASES.items()} == {
        name: name for name in ALIASES.values()
    }


def test_an_unknown_command_is_reported_and_other_paths_are_not_found(stage: BridgeStage) -> None:
    assert said(stage, "nope") == {"command": "nope", "error": "Unknown command: nope"}
    assert page(stage, "/")[0] == 404
    assert page(stage, "/commandsruok")[0] == 404


def test_numbers_follow_what_clients_do(stage: BridgeStage) -> None:
    client = stage.client()
    session = client.session.session_id  # type: ignore[union-attr]
    said(stage, "stat_reset")
    client.create("/seen", flags=1)
    client.get("/seen", watch=True)

    assert said(stage, "dump")["session_id_to_ephemeral_paths"] == {str(session): ["/seen"]}
    assert said(stage, "watches")["session_id_to_watched_paths"] == {str(session): ["/seen"]}
    assert said(stage, "watches_by_path")["path_to_session_ids"] == {"/seen": [session]}
    assert said(stage, "wchs") == {
        "num_connections": 1,
        "num_paths": 1,
        "num_total_watches": 1,
        "command": "watch_summary",
        "error": None,
    }
    assert [
        (each["session_id"], each["packets_received"])
        for each in said(stage, "cons")["connections"]
    ] == [(session, 3)]
    monitor = said(stage, "monitor")
    assert (monitor["ephemerals_count"], monitor["watch_count"], monitor["packets_received"]) == (
        1,
        1,
        2,
    )
    assert 0 < monitor["avg_latency"] <= monitor["max_latency"] + 1
    said(stage, "stat_reset")
    assert said(stage, "monitor")["avg_latency"] == 0


def test_all_nodes_name_the_same_leader(stage: BridgeStage) -> None:
    leader = stage.controller()
    found = {node_id: said(stage, "leader", node_id) for node_id in stage.nodes}

    assert {node_id for node_id, each in found.items() if each["is_leader"]} == {leader}
    assert {each["leader_id"] for each in found.values()} == {leader}
    assert said(stage, "srvr", leader)["server_stats"]["server_state"] == "leader"
    assert set(said(stage, "voting_view")["current_config"]) == {"1", "2", "3"}


def test_alone_there_is_no_leader() -> None:
    with BridgeStage(zookeeper_bridge_admin_port=str(PORT)) as stage:
        assert said(stage, "leader") == {"error": "server is not initialized", "command": "leader"}


def test_there_are_no_pages_unless_they_are_asked_for() -> None:
    with BridgeStage() as stage:
        assert stage.edges[1].admin_port is None


def test_a_port_that_is_taken_is_named_and_nothing_stays_open() -> None:
    with BridgeStage(without=(1,), zookeeper_bridge_admin_port=str(PORT)) as stage:
        node = stage.nodes[1]
        taken = node.runtime.network.listen("n1", PORT, lambda: None)

        with pytest.raises(CannotListen) as refused:
            open_edge(node.services)
        assert refused.value.setting == "zookeeper.bridge.admin.port"

        taken.close()
        open_edge(node.services)


def test_pages_are_secured_as_the_nodes_are() -> None:
    """No header of a proxy's makes a client another one."""
    with BridgeStage(
        zookeeper_bridge_admin_port=str(PORT), metrics_auth_bearer_token="a-token"
    ) as stage:
        get = b"GET /commands/%b HTTP/1.1\r\nHost: x\r\n%b\r\n"
        token = b"Authorization: Bearer a-token\r\n"
        for head in (b"", b"X-Forwarded-For: 127.0.0.1\r\n", b"Authorization: Bearer another\r\n"):
            request = get % (b"monitor", head)
            assert Browser(stage, port=PORT).answer_to(request)[0] == 401
        assert Browser(stage, port=PORT).answer_to(get % (b"monitor", token))[0] == 200
        configuration = get % (b"configuration", token)
        assert b"a-token" not in Browser(stage, port=PORT).answer_to(configuration)[2]
