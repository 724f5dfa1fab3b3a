"""kafka-python: every record of every key once and in order, while leaders are killed under it."""

import threading
from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from raftka.cluster.processes import Processes
from tests.clients.workload import (
    PARTITIONS,
    TOPIC,
    UNDER_WAY,
    by_key,
    create_topic,
    expected,
    records,
)


def read_all(bootstrap_servers: str) -> Iterator[tuple[bytes, bytes]]:
    where = [TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers, group_id=None, auto_offset_reset="earliest"
    )
    try:
        consumer.assign(where)
        ends = consumer.end_offsets(where)
        while any(consumer.position(p) < end for p, end in ends.items()):
            for polled in consumer.poll(timeout_ms=1000).values():
                yield from ((record.key, record.value) for record in polled)
    finally:
        consumer.close()


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.usefixtures("forgotten_sockets")
def test_keyed_records_survive_two_killed_leaders(three_processes: Processes) -> None:
    create_topic(three_processes)
    producer = KafkaProducer(
        bootstrap_servers=three_processes.bootstrap_servers,
        acks="all",
        enable_idempotence=True,
        linger_ms=2,
    )
    slots, refused = threading.Semaphore(UNDER_WAY), list[BaseException]()

    def refuse(error: BaseException) -> None:
        refused.append(error)
        slots.release()

    try:
        for key, value in records(three_processes):
            slots.acquire()
            producer.send(TOPIC, key=key, value=value).add_callback(
                lambda _: slots.release()
            ).add_errback(refuse)
        producer.flush(timeout=120)
    finally:
        producer.close(timeout=30)

    assert refused == []
    assert by_key(read_all(three_processes.bootstrap_servers)) == expected()
