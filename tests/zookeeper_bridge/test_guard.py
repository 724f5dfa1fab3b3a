"""Kafka's znodes in a cluster that has security: who reads them, who writes to them, and who hears of them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from raftka.metadata.image import BROKER
from tests.zookeeper_bridge.decisions import OPEN_TO_ALL
from tests.zookeeper_bridge.stage import BridgeStage, ZkClient
from tests.zookeeper_bridge.test_login import IN_THE_OPEN, log_in
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.jute import Acl
from zookeeper_bridge.protocol.opcodes import Op

SUPER = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="  # super:secret
AUTHORIZER: dict[str, Any] = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
    "zookeeper_bridge_super_digest": SUPER,
}
TOPIC = json.dumps({"version": 1, "partitions": {"0": [1]}}).encode()
BROKERS = json.dumps({"version": 1, "config": {"max.connections": "77"}}).encode()
GUARDED = [Acl(31, "sasl", "kafka"), Acl(1, "world", "anyone")]


@pytest.fixture
def stage() -> Iterator[BridgeStage]:
    with BridgeStage(**AUTHORIZER, **IN_THE_OPEN) as stage:
        yield stage
        assert not stage.world.failures


def root(stage: BridgeStage) -> ZkClient:
    client = stage.client()
    client.request(Op.AUTH, jute.AUTH.encode((0, "digest", b"super:secret")), xid=-4)
    assert client.answer(-4) is not None
    return client


def acl_of(client: ZkClient, path: str) -> Any:
    return jute.ACLS_STAT.decode(client.must(Op.GET_ACL, path))[0]


def write_everything(client: ZkClient) -> list[Err]:
    operations: list[tuple[Op, tuple[Any, ...]]] = [
        (Op.CREATE, ("/brokers/topics/new", TOPIC, OPEN_TO_ALL, 0)),
        (Op.SET_DATA, ("/brokers/topics/old", TOPIC, -1)),
        (Op.SET_DATA, ("/config/topics/old", b'{"version":1,"config":{}}', -1)),
        (Op.CREATE, ("/config/topics/unborn", b'{"version":1,"config":{}}', OPEN_TO_ALL, 0)),
        (Op.CREATE, ("/admin/delete_topics/old", b"", OPEN_TO_ALL, 0)),
        (Op.CREATE, ("/config/changes/config_change_", b"{}", OPEN_TO_ALL, 2)),
        (Op.SET_DATA, ("/brokers/seqid", b"", -1)),
        (Op.SET_ACL, ("/brokers/seqid", OPEN_TO_ALL, -1)),
        (Op.CREATE, ("/admin/preferred_replica_election", b'{"version":1,"partitions":[{"topic":"old","partition":0}]}', OPEN_TO_ALL, 0)),
        (Op.SET_DATA, ("/latest_producer_id_block", b"{}", -1)),
        (Op.DELETE, ("/controller", -1)),
        (Op.CREATE, ("/config/brokers/1", BROKERS, OPEN_TO_ALL, 0)),
    ]
    return [client.error(op, *fields) for op, fields in operations]


def test_a_cluster_with_an_authorizer_is_not_written_past_it(stage: BridgeStage) -> None:
    stage.create("old")
    stranger = stage.client()
    assert set(write_everything(stranger)) == {Err.NO_AUTH}
    results = stranger.multi((Op.CREATE, ("/own", b"", OPEN_TO_ALL, 0)), (Op.CREATE, ("/admin/delete_topics/old", b"", OPEN_TO_ALL, 0)))
    assert Err.NO_AUTH in results
    assert not stranger.exists("/own")
    assert stage.nodes[1].image.topic_named("old") is not None
    assert stage.nodes[1].image.topic_named("new") is None


def test_tools_that_create_what_is_there_go_on(stage: BridgeStage) -> None:
    """Kafka's tools do so with the folders at the top before they read."""
    stranger = stage.client()
    for path in ("/kafka-acl", "/brokers", "/config", "/controller"):
        assert stranger.error(Op.CREATE, path, b"", OPEN_TO_ALL, 0) is Err.NODE_EXISTS
    assert stranger.error(Op.CREATE, "/brokers/topics", b"", OPEN_TO_ALL, 0) is Err.NO_AUTH


