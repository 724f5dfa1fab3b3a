"""docs/migrate.md with Apache Kafka and its MirrorMaker: topics, records and groups go to raftka,
and back.
"""

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from bench.systems import Kafka
from raftka.cluster.processes import Processes
from tests.kit.documents import ROOT
from tests.kit.toolchains import Program

PAGE = (ROOT / "docs" / "migrate.md").read_text()
TOPIC, GROUP, LAGGING = "orders", "billing", "reports"
RECORDS, DONE = 300, 120  # of them LAGGING has done so many
INTERNAL = (  # topics of MirrorMaker, in both clusters; the Kafka has one node
    "offset-syncs.topic",
    "checkpoints.topic",
    "heartbeats.topic",
    "offset.storage",
    "status.storage",
    "config.storage",
)
PATIENCE_S = 400  # MirrorMaker takes a minute to begin where the machine is busy
LATER = 30  # written to raftka, when clients have moved
PARTITIONS = 3


def wait(holds: Callable[[], bool], state: Callable[[], str] = str) -> None:
    """`state`: what a failure says of how it is."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, f"it did not come to that: {state()}"
        time.sleep(0.2)


@pytest.fixture
def kafka(mirror_maker: Program) -> Iterator[Kafka]:
    kafka = Kafka(1)
    try:
        kafka.start()
        kafka.wait_ready()
        yield kafka
    finally:
        kafka.stop()


def servers(kafka: Kafka) -> str:
    return ",".join(f"{host}:{port}" for host, port in kafka.addresses)


def properties(source: str, target: str, factor: int) -> str:
    """The page's file with addresses of this machine, and shorter intervals."""
    found = re.search(r"^```properties\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    text = found[1]
    for pattern, now in (
        (r"kafka\.example\.org:9092", source),
        (r"one\.example\.org:9092", target),
        (r"^replication\.factor=.*$", f"replication.factor={factor}"),
        (r"(interval\.seconds)=\d+", r"\1=1"),
    ):
        text, count = re.subn(pattern, now, text, flags=re.MULTILINE)
        assert count >= 1, pattern
    lines = [f"{name}.replication.factor=1" for name in INTERNAL]
    return "\n".join([text, "offset.flush.interval.ms=500", *lines, ""])


@contextmanager
def mirroring(program: Program, folder: Path, text: str) -> Iterator[None]:
    file, log = folder / "mirror.properties", folder / "mirror.log"
    file.write_text(text)
    with log.open("ab") as out:
        process = subprocess.Popen(
            [*program.command, str(file)], env=program.env, stdout=out, stderr=out, cwd=folder
        )
    try:
        yield
        assert process.poll() is None, log.read_text()[-3000:]
    finally:
        process.kill()
        process.wait()


def write(address: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": address})
    for number in range(first, first + count):
        producer.produce(
            TOPIC,
            f"order-{number}",
            f"customer-{number % 7}",
            partition=number % PARTITIONS,
            timestamp=1_790_000_000_000 + number,
            headers={"trace": str(number)},
        )
    assert producer.flush(30) == 0


def abort(address: str) -> None:
    """Write records that no reader of committed ones may see."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": "aborts"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, "aborted", partition=partition)
    producer.flush(30)
    producer.abort_transaction(30)


def consumer(address: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )


def read(address: str, group: str, count: int) -> list[Message]:
    """Read so many records as a member of the group, commit them, and leave."""
    member = consumer(address, group)
    try:
        member.subscribe([TOPIC])
        found: list[Message] = []

        def complete() -> bool:
            found.extend(member.consume(count - len(found), 1))
            return len(found) == count

        wait(complete)
        member.commit(asynchronous=False)
        return found
    finally:
        member.close()


def numbers(messages: list[Message]) -> list[int]:
    return [int(message.value().decode().removeprefix("order-")) for message in messages]


def committed(address: str, group: str) -> list[int]:
    member = consumer(address, group)
    try:
        where = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        return [each.offset for each in member.committed(where, 10)]
    except KafkaException:
        return []
    finally:
        member.close()


def ends(address: str) -> list[int]:
    member = consumer(address, "ends")
    try:
        where = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        return [member.get_watermark_offsets(each, 10)[1] for each in where]
    except KafkaException:
        return []
    finally:
        member.close()


def lag(address: str, group: str) -> int:
    done = [max(0, offset) for offset in committed(address, group)]
    return sum(ends(address)) - sum(done)


def test_topics_records_and_groups_move_to_raftka_and_back(
    kafka: Kafka, three_processes: Processes, mirror_maker: Program, tmp_path: Path
) -> None:
    old, new = servers(kafka), three_processes.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": old})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})])[
        TOPIC
    ].result(30)
    write(old, 0, RECORDS // 2)
    abort(old)  # so offsets differ from here on
    write(old, RECORDS // 2, RECORDS // 2)
    read(old, GROUP, RECORDS)
    before = numbers(read(old, LAGGING, DONE))

    with mirroring(mirror_maker, tmp_path, properties(old, new, 3)):
        wait(lambda: sum(ends(new)) == RECORDS, lambda: str(ends(new)))
        wait(lambda: committed(new, GROUP) == ends(new), lambda: str(committed(new, GROUP)))

    of_topic = ConfigResource(ConfigResource.Type.TOPIC, TOPIC)
    new_admin = AdminClient({"bootstrap.servers": new})
    values = new_admin.describe_configs([of_topic])[of_topic].result(30)
    assert values["retention.ms"].value == "-1"
    rest = read(new, LAGGING, lag(new, LAGGING))
    assert {*before, *numbers(rest)} == {*range(RECORDS)}  # some again, none passed over
    for message in rest:
        (number,) = numbers([message])
        assert message.partition() == number % PARTITIONS
        assert message.key() == f"customer-{number % 7}".encode()
        assert message.headers() == [("trace", str(number).encode())]
        assert message.timestamp()[1] == 1_790_000_000_000 + number

    write(new, RECORDS, LATER)
    assert sorted(numbers(read(new, GROUP, LATER))) == list(range(RECORDS, RECORDS + LATER))
    admin.delete_topics([TOPIC])[TOPIC].result(30)
    with mirroring(mirror_maker, tmp_path, properties(new, old, 1)):
        wait(lambda: sum(ends(old)) == RECORDS + LATER)
        wait(lambda: committed(old, GROUP) == ends(old), lambda: str(committed(old, GROUP)))
    assert sorted(numbers(read(old, "audit", RECORDS + LATER))) == list(range(RECORDS + LATER))
