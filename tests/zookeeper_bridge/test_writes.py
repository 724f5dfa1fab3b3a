"""Writes to Kafka's znodes: what they do to the cluster, on every node, and what is refused and
leaves nothing.
"""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from raftka.metadata.commands import AllocateProducerIds
from raftka.metadata.image import BROKER, TOPIC, MetadataImage, TopicImage
from tests.kit.bridge_logins import SUPER
from tests.zookeeper_bridge.decisions import OPEN_TO_ALL
from tests.zookeeper_bridge.stage import BridgeStage, ZkClient
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.opcodes import Op
from zookeeper_bridge.tree.watches import EventType

CREATED, DELETED, CHANGED, CHILD = EventType


@pytest.fixture
def stage() -> Iterator[BridgeStage]:
    with BridgeStage(3, zookeeper_bridge_super_digest=SUPER) as stage:
        yield stage
        assert not stage.world.failures


@pytest.fixture
def client(stage: BridgeStage) -> ZkClient:
    return stage.client(timeout_ms=40_000)


def text(**fields: Any) -> bytes:
    return json.dumps({"version": 1, **fields}).encode()


def create(client: ZkClient, path: str, data: bytes | None) -> Err:
    return client.error(Op.CREATE, path, data, OPEN_TO_ALL, 0)


def update(client: ZkClient, path: str, data: bytes | None, version: int = -1) -> Err:
    return client.error(Op.SET_DATA, path, data, version)


def read(client: ZkClient, path: str) -> Any:
    return json.loads(client.get(path)[0] or b"null")


def image(stage: BridgeStage) -> MetadataImage:
    return stage.nodes[stage.controller()].image


def topic(stage: BridgeStage, name: str) -> TopicImage:
    found = image(stage).topic_named(name)
    assert found is not None
    return found


def replicas(stage: BridgeStage, name: str) -> list[tuple[int, ...]]:
    return [each.replicas for each in topic(stage, name).partitions]


def settings(stage: BridgeStage, name: str, kind: int = TOPIC) -> dict[str, str]:
    return dict(image(stage).config(kind, name))


def assign(stage: BridgeStage, client: ZkClient, partitions: list[list[int]]) -> None:
    """The topic `t`, on those brokers; they have all opened it."""
    client.create(
        "/brokers/topics/t",
        text(partitions={str(index): each for index, each in enumerate(partitions)}),
    )
    stage.wait(lambda: all(stage._opened(node, "t") for node in stage.nodes.values()))


# topics


def test_a_topic_is_created_with_the_settings_that_were_written_before_it(
    stage: BridgeStage, client: ZkClient
) -> None:
    assert create(client, "/config/topics/t", text(config={"retention.ms": "1000"})) is Err.OK
    assert client.children("/config/topics") == ["t"]
    assert read(client, "/config/topics/t")["config"] == {"retention.ms": "1000"}
    assert settings(stage, "t") == {}
    assert (
        client.create("/brokers/topics/t", text(partitions={"1": [2, 3], "0": [1, 2]}))
        == "/brokers/topics/t"
    )

    assert replicas(stage, "t") == [(1, 2), (2, 3)]
    assert settings(stage, "t") == {"retention.ms": "1000"}
    assert client.get("/config/topics/t")[1].version == 0
    assert len(read(client, "/brokers/topics/t")["topic_id"]) == 22
    assert client.get("/brokers/topics/t")[1].czxid == topic(stage, "t").created_at
    assert create(client, "/brokers/topics/t", text(partitions={"0": [1]})) is Err.NODE_EXISTS
    assert create(client, "/config/topics/t", text(config={})) is Err.NODE_EXISTS


def test_create2_tells_of_the_topic_as_it_is(stage: BridgeStage, client: ZkClient) -> None:
    answer = client.must(
        Op.CREATE_2, "/brokers/topics/t", text(partitions={"0": [1]}), OPEN_TO_ALL, 0
    )
    path, stat = jute.PATH_STAT.decode(answer)
    assert (path, stat) == ("/brokers/topics/t", client.get("/brokers/topics/t")[1])
    assert stat.num_children == 1


