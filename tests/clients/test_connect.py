"""Kafka Connect with exactly-once sources: a file goes through a topic into a file, line by line,
while a worker and brokers are killed.
"""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from raftka.cluster.ports import HeldPorts
from raftka.cluster.processes import Processes
from tests.clients.test_transactions import leader
from tests.clients.toolchains import Program

TOPIC = "lines"
LINES = 1000  # of a piece; one is written before each kill, and after the last one
# the buffer of the file source, which does not look at what is left in it until the file grows
LINE_BYTES = 1024
PATIENCE_S = 120
ASK_S = 30
PAUSE_S = 0.05
STRING = "org.apache.kafka.connect.storage.StringConverter"


class Connect:
    """Workers as processes, which are killed and started again, and what they say over HTTP."""

    def __init__(
        self, program: Program, bootstrap_servers: str, directory: Path, ports: list[int]
    ) -> None:
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.program = program
        self.directory = directory
        common = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "connect",
            "exactly.once.source.support": "enabled",
            "key.converter": STRING,
            "value.converter": STRING,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            "scheduled.rebalance.max.delay.ms": 1000,
            "plugin.discovery": "service_load",
        }
        for kind in ("config", "offset", "status"):
            common |= {
                f"{kind}.storage.topic": f"connect-{kind}s",
                f"{kind}.storage.replication.factor": 3,
            }
        for port in ports:
            settings = {**common, "listeners": f"http://127.0.0.1:{port}"}
            self._properties(f"127.0.0.1:{port}").write_text(
                "".join(f"{name}={value}\n" for name, value in settings.items())
            )
            self.start(f"127.0.0.1:{port}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        for worker in list(self.workers):
            self.kill(worker)

    def _properties(self, worker: str) -> Path:
        return self.directory / f"{worker}.properties"

    def start(self, worker: str) -> None:
        command = [
            *self.program.command,
            "org.apache.kafka.connect.cli.ConnectDistributed",
            str(self._properties(worker)),
        ]
        self.workers[worker] = subprocess.Popen(command, env=self.program.env)

    def kill(self, worker: str) -> None:
        process = self.workers.pop(worker)
        process.kill()
        process.wait()

    def run(self, name: str, **settings: object) -> None:
        """Make a connector with one task."""
        settings = {
            "name": name,
            "tasks.max": 1,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        wait(
            lambda: (
                self._ask(
                    "PUT",
                    f"/connectors/{name}/config",
                    {key: str(value) for key, value in settings.items()},
                )
                is not None
            )
        )

    def worker_of(self, name: str) -> str | None:
        """The worker that runs the connector's task; None while there is none."""
        status = self._ask("GET", f"/connectors/{name}/status")
        running = [task for task in (status or {}).get("tasks", ()) if task["state"] == "RUNNING"]
        assert all(task["state"] != "FAILED" for task in (status or {}).get("tasks", ())), status
        return (
            running[0]["worker_id"] if running and running[0]["worker_id"] in self.workers else None
        )

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        """None when the worker can not say: it starts, or the group balances."""
        worker = next(iter(self.workers))
        request = Request(
            f"http://{worker}{path}",
            method=method,
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urlopen(request, timeout=ASK_S) as answer:
                return json.load(answer)
        except (URLError, TimeoutError, ConnectionError):
            return None

    def spread(self) -> bool:
        """Each of two connectors has its task on a worker of its own."""
        found = {self.worker_of("source"), self.worker_of("sink")}
        return None not in found and len(found) == 2


def wait(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(PAUSE_S)


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
    three_processes: Processes, kafka_apps: Program, tmp_path: Path, request: pytest.FixtureRequest
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
    with Connect(kafka_apps, three_processes.bootstrap_servers, tmp_path, ports.numbers) as connect:
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
                wait(complete)
                connect.start(dead)
            elif victim is not None:
                broker = leader(three_processes, victim)
                three_processes.kill(broker)
                wait(complete)
                three_processes.start(broker)
                assert three_processes.wait_ready()
            wait(complete)

    assert read_committed(three_processes) == lines
    assert sink.read_text().split() == lines
