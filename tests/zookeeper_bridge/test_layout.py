"""Kafka's znodes, computed from the metadata: what tools read of brokers, topics and the
controller, and what they hear of.
"""

import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from raftka.metadata.image import MetadataImage
from raftka.metadata.records import TopicCreated
from tests.zookeeper_bridge.decisions import OPEN_TO_ALL
from tests.zookeeper_bridge.stage import BridgeStage, ZkClient
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.jute import Stat
from zookeeper_bridge.protocol.opcodes import Op
from zookeeper_bridge.tree.layout import Layout
from zookeeper_bridge.tree.rules import TOPS
from zookeeper_bridge.tree.tree import Tree
from zookeeper_bridge.tree.watches import EventType

CREATED, DELETED, CHANGED, CHILD = EventType


@pytest.fixture
def stage() -> Iterator[BridgeStage]:
    with BridgeStage(3) as stage:
        yield stage
        assert not stage.world.failures


@pytest.fixture
def client(stage: BridgeStage) -> ZkClient:
    return stage.client(timeout_ms=40_000)


def read(client: ZkClient, path: str) -> tuple[Any, Stat]:
    data, stat = client.get(path)
    assert stat.data_length == len(data or b"")
    return json.loads(data or b"null"), stat


def test_the_root(client: ZkClient) -> None:
    assert client.children("/") == sorted(["zookeeper", *TOPS - {"migration"}])
    stat = Stat(*jute.STAT.decode(client.must(Op.EXISTS, "/", False)))
    assert (stat.num_children, stat.cversion) == (17, 15)
    assert client.children("/brokers") == ["ids", "seqid", "topics"]
    assert client.get("/brokers")[0] is None


def test_brokers(stage: BridgeStage, client: ZkClient) -> None:
    assert client.children("/brokers/ids") == ["1", "2", "3"]
    data, stat = read(client, "/brokers/ids/2")
    assert data == {
        "features": {},
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "endpoints": ["PLAINTEXT://n2:9092"],
        "jmx_port": -1,
        "port": 9092,
        "host": "n2",
        "version": 5,
        "timestamp": "0",
    }
    assert stat.czxid == stage.nodes[1].image.brokers[2].epoch
    assert (stat.version, stat.ephemeral_owner != 0) == (1, True)
    for path in (
        "/brokers/ids/4",
        "/brokers/ids/02",
        "/brokers/ids/x",
        "/brokers/ids/2/x",
        "/brokers/other",
        "/brokers/ids/²",
    ):
        assert client.error(Op.GET_DATA, path, False) is Err.NO_NODE


def test_topics(stage: BridgeStage, client: ZkClient) -> None:
    stage.create("t", partitions=2)
    topic = stage.nodes[1].image.topic_named("t")
    assert topic is not None

    assert client.children("/brokers/topics") == ["t"]
    data, _ = read(client, "/brokers/topics/t")
    assert data["partitions"] == {
        str(i): list(each.replicas) for i, each in enumerate(topic.partitions)
    }
    assert (
        data["version"],
        data["adding_replicas"],
        data["removing_replicas"],
        len(data["topic_id"]),
    ) == (3, {}, {}, 22)
    assert client.children("/brokers/topics/t") == ["partitions"]
    assert client.children("/brokers/topics/t/partitions") == ["0", "1"]
    assert client.get("/brokers/topics/t/partitions/1")[0] is None
    state, stat = read(client, "/brokers/topics/t/partitions/1/state")
    leads = topic.partitions[1]
    assert (state["leader"], state["isr"], state["leader_epoch"]) == (
        leads.leader,
        list(leads.isr),
        leads.leader_epoch,
    )
    assert stat.version == leads.partition_epoch
    for path in (
        "/u",
        "/t/x",
        "/t/partitions/2",
        "/t/partitions/01",
        "/t/partitions/1/x",
        "/t/partitions/1/state/x",
    ):
        assert client.error(Op.GET_DATA, f"/brokers/topics{path}", False) is Err.NO_NODE
    assert (
        jute.INT.decode(client.must(Op.GET_ALL_CHILDREN_NUMBER, "/brokers/topics")) == 1 + 1 + 2 + 2
    )


def test_the_cluster_and_its_controller(stage: BridgeStage, client: ZkClient) -> None:
    leader = stage.controller()

    assert read(client, "/cluster/id")[0] == {"version": "1", "id": stage.nodes[1].image.cluster_id}
    assert read(client, "/controller")[0] == {"version": 1, "brokerid": leader, "timestamp": "0"}
    epoch, stat = read(client, "/controller_epoch")
    assert epoch == stat.version == stage.nodes[leader].quorum.core.term  # type: ignore[union-attr]


def test_every_node_shows_created_and_deleted_topics(stage: BridgeStage, client: ZkClient) -> None:
    watchers = [stage.client(node_id, timeout_ms=40_000) for node_id in (1, 2, 3)]
    for each in watchers:
        each.must(Op.ADD_WATCH, "/brokers/topics", 0)
        each.exists("/brokers/topics/t/partitions/0/state", watch=True)
        assert not each.exists("/brokers/topics/t", watch=True)

    stage.create("t")
    for each in watchers:
        heard = each.wait_event(3)
        assert [event[:2] for event in heard] == [
            (CREATED, "/brokers/topics/t"),
            (CHILD, "/brokers/topics"),
            (CREATED, "/brokers/topics/t/partitions/0/state"),
        ]
        assert each.get("/brokers/topics/t", watch=True)[1].czxid == heard[0].zxid
        assert (
            Stat(*jute.STAT.decode(each.must(Op.EXISTS, "/brokers/topics", False))).pzxid
            == heard[0].zxid
        )
    stage.delete("t")
    for each in watchers:
        assert [event[:2] for event in each.wait_event(5)[3:]] == [
            (DELETED, "/brokers/topics/t"),
            (CHILD, "/brokers/topics"),
        ]
        assert not each.exists("/brokers/topics/t")