def test_partitions_are_added_and_what_a_tool_leaves_out_stays(
    stage: BridgeStage, client: ZkClient
) -> None:
    assign(stage, client, [[1, 2]])
    before = topic(stage, "t")
    data, stat = client.get("/brokers/topics/t", watch=True)
    assert stat.version == 0
    after = jute.STAT.decode(
        client.must(
            Op.SET_DATA, "/brokers/topics/t", text(partitions={"0": [1, 2], "1": [3, 1]}), 0
        )
    )

    assert (replicas(stage, "t"), topic(stage, "t").topic_id) == ([(1, 2), (3, 1)], before.topic_id)
    assert client.wait_event()[0][:2] == (CHANGED, "/brokers/topics/t")
    assert (after.version, after) == (1, client.get("/brokers/topics/t")[1])
    assert (
        update(
            client, "/brokers/topics/t", text(partitions={"0": [1, 2], "1": [3, 1], "2": [1, 2]}), 0
        )
        is Err.BAD_VERSION
    )
    # nothing new
    assert update(client, "/brokers/topics/t", client.get("/brokers/topics/t")[0], 1) is Err.OK
    assert topic(stage, "t").assigned_times == 1
    assert data != client.get("/brokers/topics/t")[0]


@pytest.mark.parametrize(
    "partitions",
    [
        {"0": [1, 2]},
        {"0": [2, 1], "1": [1, 2]},
        {"0": [1, 2], "1": [2, 3], "2": [1, 9]},
        {"0": [1, 2], "1": [2, 3], "3": [1, 2]},
        {},
        {"0": []},
    ],
    ids=["fewer", "moved", "unknown broker", "a gap", "none", "no replicas"],
)
def test_partitions_that_can_not_be_are_refused(
    stage: BridgeStage, client: ZkClient, partitions: Any
) -> None:
    assign(stage, client, [[1, 2], [2, 3]])
    assert update(client, "/brokers/topics/t", text(partitions=partitions)) is Err.BAD_ARGUMENTS
    assert replicas(stage, "t") == [(1, 2), (2, 3)]


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"[]",
        b"\xff",
        b'{"partitions": 3}',
        b'{"partitions": {"x": [1]}}',
        b'{"partitions": {"0": [true]}}',
        b"[" * 5000,
    ],
)
def test_a_topics_malformed_json_is_refused(
    stage: BridgeStage, client: ZkClient, data: bytes | None
) -> None:
    for path in (
        "/brokers/topics/t",
        "/config/topics/t",
        "/admin/reassign_partitions",
        "/admin/preferred_replica_election",
    ):
        assert create(client, path, data) is Err.BAD_ARGUMENTS
    assert not image(stage).topics
    assert not client.exists("/config/topics/t")
    assert (
        create(client, "/brokers/topics/bad name", text(partitions={"0": [1]})) is Err.BAD_ARGUMENTS
    )
    assert (
        client.error(Op.CREATE, "/brokers/topics/t", text(partitions={"0": [1]}), OPEN_TO_ALL, 1)
        is Err.BAD_ARGUMENTS
    )


def test_a_topic_is_deleted_by_its_marker(stage: BridgeStage, client: ZkClient) -> None:
    stage.create("t")
    stage.set(TOPIC, "t", retention_ms="1000")
    client.must(Op.ADD_WATCH, "/admin/delete_topics", 1)
    client.exists("/brokers/topics/t", watch=True)
    client.get("/config/topics/t", watch=True)
    assert client.create("/admin/delete_topics/t", None) == "/admin/delete_topics/t"

    heard = [event[:2] for event in client.events]
    assert heard[:2] == [(CREATED, "/admin/delete_topics/t"), (DELETED, "/admin/delete_topics/t")]
    assert set(heard[2:]) == {(DELETED, "/brokers/topics/t"), (DELETED, "/config/topics/t")}
    assert client.children("/admin/delete_topics") == []
    assert not image(stage).topics
    assert not [path for path in stage.bridge().tree.nodes if path.startswith("/config/topics/")]
    assert client.create("/admin/delete_topics/t", None)  # there is none: it goes as it came
    assert client.error(Op.DELETE, "/admin/delete_topics/t", -1) is Err.NO_NODE


