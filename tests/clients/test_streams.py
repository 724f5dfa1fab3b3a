"""Kafka Streams with exactly_once_v2: its results are exact though the application, leaders and
coordinators are killed by SIGKILL; with the classic protocol, and as a streams group, whose tasks
the brokers assign (KIP-1071).
"""

import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka import KafkaAdminClient

from raftka.client.blocking.client import Client
from raftka.client.blocking.coordinators import ask_coordinators
from raftka.cluster.processes import Processes, running
from raftka.wire.messages.streams_groups import STREAMS_GROUP_DESCRIBE
from tests.clients.leaders import leader
from tests.kit.toolchains import Program

SOURCE = Path(__file__).with_name("Streams.java")
PARTITIONS = 3
PATIENCE_S = 90
PIECES, LINES = 5, 600  # a piece is written before each kill, and after the last one
WINDOW_MS = 10_000  # of Streams.java
SOON = {  # a killed member of a streams group is missed after seconds, as in the classic protocol
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.topology.description.plugin.class": "memory",
}

Message = tuple[str, str, str, int]  # topic, key, value, timestamp


class Application:
    """The program, which is killed and started again. Each state directory is a machine for it."""

    def __init__(
        self, program: Program, name: str, cluster: Processes, directory: Path, protocol: str
    ) -> None:
        self.command = [*program.command, str(SOURCE), name, cluster.bootstrap_servers]
        self.protocol = protocol
        self.env = program.env
        self.start(directory)

    def start(self, directory: Path) -> None:
        self.process = subprocess.Popen(
            [*self.command, str(directory), self.protocol], env=self.env, stdout=subprocess.DEVNULL
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Output:
    """The records of a topic that read_committed readers have seen."""

    def __init__(self, cluster: Processes, topic: str) -> None:
        settings = {
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
        self.consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
        self.consumer.assign(
            [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)]
        )
        self.seen: list[tuple[str, str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.consumer.close()

    def until(self, count: int, application: Application) -> None:
        """Until so many have been seen."""
        end = time.monotonic() + PATIENCE_S
        while len(self.seen) < count:
            assert application.process.poll() is None, "the application ended"
            assert time.monotonic() < end, f"{len(self.seen)} of {count} records"
            self.seen += [
                (each.key().decode(), each.value().decode())
                for each in self.consumer.consume(500, timeout=0.1)
                if each.error() is None
            ]


def create_topics(cluster: Processes, *names: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        admin.create_topics(
            {name: {"num_partitions": PARTITIONS, "replication_factor": 3} for name in names},
            wait_for_metadata=True,
        )
    finally:
        admin.close()


def write(cluster: Processes, messages: Iterable[Message]) -> None:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 5,
            "log_level": 0,
        }
    )
    for topic, key, value, timestamp in messages:
        producer.produce(topic, key=key, value=value, timestamp=timestamp)
    assert producer.flush(60) == 0


def run_through_kills(
    cluster: Processes,
    program: Program,
    directory: Path,
    name: str,
    output: str,
    pieces: list[list[Message]],
    results: list[int],
    protocol: str = "classic",
) -> Output:
    """Write piece after piece; kill something in the middle of each but the last. `results`:
    records of the output after each piece.
    """
    application = Application(program, name, cluster, directory / "one", protocol)
    victims = ["application", output, "__transaction_state", "application, for good"]
    with Output(cluster, output) as read:
        try:
            for number, (piece, victim) in enumerate(zip(pieces, [*victims, None], strict=True)):
                write(cluster, piece)
                read.until((results[number - 1] if number else 0) + 1, application)
                assert len(read.seen) < results[number], "it was not in the middle"
                if victim is None:
                    pass
                elif victim.startswith("application"):
                    application.kill()
                    application.start(directory / ("one" if victim == "application" else "two"))
                else:
                    dead = leader(cluster, victim)
                    cluster.kill(dead)
                    read.until(results[number], application)
                    cluster.start(dead)
                    assert cluster.wait_ready()
                read.until(results[number], application)
        finally:
            application.kill()
    return read


def test_words_are_counted_once(
    three_processes: Processes, kafka_apps: Program, tmp_path: Path
) -> None:
    count_words(three_processes, kafka_apps, tmp_path, "classic")


def test_words_are_counted_once_by_a_streams_group(kafka_apps: Program, tmp_path: Path) -> None:
    """Its repartition topic and its changelog are created by the brokers, which ask it for the
    description of its topology.
    """
    with running(nodes=3, settings=SOON) as cluster:
        count_words(cluster, kafka_apps, tmp_path, "streams")
        assert described_sources(cluster, "count") == {"lines", "count-words-repartition"}
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        try:
            made = {
                each["name"]: len(each["partitions"])
                for each in admin.describe_topics()
                if each["name"].startswith("count-")
            }
        finally:
            admin.close()
    assert made.pop("count-words-repartition") == PARTITIONS
    assert [(name.endswith("-changelog"), count) for name, count in made.items()] == [
        (True, PARTITIONS)
    ]


def described_sources(cluster: Processes, group_id: str) -> set[str]:
    """Return the source topics of the topology's description."""
    host, _, port = cluster.bootstrap_servers.partition(",")[0].rpartition(":")
    with Client([(host, int(port))]) as client:
        asked = ask_coordinators(
            client,
            STREAMS_GROUP_DESCRIBE,
            [group_id],
            lambda own: STREAMS_GROUP_DESCRIBE.request(
                group_ids=list(own), include_topology_description=True
            ),
        )
    (answer,) = asked.answers.values()
    (group,) = answer.groups
    assert group.topology_description is not None, group
    return {
        topic
        for subtopology in group.topology_description.subtopologies
        for node in subtopology.nodes
        for topic in node.source_topics
    }


def count_words(cluster: Processes, program: Program, directory: Path, protocol: str) -> None:
    random = Random(1)
    lines = [
        [" ".join(random.choices("abcdefghij", k=3)) for _ in range(LINES)] for _ in range(PIECES)
    ]
    pieces: list[list[Message]] = [
        [("lines", str(number), line, now_ms()) for number, line in enumerate(piece)]
        for piece in lines
    ]
    create_topics(cluster, "lines", "counts")
    read = run_through_kills(
        cluster,
        program,
        directory,
        "count",
        "counts",
        pieces,
        [3 * LINES * (n + 1) for n in range(PIECES)],
        protocol,
    )

    counts: defaultdict[str, list[int]] = defaultdict(list)
    for word, count in read.seen:
        counts[word].append(int(count))
    words = Counter(word for piece in lines for line in piece for word in line.split())
    assert dict(counts) == {word: list(range(1, count + 1)) for word, count in words.items()}


def test_streams_are_joined_once(
    three_processes: Processes, kafka_apps: Program, tmp_path: Path
) -> None:
    random = Random(1)
    start = now_ms() - 100_000
    rows = [
        (
            random.choice(["left", "right"]),
            str(random.randrange(LINES // 10)),
            f"v{number}",
            start + random.randrange(100_000),
        )
        for number in range(PIECES * LINES)
    ]
    pieces = [rows[LINES * n : LINES * (n + 1)] for n in range(PIECES)]
    expected = [pairs([row for piece in pieces[: n + 1] for row in piece]) for n in range(PIECES)]
    create_topics(three_processes, "left", "right", "joined")
    read = run_through_kills(
        three_processes,
        kafka_apps,
        tmp_path,
        "join",
        "joined",
        pieces,
        [each.total() for each in expected],
    )

    assert Counter(read.seen) == expected[-1]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def pairs(rows: list[Message]) -> Counter[tuple[str, str]]:
    """The join's results."""
    sides: dict[str, defaultdict[str, list[Message]]] = {
        "left": defaultdict(list),
        "right": defaultdict(list),
    }
    for row in rows:
        sides[row[0]][row[1]].append(row)
    return Counter(
        (key, f"{left[2]} {right[2]}")
        for key, some in sides["left"].items()
        for left in some
        for right in sides["right"][key]
        if abs(left[3] - right[3]) <= WINDOW_MS
    )
