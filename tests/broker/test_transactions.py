"""Transactions on one node, and on three: requests to the coordinator, its markers, and what
happens when it moves.
"""

from collections.abc import Iterator

import pytest

from raftka.wire.errors import Code
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.transactions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    LIST_TRANSACTIONS,
)
from tests.broker.requests import batch, produce
from tests.broker.stage import Stage
from tests.kit.broker.transactions import TOPIC, Client, settled


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        stage.create("t", 3)
        yield stage


@pytest.fixture
def three() -> Iterator[Stage]:
    with Stage(3, transaction_state_log_num_partitions="1") as stage:
        stage.create("t", 6)
        yield stage


def test_the_first_question_creates_the_topic_with_its_settings(stage: Stage) -> None:
    client = Client(stage)

    image = stage.nodes[1].image.topic_named(TOPIC)
    assert image is not None
    assert len(image.partitions) == 50
    log = stage.partition(TOPIC).log
    assert log.config.segment_bytes == 104857600
    assert client.init().producer_epoch == 0


@pytest.mark.parametrize("version", range(6))
def test_a_transaction_in_every_version(stage: Stage, version: int) -> None:
    client = Client(stage)
    assert client.init(min(version, 5)).error_code == 0
    assert client.add(("t", 0), ("t", 1), version=min(version, 3)) == [0, 0]
    assert client.produce("t") == 0

    assert client.end(version=version) == 0

    settled(client, "CompleteCommit")
    assert client.describe().producer_epoch == (1 if version == 5 else 0)


def test_the_next_transaction_waits_for_the_markers_of_the_last_one(stage: Stage) -> None:
    client = Client(stage)
    client.init()
    for _ in range(5):
        assert client.add(("t", 0)) == [0]
        assert client.end(version=3) == 0  # and no CONCURRENT_TRANSACTIONS


def test_newer_producers_add_partitions_by_writing(stage: Stage) -> None:
    client = Client(stage)
    client.init()
    assert client.produce("t", 1, version=12) == 0
    assert [(topic.topic, list(topic.partitions)) for topic in client.describe().topics] == [
        ("t", [1])
    ]

    assert client.end() == 0

    assert client.produce("t", 1, version=12) == 0
    assert client.end(commit=False) == 0
    settled(client, "CompleteAbort")


def test_a_group_joins_a_transaction(stage: Stage) -> None:
    client = Client(stage)
    client.init()
    row = ADD_OFFSETS_TO_TXN.request(
        transactional_id="x",
        producer_id=client.pair[0],
        producer_epoch=client.pair[1],
        group_id="g",
    )

    assert client.wire.ask(ADD_OFFSETS_TO_TXN, row).error_code == 0

    assert [topic.topic for topic in client.describe().topics] == ["__consumer_offsets"]
    assert client.end(version=3) == 0
    settled(client, "CompleteCommit")


def test_no_transactions_are_answered_at_once(stage: Stage) -> None:
    """Kafka never answers."""
    answer = stage.wire().ask(ADD_PARTITIONS_TO_TXN, ADD_PARTITIONS_TO_TXN.request(), 5)

    assert (answer.error_code, list(answer.results_by_transaction)) == (0, [])


def test_one_bad_partition_keeps_all_others_out(stage: Stage) -> None:
    client = Client(stage)
    client.init()

    assert client.add(("t", 0), ("t", 9), ("nowhere", 0)) == [55, 3, 3]
    assert client.describe().transaction_state == "Empty"


def test_time_outs_outside_their_bounds_are_refused(stage: Stage) -> None:
    client = Client(stage)

    assert [client.init(timeout_ms=time).error_code for time in (0, -1, 900_001, 900_000)] == [
        50,
        50,
        50,
        0,
    ]


def test_a_transaction_whose_time_is_over_is_aborted(stage: Stage) -> None:
    client = Client(stage)
    client.init(timeout_ms=2000)
    client.add(("t", 0))
    began = stage.world.now

    settled(client, "CompleteAbort")

    assert stage.world.now - began < 3
    assert client.end(version=3) == Code.PRODUCER_FENCED
    assert client.end(version=1) == Code.INVALID_PRODUCER_EPOCH