def test_topics_that_may_not_be_deleted_are_not() -> None:
    with BridgeStage(delete_topic_enable="false") as stage:
        client = stage.client(timeout_ms=40_000)
        stage.create("t")
        assert create(client, "/admin/delete_topics/t", None) is Err.NO_AUTH
        assert client.exists("/brokers/topics/t")


# settings


def test_settings_of_a_topic_are_replaced_and_announced(
    stage: BridgeStage, client: ZkClient
) -> None:
    stage.create("t")
    client.children("/config/changes", watch=True)
    client.get("/config/topics/t", watch=True)
    assert client.get("/config/topics/t")[1].version == 0
    assert (
        client.set(
            "/config/topics/t", text(config={"retention.ms": "5", "segment.bytes": "1048576"}), 0
        ).version
        == 1
    )
    assert {event[:2] for event in client.wait_event(2)} == {
        (CHANGED, "/config/topics/t"),
        (CHILD, "/config/changes"),
    }
    assert client.set("/config/topics/t", text(config={"retention.ms": "6"})).version == 2

    assert (
        settings(stage, "t") == read(client, "/config/topics/t")["config"] == {"retention.ms": "6"}
    )
    assert client.children("/config/changes") == [
        "config_change_0000000000",
        "config_change_0000000001",
    ]
    assert read(client, "/config/changes/config_change_0000000000") == {
        "version": 2,
        "entity_path": "topics/t",
    }
    assert (
        update(client, "/config/topics/t", text(config={"retention.ms": "7"}), 1) is Err.BAD_VERSION
    )
    for bad in (
        text(config={"retention.ms": "soon"}),
        text(config={"no.such": "1"}),
        text(config=3),
        text(config={"retention.ms": 5}),
        b"{",
        None,
    ):
        assert update(client, "/config/topics/t", bad) is Err.BAD_ARGUMENTS
    assert client.get("/config/topics/t")[1].version == 2
    # the same once more: a version, and nothing to announce
    assert client.set("/config/topics/t", client.get("/config/topics/t")[0]).version == 3
    assert len(client.children("/config/changes")) == 2
    assert client.error(Op.DELETE, "/config/topics/t", -1) is Err.NO_AUTH
    assert update(client, "/config/topics/u", text(config={})) is Err.NO_NODE
    assert client.create(
        "/config/changes/config_change_", text(entity_path="topics/t"), flags=2
    ).endswith("_0000000002")


def test_settings_that_came_through_kafka_are_heard_of_here(
    stage: BridgeStage, client: ZkClient
) -> None:
    stage.create("t")
    client.get("/config/topics/t", watch=True)
    client.children("/config/changes", watch=True)
    stage.set(TOPIC, "t", retention_ms="1000")

    assert {event[:2] for event in client.wait_event(2)} == {
        (CHANGED, "/config/topics/t"),
        (CHILD, "/config/changes"),
    }
    data, stat = client.get("/config/topics/t")
    assert (json.loads(data or b""), stat.version) == (
        {"version": 1, "config": {"retention.ms": "1000"}},
        1,
    )
    assert stat.mzxid == client.get("/config/changes/config_change_0000000000")[1].czxid
    stage.set(BROKER, "", log_cleaner_threads="2")
    client.wait_event(2)
    assert (
        read(client, "/config/changes/config_change_0000000001")["entity_path"]
        == "brokers/<default>"
    )
    stage.delete("t")
    stage.wait(lambda: not image(stage).topics)
    assert not client.exists("/config/topics/t")