def test_a_broker_that_dies_is_gone_and_leads_nothing(stage: BridgeStage) -> None:
    stage.create("t", partitions=3)
    victim = next(each for each in (1, 2, 3) if each != stage.controller())
    index = next(i for i in range(3) if stage.leader("t", i) == victim)
    client = stage.client(stage.controller(), timeout_ms=40_000)
    state = f"/brokers/topics/t/partitions/{index}/state"
    client.exists(f"/brokers/ids/{victim}", watch=True)
    client.children("/brokers/ids", watch=True)
    _, before = client.get(state, watch=True)
    since = client.last_zxid
    stage.kill(victim)

    heard = {event[:2] for event in client.wait_event(3)}
    assert heard == {(DELETED, f"/brokers/ids/{victim}"), (CHILD, "/brokers/ids"), (CHANGED, state)}
    assert read(client, state)[0]["leader"] != victim
    assert client.get(state)[1].version > before.version
    again = client.again(stage.controller())
    again.request(
        Op.SET_WATCHES,
        jute.SET_WATCHES.encode((since, [f"/brokers/ids/{victim}", state], [], ["/brokers/ids"])),
        xid=-8,
    )
    again.answer(-8)
    assert {event[:2] for event in again.events} == heard


def test_the_controller_that_dies_is_replaced(stage: BridgeStage) -> None:
    leader = stage.controller()
    client = stage.client(next(each for each in (1, 2, 3) if each != leader), timeout_ms=40_000)
    client.must(Op.ADD_WATCH, "/controller", 0)
    client.get("/controller_epoch", watch=True)
    stage.kill(leader)
    while not {(CREATED, "/controller"), (CHANGED, "/controller_epoch")} <= {
        event[:2] for event in client.events
    }:
        client.ping()
        stage.pass_time(0.2)

    assert client.events[0][:2] in ((DELETED, "/controller"), (CHANGED, "/controller_epoch"))
    assert read(client, "/controller")[0]["brokerid"] == stage.controller()


def test_computed_znodes_refuse_writes(client: ZkClient) -> None:
    for path in (
        "/brokers/ids/9",
        "/brokers/topics/new/x",
        "/controller/x",
        "/cluster/x",
        "/kafka-acl/Topic/t",
        "/config/users/u",
        "/migration",
    ):
        assert client.error(Op.CREATE, path, b"", OPEN_TO_ALL, 0) is Err.NO_AUTH
    for path in (
        "/brokers",
        "/brokers/ids",
        "/controller",
        "/cluster/id",
        "/config/topics",
        "/kafka-acl/Topic",
        "/consumers",
        "/admin/delete_topics",
    ):
        assert client.error(Op.CREATE, path, b"", OPEN_TO_ALL, 0) is Err.NODE_EXISTS
    assert client.error(Op.SET_DATA, "/controller_epoch", b"", -1) is Err.NO_AUTH
    for path in ("/brokers/ids/1", "/consumers", "/config", "/feature"):
        assert client.error(Op.DELETE, path, -1) is Err.NO_AUTH
    assert client.error(Op.DELETE, "/brokers/ids/9", -1) is Err.NO_NODE
    multi = client.multi(
        (Op.CREATE, ("/mine", b"", OPEN_TO_ALL, 0)), (Op.SET_DATA, ("/brokers/ids/1", b"", -1))
    )
    assert multi == [Err.OK, Err.NO_AUTH]
    assert client.create("/brokers-of-mine") == "/brokers-of-mine"


def test_users_are_listed_for_everybody(client: ZkClient) -> None:
    """kafka-configs --zookeeper --entity-type users --describe reads the list, and with a name the
    user's own znode.
    """
    assert client.children("/config/users") == []
    assert client.error(Op.GET_DATA, "/config/users/alice", False) is Err.NO_NODE
    # eligible leader replicas: all brokers have one min.insync.replicas from the beginning
    assert client.children("/config/brokers") == ["<default>"]


def test_a_topic_of_many_partitions_costs_nothing_until_it_is_read() -> None:
    many = 100_000
    image, delta = MetadataImage(offset=1).apply(
        2, [TopicCreated("t", bytes(16), (((1,), (1,), 1),) * many)]
    )
    layout = Layout(Tree())
    tracemalloc.start()
    happened = layout.apply(image, delta, {})
    grown, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (grown < 10_000, peak < many) == (True, True)
    # its settings, itself, and of each partition a folder and a state
    assert sum(1 for _ in happened) == 1 + 2 + 2 * many
    found = layout.find("/brokers/topics/t")
    assert found is not None
    assert len(json.loads(found.node.data or b"")["partitions"]) == many
    assert layout.find("/brokers/topics/t/partitions/99999/state") is not None
