"""Kafka Connect with exactly-once sources: a file goes through a topic into a file, line by line,
while a worker and brokers are killed.
"""

from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from raftka.cluster.ports import HeldPorts
from raftka.cluster.processes import Processes
from tests.clients.leaders import leader
from tests.kit.kafka_connect import Connect, wait
from tests.kit.toolchains import Program

TOPIC = "lines"
LINES = 1000  # of a piece; one is written before each kill, and after the last one
# the buffer of the file source, which does not look at what is left in it until the file grows
LINE_BYTES = 1024


def read_committed(cluster: Processes) -> list[str]:
    settings = {
        "group.id": "reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
    try:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        lines = []
        while True:
            for message in consumer.consume(500, timeout=1):
                error = message.error()
                if error is None:
                    lines.append(message.value().decode())
                elif error.code() == KafkaError._PARTITION_EOF:
                    return lines
    finally:
        consumer.close()


def test_each_line_of_a_file_is_copied_once(
    three_processes: Processes,
    kafka_connect: Program,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    source, sink = tmp_path / "source", tmp_path / "sink"
    source.touch()
    lines: list[str] = []

    def copied() -> int:
        return sink.read_bytes().count(b"\n") if sink.exists() else 0

    def complete() -> bool:
        return copied() >= len(lines)

    ports = HeldPorts(2)
    request.addfinalizer(ports.release)
    with Connect(
        kafka_connect, three_processes.bootstrap_servers, tmp_path, ports.numbers
    ) as connect:
        connect.run(
            "source",
            connector_class="org.apache.kafka.connect.file.FileStreamSourceConnector",
            exactly_once_support="required",
            file=source,
            topic=TOPIC,
            batch_size=1,  # a transaction for each line
            topic_creation_default_partitions=1,
            topic_creation_default_replication_factor=3,
        )
        connect.run(
            "sink",
            connector_class="org.apache.kafka.connect.file.FileStreamSinkConnector",
            file=sink,
            topics=TOPIC,
            consumer_override_isolation_level="read_committed",
        )
        for victim in ("worker", TOPIC, "__transaction_state", "connect-offsets", None):
            wait(connect.spread)
            before = len(lines)
            lines.extend(
                str(number).zfill(LINE_BYTES - 1) for number in range(before, before + LINES)
            )
            with source.open("a") as out:
                out.write("".join(f"{line}\n" for line in lines[before:]))
            wait(lambda before=before: copied() > before)  # type: ignore[misc]
            assert copied() < len(lines), "it was not in the middle"
            if victim == "worker":
                dead = connect.worker_of("source")
                assert dead is not None
                connect.kill(dead)
                wait(complete, copied)
                connect.start(dead)
            elif victim is not None:
                broker = leader(three_processes, victim)
                three_processes.kill(broker)
                wait(complete, copied)
                three_processes.start(broker)
                assert three_processes.wait_ready()
            wait(complete, copied)

    assert read_committed(three_processes) == lines
    assert sink.read_text().split() == lines