def test_settings_stored_for_a_topic_are_dropped_when_kafkas_clients_create_it(
    stage: BridgeStage, client: ZkClient
) -> None:
    create(client, "/config/topics/t", text(config={"retention.ms": "1000"}))
    assert client.set("/config/topics/t", text(config={"retention.ms": "2000"})).version == 1
    create(client, "/config/topics/u", text(config={}))
    client.delete("/config/topics/u")
    assert update(client, "/config/topics/t", text(config={"no.such": "1"})) is Err.BAD_ARGUMENTS
    stage.create("t")

    assert settings(stage, "t") == {}
    assert read(client, "/config/topics/t")["config"] == {}
    assert client.get("/config/topics/t")[1].version == 0
    assert client.children("/config/topics") == ["t"]


def test_settings_of_brokers_are_written_by_super_alone(
    stage: BridgeStage, client: ZkClient
) -> None:
    stage.set(BROKER, "2", node_id=2, log_cleaner_threads="2")
    for opcode, fields in (
        (Op.SET_DATA, ("/config/brokers/2", text(config={}), -1)),
        (Op.CREATE, ("/config/brokers/1", text(config={}), OPEN_TO_ALL, 0)),
        (Op.DELETE, ("/config/brokers/2", -1)),
        (Op.GET_CHILDREN, ("/delegation_token/tokens", False)),
    ):
        assert client.error(opcode, *fields) is Err.NO_AUTH
    client.request(Op.AUTH, jute.AUTH.encode((0, "digest", b"super:secret")), xid=-4)
    assert client.answer(-4).error == 0  # type: ignore[union-attr]

    assert sorted(client.children("/config/brokers")) == ["2", "<default>"]
    assert read(client, "/config/brokers/2")["config"] == {"log.cleaner.threads": "2"}
    of_all = read(client, "/config/brokers/<default>")["config"]
    assert of_all.keys() == {"min.insync.replicas"}
    of_all["log.cleaner.threads"] = "3"
    client.set("/config/brokers/<default>", text(config=of_all))
    assert client.set("/config/brokers/2", text(config={})).version == 1
    assert (settings(stage, "", BROKER), settings(stage, "2", BROKER)) == (
        of_all,
        {},
    )
    assert update(client, "/config/brokers/2", text(config={"broker.id": "7"})) is Err.BAD_ARGUMENTS
    client.delete("/config/brokers/2")
    assert client.children("/config/brokers") == ["<default>"]


def test_announcements_go_after_a_quarter_of_an_hour(stage: BridgeStage) -> None:
    client = stage.client(timeout_ms=40_000)
    stage.create("t")
    stage.set(TOPIC, "t", retention_ms="1000")
    client.drop()
    stage.pass_time(14 * 60)
    assert stage.client().children("/config/changes")
    stage.pass_time(3 * 60)
    assert not stage.client().children("/config/changes")


# moves and elections


def test_partitions_are_moved_and_the_znode_is_there_as_long(
    stage: BridgeStage, client: ZkClient
) -> None:
    assign(stage, client, [[1, 2], [1, 2]])
    client.must(Op.ADD_WATCH, "/admin/reassign_partitions", 0)
    moves = [{"topic": "t", "partition": index, "replicas": [3, 1]} for index in (0, 1)]
    stage.kill(3)
    stage.wait(lambda: not stage.nodes[1].image.alive(3))
    assert client.create("/admin/reassign_partitions", text(partitions=moves[:1]))
    assert read(client, "/admin/reassign_partitions")["partitions"] == moves[:1]
    assert client.children("/admin") == ["delete_topics", "reassign_partitions"]
    assert (
        create(client, "/admin/reassign_partitions", text(partitions=moves[1:])) is Err.NODE_EXISTS
    )
    assert update(client, "/admin/reassign_partitions", text(partitions=moves[1:])) is Err.OK
    assert read(client, "/admin/reassign_partitions")["partitions"] == moves
    assert read(client, "/brokers/topics/t")["adding_replicas"] == {"0": [3], "1": [3]}
    stage.start(3)
    stage.wait(lambda: not client.exists("/admin/reassign_partitions"))

    assert replicas(stage, "t") == [(3, 1), (3, 1)]
    heard = [event[0] for event in client.events]
    assert (heard[0], heard[-1], set(heard[1:-1])) == (CREATED, DELETED, {CHANGED})
    # they are there already
    assert client.create("/admin/reassign_partitions", text(partitions=moves))
    assert not client.exists("/admin/reassign_partitions")
    assert [event[0] for event in client.events[-2:]] == [CREATED, DELETED]


