"""A node's words to monitors: four-letter words and their whitelist, mntr, and
/zookeeper/config.
"""

import re
from collections.abc import Iterator

import pytest

from tests.zookeeper_bridge.stage import BridgeStage, ZkClient
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.jute import Acl
from zookeeper_bridge.protocol.opcodes import Op
from zookeeper_bridge.tree.tree import FROM_THE_BEGINNING
from zookeeper_bridge.tree.watches import EventType


@pytest.fixture
def stage() -> Iterator[BridgeStage]:
    with BridgeStage() as stage:
        yield stage
        assert not stage.world.failures


@pytest.fixture
def talkative() -> Iterator[BridgeStage]:
    with BridgeStage(zookeeper_bridge_4lw_commands_whitelist="*") as stage:
        yield stage
        assert not stage.world.failures


def test_words(talkative: BridgeStage) -> None:
    client = talkative.client()
    client.create("/e", flags=1)
    client.get("/e", watch=True)
    words = (
        "ruok",
        "srvr",
        "stat",
        "mntr",
        "envi",
        "isro",
        "cons",
        "wchs",
        "wchc",
        "wchp",
        "conf",
        "dump",
        "dirs",
    )
    said = {word: _say(talkative, word) for word in words}

    assert (said["ruok"], said["isro"]) == ("imok", "rw")
    assert re.match(
        r"Zookeeper version: [A-Za-z0-9.-]+, built on \d\d/\d\d/\d\d\d\d \d\d:\d\d [A-Z]+\n",
        said["srvr"],
    )
    assert re.search(
        r"Latency min/avg/max: \d+/[\d.]+/\d+\nReceived: \d+\nSent: \d+\nConnections: "
        r"\d+\nOutstanding: 0\n",
        said["srvr"],
    )
    assert re.search(
        rf"Zxid: 0x[0-9a-f]+\nMode: standalone\nNode count: {len(FROM_THE_BEGINNING) + 1}\n",
        said["srvr"],
    )
    assert f"zk_znode_count\t{len(FROM_THE_BEGINNING) + 1}\n" in said["mntr"]
    assert "zk_ephemerals_count\t1\n" in said["mntr"]
    assert "zookeeper.version=3." in said["envi"]
    assert f"sid={client.session.session_id:#x}" in said["cons"]  # type: ignore[union-attr]
    assert "Total watches:1" in said["wchs"]
    assert all("/e" in said[word] for word in ("wchc", "wchp", "dump"))
    assert "maxSessionTimeout=40000" in said["conf"]


def test_only_srvr_is_executed_without_a_whitelist(stage: BridgeStage) -> None:
    for word in ("ruok", "stat", "mntr", "isro", "srst", "gtmk", "stmk", "hash"):
        assert _say(stage, word) == f"{word} is not executed because it is not in the whitelist.\n"
    assert _say(stage, "srvr").startswith("Zookeeper version: ")


def test_a_whitelist_names_the_words_that_are_executed() -> None:
    with BridgeStage(zookeeper_bridge_4lw_commands_whitelist="ruok, isro,nonsense") as stage:
        assert [_say(stage, word) for word in ("ruok", "isro")] == ["imok", "rw"]
        assert _say(stage, "srvr").startswith("Zookeeper version: ")
        assert _say(stage, "mntr") == "mntr is not executed because it is not in the whitelist.\n"


def test_mntr_has_the_names_that_exporters_read(talkative: BridgeStage) -> None:
    talkative.client()
    began = _figures(talkative)
    talkative.pass_time(2.5)
    found = _figures(talkative)

    assert int(found["zk_uptime"]) >= int(began["zk_uptime"]) + 2500
    assert (
        0 < int(found["zk_open_file_descriptor_count"]) < int(found["zk_max_file_descriptor_count"])
    )
    assert found["zk_auth_failed_count"] == "0"
    client = talkative.client()
    client.request(Op.AUTH, jute.AUTH.encode((0, "nobody", b"")))
    client.wait_closed()
    assert _figures(talkative)["zk_auth_failed_count"] == "1"
    assert "zk_peer_state" not in found, "a server alone is no peer, as in ZooKeeper"


def _figures(stage: BridgeStage, node_id: int = 1) -> dict[str, str]:
    lines = _say(stage, "mntr", node_id).splitlines()
    return {name: value for name, _, value in (line.partition("\t") for line in lines)}


def test_mntr_tells_of_the_followers_at_the_leader() -> None:
    with BridgeStage(3, zookeeper_bridge_4lw_commands_whitelist="mntr") as stage:
        stage.client()
        leader = stage.controller()
        others = [node_id for node_id in stage.nodes if node_id != leader]
        found = _figures(stage, leader)
        assert (found["zk_server_state"], found["zk_peer_state"], found["zk_quorum_size"]) == (
            "leader",
            "leading - broadcast",
            "3",
        )
        assert [found[f"zk_{name}"] for name in ("followers", "learners", "synced_followers")] == [
            "2",
            "2",
            "2",
        ]
        assert int(found["zk_leader_uptime"]) <= int(found["zk_uptime"])
        told = _figures(stage, others[0])
        assert (told["zk_server_state"], told["zk_peer_state"]) == (
            "follower",
            "following - broadcast",
        )
        assert "zk_followers" not in told

        stage.kill(others[0])
        stage.wait(lambda: _figures(stage, leader)["zk_synced_followers"] == "1")


def test_the_configuration_is_the_ensemble() -> None:
    with BridgeStage(3) as stage:
        client = stage.client()
        data, stat = client.get("/zookeeper/config", watch=True)
        lines = [f"server.{i}=n{i}:9093:9093:participant" for i in (1, 2, 3)]
        assert (data or b"").decode().splitlines() == [*lines, "version=0"]
        assert (stat.version, stat.data_length) == (-1, len(data or b""))
        assert jute.ACLS_STAT.decode(client.must(Op.GET_ACL, "/zookeeper/config"))[0] == [
            Acl(1, "world", "anyone")
        ]
        assert client.error(Op.SET_DATA, "/zookeeper/config", b"x", -1) is Err.NO_AUTH


def test_the_configuration_follows_the_voters(stage: BridgeStage) -> None:
    client = stage.client()
    client.get("/zookeeper/config", watch=True)
    voters = [[1, "n1", 9093], [4, "n4", 9094]]
    addresses = stage.nodes[1].quorum.addresses
    stage.nodes[1].runtime.take(  # type: ignore[attr-defined]
        lambda _: addresses.announced(0x1F, voters), None
    )

    assert client.wait_event()[0][:2] == (EventType.CHANGED, "/zookeeper/config")
    lines = ["server.1=n1:9093:9093:participant", "server.4=n4:9094:9094:participant"]
    data, stat = client.get("/zookeeper/config")
    assert (data or b"").decode().splitlines() == [*lines, "version=1f"]
    assert stat.data_length == len(data or b"")


def test_a_word_may_come_in_pieces(talkative: BridgeStage) -> None:
    stranger = ZkClient(talkative)
    stranger.send(b"ru")
    talkative.pass_time(0.1)
    stranger.send(b"ok\n")
    stranger.wait_closed()

    assert stranger.data == b"imok"


def _say(stage: BridgeStage, word: str, node_id: int = 1) -> str:
    stranger = ZkClient(stage, node_id)
    stranger.raw = True
    stranger.send(word.encode())
    stranger.wait_closed()
    return stranger.data.decode()
