"""A broker on the portable runtime, with real clients: records are flushed before they are
acknowledged, nodes are killed and started again, large records leave. tests/broker/ runs on it as a
whole with RAFTKA_RUNTIME=portable.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer
from kafka import KafkaProducer

from raftka.cluster.ask import ask
from raftka.runtime.real import flushes, syncing
from raftka.runtime.real.choice import PORTABLE, VARIABLE
from raftka.testing import Cluster

LARGE = b"x" * 700_000


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv(VARIABLE, PORTABLE)
    with Cluster(nodes=3) as cluster:
        yield cluster


def read(cluster: Cluster, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"of-{topic}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    try:
        while len(found) < count:
            message = consumer.poll(30)
            assert message is not None, f"{len(found)} records of {count}"
            assert message.error() is None, message.error()
            found.append(message.value())
    finally:
        consumer.close()
    return found


def test_records_outlive_each_node_in_turn(cluster: Cluster) -> None:
    topic = cluster.create_topic("orders", replication_factor=3)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all")
    sent: list[bytes] = []
    for node_id in cluster.nodes:
        for value in (b"small %d" % node_id, LARGE):
            producer.send(topic, value).get(30)
            sent.append(value)
        cluster.restart(node_id)
    producer.close()

    assert read(cluster, topic, len(sent)) == sent


def test_a_record_is_acknowledged_when_it_has_been_flushed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.create_topic("orders", replication_factor=3)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all")
    producer.send(topic, b"before").get(30)
    asked, may_flush = threading.Event(), threading.Event()
    sync_data = syncing.sync_data

    def slow(fd: int) -> None:
        asked.set()
        assert may_flush.wait(60)
        sync_data(fd)

    with monkeypatch.context() as patched, ThreadPoolExecutor(1) as pool:
        patched.setattr(flushes, "sync_data", slow)
        sent = producer.send(topic, b"later")
        answer = pool.submit(sent.get, 60)
        try:
            assert asked.wait(30)
            for address in cluster.bootstrap_servers.split(","):
                host, _, port = address.partition(":")
                assert ask((host, int(port)), [topic]).of(topic)  # the loop goes on meanwhile
            assert not answer.done(), "acknowledged and not flushed"
        finally:
            may_flush.set()
        assert answer.result(60).offset == 1
    producer.close()