def test_moves_are_called_off(stage: BridgeStage, client: ZkClient) -> None:
    assign(stage, client, [[1, 2]])
    stage.kill(3)
    stage.wait(lambda: not stage.nodes[1].image.alive(3))
    client.create(
        "/admin/reassign_partitions",
        text(partitions=[{"topic": "t", "partition": 0, "replicas": [3, 1]}]),
    )
    client.delete("/admin/reassign_partitions")
    assert replicas(stage, "t") == [(1, 2)]
    assert client.error(Op.DELETE, "/admin/reassign_partitions", -1) is Err.NO_NODE


def test_a_topic_that_is_deleted_moves_no_more(stage: BridgeStage, client: ZkClient) -> None:
    assign(stage, client, [[1, 2]])
    stage.kill(3)
    stage.wait(lambda: not stage.nodes[1].image.alive(3))
    client.create(
        "/admin/reassign_partitions",
        text(partitions=[{"topic": "t", "partition": 0, "replicas": [3, 1]}]),
    )
    client.get("/admin/reassign_partitions", watch=True)
    client.create("/admin/delete_topics/t", None)
    assert client.events[-1][:2] == (DELETED, "/admin/reassign_partitions")
    assert not client.exists("/admin/reassign_partitions")
    assert client.children("/admin") == ["delete_topics"]


def test_moves_are_refused_as_a_whole(stage: BridgeStage, client: ZkClient) -> None:
    assign(stage, client, [[1, 2]])
    good = {"topic": "t", "partition": 0, "replicas": [3, 2]}
    wrong: list[dict[str, Any]] = [
        {"topic": "u"},
        {"partition": 1},
        {"replicas": [3, 9]},
        {"replicas": [3, 3]},
        {"replicas": []},
        {"partition": True},
    ]
    for bad in wrong:
        assert (
            create(client, "/admin/reassign_partitions", text(partitions=[good, {**good, **bad}]))
            is Err.BAD_ARGUMENTS
        )
    assert replicas(stage, "t") == [(1, 2)]
    assert not client.exists("/admin/reassign_partitions")


def test_the_preferred_leader_is_elected(stage: BridgeStage, client: ZkClient) -> None:
    assign(stage, client, [[2, 3]])
    stage.kill(2)
    stage.wait(lambda: stage.leader("t") == 3)
    stage.start(2)
    stage.wait(lambda: 2 in topic(stage, "t").partitions[0].isr)
    elected = text(partitions=[{"topic": "t", "partition": 0}])
    for _ in range(2):  # the second time it is no news
        assert stage.client(timeout_ms=4_000).create("/admin/preferred_replica_election", elected)
        assert stage.leader("t") == 2
    assert not client.exists("/admin/preferred_replica_election")
    assert (
        create(
            client,
            "/admin/preferred_replica_election",
            text(partitions=[{"topic": "u", "partition": 0}]),
        )
        is Err.BAD_ARGUMENTS
    )


# who leads, and numbers


