"""Real clients log in at three nodes that also log in at each other: every mechanism that a client
has.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer, KafkaProducer

from raftka.testing import Cluster
from tests.clients.sasl import MECHANISMS, PASSWORD, PROPERTIES, USER, librdkafka, python, raftka


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, properties=PROPERTIES) as cluster:
        admin = AdminClient(librdkafka(cluster, "PLAIN"))
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            wanted = UserScramCredentialUpsertion(
                USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode()
            )
            for future in admin.alter_user_scram_credentials([wanted]).values():
                future.result(30)
        yield cluster


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_logs_in(cluster: Cluster, mechanism: str) -> None:
    topic = cluster.create_topic(partitions=1, replication_factor=3)
    producer = KafkaProducer(**python(cluster, mechanism), acks="all")
    producer.send(topic, b"value").get(30)
    producer.close()
    consumer = KafkaConsumer(
        topic, **python(cluster, mechanism), auto_offset_reset="earliest", group_id=f"g-{mechanism}"
    )
    assert next(consumer).value == b"value"
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_logs_in(cluster: Cluster, mechanism: str) -> None:
    topic, refused = cluster.create_topic(partitions=1, replication_factor=3), []
    producer = confluent_kafka.Producer(librdkafka(cluster, mechanism))
    producer.produce(
        topic, b"value", callback=lambda error, _: refused.append(error) if error else None
    )
    assert (producer.flush(30), refused) == (0, [])
    consumer = confluent_kafka.Consumer(
        {
            **librdkafka(cluster, mechanism),
            "group.id": f"c-{mechanism}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    record = consumer.poll(30)
    assert record is not None
    assert record.value() == b"value"
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_logs_in(cluster: Cluster, mechanism: str) -> None:
    topic = cluster.create_topic(partitions=1, replication_factor=3)

    async def play() -> bytes | None:
        async with AIOKafkaProducer(**python(cluster, mechanism), acks="all") as producer:
            await producer.send_and_wait(topic, b"value")
        async with AIOKafkaConsumer(
            topic, **python(cluster, mechanism), auto_offset_reset="earliest"
        ) as consumer:
            value: bytes | None = (await consumer.getone()).value
            return value

    assert asyncio.run(play()) == b"value"


def test_command_line_logs_in_with_a_file_of_javas_or_with_options(
    cluster: Cluster, tmp_path: Path
) -> None:
    topic = cluster.create_topic(partitions=1, replication_factor=3)
    line = (
        f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" '
        f'password="{PASSWORD}";'
    )
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={line}\n"
    )
    assert topic in raftka(cluster, "topics", "list", "--command-config", str(file)).stdout
    options = [
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=PLAIN",
        f"sasl.username={USER}",
        f"sasl.password={PASSWORD}",
    ]
    assert (
        topic
        in raftka(
            cluster, "topics", "list", *[part for each in options for part in ("-X", each)]
        ).stdout
    )
    refused = raftka(
        cluster,
        "topics",
        "list",
        "--command-config",
        str(file),
        "-X",
        "sasl.jaas.config=" + line.replace(PASSWORD, "not-it"),
    )
    assert refused.returncode != 0
    assert "not-it" not in refused.stderr
    assert "invalid credentials" in refused.stderr
