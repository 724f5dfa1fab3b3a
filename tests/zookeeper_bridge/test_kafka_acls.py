"""/kafka-acl and /kafka-acl-extended: the cluster's ACLs as tools of ZooKeeper's time read, watch
and write them.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from raftka.metadata.security_commands import CreateAcls
from raftka.security import acls
from raftka.security.acls import Acl
from tests.kit.bridge_logins import AUTHORIZER, SUPER, root
from tests.zookeeper_bridge.decisions import OPEN_TO_ALL
from tests.zookeeper_bridge.stage import BridgeStage, ZkClient
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.opcodes import Op
from zookeeper_bridge.tree.kafka_acls import Resource, index_of
from zookeeper_bridge.tree.watches import EventType

CREATED, DELETED, CHANGED, CHILD = EventType
TOPIC, PREFIX = "/kafka-acl/Topic/t", "/kafka-acl-extended/prefixed/Group/team-"
READ = {"principal": "User:alice", "permissionType": "Allow", "operation": "Read", "host": "*"}
NO_ALTER = {
    "principal": "User:*",
    "permissionType": "Deny",
    "operation": "AlterConfigs",
    "host": "10.0.0.1",
}


@pytest.fixture
def stage() -> Iterator[BridgeStage]:
    with BridgeStage(**AUTHORIZER) as stage:
        yield stage
        assert not stage.world.failures


@pytest.fixture
def admin(stage: BridgeStage) -> ZkClient:
    return root(stage)


def text(*rows: dict[str, Any]) -> bytes:
    return json.dumps({"version": 1, "acls": list(rows)}).encode()


def cluster(stage: BridgeStage, node_id: int = 1) -> set[Acl]:
    return set(stage.nodes[node_id].image.acls)


def add(stage: BridgeStage, *given: Acl) -> None:
    done: list[object] = []
    quorum = stage.nodes[1].quorum
    command = CreateAcls(given)
    stage.nodes[1].runtime.take(  # type: ignore[attr-defined]
        lambda _: quorum.ask_controller(command, lambda *answer: done.append(answer)), None
    )
    stage.wait(lambda: bool(done) and set(given) <= cluster(stage))


def of_topic(name: str, operation: int = acls.READ, pattern: int = acls.LITERAL) -> Acl:
    return Acl(acls.TOPIC, name, pattern, "User:alice", "*", operation, acls.ALLOW)


def test_acls_of_other_clients_are_shown(stage: BridgeStage, admin: ZkClient) -> None:
    add(
        stage,
        of_topic("t"),
        of_topic("t", acls.DESCRIBE_CONFIGS),
        of_topic("p", pattern=acls.PREFIXED),
    )
    assert admin.children("/kafka-acl/Topic") == ["t"]
    assert admin.children("/kafka-acl-extended/prefixed/Topic") == ["p"]
    data, stat = admin.get(TOPIC)
    assert json.loads(data or b"") == {
        "version": 1,
        "acls": [READ, {**READ, "operation": "DescribeConfigs"}],
    }
    assert stat.data_length == len(data or b"")
    assert admin.children("/kafka-acl") == [
        "Cluster",
        "DelegationToken",
        "Group",
        "Topic",
        "TransactionalId",
    ]
    assert admin.error(Op.GET_DATA, "/kafka-acl/Topic/none", False) is Err.NO_NODE
    assert admin.error(Op.GET_DATA, "/kafka-acl/Nothing", False) is Err.NO_NODE


def test_what_is_written_becomes_the_clusters_acls(stage: BridgeStage, admin: ZkClient) -> None:
    admin.create(TOPIC, text(READ, NO_ALTER))
    admin.create(PREFIX, text(READ))
    denied = Acl(acls.TOPIC, "t", acls.LITERAL, "User:*", "10.0.0.1", acls.ALTER_CONFIGS, acls.DENY)
    grouped = Acl(acls.GROUP, "team-", acls.PREFIXED, "User:alice", "*", acls.READ, acls.ALLOW)
    assert cluster(stage) == {of_topic("t"), denied, grouped}
    _, stat = admin.get(TOPIC)
    assert admin.set(TOPIC, text(NO_ALTER), stat.version).version != stat.version
    assert cluster(stage) == {denied, grouped}
    assert admin.error(Op.SET_DATA, TOPIC, text(READ), stat.version) is Err.BAD_VERSION
    admin.delete(TOPIC, admin.get(TOPIC)[1].version)
    admin.set(PREFIX, text())
    assert not cluster(stage)
    assert not admin.exists(TOPIC)
    assert not admin.exists(PREFIX)


def test_a_tool_announces_its_changes(admin: ZkClient) -> None:
    """As Kafka 2.8's kafka-acls does behind each change."""
    for folder in ("/kafka-acl-changes", "/kafka-acl-extended-changes"):
        assert (
            admin.create(f"{folder}/acl_changes_", b"{}", flags=2)
            == f"{folder}/acl_changes_0000000000"
        )


def test_watchers_hear_of_changes_by_any_client(stage: BridgeStage, admin: ZkClient) -> None:
    admin.exists(TOPIC, watch=True)
    admin.children("/kafka-acl/Topic", watch=True)
    stranger = stage.client()
    stranger.must(Op.ADD_WATCH, "/kafka-acl", 1)
    add(stage, of_topic("t"))
    assert {event[:2] for event in admin.wait_event(2)} == {
        (CREATED, TOPIC),
        (CHILD, "/kafka-acl/Topic"),
    }
    admin.get(TOPIC, watch=True)
    add(stage, of_topic("t", acls.WRITE))
    assert admin.wait_event(3)[2][:2] == (CHANGED, TOPIC)
    admin.get(TOPIC, watch=True)
    admin.delete(TOPIC)
    assert admin.wait_event(4)[3][:2] == (DELETED, TOPIC)
    stranger.must(Op.SYNC, "/")
    assert not stranger.events


