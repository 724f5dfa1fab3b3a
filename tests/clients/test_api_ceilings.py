"""Clients below a ceiling: what each family writes and reads through a group, on a broker that
announces what Kafka 2.8, 3.6 and 4.0 did.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaAdminClient

from raftka.testing import Cluster
from tests.clients.conftest import or_skip
from tests.clients.secured import CLIENTS, Clients
from tests.kit.toolchains import Program, Toolchains

CEILINGS = ("2.8", "3.6", "4.0")  # without topic ids; with them; with groups of KIP-848
VALUES = [1, 2, 3]


@dataclass(frozen=True)
class Plain:
    """A cluster without security, as `Clients` asks for it."""

    cluster: Cluster

    def librdkafka(self) -> dict[str, str]:
        return {"bootstrap.servers": self.cluster.bootstrap_servers}

    def python(self) -> dict[str, str]:
        return {}

    def properties(self) -> str:
        return ""

    def program(self, program: Program) -> dict[str, str]:
        return program.env


@pytest.fixture(scope="module", params=CEILINGS)
def below(request: pytest.FixtureRequest) -> Iterator[Plain]:
    with Cluster(api_ceiling=request.param) as cluster:
        yield Plain(cluster)


@pytest.fixture
def clients(tmp_path: Path, toolchains: Toolchains) -> Clients:
    programs = {
        "java": toolchains.java,
        "kcat": toolchains.kcat,
        "franz-go": toolchains.franz_go,
        "kafkajs": toolchains.kafkajs,
    }
    return Clients(tmp_path, lambda client: or_skip(programs[client]))


@pytest.mark.parametrize("client", CLIENTS)
def test_each_family_writes_and_reads(below: Plain, clients: Clients, client: str) -> None:
    topic = below.cluster.create_topic(f"t-{client}")
    with clients.start(client, "produce", below, topic) as producer:
        for value in VALUES:
            producer.write(value)
        producer.finish()

    with clients.start(client, "follow", below, topic) as consumer:
        consumer.wait_for(VALUES)


def test_an_administrator_in_python(below: Plain) -> None:
    """kafka-python takes other versions of its requests at each ceiling."""
    admin = KafkaAdminClient(bootstrap_servers=below.cluster.bootstrap_servers)
    try:
        admin.create_topics({"made": {"num_partitions": 2, "replication_factor": 1}})
        assert "made" in admin.list_topics()
        assert len(admin.describe_topics(["made"])[0]["partitions"]) == 2
    finally:
        admin.close()


def test_a_group_of_the_new_protocol_below_kafka_4_0() -> None:
    with Cluster(api_ceiling="4.0") as cluster:
        topic = cluster.create_topic("t")
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        producer.produce(topic, b"a")
        assert producer.flush(20) == 0
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "g",
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([topic])
        try:
            got = consumer.poll(20)
        finally:
            consumer.close()
    assert got is not None
    assert (got.error(), got.value()) == (None, b"a")