def test_a_controller_that_is_deleted_hands_its_leadership_over_and_costs_no_connection(
    stage: BridgeStage,
) -> None:
    leader = stage.controller()
    clients = [stage.client(node_id, timeout_ms=40_000) for node_id in (1, 2, 3)]
    clients[0].must(Op.ADD_WATCH, "/controller", 0)
    assert update(clients[0], "/controller", b"") is Err.NO_AUTH
    assert clients[0].error(Op.DELETE, "/controller", 7) is Err.BAD_VERSION
    clients[1].delete("/controller")
    asked = [
        each.request(Op.CREATE, jute.CREATE.encode((f"/after-{number}", b"", OPEN_TO_ALL, 0)))
        for number, each in enumerate(clients)
    ]

    assert [each.answer(xid).error for each, xid in zip(clients, asked, strict=True)] == [0, 0, 0]  # type: ignore[union-attr]
    assert stage.controller() != leader
    stage.wait(lambda: len(clients[0].events) >= 2)
    assert [event[:2] for event in clients[0].events][:2] == [
        (DELETED, "/controller"),
        (CREATED, "/controller"),
    ]
    assert read(clients[0], "/controller")["brokerid"] == stage.controller()


def test_a_single_controller_cannot_hand_over() -> None:
    with BridgeStage() as stage:
        assert stage.client().error(Op.DELETE, "/controller", -1) is Err.BAD_ARGUMENTS


def test_producer_ids_are_given_out_once(stage: BridgeStage, client: ZkClient) -> None:
    path = "/latest_producer_id_block"
    assert (client.get(path)[0], client.get(path)[1].version) == (None, 0)

    def block(first: int, size: int = 1000) -> bytes:
        return text(broker=7, block_start=str(first), block_end=str(first + size - 1))

    client.get(path, watch=True)
    assert client.set(path, block(0), 0).version == 1
    assert client.wait_event()[0][:2] == (CHANGED, path)
    assert update(client, path, block(1000), 0) is Err.BAD_VERSION
    for bad in (
        block(0),
        block(2000),
        block(1000, 2000),
        block(1000, 1),
        text(block_start="x"),
        b"",
        None,
    ):
        assert update(client, path, bad) is Err.BAD_ARGUMENTS
    assert client.set(path, block(1000)).version == 2
    assert image(stage).next_producer_id == 2000
    assert read(client, path)["block_start"] == "1000"


def test_broker_ids_are_versions(client: ZkClient) -> None:
    assert [client.set("/brokers/seqid", None).version for _ in range(3)] == [1, 2, 3]
    assert client.error(Op.DELETE, "/brokers/seqid", -1) is not Err.OK


# many at once


def test_a_multi_over_the_clusters_and_its_own_znodes_is_one(
    stage: BridgeStage, client: ZkClient
) -> None:
    mine = (Op.CREATE, ("/mine", b"", OPEN_TO_ALL, 0))
    kept = (Op.CREATE, ("/config/topics/t", text(config={"retention.ms": "1"}), OPEN_TO_ALL, 0))
    made = (Op.CREATE, ("/brokers/topics/t", text(partitions={"0": [1]}), OPEN_TO_ALL, 0))
    grown = (Op.SET_DATA, ("/brokers/topics/t", text(partitions={"0": [1], "1": [2]}), 0))
    seen = (Op.CHECK, ("/brokers/topics/t", 1))
    late = (Op.CHECK, ("/brokers/topics/t", 0))
    assert client.multi(mine, kept, made, grown, late) == [Err.OK] * 4 + [Err.BAD_VERSION]
    assert not client.exists("/mine")
    assert not client.exists("/config/topics/t")
    assert not image(stage).topics

    offset = image(stage).offset
    results = client.multi(mine, kept, made, grown, seen)
    assert [result[0] for result in results] == [
        Op.CREATE,
        Op.CREATE,
        Op.CREATE,
        Op.SET_DATA,
        Op.CHECK,
    ]
    assert results[3][1] == client.get("/brokers/topics/t")[1]
    assert (replicas(stage, "t"), settings(stage, "t")) == ([(1,), (2,)], {"retention.ms": "1"})
    assert (
        client.get("/mine")[1].czxid
        == topic(stage, "t").created_at
        == topic(stage, "t").assigned_at
        > offset
    )
    again = (Op.CREATE, ("/again", b"", OPEN_TO_ALL, 0))
    assert client.multi((Op.DELETE, ("/controller", -1)), again, late) == [
        Err.OK,
        Err.OK,
        Err.BAD_VERSION,
    ]
    leader = stage.controller()
    stage.pass_time(2.0)
    assert stage.controller() == leader