def test_ids_are_listed(stage: Stage) -> None:
    client = Client(stage)
    client.init()

    answer = client.wire.ask(
        LIST_TRANSACTIONS,
        LIST_TRANSACTIONS.request(state_filters=["Empty", "empty"], transactional_id_pattern="."),
    )

    assert list(answer.unknown_state_filters) == ["empty"]
    assert [(row.transactional_id, row.transaction_state) for row in answer.transaction_states] == [
        ("x", "Empty")
    ]
    assert (
        client.wire.ask(
            LIST_TRANSACTIONS, LIST_TRANSACTIONS.request(transactional_id_pattern="(")
        ).error_code
        == 128
    )


def test_a_deleted_topic_holds_no_transaction_up(stage: Stage) -> None:
    client = Client(stage)
    client.init()
    client.add(("t", 0), ("t", 1))
    stage.delete("t")
    stage.wait(lambda: stage.nodes[1].image.topic_named("t") is None)
    stage.create("t", 1)

    assert client.end(version=3) == 0

    settled(client, "CompleteCommit")
    # no marker of the transaction in the topic that has its name
    assert stage.partition("t").log.end_offset == 0


# three brokers


@pytest.mark.parametrize("commit", [True, False])
def test_an_empty_transaction_may_end_before_the_markers_of_the_last_one(
    three: Stage, commit: bool
) -> None:
    client = Client(three)
    client.init()
    for _ in range(5):
        for index in range(6):
            assert client.produce("t", index, version=12) == 0

        assert client.end(commit=commit) == 0
        assert client.end(commit=False) == 0


def test_markers_reach_the_leaders_on_other_brokers(three: Stage) -> None:
    client = Client(three)
    client.init()
    partitions = [("t", index) for index in range(6)]
    assert client.add(*partitions) == [0] * 6
    for index in range(6):
        assert client.produce("t", index) == 0

    assert client.end(version=3) == 0

    settled(client, "CompleteCommit")
    # a record and a marker
    assert [three.partition("t", index).log.end_offset for index in range(6)] == [2] * 6


@pytest.mark.parametrize("commit", [True, False])
def test_another_coordinator_ends_what_the_last_one_had_decided(three: Stage, commit: bool) -> None:
    client = Client(three)
    client.init()
    client.add(*[("t", index) for index in range(6)])
    leader = three.leader(TOPIC)
    others = {1, 2, 3} - {leader}
    sender = three.nodes[leader].transactions.sender
    # they do not leave before it dies
    sender._spread = lambda markers: None  # type: ignore[method-assign]
    assert client.end(version=5, commit=commit) == 0
    three.kill(leader)
    three.wait(lambda: three.leader(TOPIC) in others)

    after = Client(three)

    settled(after, "CompleteCommit" if commit else "CompleteAbort")
    assert (
        after.init(producer_id=client.pair[0], producer_epoch=client.pair[1] - 1).producer_epoch
        == client.pair[1]
    )


def test_an_open_transaction_goes_on_at_another_coordinator(three: Stage) -> None:
    client = Client(three)
    client.init()
    client.add(("t", 0))
    leader = three.leader(TOPIC)
    three.kill(leader)
    three.wait(lambda: three.leader(TOPIC) != leader and three.leader(TOPIC) in three.nodes)

    after = Client(three)
    after.pair = client.pair
    three.wait(lambda: after.end(version=3) == 0)
    settled(after, "CompleteCommit")


def test_a_refused_partition_does_not_stop_the_others(three: Stage) -> None:
    """A batch of a later epoch, which somebody else sent: that partition has nothing to end."""
    client = Client(three)
    client.init()
    client.add(("t", 0), ("t", 1))
    records = batch(
        b"v", producer_id=client.pair[0], producer_epoch=client.pair[1] + 7, base_sequence=0
    )
    three.wire(three.leader("t")).ask(PRODUCE, produce("t", records), 11)
    assert client.produce("t", 1) == 0

    assert client.end(version=3) == 0

    settled(client, "CompleteCommit")
