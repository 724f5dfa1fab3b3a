"""Three clients follow 210 partitions, kafka-python in fetch sessions, while a broker is killed
under them: all of it, once, in order.
"""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from raftka.cluster.processes import Processes

TOPIC, PARTITIONS, ROUNDS = "wide", 210, 4
PATIENCE_S = 60.0

Polled = list[tuple[int, int]]  # partition, number


class Reading:
    """The records that one client has read, in its own thread."""

    def __init__(self, follow: "Callable[[str, Reading], None]", bootstrap: str) -> None:
        self.read: dict[int, list[int]] = defaultdict(list)
        self.count = 0
        self.over = False
        self.error: BaseException | None = None
        self.changed = threading.Condition()
        self._follow, self._bootstrap = follow, bootstrap
        self.thread = threading.Thread(target=self._run, name=follow.__name__, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._follow(self._bootstrap, self)
        except BaseException as error:
            self.error = error
            with self.changed:
                self.changed.notify()

    def take(self, polled: Polled) -> None:
        for partition, number in polled:
            self.read[partition].append(number)
        with self.changed:
            self.count += len(polled)
            self.changed.notify()

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(
                lambda: self.count >= count or self.error is not None, PATIENCE_S
            ), f"{self.thread.name} read {self.count}"


def with_confluent_kafka(bootstrap: str, reading: Reading) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([ConfluentPartition(TOPIC, p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
        while not reading.over:
            reading.take(
                [
                    (m.partition(), int(m.value()))
                    for m in consumer.consume(500, timeout=0.2)
                    if m.error() is None
                ]
            )
    finally:
        consumer.close()


def with_kafka_python(bootstrap: str, reading: Reading) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest"
    )
    try:
        consumer.assign([TopicPartition(TOPIC, p) for p in range(PARTITIONS)])
        while not reading.over:
            polled = consumer.poll(timeout_ms=200).values()
            reading.take(
                [(record.partition, int(record.value)) for records in polled for record in records]
            )
    finally:
        consumer.close()


def with_aiokafka(bootstrap: str, reading: Reading) -> None:
    async def follow() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            consumer.assign([AioPartition(TOPIC, p) for p in range(PARTITIONS)])
            while not reading.over:
                polled = (await consumer.getmany(timeout_ms=200)).values()
                reading.take(
                    [
                        (record.partition, int(record.value))
                        for records in polled
                        for record in records
                    ]
                )
        finally:
            await consumer.stop()

    asyncio.run(follow())


@pytest.fixture
def readings(three_processes: Processes) -> Iterator[list[Reading]]:
    admin = KafkaAdminClient(bootstrap_servers=three_processes.bootstrap_servers)
    try:
        admin.create_topics(
            {TOPIC: {"num_partitions": PARTITIONS, "replication_factor": 3}}, wait_for_metadata=True
        )
    finally:
        admin.close()
    each = [
        Reading(follow, three_processes.bootstrap_servers)
        for follow in (with_confluent_kafka, with_kafka_python, with_aiokafka)
    ]
    yield each
    for reading in each:
        reading.over = True
    for reading in each:
        reading.thread.join(PATIENCE_S)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.usefixtures("forgotten_sockets")
def test_a_broker_is_killed_under_many_partitions(
    three_processes: Processes, readings: list[Reading]
) -> None:
    producer = Producer(
        {
            "bootstrap.servers": three_processes.bootstrap_servers,
            "enable.idempotence": True,
            "log_level": 0,
        }
    )
    for number in range(ROUNDS):
        if number == ROUNDS // 2:
            three_processes.kill(2)
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, b"%d" % number, partition=partition)
        assert producer.flush(PATIENCE_S) == 0
        for reading in readings:
            reading.wait_for((number + 1) * PARTITIONS)

    assert [reading.error for reading in readings] == [None] * 3
    for reading in readings:
        assert dict(reading.read) == {
            partition: list(range(ROUNDS)) for partition in range(PARTITIONS)
        }, reading.thread.name
