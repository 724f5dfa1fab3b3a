"""Transactions of real clients: each record of a topic is copied to another exactly once, while
leaders, coordinators and the client are killed.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from kafka import KafkaAdminClient

from raftka.cluster.processes import Processes
from tests.clients.leaders import leader
from tests.clients.transformer import BEGINS_ANEW, LIBRARIES, PARTITIONS, SOURCE, TARGET
from tests.kit.toolchains import Program

RECORDS = 20_000
PATIENCE_S = 150
HERE = Path(__file__).parent


def fill(cluster: Processes) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        topics = {
            topic: {"num_partitions": PARTITIONS, "replication_factor": 3}
            for topic in (SOURCE, TARGET)
        }
        admin.create_topics(topics, wait_for_metadata=True)
    finally:
        admin.close()
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 5,
            "log_level": 0,
        }
    )
    for number in range(RECORDS):
        producer.produce(
            SOURCE, key=b"%d" % number, value=b"%d" % number, partition=number % PARTITIONS
        )
    assert producer.flush(60) == 0


def read_committed(cluster: Processes) -> Iterator[tuple[int, int]]:
    """Partition and number of each record of the target."""
    settings = {
        "group.id": "reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
    try:
        consumer.assign(
            [TopicPartition(TARGET, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)]
        )
        ended: set[int] = set()
        while len(ended) < PARTITIONS:
            for message in consumer.consume(500, timeout=1):
                error = message.error()
                if error is None:
                    yield message.partition(), int(message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
    finally:
        consumer.close()


class Client:
    """The program, which is killed and started again."""

    def __init__(
        self, cluster: Processes, command: Sequence[str], env: Mapping[str, str] | None = None
    ) -> None:
        self.command = [*command, cluster.bootstrap_servers, str(RECORDS)]
        self.env = env
        self.process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(self.command, env=self.env, stdout=subprocess.PIPE, text=True)

    def transactions(self, count: int) -> bool:
        """Wait for so many more; False when the client has ended before. One that cannot begin anew
        within its process says so by its exit code.
        """
        while True:
            assert self.process.stdout is not None
            for line in self.process.stdout:
                count -= line == "transaction\n"
                if count <= 0:
                    return True
            if self.process.wait(PATIENCE_S) != BEGINS_ANEW:
                return False
            self.kill()

    def kill(self) -> None:
        self.close()
        self.process = self._start()

    def end(self) -> int:
        while self.transactions(1):
            pass
        return self.process.returncode

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.mark.parametrize("library", LIBRARIES)
def test_each_record_is_copied_once(three_processes: Processes, library: str) -> None:
    each_record_is_copied_once(
        three_processes, [sys.executable, "-m", "tests.clients.transformer", library]
    )


def test_each_record_is_copied_once_by_java(
    three_processes: Processes, java_tools: Program
) -> None:
    """Transactions of version 2."""
    each_record_is_copied_once(
        three_processes, [*java_tools.command[:-1], str(HERE / "Transformer.java")], java_tools.env
    )


def test_each_record_is_copied_once_by_older_java(
    three_processes: Processes, kafka_2_8: Program
) -> None:
    """Transactions of version 1."""
    each_record_is_copied_once(
        three_processes, [*kafka_2_8.command, str(HERE / "Transformer.java")], kafka_2_8.env
    )


def test_each_record_is_copied_once_by_kafkajs(
    three_processes: Processes, kafkajs: Program
) -> None:
    each_record_is_copied_once(
        three_processes, [*kafkajs.command[:-1], str(HERE / "transformer.cjs")], kafkajs.env
    )


def test_each_record_is_copied_once_by_franz_go(
    three_processes: Processes, franz_go: Program
) -> None:
    each_record_is_copied_once(three_processes, [*franz_go.command, "transform"], franz_go.env)


def each_record_is_copied_once(
    cluster: Processes, command: Sequence[str], env: Mapping[str, str] | None = None
) -> None:
    fill(cluster)
    client = Client(cluster, command, env)
    try:
        for topic in (TARGET, "__transaction_state", None):
            client.transactions(5)
            if topic is None:
                client.kill()
            else:
                dead = leader(cluster, topic)
                cluster.kill(dead)
                client.transactions(2)
                cluster.start(dead)
                assert cluster.wait_ready()
        assert client.end() == 0
    finally:
        client.close()

    read = list(read_committed(cluster))
    assert Counter(number for _, number in read) == Counter(range(RECORDS))
    for partition in range(PARTITIONS):
        numbers = [number for each, number in read if each == partition]
        assert numbers == sorted(numbers)