def test_super_and_kafkas_own_user_write_as_ever(stage: BridgeStage) -> None:
    kafka = stage.client()
    log_in(kafka, "kafka", "kafkas")
    for number, client in enumerate((root(stage), kafka)):
        client.create(f"/brokers/topics/t{number}", TOPIC)
        client.must(Op.CREATE, f"/admin/delete_topics/t{number}", b"", OPEN_TO_ALL, 0)
        client.must(Op.SET_DATA, "/brokers/seqid", b"", -1)
        client.must(Op.CREATE, "/config/changes/config_change_", b"{}", OPEN_TO_ALL, 2)


def test_everybody_reads_what_is_no_secret_and_consumers_keep_their_own(stage: BridgeStage) -> None:
    stage.create("old")
    stranger = stage.client()
    assert stranger.children("/brokers/topics") == ["old"]
    assert stranger.get("/brokers/topics/old/partitions/0/state")[0]
    for path in ("/brokers/topics/old", "/config/topics/old", "/brokers/ids", "/config/changes", "/controller", "/admin"):
        assert acl_of(stranger, path) == GUARDED, path
    stranger.create("/consumers/group")
    stranger.create("/own")
    assert acl_of(stranger, "/consumers") == acl_of(stranger, "/own") == [Acl(31, "world", "anyone")]


@pytest.mark.parametrize("path", ["/config/brokers", "/config/brokers/1", "/delegation_token", "/delegation_token/tokens"])
def test_secrets_are_read_by_super_and_kafka_alone(stage: BridgeStage, path: str) -> None:
    assert root(stage).create("/config/brokers/1", BROKERS)
    stranger, bob = stage.client(), stage.client()
    log_in(bob, "bob", "bobs secret")
    for client in (stranger, bob):
        for op, fields in ((Op.GET_DATA, (path, False)), (Op.EXISTS, (path, True)), (Op.GET_CHILDREN, (path, False)), (Op.GET_ACL, (path,))):
            assert client.error(op, *fields) is Err.NO_AUTH
    assert root(stage).exists(path)


def test_who_may_not_read_a_secret_hears_nothing_of_it(stage: BridgeStage) -> None:
    stranger, owner = stage.client(), root(stage)
    for client in (stranger, owner):
        client.must(Op.ADD_WATCH, "/config", 1)
    owner.create("/config/brokers/1", BROKERS)
    owner.delete("/config/brokers/1")
    stranger.must(Op.SYNC, "/")
    told = [event.path for event in stranger.events]
    assert not [path for path in told if path.startswith("/config/brokers")]
    assert [event.path for event in owner.events if event.path.startswith("/config/brokers")]


def test_watches_that_are_set_again_tell_nothing_to_who_may_not_read(stage: BridgeStage) -> None:
    stranger, owner = stage.client(), root(stage)
    owner.create("/seen")
    private = [Acl(31, "digest", SUPER)]
    owner.must(Op.CREATE, "/mine", b"", private, 0)
    owner.must(Op.CREATE, "/mine/child", b"", private, 0)
    stranger.must(Op.SET_WATCHES, 0, ["/seen", "/mine"], ["/mine"], ["/mine"])
    assert [event.path for event in stranger.events] == ["/seen"]


def test_a_setting_says_it_whatever_the_cluster_has() -> None:
    with BridgeStage(zookeeper_bridge_set_acl="true") as stage:
        assert stage.client().error(Op.CREATE, "/brokers/topics/new", TOPIC, OPEN_TO_ALL, 0) is Err.NO_AUTH
    with BridgeStage(**AUTHORIZER, zookeeper_bridge_set_acl="false") as stage:
        stage.client().create("/brokers/topics/new", TOPIC)
    with BridgeStage() as stage:
        stage.client().create("/brokers/topics/new", TOPIC)
        assert acl_of(stage.client(), "/brokers/topics/new") == [Acl(31, "world", "anyone")]


def test_the_controller_decides_who_writes_on_every_node() -> None:
    with BridgeStage(3, **AUTHORIZER) as stage:
        for node_id in (1, 2, 3):
            assert stage.client(node_id).error(Op.CREATE, "/brokers/topics/new", TOPIC, OPEN_TO_ALL, 0) is Err.NO_AUTH
        assert not stage.nodes[1].image.configs.get((BROKER, "1"))
