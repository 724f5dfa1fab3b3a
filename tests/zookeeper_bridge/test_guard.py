"""Kafka's znodes in a cluster that has security: who reads them, who writes to them, and who hears
of them.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from raftka.metadata.image import BROKER
from tests.kit.bridge_logins import AUTHORIZER, IN_THE_OPEN, SUPER, log_in, root
from tests.zookeeper_bridge.decisions import OPEN_TO_ALL
from tests.zookeeper_bridge.stage import BridgeStage, ZkClient
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.jute import Acl, Stat
from zookeeper_bridge.protocol.opcodes import Op

TOPIC = json.dumps({"version": 1, "partitions": {"0": [1]}}).encode()
BROKERS = json.dumps({"version": 1, "config": {"max.connections": "77"}}).encode()
GUARDED = [Acl(31, "sasl", "kafka"), Acl(1, "world", "anyone")]


@pytest.fixture
def stage() -> Iterator[BridgeStage]:
    with BridgeStage(**AUTHORIZER, **IN_THE_OPEN) as stage:
        yield stage
        assert not stage.world.failures


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
        (
            Op.CREATE,
            (
                "/admin/preferred_replica_election",
                b'{"version":1,"partitions":[{"topic":"old","partition":0}]}',
                OPEN_TO_ALL,
                0,
            ),
        ),
        (Op.SET_DATA, ("/latest_producer_id_block", b"{}", -1)),
        (Op.DELETE, ("/controller", -1)),
        (Op.CREATE, ("/config/brokers/1", BROKERS, OPEN_TO_ALL, 0)),
    ]
    return [client.error(op, *fields) for op, fields in operations]


def test_a_cluster_with_an_authorizer_is_not_written_past_it(stage: BridgeStage) -> None:
    stage.create("old")
    stranger = stage.client()
    assert set(write_everything(stranger)) == {Err.NO_AUTH}
    results = stranger.multi(
        (Op.CREATE, ("/own", b"", OPEN_TO_ALL, 0)),
        (Op.CREATE, ("/admin/delete_topics/old", b"", OPEN_TO_ALL, 0)),
    )
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
    for path in (
        "/brokers/topics/old",
        "/config/topics/old",
        "/brokers/ids",
        "/config/changes",
        "/controller",
        "/admin",
    ):
        assert acl_of(stranger, path) == GUARDED, path
    stranger.create("/consumers/group")
    stranger.create("/own")
    assert (
        acl_of(stranger, "/consumers") == acl_of(stranger, "/own") == [Acl(31, "world", "anyone")]
    )


@pytest.mark.parametrize("path", ["/delegation_token", "/delegation_token/tokens"])
def test_secrets_are_read_by_super_and_kafka_alone(stage: BridgeStage, path: str) -> None:
    stranger, bob = stage.client(), stage.client()
    log_in(bob, "bob", "bobs secret")
    for client in (stranger, bob):
        for op, fields in (
            (Op.GET_DATA, (path, False)),
            (Op.GET_CHILDREN, (path, False)),
            (Op.GET_ACL, (path,)),
        ):
            assert client.error(op, *fields) is Err.NO_AUTH
        assert client.exists(path, watch=True), (
            "of Kafka's znodes it asks no permission, as in ZooKeeper 3.5"
        )
    assert root(stage).exists(path)


SECRET_SETTINGS = {
    "listener.name.plaintext.ssl.keystore.password": "hush",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_x="hush";'
    ),
    "plugin.of.somebody": "hush",
}
OPEN_SETTINGS = {"log.retention.ms": "60000000", "listener.name.plaintext.max.connections": "50"}


def settings_of(client: ZkClient, path: str = "/config/brokers/1") -> dict[str, str]:
    found: dict[str, str] = json.loads(client.get(path)[0] or b"{}")["config"]
    return found


@pytest.mark.parametrize("entity", ["1", "<default>"])
def test_settings_of_brokers_are_read_by_all_but_for_secrets(
    stage: BridgeStage, entity: str
) -> None:
    owner, path = root(stage), f"/config/brokers/{entity}"
    plugin = {"plugin.of.somebody": "hush"}
    of_all = {"min.insync.replicas": "2"}  # there from the cluster's beginning
    given = (
        {"log.retention.ms": "60000000", **plugin, **of_all}
        if entity == "<default>"
        else {**OPEN_SETTINGS, **SECRET_SETTINGS}
    )
    write = owner.set if entity == "<default>" else owner.create
    write(path, json.dumps({"version": 1, "config": given}).encode())
    stranger, bob, kafka = stage.client(), stage.client(), stage.client()
    log_in(bob, "bob", "bobs secret")
    log_in(kafka, "kafka", "kafkas")
    for client in (owner, kafka):
        assert settings_of(client, path) == given
    for client in (stranger, bob):
        assert settings_of(client, path) == {
            name: value for name, value in given.items() if name in OPEN_SETTINGS or name in of_all
        }
        assert client.exists(path)
        data, stat = client.get(path)
        assert b"hush" not in (data or b"")
        assert (
            stat.data_length
            == len(data or b"")
            == Stat(*jute.STAT.decode(client.must(Op.EXISTS, path, False))).data_length
        )
        assert entity in client.children("/config/brokers")
        assert acl_of(client, path) == acl_of(client, "/config/brokers") == GUARDED
        for op, fields in (
            (Op.SET_DATA, (path, BROKERS, -1)),
            (Op.DELETE, (path, -1)),
            (Op.CREATE, ("/config/brokers/2", BROKERS, OPEN_TO_ALL, 0)),
        ):
            assert client.error(op, *fields) is Err.NO_AUTH
    left = of_all if entity == "<default>" else {}
    owner.must(Op.SET_DATA, path, json.dumps({"version": 1, "config": left}).encode(), -1)
    assert settings_of(stranger, path) == left, "also when the settings are gone"


def test_a_tool_without_a_login_reads_all_brokers_after_a_dynamic_setting(
    stage: BridgeStage,
) -> None:
    """As topicctl does, of any cluster."""
    stage.set(BROKER, "1", log_retention_ms="60000000")
    stranger = stage.client()
    stage.wait(lambda: stranger.exists("/config/brokers/1"))
    assert settings_of(stranger) == {"log.retention.ms": "60000000"}


PATHS_OF_KAFKA = [
    "/brokers",
    "/brokers/ids",
    "/brokers/ids/1",
    "/brokers/topics",
    "/brokers/topics/old",
    "/brokers/topics/old/partitions/0/state",
]
PATHS_OF_KAFKA += [
    "/config",
    "/config/topics",
    "/config/topics/old",
    "/config/brokers",
    "/config/brokers/1",
    "/config/users",
    "/config/changes",
]
PATHS_OF_KAFKA += [
    "/controller",
    "/controller_epoch",
    "/cluster/id",
    "/feature",
    "/latest_producer_id_block",
    "/admin",
    "/admin/delete_topics",
]
PATHS_OF_KAFKA += [
    "/kafka-acl",
    "/kafka-acl/Topic",
    "/kafka-acl-extended/prefixed",
    "/delegation_token",
    "/delegation_token/tokens",
    "/consumers",
]
PRIVATE_PATHS = ("/delegation_token", "/delegation_token/tokens", "/kafka-acl/Topic")


@pytest.mark.parametrize("path", PATHS_OF_KAFKA)
def test_each_znode_is_read_alike_by_all_operations(stage: BridgeStage, path: str) -> None:
    """A znode that one of getData, getChildren and getACL shows is shown by the others; exists asks
    no permission; events tell no more than reads.
    """
    stage.create("old")
    owner, stranger = root(stage), stage.client()
    owner.create("/config/brokers/1", BROKERS)
    reads = (
        (Op.GET_DATA, (path, False)),
        (Op.GET_CHILDREN, (path, False)),
        (Op.GET_CHILDREN_2, (path, False)),
        (Op.GET_ACL, (path,)),
    )
    expected = Err.NO_AUTH if path in PRIVATE_PATHS else Err.OK
    assert {stranger.error(op, *fields) for op, fields in reads} == {expected}
    assert {owner.error(op, *fields) for op, fields in reads} == {Err.OK}
    assert stranger.exists(path)
    stranger.must(Op.SET_WATCHES, 0, [path], [], [])
    assert bool(stranger.events) <= (expected is Err.OK)


def test_who_may_not_read_a_secret_hears_nothing_of_it(stage: BridgeStage) -> None:
    owner, stranger = root(stage), stage.client()
    for client in (stranger, owner):
        client.must(Op.ADD_WATCH, "/kafka-acl", 1)
    data = (
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow",'
        b'"operation":"Read","host":"*"}]}'
    )
    owner.create("/kafka-acl/Topic/t", data)
    stranger.must(Op.SYNC, "/")
    assert not stranger.events
    assert [event.path for event in owner.events if event.path.startswith("/kafka-acl/Topic")]


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
        assert (
            stage.client().error(Op.CREATE, "/brokers/topics/new", TOPIC, OPEN_TO_ALL, 0)
            is Err.NO_AUTH
        )
    with BridgeStage(**AUTHORIZER, zookeeper_bridge_set_acl="false") as stage:
        stage.client().create("/brokers/topics/new", TOPIC)
    with BridgeStage() as stage:
        stage.client().create("/brokers/topics/new", TOPIC)
        assert acl_of(stage.client(), "/brokers/topics/new") == [Acl(31, "world", "anyone")]


def test_the_controller_decides_who_writes_on_every_node() -> None:
    with BridgeStage(3, **AUTHORIZER) as stage:
        for node_id in (1, 2, 3):
            assert (
                stage.client(node_id).error(Op.CREATE, "/brokers/topics/new", TOPIC, OPEN_TO_ALL, 0)
                is Err.NO_AUTH
            )
        assert not stage.nodes[1].image.configs.get((BROKER, "1"))