def test_strangers_neither_read_nor_write_them(stage: BridgeStage, admin: ZkClient) -> None:
    admin.create(TOPIC, text(READ))
    stranger = stage.client()
    for op, fields in (
        (Op.GET_DATA, (TOPIC, False)),
        (Op.GET_CHILDREN, ("/kafka-acl/Topic", False)),
        (Op.SET_DATA, (TOPIC, text(), -1)),
        (Op.DELETE, (TOPIC, -1)),
        (Op.CREATE, ("/kafka-acl/Topic/u", text(READ), OPEN_TO_ALL, 0)),
        (Op.CREATE, ("/kafka-acl-changes/acl_changes_", b"", OPEN_TO_ALL, 2)),
    ):
        assert stranger.error(op, *fields) is Err.NO_AUTH, (op, fields)
    assert cluster(stage) == {of_topic("t")}


def test_where_znodes_are_not_guarded_everybody_reads_and_nobody_writes() -> None:
    with BridgeStage(**AUTHORIZER, zookeeper_bridge_set_acl="false") as stage:
        root(stage).create(TOPIC, text(READ))
        stranger = stage.client()
        assert stranger.get(TOPIC)[0]
        assert stranger.error(Op.SET_DATA, TOPIC, text(), -1) is Err.NO_AUTH
        assert stranger.error(Op.DELETE, TOPIC, -1) is Err.NO_AUTH


def test_acls_that_nothing_would_enforce_are_not_taken() -> None:
    with BridgeStage(zookeeper_bridge_super_digest=SUPER) as stage:
        assert root(stage).error(Op.CREATE, TOPIC, text(READ), OPEN_TO_ALL, 0) is Err.NO_AUTH
        assert stage.client().children("/kafka-acl/Topic") == []


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"[]",
        b"{}",
        text(),
        b'{"acls":[1]}',
        text({**READ, "operation": "Fly"}),
        text({**READ, "operation": 3}),
        text({**READ, "permissionType": "allow"}),
        text({**READ, "principal": "alice"}),
        text({**READ, "host": None}),
        text({"principal": "User:alice"}),
        text(READ, {**READ, "operation": "Unknown"}),
    ],
)
def test_what_is_no_acl_is_refused_and_leaves_nothing(
    stage: BridgeStage, admin: ZkClient, data: bytes | None
) -> None:
    assert admin.error(Op.CREATE, TOPIC, data, OPEN_TO_ALL, 0) is Err.BAD_ARGUMENTS
    assert not cluster(stage)


def test_a_cluster_resource_has_one_name(stage: BridgeStage, admin: ZkClient) -> None:
    assert (
        admin.error(Op.CREATE, "/kafka-acl/Cluster/another", text(READ), OPEN_TO_ALL, 0)
        is Err.BAD_ARGUMENTS
    )
    admin.create("/kafka-acl/Cluster/kafka-cluster", text({**READ, "operation": "ClusterAction"}))
    assert admin.children("/kafka-acl/Cluster") == ["kafka-cluster"]


def test_names_that_cannot_stand_in_a_path_are_left_out(
    stage: BridgeStage, admin: ZkClient
) -> None:
    group = of_topic("a/b")._replace(resource_type=acls.GROUP)
    add(
        stage,
        group,
        group._replace(name=".."),
        group._replace(name="a\0"),
        group._replace(name="*"),
        group._replace(resource_type=acls.USER),
    )
    assert admin.children("/kafka-acl/Group") == ["*"]


def test_all_writes_of_a_multi_count_or_none(stage: BridgeStage, admin: ZkClient) -> None:
    first = (Op.CREATE, (TOPIC, text(READ), OPEN_TO_ALL, 0))
    results = admin.multi(first, (Op.CREATE, ("/kafka-acl/Topic/u", b"nonsense", OPEN_TO_ALL, 0)))
    assert results[:2] == [Err.OK, Err.BAD_ARGUMENTS]
    assert not cluster(stage)
    admin.multi(first, (Op.CREATE, ("/kafka-acl/Topic/u", text(READ), OPEN_TO_ALL, 0)))
    assert len(cluster(stage)) == 2


def test_many_reads_look_at_all_acls_once() -> None:
    many = dict.fromkeys(
        of_topic(f"t{number}", operation)
        for number in range(1000)
        for operation in (acls.READ, acls.WRITE)
    )
    index = index_of(many)
    assert index_of(many) is index
    topic = Resource(acls.LITERAL, acls.TOPIC, "t5")
    assert index.data(topic) is index.data(topic)
    assert index.names(topic) is index.names(topic)
    assert (index.count, len(index.of(topic))) == (1000, 2)
    assert index_of(dict(many)) is not index


def test_every_node_decides_the_same() -> None:
    with BridgeStage(3, **AUTHORIZER) as stage:
        client = root(stage)
        client.create(TOPIC, text(READ))
        stage.wait(lambda: all(cluster(stage, node_id) == {of_topic("t")} for node_id in (1, 2, 3)))
