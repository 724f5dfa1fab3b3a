"""Outside events that hit transactions: clocks that jump, disks that are full, replicas that are
away, one client with very many ids. A transaction ends as it was decided, and nobody else waits
longer than its own time-out.
"""

from collections.abc import Iterator

import pytest

from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.list_offsets import LIST_OFFSETS
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.transactions import END_TXN, LIST_TRANSACTIONS
from tests.broker.requests import batch, fetch, fetched, list_offsets, produce, produced
from tests.broker.stage import Stage
from tests.kit.broker.transactions import TOPIC, Client, settled

HOUR_S = 3600.0
IDS = 10_000
COMMITTED = 1  # isolation level
LATEST = -1


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(transaction_state_log_num_partitions="1") as stage:
        stage.create("t", 2)
        yield stage
        assert not stage.world.failures


def stable_offset(stage: Stage) -> int:
    """As a reader of committed records sees the end of t-0."""
    request = list_offsets("t", LATEST)
    request.isolation_level = COMMITTED
    return stage.wire(stage.leader("t")).ask(LIST_OFFSETS, request).topics[0].partitions[0].offset


@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S])
def test_a_clock_that_jumps_neither_ends_a_transaction_nor_keeps_it(
    stage: Stage, jump_s: float
) -> None:
    kept, left = Client(stage, "kept"), Client(stage, "left")
    kept.init(timeout_ms=60_000)
    left.init(timeout_ms=2_000)
    assert kept.add(("t", 0)) == left.add(("t", 1)) == [0]
    began = stage.world.now

    stage.world.machine("n1").wall_offset_s += jump_s

    settled(left, "CompleteAbort")
    assert 2 <= stage.world.now - began < 3
    assert kept.describe().transaction_state == "Ongoing"
    assert kept.end(version=3) == 0
    settled(kept, "CompleteCommit")


@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S])
def test_a_coordinator_with_another_clock_ends_an_open_transaction_within_its_time_out(
    jump_s: float,
) -> None:
    """One that is ahead ends it at once, as Kafka's does: only the wall clock tells when it
    began.
    """
    with Stage(3, transaction_state_log_num_partitions="1") as stage:
        stage.create("t")
        client = Client(stage)
        client.init(timeout_ms=5_000)
        assert client.add(("t", 0)) == [0]
        leader = stage.leader(TOPIC)
        for node_id in {1, 2, 3} - {leader}:
            stage.world.machine(f"n{node_id}").wall_offset_s += jump_s
        stage.kill(leader)
        stage.wait(lambda: stage.leader(TOPIC) in stage.nodes)
        moved = stage.world.now

        settled(Client(stage), "CompleteAbort")

        assert stage.world.now - moved < 6


def test_others_wait_for_a_producer_that_died_no_longer_than_its_time_out(stage: Stage) -> None:
    client = Client(stage)
    client.init(timeout_ms=2_000)
    client.add(("t", 0))
    assert client.produce("t") == 0
    assert produced(stage.wire().ask(PRODUCE, produce("t", batch(b"neighbour")))).base_offset == 1
    began = stage.world.now
    wire = stage.wire()

    answer = fetched(
        wire.ask(FETCH, fetch("t", 0, isolation_level=COMMITTED, max_wait_ms=10_000, min_bytes=1))
    )

    assert stage.world.now - began < 3
    assert answer.last_stable_offset == 3
    assert [
        (each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()
    ] == [(client.pair[0], 0)]


def test_markers_wait_for_enough_replicas_and_the_transaction_ends_as_decided() -> None:
    with Stage(
        3, transaction_state_log_num_partitions="1", broker_session_timeout_ms="3000"
    ) as stage:
        stage.create("t", configs={"min_insync_replicas": "3"})
        client = Client(stage)
        client.init()
        assert client.add(("t", 0)) == [0]
        assert client.produce("t") == 0
        (away, *_) = {1, 2, 3} - {stage.leader("t"), stage.leader(TOPIC)}
        stage.kill(away)
        stage.wait(lambda: away not in stage.partition("t").image.isr)

        assert client.end(version=3) == 0

        stage.world.run(stage.world.now + 5)
        assert client.describe().transaction_state == "PrepareCommit"
        assert stable_offset(stage) == 0
        stage.start(away)
        settled(client, "CompleteCommit")
        stage.wait(lambda: stable_offset(stage) == 2)


def test_a_coordinator_whose_disk_is_full_leaves_its_transactions_to_another() -> None:
    with Stage(3, transaction_state_log_num_partitions="1") as stage:
        stage.create("t", 3)
        client = Client(stage)
        client.init()
        for index in range(3):
            assert client.add(("t", index)) == [0]
            assert client.produce("t", index) == 0
        leader = stage.leader(TOPIC)
        stage.world.disk(f"n{leader}").room_bytes = 0

        client.wire.request(END_TXN, client.ending(), 3)
        stage.wait(lambda: stage.leader(TOPIC) not in (leader, -1), at_most_s=120)

        stage.nodes.pop(leader, None)
        after = Client(stage)
        after.pair = client.pair
        stage.wait(lambda: after.end(version=3) == 0)
        settled(after, "CompleteCommit")
        assert all(stage.partition("t", index).last_stable_offset == 2 for index in range(3))


def test_ten_thousand_ids_of_one_client_leave_its_neighbour_alone(stage: Stage) -> None:
    neighbour = Client(stage, "neighbour")
    neighbour.init()
    wire = stage.wire()
    for index in range(IDS):
        wire.request(
            INIT_PRODUCER_ID,
            INIT_PRODUCER_ID.request(transactional_id=f"i{index}", transaction_timeout_ms=60_000),
        )

    assert neighbour.add(("t", 0)) == [0]
    assert neighbour.produce("t") == 0
    assert neighbour.end(version=3) == 0

    assert {wire.answer(INIT_PRODUCER_ID).error_code for _ in range(IDS)} == {0}
    assert (
        len(wire.ask(LIST_TRANSACTIONS, LIST_TRANSACTIONS.request()).transaction_states) == IDS + 1
    )
