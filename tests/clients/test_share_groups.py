"""Share groups (KIP-932) as the share consumers of Java, librdkafka and franz-go use them, on three
live processes.
"""

import subprocess
from collections.abc import Iterable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from raftka.cluster.ask import ask_any
from raftka.cluster.processes import Processes, running
from tests.clients.share_members import (
    POLL_MS,
    Begin,
    Delivered,
    Refused,
    ShareMember,
    of_confluent,
    of_franz_go,
    of_java,
)
from tests.kit.toolchains import Program

RECORDS, LIMIT, LOCK_MS = 20, 3, 2000
LAST = "last"
FRANZ_GO_TESTS, FRANZ_GO_RECORDS, PATIENCE_S = 4, 20_000, 300  # its test has 500,000 records
SETTINGS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.assignment.interval.ms": "0",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Processes]:
    with running(nodes=3, settings=SETTINGS) as processes:
        yield processes


class Queue:
    """A topic with one partition, RECORDS records in it, and the group of the same name."""

    def __init__(self, cluster: Processes, begin: Begin, name: str) -> None:
        self.cluster, self.name = cluster, name
        self._begin = begin
        self.servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        self.admin = AdminClient(self.servers)
        self.admin.create_topics([NewTopic(name, 1, 3)])[name].result()
        self.configure(
            {
                "auto.offset.reset": "earliest",
                "record.lock.duration.ms": str(LOCK_MS),
                "delivery.count.limit": str(LIMIT),
            }
        )
        self.fill(range(RECORDS))

    def configure(self, settings: dict[str, str]) -> None:
        """Set configurations of the group; their names without `share.`."""
        entries = [
            ConfigEntry(f"share.{name}", value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        group = ConfigResource(ResourceType.GROUP, self.name, incremental_configs=entries)
        self.admin.incremental_alter_configs([group])[group].result()

    def fill(self, values: Iterable[object]) -> None:
        producer = Producer(self.servers)
        for value in values:
            producer.produce(self.name, str(value))
        assert producer.flush(30) == 0

    def member(self, *, explicitly: bool = True) -> ShareMember:
        return self._begin(self.cluster.bootstrap_servers, self.name, self.name, explicitly)

    def left(self) -> list[Delivered]:
        """Return the records that another member is given, up to one that is written now."""
        self.fill([LAST])
        with self.member() as member:
            found: list[Delivered] = []
            while not any(each.value == LAST for each in found):
                polled = member.poll()
                member.acknowledge(polled, "ACCEPT")
                member.commit()
                found += polled
        return [each for each in found if each.value != LAST]


def all_of(records: list[Delivered]) -> bool:
    return len({each.offset for each in records}) == RECORDS


def counts(records: list[Delivered]) -> dict[int, int]:
    return {each.offset: each.delivery_count for each in records}


@pytest.fixture(params=["confluent-kafka", "java", "franz-go"])
def begin(request: pytest.FixtureRequest) -> Begin:
    if request.param == "java":
        return of_java(request.getfixturevalue("java_share"))
    if request.param == "franz-go":
        return of_franz_go(request.getfixturevalue("franz_go"))
    return of_confluent


@pytest.fixture
def queue(cluster: Processes, begin: Begin, request: pytest.FixtureRequest) -> Queue:
    name = request.node.name.removeprefix("test_").replace("[", "-").rstrip("]")
    return Queue(cluster, begin, name)


def test_the_next_poll_accepts_the_last_one(queue: Queue) -> None:
    with queue.member(explicitly=False) as member:
        found = member.poll_until(all_of)
        assert [each.offset for each in found] == list(range(RECORDS))
        assert set(counts(found).values()) == {1}
        assert member.poll() == []
    assert queue.left() == []


def test_accepted_records_do_not_come_again(queue: Queue) -> None:
    with queue.member() as member:
        member.acknowledge(member.poll_until(all_of), "ACCEPT")
        member.commit()
    assert queue.left() == []


def test_released_records_come_again_up_to_the_limit(queue: Queue) -> None:
    found: list[Delivered] = []
    with queue.member() as member:
        while max(counts(found).values(), default=0) < LIMIT or len(found) < LIMIT * RECORDS:
            polled = member.poll()
            member.acknowledge(polled, "RELEASE")
            member.commit()
            found += polled
    for offset in range(RECORDS):
        assert [each.delivery_count for each in found if each.offset == offset] == [1, 2, 3]
    assert queue.left() == []


def test_rejected_records_do_not_come_again(queue: Queue) -> None:
    with queue.member() as member:
        found = member.poll_until(all_of)
        member.acknowledge(found[:5], "REJECT")
        member.acknowledge(found[5:], "RELEASE")
        member.commit()
    assert counts(queue.left()) == dict.fromkeys(range(5, RECORDS), 2)


def test_two_members_share_a_partition(queue: Queue) -> None:
    with queue.member() as first, queue.member() as second:
        found: list[Delivered] = []
        owners: set[int] = set()
        for number in range(100, 1000):
            for place, member in enumerate((first, second)):
                polled = member.poll()
                member.acknowledge(polled, "ACCEPT")
                member.commit()
                found += polled
                owners |= {place} if polled else set()
            if len(owners) == 2:
                break
            queue.fill([number])
    assert set(counts(found).values()) == {1}
    assert len(counts(found)) == len(found)


def test_records_of_a_silent_member_come_again(queue: Queue) -> None:
    with queue.member() as silent:
        held = silent.poll_until(all_of)
        with queue.member() as other:
            found = other.poll_until(all_of)
            assert set(counts(found).values()) == {2}
            silent.acknowledge(held, "RELEASE")
            with pytest.raises(Refused):
                silent.commit()
            other.acknowledge(found, "ACCEPT")
            other.commit()
    assert queue.left() == []


def test_records_of_a_killed_member_come_again(queue: Queue) -> None:
    with queue.member() as killed:
        killed.poll_until(all_of)
        killed.kill()
        assert counts(queue.left()) == dict.fromkeys(range(RECORDS), 2)


@pytest.mark.parametrize("begin", ["java", "franz-go"], indirect=True)
def test_a_renewed_lock_holds_on(queue: Queue) -> None:
    with queue.member() as member, queue.member() as other:
        held = member.poll_until(all_of)
        for _ in range(2 * LOCK_MS // POLL_MS):
            member.acknowledge(held, "RENEW")
            member.commit()
            assert other.poll() == []
        member.acknowledge(held, "ACCEPT")
        member.commit()
    assert queue.left() == []


def test_acknowledgements_outlive_the_leader(queue: Queue) -> None:
    with queue.member() as member:
        found = member.poll_until(all_of)
        member.acknowledge(found[:5], "ACCEPT")
        member.acknowledge(found[5:], "RELEASE")
        member.commit()
        addresses = queue.cluster.addresses
        leader = ask_any(addresses, [queue.name]).of(queue.name)[0].leader
        queue.cluster.kill(leader)
        found = member.poll_until(lambda found: len(counts(found)) == RECORDS - 5)
        assert counts(found) == dict.fromkeys(range(5, RECORDS), 2)
        member.acknowledge(found, "ACCEPT")
        member.commit()
        queue.cluster.start(leader)
        queue.cluster.wait_ready()
    assert queue.left() == []


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_the_group_decides_whether_aborted_records_come(queue: Queue, level: str) -> None:
    queue.configure({"isolation.level": level})
    producer = Producer(queue.servers | {"transactional.id": queue.name})
    producer.init_transactions()
    for ends in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(queue.name, ends.__name__)
        producer.flush()
        ends()

    values = [each.value for each in queue.left() if not each.value.isdigit()]

    aborted = ["abort_transaction"] if level == "read_uncommitted" else []
    assert values == [*aborted, "commit_transaction"]


def test_franz_go_tests_its_share_groups(franz_go_tests: Program, cluster: Processes) -> None:
    env = {
        **franz_go_tests.env,
        "KGO_SEEDS": cluster.bootstrap_servers,
        "KGO_TEST_RECORDS": str(FRANZ_GO_RECORDS),
        "KGO_TEST_RF": "3",
    }

    done = subprocess.run(
        [*franz_go_tests.command, "-test.v", "-test.run", "^TestShareGroup"],
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert "SKIP" not in done.stdout
    assert done.stdout.count("--- PASS: TestShareGroup") == FRANZ_GO_TESTS
