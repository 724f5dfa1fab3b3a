"""The systems that are measured: raftka, Apache Kafka and the floor in C, each as processes on free
ports, all with the same few verbs.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from bench.load import CACHE, SOURCES, BenchFailed, compiled
from raftka.cluster.ask import PartitionView, ask_any, call, wait_for_brokers
from raftka.cluster.plan import NodePlan, plan_cluster
from raftka.cluster.ports import HeldPorts
from raftka.cluster.processes import Processes
from raftka.cluster.properties import render
from raftka.wire.messages.list_offsets import LIST_OFFSETS
from raftka.wire.messages.topics import CREATE_TOPICS

KAFKA_JARS = CACHE / "kafka-4.4.0"
KAFKA_ONLY = {  # what a small Kafka needs and raftka does not ask for
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
HEAP = {1: "1g", 3: "512m"}
LOG4J = """status=warn
appender.o.type=Console
appender.o.name=o
appender.o.layout.type=PatternLayout
appender.o.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=WARN
rootLogger.appenderRef.o.ref=o
"""
PATIENCE_SECONDS = 60.0


Change = Callable[[NodePlan], NodePlan]  # of what is planned for a node


def _as_it_is(plan: NodePlan) -> NodePlan:
    return plan


class System(ABC):
    """Some nodes of one kind. `start` returns when processes run, `wait_ready` when clients are
    served.
    """

    name: str

    def __init__(self, nodes: int = 1) -> None:
        self.size = nodes
        self.folder = Path(tempfile.mkdtemp(prefix="raftka-bench-"))
        self.ports = HeldPorts(2 * nodes)
        self.addresses = [("127.0.0.1", broker) for broker, _ in self.ports.pairs()]

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def restart(self, node_id: int) -> None:
        """Start a node that was killed; ids count from 1."""

    @abstractmethod
    def pid(self, node_id: int) -> int: ...

    @abstractmethod
    def kill(self, node_id: int, number: int = signal.SIGKILL) -> None:
        """Send the signal; returns when the process is gone."""

    @property
    def pids(self) -> list[int]:
        return [self.pid(node_id) for node_id in range(1, self.size + 1)]

    def signal(self, node_id: int, number: int) -> None:
        os.kill(self.pid(node_id), number)

    def others(self, node_id: int) -> list[tuple[str, int]]:
        return [address for i, address in enumerate(self.addresses, 1) if i != node_id]

    def wait_ready(self) -> None:
        """Every broker lists every broker."""
        if not wait_for_brokers(self.addresses, self.size, time.monotonic() + PATIENCE_SECONDS):
            raise BenchFailed(f"{self.name} did not start; its logs are in {self.folder}")

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> list[str]:
        """Replicated to all nodes; returns the leaders' addresses as the load generator takes
        them.
        """
        new = CREATE_TOPICS.request.topics
        rows = [new.configs(name=name, value=value) for name, value in (configs or {}).items()]
        row = new(
            name=topic,
            num_partitions=partitions,
            replication_factor=self.size,
            assignments=[],
            configs=rows,
        )
        reply = call(
            self.addresses[0],
            CREATE_TOPICS,
            CREATE_TOPICS.request(topics=[row], timeout_ms=10_000, validate_only=False),
            timeout=15,
        )
        if reply.topics[0].error_code:
            raise BenchFailed(
                f"{self.name}: cannot create {topic}: {reply.topics[0].error_message}"
            )
        return self.wait_for_topic(topic, partitions)

    def wait_for_topic(self, topic: str, partitions: int) -> list[str]:
        """Until every broker knows every leader, and every replica is in sync."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not all(
            len(self._healthy(address, topic)) == partitions for address in self.addresses
        ):
            if time.monotonic() > deadline:
                raise BenchFailed(f"{self.name}: {topic} is not served by all")
            time.sleep(0.02)
        view = ask_any(self.addresses, [topic])
        hosts = [view.leader_address(topic, p) for p in range(partitions)]
        for address in set(hosts):
            while not self._serves(
                address, topic, [p for p, host in enumerate(hosts) if host == address]
            ):
                if time.monotonic() > deadline:
                    raise BenchFailed(f"{self.name}: {topic} is not served by its leaders")
                time.sleep(0.02)
        return [f"{host}:{port}/{p}" for p, (host, port) in enumerate(hosts)]

    @staticmethod
    def _serves(address: tuple[str, int], topic: str, partitions: Sequence[int]) -> bool:
        """The leader has opened them: it knows where they end."""
        request = LIST_OFFSETS.request
        rows = [request.topics.partitions(partition_index=p, timestamp=-1) for p in partitions]
        reply = call(
            address,
            LIST_OFFSETS,
            request(topics=[request.topics(name=topic, partitions=rows)]),
            version=7,
        )
        return not any(row.error_code for each in reply.topics for row in each.partitions)

    def _healthy(self, address: tuple[str, int], topic: str) -> list[PartitionView]:
        try:
            view = ask_any([address], [topic])
        except OSError:
            return []
        return [p for p in view.of(topic) if p.leader in view.brokers and len(p.isr) == self.size]

    def stop(self) -> None:
        """Everything is killed and removed."""
        self.ports.release()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Raftka(System):
    name = "raftka"

    def __init__(
        self, nodes: int = 1, settings: Mapping[str, str] | None = None, change: Change = _as_it_is
    ) -> None:
        super().__init__(nodes)
        self.processes = Processes(
            change(plan) for plan in plan_cluster(self.folder, self.ports.pairs(), settings)
        )

    def start(self) -> None:
        self.processes.start_all()

    def restart(self, node_id: int) -> None:
        self.processes.start(node_id)

    def pid(self, node_id: int) -> int:
        return self.processes.nodes[node_id].pid

    def kill(self, node_id: int, number: int = signal.SIGKILL) -> None:
        self.processes.kill(node_id, number)

    def stop(self) -> None:
        self.processes.close()
        super().stop()


