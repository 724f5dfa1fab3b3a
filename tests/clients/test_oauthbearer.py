"""Real clients log in with tokens of an issuer, and go on when a token has ended; a token of
somebody else is refused.
"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as Provider
from aiokafka.errors import KafkaConnectionError
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

from raftka.testing import Cluster
from tests.clients.sasl import USERS, raftka
from tests.security.issuer import AUDIENCE, ISSUER, claims, jwks, rsa_row, token

OURS = "listener.name.plaintext.oauthbearer.sasl.oauthbearer."
SHORT_S = 6  # the life of tokens where they are to end


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    keys = tmp_path_factory.mktemp("issuer") / "keys.json"
    keys.write_bytes(jwks(rsa_row()))
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": USERS,
        f"{OURS}jwks.endpoint.url": keys.as_uri(),
        f"{OURS}expected.audience": AUDIENCE,
        f"{OURS}expected.issuer": ISSUER,
    }
    with Cluster(3, properties=properties) as cluster:
        yield cluster


def issued(life_s: int = 600, **changes: object) -> str:
    now_s = time.time()
    return token(claims(now_s, exp=int(now_s) + life_s, **changes))


class OfKafkaPython(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, life_s: int) -> None:
        super().__init__()
        self.life_s = life_s

    def token(self) -> str:
        return issued(self.life_s)


class OfAiokafka(Provider):  # type: ignore[misc]
    def __init__(self, **changes: str) -> None:
        self.changes = changes

    async def token(self) -> str:
        return issued(600, **self.changes)


def python(cluster: Cluster, provider: object) -> dict[str, object]:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": provider,
    }


def librdkafka(cluster: Cluster, life_s: int = 600, **changes: object) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (issued(life_s, **changes), time.time() + life_s, "olivia", {}),
    }


def test_kafka_python_logs_in_and_goes_on_when_its_token_ends(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=1, replication_factor=3)
    producer = KafkaProducer(**python(cluster, OfKafkaPython(SHORT_S)), acks="all")
    until = time.monotonic() + 2 * SHORT_S
    written = 0
    while time.monotonic() < until:
        producer.send(topic, b"%d" % written).get(30)
        written += 1
    producer.close()
    consumer = KafkaConsumer(
        topic, **python(cluster, OfKafkaPython(600)), auto_offset_reset="earliest", group_id="kp"
    )
    assert [int(next(consumer).value) for _ in range(written)] == list(range(written))
    consumer.close()


def test_confluent_kafka_logs_in_and_goes_on_when_its_token_ends(cluster: Cluster) -> None:
    topic, refused = cluster.create_topic(partitions=1, replication_factor=3), []
    producer = confluent_kafka.Producer(librdkafka(cluster, SHORT_S))
    until = time.monotonic() + 2 * SHORT_S
    while time.monotonic() < until:
        producer.produce(
            topic, b"value", callback=lambda error, _: refused.append(error) if error else None
        )
        assert producer.flush(30) == 0
    assert refused == []
    consumer = confluent_kafka.Consumer(
        {**librdkafka(cluster), "group.id": "ck", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    record = consumer.poll(30)
    assert record is not None
    assert record.value() == b"value"
    consumer.close()


def test_aiokafka_logs_in(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=1, replication_factor=3)

    async def play() -> bytes | None:
        async with AIOKafkaProducer(**python(cluster, OfAiokafka()), acks="all") as producer:
            await producer.send_and_wait(topic, b"value")
        async with AIOKafkaConsumer(
            topic, **python(cluster, OfAiokafka()), auto_offset_reset="earliest"
        ) as consumer:
            value: bytes | None = (await consumer.getone()).value
            return value

    assert asyncio.run(play()) == b"value"


def test_token_for_another_audience_is_refused(cluster: Cluster) -> None:
    async def start() -> None:
        producer = AIOKafkaProducer(**python(cluster, OfAiokafka(aud="elsewhere")))
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(KafkaConnectionError):
        asyncio.run(start())
    errors: list[confluent_kafka.KafkaError] = []
    admin = AdminClient({**librdkafka(cluster, aud="elsewhere"), "error_cb": errors.append})
    with pytest.raises(confluent_kafka.KafkaException):
        admin.list_topics(timeout=3)
    admin.poll(10)
    assert confluent_kafka.KafkaError._AUTHENTICATION in [each.code() for each in errors]


def test_command_line_logs_in_with_the_token_of_a_file(cluster: Cluster, tmp_path: Path) -> None:
    topic, file = cluster.create_topic(partitions=1, replication_factor=3), tmp_path / "token"
    options = [
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=OAUTHBEARER",
        f"sasl.oauthbearer.token.endpoint.url={file.as_uri()}",
    ]
    arguments = [part for each in options for part in ("-X", each)]
    file.write_text(issued())
    assert topic in raftka(cluster, "topics", "list", *arguments).stdout
    file.write_text(issued(iss="https://other.test"))
    refused = raftka(cluster, "topics", "list", *arguments)
    assert refused.returncode != 0
    assert "invalid_token" in refused.stderr