def test_every_node_shows_the_same(stage: BridgeStage, client: ZkClient) -> None:
    create(client, "/config/topics/t", text(config={"retention.ms": "1000"}))
    create(client, "/brokers/topics/t", text(partitions={"0": [1, 2], "1": [2, 3]}))
    client.set("/config/topics/t", text(config={"retention.ms": "2000"}))
    client.set("/brokers/topics/t", text(partitions={"0": [1, 2], "1": [2, 3], "2": [3, 1]}))
    stage.restart(2)
    end = image(stage).offset
    stage.wait(lambda: all(node.image.offset >= end for node in stage.nodes.values()))
    clients = [stage.client(node_id, timeout_ms=40_000) for node_id in (1, 2, 3)]
    for path in (
        "/brokers/topics/t",
        "/config/topics/t",
        "/config/changes/config_change_0000000000",
        "/latest_producer_id_block",
        "/feature",
    ):
        assert len({each.get(path) for each in clients}) == 1


@pytest.mark.parametrize("seed", range(4))
def test_no_producer_id_is_given_out_twice(seed: int) -> None:
    """Clients of the bridge and brokers take blocks, while controllers are handed over, die and
    come back.
    """
    random = Random(seed)
    with BridgeStage(3, seed) as stage:
        given: list[int] = []

        def take(client: ZkClient) -> None:
            reply = client.ask(Op.GET_DATA, "/latest_producer_id_block", False)
            if reply is None or reply.error:
                return
            data, stat = jute.DATA_STAT.decode(reply.body)
            first = int(json.loads(data or b'{"block_end": "-1"}')["block_end"]) + 1
            block = text(block_start=str(first), block_end=str(first + 999))
            taken = client.ask(
                Op.SET_DATA, "/latest_producer_id_block", block, random.choice((-1, stat.version))
            )
            if taken is not None and not taken.error:
                given.append(first)

        def allocate(node_id: int) -> None:
            node = stage.nodes[node_id]
            node.controller.call(
                AllocateProducerIds(node_id, node.lifecycle.broker_epoch),
                lambda error, block: given.append(block.first) if error is None else None,
                5.0,
            )

        for _ in range(60):
            node_id = random.choice(list(stage.nodes))
            client = stage.client(node_id, timeout_ms=40_000)
            if client.session is not None and client.session.session_id:
                take(client)
            allocate(random.choice(list(stage.nodes)))
            chance = random.random()
            if chance < 0.1:
                client.ask(Op.DELETE, "/controller", -1)
            elif chance < 0.2 and len(stage.nodes) == 3:
                stage.kill(stage.controller())
            elif len(stage.nodes) < 3:
                stage.start(next(each for each in (1, 2, 3) if each not in stage.nodes))
        stage.pass_time(10.0)
        assert len(given) > 60
        assert len(set(given)) == len(given)
        assert all(first % 1000 == 0 and first < image(stage).next_producer_id for first in given)
        assert not stage.world.failures


def test_a_topic_that_is_refused_leaves_the_settings_that_wait_for_it(
    stage: BridgeStage, client: ZkClient
) -> None:
    kept = text(config={"retention.ms": "7"})
    assert create(client, "/config/topics/later", kept) == Err.OK
    before = client.get("/config/topics/later")

    assert (
        create(client, "/brokers/topics/later", text(partitions={"0": [99]})) == Err.BAD_ARGUMENTS
    )

    assert client.get("/config/topics/later") == before
    assert create(client, "/brokers/topics/later", text(partitions={"0": [1]})) == Err.OK
    assert settings(stage, "later") == {"retention.ms": "7"}


