"""`raftka transactions` against three live nodes: what it prints, what it ends, what it refuses."""

from collections.abc import Iterator
from typing import Any

import pytest

from raftka.cli.admin.client import connect
from raftka.client.blocking.client import Client
from raftka.cluster.processes import Processes, running
from raftka.wire.errors import Code
from raftka.wire.messages.fetch import READ_COMMITTED
from raftka.wire.messages.list_offsets import LATEST
from raftka.wire.messages.offsets import OFFSET_FETCH
from raftka.wire.messages.producers import DESCRIBE_PRODUCERS
from tests.clients.hanging import UNVERIFIED, Producer, begin, hang, unknown
from tests.clients.workload import wait


@pytest.fixture(scope="module")
def cluster() -> Iterator[Processes]:
    with running(
        nodes=3, settings={**UNVERIFIED, "transaction.state.log.num.partitions": "5"}
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Processes) -> Iterator[Client]:
    with connect(cluster.bootstrap_servers) as client:
        yield client


@pytest.fixture
def producer(client: Client, topic: str) -> Producer:
    """With an open transaction in partition 1 of the topic, at offset 0."""
    producer = begin(client, f"id-{topic}")
    producer.add(topic, 1)
    assert producer.send(topic, 1) == 0
    return producer


def state(raftka: Any, producer: Producer) -> str:
    (row,) = raftka(f"transactions describe {producer.transactional_id} -o json").rows
    return str(row["state"])


def readable(client: Client, topic: str, partition: int) -> int:
    """The end for readers of committed records."""
    return client.offsets({(topic, partition): LATEST}, READ_COMMITTED)[topic, partition]


def test_transactional_ids_of_all_brokers_are_listed(
    raftka: Any, client: Client, producer: Producer
) -> None:
    others = [begin(client, f"{producer.transactional_id}-{i}") for i in range(6)]
    rows = {row["transactional_id"]: row for row in raftka("transactions list -o json").rows}

    assert {rows[each.transactional_id]["state"] for each in others} == {"Empty"}
    assert len({rows[each.transactional_id]["coordinator"] for each in others}) > 1
    own = rows[producer.transactional_id]
    assert (own["state"], own["producer_id"]) == ("Ongoing", producer.producer_id)


def test_the_list_is_filtered(raftka: Any, client: Client, producer: Producer) -> None:
    idle = begin(client, f"{producer.transactional_id}-idle")

    def listed(filters: str) -> set[str]:
        return {
            row["transactional_id"] for row in raftka(f"transactions list {filters} -o json").rows
        } & {
            producer.transactional_id,
            idle.transactional_id,
        }

    assert listed("") == {producer.transactional_id, idle.transactional_id}
    assert listed("--state ongoing") == {producer.transactional_id}
    assert listed("--state complete-abort") == set()
    assert listed(f"--producer-id {idle.producer_id}") == {idle.transactional_id}
    assert listed(f"--pattern {producer.transactional_id}") == {producer.transactional_id}
    assert listed("--duration-ms 0 --state ongoing") == {producer.transactional_id}
    assert listed("--duration-ms 3600000 --state ongoing") == set()

    for wrong, says in {
        "--state Often": "Often",
        "--pattern (": "INVALID_REGULAR_EXPRESSION",
    }.items():
        refused = raftka(f"transactions list {wrong}")
        assert (refused.code, says in refused.err, refused.out) == (1, True, "")


def test_a_transaction_is_described(raftka: Any, topic: str, producer: Producer) -> None:
    (row,) = raftka(f"transactions describe {producer.transactional_id} -o json").rows

    assert (row["transactional_id"], row["state"], row["producer_id"], row["epoch"]) == (
        producer.transactional_id,
        "Ongoing",
        producer.producer_id,
        0,
    )
    assert (row["timeout_ms"], row["topic_partitions"], row["coordinator"] in (1, 2, 3)) == (
        60_000,
        [f"{topic}-1"],
        True,
    )
    assert row["start_ms"] > 1_700_000_000_000
    assert row["age_ms"] >= 0

    missing = raftka(f"transactions describe nobody {producer.transactional_id}")
    assert (missing.code, "nobody: TRANSACTIONAL_ID_NOT_FOUND" in missing.err) == (1, True)
    assert producer.transactional_id in missing.out


