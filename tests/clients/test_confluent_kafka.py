"""confluent-kafka (librdkafka): every record of every key once and in order, while leaders are
killed under it.
"""

from typing import Any

from confluent_kafka import Producer

from raftka.cluster.processes import Processes
from tests.clients.librdkafka_reader import read_all
from tests.clients.workload import (
    TOPIC,
    UNDER_WAY,
    by_key,
    create_topic,
    expected,
    records,
)


def test_keyed_records_survive_two_killed_leaders(three_processes: Processes) -> None:
    create_topic(three_processes)
    refused: list[Any] = []
    under_way = 0

    def delivered(error: Any, _message: Any) -> None:
        nonlocal under_way
        under_way -= 1
        if error is not None:
            refused.append(error)

    producer = Producer(
        {
            "bootstrap.servers": three_processes.bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 2,
            "log_level": 0,
        }
    )
    for key, value in records(three_processes):
        while under_way >= UNDER_WAY:
            producer.poll(1)
        producer.produce(TOPIC, key=key, value=value, on_delivery=delivered)
        under_way += 1
        producer.poll(0)

    assert producer.flush(120) == 0
    assert refused == []
    assert by_key(read_all(three_processes.bootstrap_servers)) == expected()
