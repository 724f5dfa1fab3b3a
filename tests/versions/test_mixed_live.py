"""Three real nodes of the release before, upgraded one after the other under load, taken back, and
upgraded for good.
"""

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from raftka.chaos.simulated.releases import PRESENT, installed
from raftka.cli.commands import root
from raftka.cluster.plan import plan_cluster
from raftka.cluster.ports import HeldPorts
from raftka.cluster.processes import Processes
from tests.kit.versions.earlier import wheel

TOPIC, PARTITIONS, GROUP = "trucks", 3, "readers"
PAUSE_S = 0.01
SETTINGS = {"min.insync.replicas": "2", "offsets.topic.replication.factor": "3"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Processes]:
    with HeldPorts(6) as ports:
        found = Processes(plan_cluster(tmp_path, ports.pairs(), SETTINGS))
        for node in found.nodes.values():
            node.release = installed(wheel())
        try:
            found.start_all()
            found.wait_ready()
            yield found
        finally:
            found.close()


def command(cluster: Processes, text: str) -> str:
    told = CliRunner().invoke(root, [*text.split(), "-b", cluster.bootstrap_servers])
    assert told.exit_code == 0, told.output
    return told.output


class Load(threading.Thread):
    """A producer with acks=all, and a member of a group that reads all partitions."""

    def __init__(self, servers: str) -> None:
        super().__init__(name="load")
        self.over = threading.Event()
        self.acknowledged: dict[tuple[int, int], bytes] = {}  # by partition and offset
        self.at: list[float] = []  # of acknowledgements
        self.read: set[bytes] = set()
        self.failed: list[BaseException] = []
        self._servers = servers

    def run(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self._servers, acks="all", retries=1000)
        consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=self._servers,
            group_id=GROUP,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=200,
        )
        number = 0
        while not self.over.is_set():
            value = b"%d" % number
            sent = producer.send(TOPIC, value, partition=number % PARTITIONS)
            sent.add_callback(self._on_acknowledged, value).add_errback(self.failed.append)
            number += 1
            for records in consumer.poll(timeout_ms=int(1000 * PAUSE_S)).values():
                self.read.update(each.value for each in records)
        producer.flush(timeout=30)
        consumer.close()
        producer.close()

    def _on_acknowledged(self, value: bytes, told: Any) -> None:
        self.acknowledged[told.partition, told.offset] = value
        self.at.append(time.monotonic())


def restart(cluster: Processes, node_id: int, release: Path | None) -> None:
    cluster.kill(node_id, signal.SIGTERM)
    cluster.nodes[node_id].release = release
    cluster.start(node_id)
    cluster.wait_ready()


def read_everything(servers: str) -> dict[tuple[int, int], bytes]:
    consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    partitions = [TopicPartition(TOPIC, each) for each in range(PARTITIONS)]
    consumer.assign(partitions)
    ends = consumer.end_offsets(partitions)
    found = {}
    while any(consumer.position(each) < ends[each] for each in partitions):
        for place, records in consumer.poll(timeout_ms=200).items():
            found.update({(place.partition, each.offset): each.value for each in records})
    consumer.close()
    return found


def test_nothing_is_lost_while_nodes_are_upgraded_and_taken_back(
    cluster: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = cluster.bootstrap_servers
    command(cluster, f"topics create {TOPIC} --partitions {PARTITIONS} --replication-factor 3")
    load = Load(servers)
    load.start()
    try:
        for node_id in (1, 2, 3):
            restart(cluster, node_id, None)
        for node_id in (2, 1, 3):
            restart(cluster, node_id, installed(wheel()))
        for node_id in (3, 2, 1):
            restart(cluster, node_id, None)
        command(cluster, "features upgrade")
        restart(cluster, 2, None)
    finally:
        load.over.set()
        load.join(60)

    assert not load.failed
    found = read_everything(servers)
    assert load.acknowledged.items() <= found.items()
    assert len(set(found.values())) >= len(load.acknowledged) > 100
    assert load.read <= set(found.values())
    rows = [line.split() for line in command(cluster, "features describe").splitlines()]
    assert ["raftka.version", str(PRESENT.level)] in [row[:2] for row in rows]
    longest_s = max(after - before for before, after in zip(load.at, load.at[1:], strict=False))
    with capsys.disabled():
        print(
            f"\n{len(load.acknowledged)} records acknowledged over ten restarts, 0 lost; longest "
            f"gap between two acknowledgements {longest_s:.2f} s"
        )