def test_a_hanging_transaction_is_found_and_aborted(
    raftka: Any, client: Client, topic: str
) -> None:
    producer, start = hang(client, topic, 2)
    assert readable(client, topic, 2) == start

    find = f"transactions find-hanging --topic {topic}"
    (row,) = raftka(f"{find} --max-transaction-timeout-minutes 0 -o json").rows
    assert (
        row["topic"],
        row["partition"],
        row["producer_id"],
        row["epoch"],
        row["start_offset"],
    ) == (topic, 2, producer.producer_id, 0, start)
    assert raftka(f"{find} --max-transaction-timeout-minutes 0 --partition 1").out == ""
    (same,) = raftka(f"{find} --max-transaction-timeout-minutes 0 --broker-id 1 -o json").rows
    assert {**same, "age_ms": row["age_ms"]} == row
    assert raftka(find).out == ""  # its last record is younger than fifteen minutes

    abort = f"transactions abort --topic {topic} --partition 2 --start-offset"
    wrong = raftka(f"{abort} {start + 1}")
    assert (wrong.code, f"open ones begin at {start}" in wrong.err) == (1, True)
    done = raftka(f"{abort} {start}")
    assert (done.code, done.err) == (0, "")

    wait(lambda: readable(client, topic, 2) == start + 2)
    assert raftka(f"{find} --max-transaction-timeout-minutes 0").out == ""
    request = DESCRIBE_PRODUCERS.request(
        topics=[DESCRIBE_PRODUCERS.request.topics(name=topic, partition_indexes=[2])]
    )
    (described,) = (
        client.ask_leader((topic, 2), DESCRIBE_PRODUCERS, request)
        .topics[0]
        .partitions[0]
        .active_producers
    )
    # no coordinator has been there before
    assert (described.producer_id, described.coordinator_epoch) == (producer.producer_id, 0)
    again = raftka(f"{abort} {start}")
    assert (again.code, "none is open there" in again.err) == (1, True)


def test_offsets_of_a_hanging_transaction_are_found_and_aborted(
    raftka: Any, client: Client, topic: str
) -> None:
    producer = unknown(client)
    producer.commit_offset(topic, topic, 0, 5)

    def stable() -> int:
        """The error code of the group's offset, for those who do not take one that may change."""
        row = OFFSET_FETCH.request(
            group_id=topic,
            topics=[OFFSET_FETCH.request.topics(name=topic, partition_indexes=[0])],
            require_stable=True,
        )
        return (
            client.ask_coordinator(topic, OFFSET_FETCH, row, 7).topics[0].partitions[0].error_code
        )

    assert stable() == Code.UNSTABLE_OFFSET_COMMIT
    (row,) = raftka(
        "transactions find-hanging --topic __consumer_offsets --max-transaction-timeout-minutes 0 "
        "-o json"
    ).rows
    assert (row["producer_id"], row["age_ms"] >= 0) == (producer.producer_id, True)

    where = f"--partition {row['partition']} --start-offset {row['start_offset']}"
    assert raftka(f"transactions abort --topic __consumer_offsets {where}").code == 0
    wait(lambda: stable() == 0)


def test_the_age_of_a_transaction_is_that_of_its_last_record(
    raftka: Any, client: Client, topic: str
) -> None:
    # the last one has a timestamp in the future, which tells no age
    for partition, minutes in enumerate((20, 5, -30)):
        hang(client, topic, partition, age_ms=minutes * 60_000)

    def found(minutes: int) -> dict[int, int]:
        rows = raftka(
            f"transactions find-hanging --topic {topic} --max-transaction-timeout-minutes "
            f"{minutes} -o json"
        ).rows
        return {row["partition"]: row["age_ms"] // 60_000 for row in rows}

    assert found(15) == {0: 20, 2: 0}
    assert found(3) == {0: 20, 1: 5, 2: 0}
    assert found(30) == {2: 0}


def test_a_transaction_that_its_coordinator_knows_does_not_hang(
    raftka: Any, client: Client, topic: str, producer: Producer
) -> None:
    assert (
        raftka(f"transactions find-hanging --topic {topic} --max-transaction-timeout-minutes 0").out
        == ""
    )

    abort = f"transactions abort --topic {topic} --partition 1 --start-offset 0"
    refused = raftka(abort)
    assert (
        refused.code,
        f"raftka transactions fence {producer.transactional_id}" in refused.err,
    ) == (1, True)
    assert readable(client, topic, 1) == 0
    assert raftka(f"{abort} --force").code == 0
    wait(lambda: readable(client, topic, 1) == 2)


def test_a_transaction_of_another_epoch_than_its_coordinator_knows_hangs(
    raftka: Any, client: Client, topic: str, producer: Producer
) -> None:
    start = producer._replace(epoch=5).send(topic, 0)
    producer.add(topic, 0)

    (row,) = raftka(
        f"transactions find-hanging --topic {topic} --max-transaction-timeout-minutes 0 -o json"
    ).rows
    assert (row["partition"], row["epoch"], row["start_offset"]) == (0, 5, start)


def test_a_fenced_producer_cannot_commit(
    raftka: Any, client: Client, topic: str, producer: Producer
) -> None:
    (row,) = raftka(f"transactions fence {producer.transactional_id} -o json").rows

    assert (row["transactional_id"], row["producer_id"]) == (
        producer.transactional_id,
        producer.producer_id,
    )
    assert row["epoch"] > producer.epoch
    assert producer.end(commit=True) == Code.PRODUCER_FENCED
    wait(lambda: readable(client, topic, 1) == 2)
    assert (
        raftka(f"transactions describe {producer.transactional_id} -o json").rows[0]["timeout_ms"]
        == 60_000
    )


def test_fencing_makes_no_transactional_id(raftka: Any) -> None:
    refused = raftka("transactions fence misspelt")

    assert (refused.code, "misspelt: TRANSACTIONAL_ID_NOT_FOUND" in refused.err) == (1, True)
    assert "misspelt" not in raftka("transactions list").out
