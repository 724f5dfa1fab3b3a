"""Sessions that end while clients produce: those that can log in again on the same connection do, and no record is lost or doubled."""

from collections.abc import Callable, Iterator

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from kafka import KafkaProducer

from raftka.broker.network.access.authentication import SUCCESSES
from raftka.testing import Cluster
from tests.clients.test_sasl import PROPERTIES, librdkafka, python

SESSION_MS = 1500
RENEWALS = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1, properties={**PROPERTIES, "connections.max.reauth.ms": str(SESSION_MS)}) as cluster:
        yield cluster


def logins(cluster: Cluster) -> int:
    (node,) = cluster._serving()
    assert node.node is not None
    return node.node.metrics.counters.get(SUCCESSES, 0)


def connections(cluster: Cluster) -> int:
    (node,) = cluster._serving()
    assert node.node is not None
    return node.node.metrics.connections_made


def produced_through_renewals(cluster: Cluster, topic: str, send: Callable[[bytes], None], flush: Callable[[], object]) -> None:
    send(b"0")
    flush()
    before, made, sent = logins(cluster), connections(cluster), 1

    def renewed() -> bool:
        nonlocal sent
        send(b"%d" % sent)
        sent += 1
        return logins(cluster) - before >= RENEWALS

    cluster.wait_for(renewed, 40)
    flush()
    assert connections(cluster) - made < RENEWALS, "the client has connected again in place of renewing"
    assert [record.value for record in cluster.records(topic)] == [b"%d" % each for each in range(sent)]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_librdkafka_renews_its_session_while_it_produces(cluster: Cluster, mechanism: str) -> None:
    topic, failed = cluster.create_topic(), []
    settings = as_node(cluster) if mechanism == "PLAIN" else with_scram(cluster)
    producer = confluent_kafka.Producer({**settings, "linger.ms": 0, "enable.idempotence": True})

    def send(value: bytes) -> None:
        producer.produce(topic, value, callback=lambda error, _: failed.append(error) if error else None)
        producer.poll(0.01)

    produced_through_renewals(cluster, topic, send, lambda: producer.flush(30))
    assert failed == []


def as_node(cluster: Cluster) -> dict[str, str]:
    return {**librdkafka(cluster, "PLAIN"), "sasl.username": "node", "sasl.password": "node-secret"}


def with_scram(cluster: Cluster) -> dict[str, str]:
    admin = AdminClient(as_node(cluster))
    wanted = UserScramCredentialUpsertion("alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"alice-secret")
    for future in admin.alter_user_scram_credentials([wanted]).values():
        future.result(30)
    return librdkafka(cluster, "SCRAM-SHA-512")


def test_kafka_python_renews_its_session_while_it_produces(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    options = {**python(cluster, "PLAIN"), "sasl_plain_username": "node", "sasl_plain_password": "node-secret"}
    producer = KafkaProducer(**options, acks="all", linger_ms=0, enable_idempotence=True)

    def send(value: bytes) -> None:
        producer.send(topic, value, partition=0).get(30)

    produced_through_renewals(cluster, topic, send, lambda: producer.flush(30))
    producer.close()
