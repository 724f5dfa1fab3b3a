"""Real clients where ACLs decide: an administrator makes and revokes them while a producer and a
consumer run.
"""

import json
import subprocess
import sys
from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

from raftka.metadata.configs.broker import STANDARD_AUTHORIZER
from raftka.testing import Cluster
from tests.clients.sasl import PASSWORD, PROPERTIES, USER, librdkafka, python


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    properties = {
        **PROPERTIES,
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:node",
    }
    with Cluster(3, properties=properties) as cluster:
        yield cluster


def admin_of(cluster: Cluster) -> AdminClient:
    return AdminClient(
        {**librdkafka(cluster, "PLAIN"), "sasl.username": "node", "sasl.password": "node-secret"}
    )


def acl(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        kind,
        name,
        ResourcePatternType.LITERAL,
        f"User:{USER}",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )


def allow(cluster: Cluster, *bindings: AclBinding) -> None:
    admin = admin_of(cluster)
    for future in admin.create_acls(list(bindings)).values():
        future.result(30)


def test_acl_lets_a_client_in_and_its_end_shuts_it_out(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=1, replication_factor=3)
    producer = KafkaProducer(
        **python(cluster, "PLAIN"),
        acks="all",
        retries=0,
        enable_idempotence=False,
        max_block_ms=10_000,
    )
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send(topic, b"refused").get(30)
    allow(
        cluster,
        acl(ResourceType.TOPIC, topic, AclOperation.WRITE),
        acl(ResourceType.TOPIC, topic, AclOperation.READ),
    )
    producer.send(topic, b"allowed").get(30)
    written = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{USER}",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    admin = admin_of(cluster)
    (future,) = admin.delete_acls([written]).values()
    assert len(future.result(30)) == 1

    def is_shut_out() -> bool:
        try:
            producer.send(topic, b"not yet refused").get(30)
        except TopicAuthorizationFailedError:
            return True
        return False

    # the controller has answered, and the leader hears of it a moment later
    cluster.wait_for(is_shut_out, 30)
    producer.close()


def test_consumer_needs_its_group_and_its_topic(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=1, replication_factor=3)
    writer = confluent_kafka.Producer(
        {**librdkafka(cluster, "PLAIN"), "sasl.username": "node", "sasl.password": "node-secret"}
    )
    writer.produce(topic, b"value")
    assert writer.flush(30) == 0
    settings = {
        **librdkafka(cluster, "PLAIN", PASSWORD),
        "group.id": "readers",
        "auto.offset.reset": "earliest",
    }
    allow(cluster, acl(ResourceType.TOPIC, topic, AclOperation.READ))
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([topic])
    refused = consumer.poll(30)
    assert refused is not None
    assert refused.error().code() == confluent_kafka.KafkaError.GROUP_AUTHORIZATION_FAILED
    consumer.close()
    allow(cluster, acl(ResourceType.GROUP, "readers", AclOperation.READ))
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([topic])
    record = None
    # a broker that has not heard of the ACL yet refuses the group again
    while record is None or record.error() is not None:
        record = consumer.poll(30)
        assert record is not None
    assert record.value() == b"value"
    consumer.close()


def raftka(cluster: Cluster, arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    security = (
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=PLAIN",
        "sasl.username=node",
        "sasl.password=node-secret",
    )
    options = [part for each in security for part in ("-X", each)]
    command = [
        sys.executable,
        "-m",
        "raftka.cli",
        *arguments.split(),
        "--bootstrap-server",
        cluster.bootstrap_servers,
        *options,
    ]
    return subprocess.run(
        command, input=given, capture_output=True, text=True, check=False, timeout=60
    )


def test_command_line_makes_lists_and_deletes_acls(cluster: Cluster) -> None:
    assert (
        raftka(
            cluster,
            "acls create --topic shop- --prefixed --principal User:eve --operation read "
            "--operation describe",
        ).returncode
        == 0
    )
    assert (
        raftka(
            cluster,
            "acls create --group g --principal User:eve --operation read --deny --host 10.0.0.1",
        ).returncode
        == 0
    )
    rows = [
        json.loads(line)
        for line in raftka(cluster, "acls list --principal User:eve -o json").stdout.splitlines()
    ]
    assert [list(row.values()) for row in rows] == [
        ["topic", "shop-", "prefixed", "User:eve", "*", "read", "allow"],
        ["topic", "shop-", "prefixed", "User:eve", "*", "describe", "allow"],
        ["group", "g", "literal", "User:eve", "10.0.0.1", "read", "deny"],
    ]
    assert "describe" in raftka(cluster, "acls delete --topic shop- --operation describe").stdout
    assert len(raftka(cluster, "acls list --principal User:eve -o json").stdout.splitlines()) == 2
    assert "would delete every ACL" in raftka(cluster, "acls delete").stderr
    assert raftka(cluster, "acls create --topic t --principal eve --operation read").returncode == 1


def test_command_line_sets_and_deletes_users(cluster: Cluster) -> None:
    assert raftka(cluster, "users set eve --password-file -", "eve-secret\n").returncode == 0
    (row,) = [
        json.loads(line) for line in raftka(cluster, "users list -o json").stdout.splitlines()
    ]
    assert row == {"user": "eve", "mechanism": "SCRAM-SHA-512", "iterations": 8192}
    settings = {**librdkafka(cluster, "SCRAM-SHA-512", "eve-secret"), "sasl.username": "eve"}
    client = AdminClient(settings)
    assert client.list_topics(timeout=30).brokers
    assert raftka(cluster, "users delete eve").returncode == 0
    assert raftka(cluster, "users list").stdout == ""
    assert "nobody" in raftka(cluster, "users delete nobody").stderr


def test_acls_are_listed(cluster: Cluster) -> None:
    wanted = acl(ResourceType.TOPIC, "listed", AclOperation.DESCRIBE)
    allow(cluster, wanted)
    every = AclBindingFilter(
        ResourceType.TOPIC,
        "listed",
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    admin = admin_of(cluster)
    assert admin.describe_acls(every).result(30) == [wanted]