def test_an_empty_plan_is_taken_away(stage: BridgeStage, client: ZkClient) -> None:
    """As Kafka 2.8's controller does; a client that waits for the znode to go is not kept
    waiting.
    """
    for path in ("/admin/reassign_partitions", "/admin/preferred_replica_election"):
        client.must(Op.ADD_WATCH, path, 0)
        assert client.create(path, text(partitions=[]))
        assert not client.exists(path)
        assert [event.type for event in client.events if event.path == path] == [CREATED, DELETED]
    client.create("/brokers/topics/t", text(partitions={"0": [1, 2]}))
    stage.kill(3)
    stage.wait(lambda: not stage.nodes[1].image.alive(3))
    client.create(
        "/admin/reassign_partitions",
        text(partitions=[{"topic": "t", "partition": 0, "replicas": [3, 1]}]),
    )
    moving = read(client, "/admin/reassign_partitions")
    assert update(client, "/admin/reassign_partitions", text(partitions=[])) is Err.OK
    assert read(client, "/admin/reassign_partitions") == moving, "what moves goes on"


def test_of_a_partition_that_a_plan_names_twice_the_last_counts(
    stage: BridgeStage, client: ZkClient
) -> None:
    client.create("/brokers/topics/t", text(partitions={"0": [1, 2], "1": [1, 2]}))
    twice = [
        {"topic": "t", "partition": 0, "replicas": [1, 3]},
        {"topic": "t", "partition": 1, "replicas": [2, 1]},
    ]
    assert client.create(
        "/admin/reassign_partitions",
        text(partitions=[*twice, {"topic": "t", "partition": 0, "replicas": [3, 2]}]),
    )
    stage.wait(lambda: not client.exists("/admin/reassign_partitions"))
    assert [partition.replicas for partition in topic(stage, "t").partitions] == [(3, 2), (2, 1)]
    elected = [
        {"topic": "t", "partition": 0},
        {"topic": "t", "partition": 0},
        {"topic": "t", "partition": 1},
    ]
    assert client.create("/admin/preferred_replica_election", text(partitions=elected))
    stage.wait(lambda: [partition.leader for partition in topic(stage, "t").partitions] == [3, 2])


@pytest.mark.parametrize(
    "path",
    [
        "/brokers/topics/new",
        "/config/topics/old",
        "/config/topics/new",
        "/admin/reassign_partitions",
        "/admin/preferred_replica_election",
    ],
)
def test_fields_that_no_row_of_the_table_names_are_passed_over(
    stage: BridgeStage, client: ZkClient, path: str
) -> None:
    """As Kafka's brokers do; docs/bridge.md says so."""
    client.create("/brokers/topics/old", text(partitions={"0": [1, 2]}))
    of_path: dict[str, dict[str, Any]] = {
        "/brokers/topics/new": {"partitions": {"0": [1]}},
        "/config/topics/old": {"config": {"retention.ms": "60000000"}},
        "/config/topics/new": {"config": {"retention.ms": "60000000"}},
    }
    fields = of_path.get(
        path, {"partitions": [{"topic": "old", "partition": 0, "replicas": [1, 2], "note": "x"}]}
    )
    write = update if client.exists(path) else create
    assert write(client, path, text(**fields, timestamp="1", made_by="a tool")) is Err.OK


@pytest.mark.parametrize(
    ("directories", "error"),
    [(["/a", "any"], Err.BAD_ARGUMENTS), ("/a", Err.BAD_ARGUMENTS), (["any", "any"], Err.OK)],
)
def test_log_directories_of_a_plan_are_refused(
    stage: BridgeStage, client: ZkClient, directories: object, error: Err
) -> None:
    client.create("/brokers/topics/t", text(partitions={"0": [1, 2]}))
    row = {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": directories}
    assert create(client, "/admin/reassign_partitions", text(partitions=[row])) is error
