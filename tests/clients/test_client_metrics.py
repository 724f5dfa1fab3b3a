"""Metrics that real clients push (KIP-714): Java's producer and consumer and librdkafka's, as
`kafka-client-metrics.sh` subscribes to them, are on /metrics by client.
"""

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.settings import change_settings
from raftka.cluster.ports import HeldPorts
from raftka.cluster.processes import Processes, running
from tests.clients.java import JavaTools
from tests.kit.toolchains import Program

WITHIN_S = 60
RECORDS = 100
SERIES = re.compile(r"^(kafka_client_\w+)\{(.*)\} (\S+)$", re.MULTILINE)


@dataclass
class Watched:
    """A broker and its page of metrics."""

    cluster: Processes
    port: int

    @property
    def bootstrap_servers(self) -> str:
        return self.cluster.bootstrap_servers

    def series(self, name: str) -> list[dict[str, str]]:
        """Return labels and, as `value`, the number of each series of that name."""
        with urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            page = answer.read().decode()
        return [
            {**dict(re.findall(r'(\w+)="([^"]*)"', labels)), "value": value}
            for found, labels, value in SERIES.findall(page)
            if found == name
        ]

    def wait_for(
        self,
        name: str,
        client_id: str,
        wanted: Callable[[float], bool],
        meanwhile: Callable[[], object] = lambda: None,
    ) -> dict[str, str]:
        """Return that client's series once its value is wanted; `meanwhile` is for each look."""
        until = time.monotonic() + WITHIN_S
        while time.monotonic() < until:
            meanwhile()
            for each in self.series(name):
                if each["client_id"] == client_id and wanted(float(each["value"])):
                    return each
            time.sleep(0.2)  # between two looks
        raise AssertionError(f"no {name} of {client_id}: {self.series(name)}")


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    with (
        HeldPorts(1) as ports,
        running(nodes=1, settings={"metrics.port": str(ports.numbers[0])}) as cluster,
    ):
        yield Watched(cluster, ports.numbers[0])


def test_librdkafka_pushes_what_is_subscribed(watched: Watched) -> None:
    with Client(addresses_of(watched.bootstrap_servers)) as client:
        change_settings(
            client,
            "client-metrics",
            "confluent",
            {
                "metrics": ("SET", "*"),
                "interval.ms": ("SET", "500"),
                "match": ("SET", "client_id=confluent"),
            },
        )
    producer = Producer({"bootstrap.servers": watched.bootstrap_servers, "client.id": "confluent"})
    other = Producer({"bootstrap.servers": watched.bootstrap_servers, "client.id": "other"})

    def produce() -> None:
        for each in (producer, other):
            each.produce("t", b"x")
            assert each.flush(30) == 0

    name = "kafka_client_producer_node_request_latency_max"
    shown = watched.wait_for(name, "confluent", lambda value: value > 0, produce)

    assert shown["client_software_name"] in ("librdkafka", "confluent-kafka-python")
    assert re.fullmatch(r"[0-9a-f-]{36}", shown["client_instance_id"])
    assert shown["node_id"] == "1"
    assert "other" not in {each["client_id"] for each in watched.series(name)}


def test_java_pushes_what_kafkas_tool_subscribes(
    watched: Watched, java_tools: Program, java: Program
) -> None:
    with JavaTools(java_tools, watched.bootstrap_servers) as kafka:
        kafka.run(
            "kafka-client-metrics --alter --name java --interval 500 "
            "--metrics org.apache.kafka.producer.,org.apache.kafka.consumer. "
            "--match client_software_name=apache-kafka-java,client_id=j.*"
        )
        described = kafka.run("kafka-client-metrics --describe --name java")
        assert "interval.ms=500" in described
        assert "match=client_software_name=apache-kafka-java,client_id=j.*" in described
        assert "java" in kafka.run("kafka-client-metrics --list").split()

        command = [*java.command, "MODE", watched.bootstrap_servers, "j"]
        at = command.index("MODE")
        consumer, producer = (
            subprocess.Popen(
                [*command[:at], mode, *command[at + 1 :]],
                env={**java.env, "CLIENT_PROPERTIES": f"client.id={client_id}\n"},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
            )
            for mode, client_id in (("follow", "jc"), ("produce", "jp"))
        )
        try:
            assert producer.stdin is not None
            producer.stdin.write("".join(f"k:{i}\n" for i in range(RECORDS)))
            producer.stdin.flush()  # it goes on until its input ends
            sent = watched.wait_for(
                "kafka_client_producer_record_send_total", "jp", lambda value: value == RECORDS
            )
            read = watched.wait_for(
                "kafka_client_consumer_fetch_manager_records_consumed_total",
                "jc",
                lambda value: value == RECORDS,
            )
        finally:
            for each in (consumer, producer):
                each.kill()
                each.communicate()
        assert sent["client_software_name"] == "apache-kafka-java"
        assert read["group_id"] == "g-j"

        kafka.run("kafka-client-metrics --delete --name java")
        assert "java" not in kafka.run("kafka-client-metrics --list").split()
