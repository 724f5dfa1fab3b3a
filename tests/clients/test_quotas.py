"""Real clients with quotas: they are told how long to wait, wait, and lose nothing. The command
line sets the quotas.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from kafka import KafkaProducer

from raftka.testing import Cluster

RATE = 20_000
RECORD, RECORDS = 10_000, 24  # 240 kB: ten seconds' worth at once, then some seconds of waiting


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1) as cluster:
        yield cluster


def raftka(cluster: Cluster, arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "raftka.cli",
        *arguments.split(),
        "--bootstrap-server",
        cluster.bootstrap_servers,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def quotas(cluster: Cluster, arguments: str = "") -> list[list[Any]]:
    return [
        list(json.loads(line).values())
        for line in raftka(cluster, f"quotas list {arguments} -o json").stdout.splitlines()
    ]


def filled(cluster: Cluster) -> str:
    topic = cluster.create_topic(partitions=1)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0, "batch.num.messages": 1}
    )
    for number in range(RECORDS):
        producer.produce(topic, b"%06d" % number + bytes(RECORD))
    assert producer.flush(30) == 0
    return topic


def test_librdkafka_is_told_to_wait_and_writes_everything(cluster: Cluster) -> None:
    assert (
        raftka(cluster, f"quotas set --client-id slow-writer producer_byte_rate={RATE}").returncode
        == 0
    )
    topic = cluster.create_topic(partitions=1)
    told: list[float] = []
    refused: list[object] = []
    config = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "client.id": "slow-writer",
        "linger.ms": 0,
        "batch.num.messages": 1,
    }
    producer = confluent_kafka.Producer(
        {**config, "throttle_cb": lambda event: told.append(event.throttle_time)}
    )
    for _ in range(RECORDS):
        producer.produce(
            topic,
            bytes(RECORD),
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert not refused
    assert max(told) > 0
    assert raftka(cluster, "quotas delete --client-id slow-writer").returncode == 0


def test_librdkafka_reads_everything_slowly(cluster: Cluster) -> None:
    topic = filled(cluster)
    assert (
        raftka(cluster, f"quotas set --client-id slow-reader consumer_byte_rate={RATE}").returncode
        == 0
    )
    told: list[float] = []
    config = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "client.id": "slow-reader",
        "group.id": "g",
        "auto.offset.reset": "earliest",
    }
    consumer = confluent_kafka.Consumer(
        {**config, "throttle_cb": lambda event: told.append(event.throttle_time)}
    )
    consumer.subscribe([topic])
    found: list[int] = []
    while len(found) < RECORDS:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        found.append(int((message.value() or b"")[:6]))
    consumer.close()
    assert found == list(range(RECORDS))
    assert max(told) > 0
    assert (
        raftka(cluster, "quotas delete --client-id slow-reader consumer_byte_rate").returncode == 0
    )


def test_kafka_python_counts_the_time_that_it_is_told(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=1)
    assert (
        raftka(
            cluster, f"quotas set --user ANONYMOUS --client-id python producer_byte_rate={RATE}"
        ).returncode
        == 0
    )
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        client_id="python",
        batch_size=0,
        enable_idempotence=False,
    )
    for future in [producer.send(topic, bytes(RECORD)) for _ in range(RECORDS)]:
        future.get(60)
    times = [
        value
        for group in producer.metrics().values()
        for name, value in group.items()
        if "throttle-time-max" in name
    ]
    producer.close()
    assert max(times) > 0
    assert raftka(cluster, "quotas delete --user ANONYMOUS --client-id python").returncode == 0


def test_command_line_sets_lists_and_deletes(cluster: Cluster) -> None:
    assert (
        raftka(
            cluster, "quotas set --user eve producer_byte_rate=1000 request_percentage=12.5"
        ).returncode
        == 0
    )
    assert (
        raftka(
            cluster, "quotas set --user eve --default client-id producer_byte_rate=500"
        ).returncode
        == 0
    )
    assert (
        raftka(cluster, "quotas set --default ip connection_creation_rate=500000").returncode == 0
    )
    assert quotas(cluster) == [
        [None, None, "<default>", "connection_creation_rate", 500_000.0],
        ["eve", None, None, "producer_byte_rate", 1000.0],
        ["eve", None, None, "request_percentage", 12.5],
        ["eve", "<default>", None, "producer_byte_rate", 500.0],
    ]
    assert len(quotas(cluster, "--user eve")) == 3
    assert len(quotas(cluster, "--default client-id")) == 1
    assert raftka(cluster, "quotas delete --user eve request_percentage").returncode == 0
    assert (
        "there is no request_percentage"
        in raftka(cluster, "quotas delete --user eve request_percentage").stderr
    )
    assert (
        "must be greater than 0"
        in raftka(cluster, "quotas set --user eve producer_byte_rate=-1").stderr
    )
    assert (
        "a quota is a number"
        in raftka(cluster, "quotas set --user eve producer_byte_rate=much").stderr
    )
    assert "say whose quota" in raftka(cluster, "quotas set producer_byte_rate=1").stderr
    assert (
        "exclude each other"
        in raftka(cluster, "quotas set --user eve --default user producer_byte_rate=1").stderr
    )
    for entity in ("--user eve", "--user eve --default client-id", "--default ip"):
        assert raftka(cluster, f"quotas delete {entity}").returncode == 0
    assert quotas(cluster) == []
    assert "there is no such quota" in raftka(cluster, "quotas delete --user eve").stderr
