"""An unmodified Kafka 2.8 broker whose ZooKeeper is the bridge, in a chroot: neither it nor the
nodes know anything of the other.
"""

import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from raftka.cluster.ports import HeldPorts
from raftka.testing import Cluster
from tests.kit.toolchains import Program
from zookeeper_bridge.client.blocking import ZooKeeperClient

WITHIN_S = 60.0
BROKER = 7


class OldBroker:
    def __init__(self, program: Program, folder: Path, port: int, zookeeper_connect: str) -> None:
        self._folder = folder
        self.address = f"127.0.0.1:{port}"
        settings = {
            "broker.id": BROKER,
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": folder / "data",
            "zookeeper.connect": f"{zookeeper_connect}/legacy",
            "zookeeper.session.timeout.ms": 6000,
            "offsets.topic.num.partitions": 1,
            "offsets.topic.replication.factor": 1,
            "group.initial.rebalance.delay.ms": 0,
            "log.cleaner.enable": "false",
        }
        file = folder / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self._command = [*program.command, "kafka.Kafka", str(file)]

    @contextmanager
    def running(self) -> Iterator[None]:
        with open(self._folder / "out.log", "ab") as out:
            process = subprocess.Popen(self._command, stdout=out, stderr=out)
        try:
            until(self._serves, self._said)
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _serves(self) -> bool:
        """It listens before its controller has told it who is there, itself too; librdkafka's
        admin, once told of nobody, does not ask again.
        """
        host, _, port = self.address.partition(":")
        socket.create_connection((host, int(port)), 1.0).close()
        told = AdminClient({"bootstrap.servers": self.address}).list_topics(timeout=WITHIN_S)
        return BROKER in told.brokers and told.controller_id == BROKER

    def _said(self) -> str:
        return (self._folder / "out.log").read_text()[-2000:]

    def create(self, topic: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(WITHIN_S)

    def produce(self, values: range) -> None:
        producer = Producer({"bootstrap.servers": self.address, "acks": "all"})
        for value in values:
            producer.produce("orders", str(value).encode())
        assert producer.flush(WITHIN_S) == 0

    def consume(self, group: str, count: int) -> list[int]:
        """A consumer that comes as the broker starts may be told of a topic without some of its
        partitions, and asks again after a while.
        """
        settings = {"auto.offset.reset": "earliest", "topic.metadata.refresh.interval.ms": 500}
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": group, **settings})
        consumer.subscribe(["orders"])
        found: list[int] = []

        def more() -> bool:
            came = consumer.consume(count, 0.5)
            # others tell of what passes
            found.extend(int(message.value() or b"") for message in came if message.error() is None)
            return len(found) >= count

        until(more, lambda: f"{len(found)} of {count} records came")
        consumer.close()
        return sorted(found)


def until(condition: Callable[[], Any], said: Callable[[], str] = str) -> None:
    """`condition` may fail with an error of the client's as long as nobody listens."""
    end = time.monotonic() + WITHIN_S
    while True:
        try:
            if condition():
                return
        except Exception:
            if time.monotonic() > end:
                raise
        assert time.monotonic() < end, said()
        time.sleep(0.05)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, bridge=True) as cluster:
        yield cluster


def test_a_broker_of_kafka_2_8_lives_on_the_bridge(
    kafka_2_8: Program, cluster: Cluster, tmp_path: Path
) -> None:
    def znode(path: str) -> tuple[Any, Any]:
        with ZooKeeperClient(cluster.zookeeper_connect) as client:
            data, stat = client.get(f"/legacy{path}")
            return json.loads(data or b"null"), stat

    with HeldPorts(1) as ports:
        broker = OldBroker(kafka_2_8, tmp_path, ports.numbers[0], cluster.zookeeper_connect)
        with broker.running():
            broker.create("orders", 2)
            assert znode("/controller")[0]["brokerid"] == BROKER
            assert znode("/brokers/topics/orders")[0]["partitions"] == {
                "0": [BROKER],
                "1": [BROKER],
            }
            broker.produce(range(100))
            assert broker.consume("first", 100) == list(range(100))

            first = znode(f"/brokers/ids/{BROKER}")[1]
            with ZooKeeperClient(cluster.zookeeper_connect) as client:
                leader = json.loads(client.get("/controller")[0] or b"")["brokerid"]
            cluster.kill(leader)
            broker.create("more", 1)
            broker.produce(range(100, 200))
            assert znode(f"/brokers/ids/{BROKER}")[1] == first  # its session has lived through it
            cluster.restart(leader)

        until(lambda: _gone(znode))
        with broker.running():
            assert broker.consume("second", 200) == list(range(200))
            assert znode(f"/brokers/ids/{BROKER}")[1].czxid > first.czxid
            assert znode("/controller_epoch")[0] == 2
    # the cluster's own life goes on beside it
    assert {node_id: cluster.leader(cluster.create_topic(f"own-{node_id}")) for node_id in (1, 2)}


def _gone(znode: Callable[[str], tuple[Any, Any]]) -> bool:
    from zookeeper_bridge.protocol.errors import Err, ZooKeeperError

    try:
        znode(f"/brokers/ids/{BROKER}")
    except ZooKeeperError as error:
        return error.code is Err.NO_NODE
    return False
