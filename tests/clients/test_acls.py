"""Real clients where ACLs decide: an administrator makes and revokes them while a producer and a consumer run."""

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
from tests.clients.test_sasl import PASSWORD, PROPERTIES, USER, librdkafka, python


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    properties = {**PROPERTIES, "authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:node"}
    with Cluster(3, properties=properties) as cluster:
        yield cluster


def admin_of(cluster: Cluster) -> AdminClient:
    return AdminClient({**librdkafka(cluster, "PLAIN"), "sasl.username": "node", "sasl.password": "node-secret"})


def acl(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{USER}", "*", operation, AclPermissionType.ALLOW)


def allow(cluster: Cluster, *bindings: AclBinding) -> None:
    admin = admin_of(cluster)
    for future in admin.create_acls(list(bindings)).values():
        future.result(30)


def test_acl_lets_a_client_in_and_its_end_shuts_it_out(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=1, replication_factor=3)
    producer = KafkaProducer(**python(cluster, "PLAIN"), acks="all", retries=0, enable_idempotence=False, max_block_ms=10_000)
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send(topic, b"refused").get(30)
    allow(cluster, acl(ResourceType.TOPIC, topic, AclOperation.WRITE), acl(ResourceType.TOPIC, topic, AclOperation.READ))
    producer.send(topic, b"allowed").get(30)
    written = AclBindingFilter(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{USER}", "*", AclOperation.WRITE, AclPermissionType.ALLOW
    )
    admin = admin_of(cluster)
    (future,) = admin.delete_acls([written]).values()
    assert len(future.result(30)) == 1
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send(topic, b"refused").get(30)
    producer.close()


def test_consumer_needs_its_group_and_its_topic(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=1, replication_factor=3)
    writer = confluent_kafka.Producer({**librdkafka(cluster, "PLAIN"), "sasl.username": "node", "sasl.password": "node-secret"})
    writer.produce(topic, b"value")
    assert writer.flush(30) == 0
    settings = {**librdkafka(cluster, "PLAIN", PASSWORD), "group.id": "readers", "auto.offset.reset": "earliest"}
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
    record = consumer.poll(30)
    assert record is not None
    assert record.value() == b"value"
    consumer.close()


def test_acls_are_listed(cluster: Cluster) -> None:
    wanted = acl(ResourceType.TOPIC, "listed", AclOperation.DESCRIBE)
    allow(cluster, wanted)
    every = AclBindingFilter(ResourceType.TOPIC, "listed", ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
    admin = admin_of(cluster)
    assert admin.describe_acls(every).result(30) == [wanted]