class Kafka(System):
    name = "Apache Kafka"

    def __init__(
        self, nodes: int = 1, settings: Mapping[str, str] | None = None, change: Change = _as_it_is
    ) -> None:
        super().__init__(nodes)
        given = {
            **KAFKA_ONLY,
            **{
                name: value
                for name, value in (settings or {}).items()
                if not name.startswith("raftka.")
            },
        }
        self.plans = [change(plan) for plan in plan_cluster(self.folder, self.ports.pairs(), given)]
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        (self.folder / "log4j2.properties").write_text(LOG4J)
        for plan in self.plans:
            self._format(plan)

    @staticmethod
    def available() -> bool:
        return KAFKA_JARS.is_dir() or (
            shutil.which("java") is not None and shutil.which("mvn") is not None
        )

    def start(self) -> None:
        for plan in self.plans:
            self.restart(plan.node_id)

    def restart(self, node_id: int) -> None:
        plan, heap = self.plans[node_id - 1], HEAP.get(self.size, "512m")
        options = [
            f"-Xms{heap}",
            f"-Xmx{heap}",
            "-XX:+UseG1GC",
            "-XX:MaxGCPauseMillis=20",
            "-XX:InitiatingHeapOccupancyPercent=35",
        ]
        with plan.log_file.open("ab") as log:
            self.running[node_id] = subprocess.Popen(
                self._java(*options, "kafka.Kafka", str(plan.properties_file)),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def pid(self, node_id: int) -> int:
        return self.running[node_id].pid

    def kill(self, node_id: int, number: int = signal.SIGKILL) -> None:
        process = self.running.pop(node_id)
        process.send_signal(number)
        process.wait()

    def stop(self) -> None:
        for node_id in list(self.running):
            self.kill(node_id)
        super().stop()

    def _format(self, plan: NodePlan) -> None:
        """A directory that Kafka starts on: server.properties and the cluster's id."""
        plan.directory.mkdir(parents=True)
        plan.properties_file.write_text(render(plan.properties, "Apache Kafka, for comparison"))
        tool = [
            "kafka.tools.StorageTool",
            "format",
            "-t",
            "cmFmdGthLWJlbmNoLWlkMQ",
            "-c",
            str(plan.properties_file),
        ]
        done = subprocess.run(self._java(*tool), capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchFailed(f"Kafka's StorageTool: {done.stdout}{done.stderr}")

    def _java(self, *arguments: str) -> list[str]:
        fetch_jars()
        return [
            "java",
            "-cp",
            f"{KAFKA_JARS}/*",
            f"-Dlog4j2.configurationFile={self.folder}/log4j2.properties",
            *arguments,
        ]


class Floor(System):
    """One partition, whatever it is called."""

    name = "C floor"

    def __init__(self) -> None:
        super().__init__(1)
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [str(compiled("floor")), str(self.folder), str(self.addresses[0][1])]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def wait_ready(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        if self.process.stdout.readline() != "ready\n":
            raise BenchFailed("the floor did not start")

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> list[str]:
        host, port = self.addresses[0]
        return [f"{host}:{port}/0"]

    def restart(self, node_id: int) -> None:
        self.start()

    def pid(self, node_id: int) -> int:
        assert self.process is not None
        return self.process.pid

    def kill(self, node_id: int, number: int = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.communicate()

    def stop(self) -> None:
        self.kill(1)
        super().stop()


def fetch_jars() -> None:
    if not KAFKA_JARS.is_dir():
        pom, part = SOURCES / "kafka" / "pom.xml", KAFKA_JARS.with_suffix(".part")
        done = subprocess.run(
            [
                "mvn",
                "-q",
                "-B",
                "-f",
                pom,
                "dependency:copy-dependencies",
                f"-DoutputDirectory={part}",
            ],
            check=False,
        )
        if done.returncode:
            raise BenchFailed("mvn could not fetch Apache Kafka")
        part.rename(KAFKA_JARS)


def cpu_seconds(pid: int) -> float:
    """All threads of the process, to the nanosecond (the kernel's clock of that process)."""
    return time.clock_gettime((~pid << 3) | 2)


def memory_mib(pid: int) -> float:
    """Return the MiB in memory now."""
    match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    return int(match[1]) / 1024


def machine() -> str:
    """In words, for the reader of the figures."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    gib = int(memory[1]) / 2**20 if memory else 0
    name = cpu[1] if cpu else os.uname().machine
    return (
        f"{os.cpu_count()} cores ({name}), {gib:.0f} GiB, Linux {os.uname().release}, Python "
        f"{sys.version.split()[0]}"
    )
