"""Transactions on one node, and on three: requests to the coordinator, its markers, and what
happens when it moves.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from raftka.wire.errors import Code
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.transactions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    LIST_TRANSACTIONS,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
)
from tests.broker.requests import batch, produce, produced
from tests.broker.stage import Stage, Wire

TOPIC = "__transaction_state"


class Client:
    """A producer with a transactional id, at its coordinator."""

    def __init__(self, stage: Stage, transactional_id: str = "x") -> None:
        self.stage = stage
        self.id = transactional_id
        self.wire = stage.wire(self.coordinator())
        self.pair = (-1, -1)

    def coordinator(self) -> int:
        request = FIND_COORDINATOR.request(key_type=1, coordinator_keys=[self.id])
        wire = self.stage.wire(next(iter(self.stage.nodes)))
        found: list[int] = []

        def is_found() -> bool:
            (row,) = wire.ask(FIND_COORDINATOR, request).coordinators
            found[:] = (
                [row.node_id] if not row.error_code and row.node_id in self.stage.nodes else []
            )
            return bool(found)

        for _ in range(200):
            if is_found():
                return found[0]
            self.stage.world.run(self.stage.world.now + 0.1)
        raise AssertionError("nobody coordinates")

    def init(self, version: int = 5, timeout_ms: int = 60_000, **fields: Any) -> Any:
        for _ in range(100):
            request = INIT_PRODUCER_ID.request(
                transactional_id=self.id, transaction_timeout_ms=timeout_ms, **fields
            )
            answer = self.wire.ask(INIT_PRODUCER_ID, request, version)
            if answer.error_code not in (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.NOT_COORDINATOR):
                break
            self.stage.world.run(self.stage.world.now + 0.1)
        if not answer.error_code:
            self.pair = (answer.producer_id, answer.producer_epoch)
        return answer

    def add(self, *partitions: tuple[str, int], version: int = 3) -> list[int]:
        answer = self.wire.ask(
            ADD_PARTITIONS_TO_TXN, adding(self.id, self.pair, *partitions), version
        )
        return [
            each.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        ]

    def ending(self, *, commit: bool = True) -> EndTxnRequest:
        return END_TXN.request(
            transactional_id=self.id,
            producer_id=self.pair[0],
            producer_epoch=self.pair[1],
            committed=commit,
        )

    def end(self, *, commit: bool = True, version: int = 5, wire: Wire | None = None) -> int:
        answer = (wire or self.wire).ask(END_TXN, self.ending(commit=commit), version)
        if not answer.error_code and version >= 5:
            self.pair = (answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    def describe(self) -> Any:
        (row,) = self.wire.ask(
            DESCRIBE_TRANSACTIONS, DESCRIBE_TRANSACTIONS.request(transactional_ids=[self.id])
        ).transaction_states
        return row

    def produce(
        self,
        topic: str,
        partition: int = 0,
        sequence: int = 0,
        version: int = 11,
        value: bytes = b"v",
    ) -> int:
        """At the partition's leader."""
        records = batch(
            value,
            producer_id=self.pair[0],
            producer_epoch=self.pair[1],
            base_sequence=sequence,
            transactional=True,
        )
        wire = self.stage.wire(self.stage.leader(topic, partition))
        return int(
            produced(
                wire.ask(
                    PRODUCE, produce(topic, records, partition, transactional_id=self.id), version
                )
            ).error_code
        )


def adding(
    transactional_id: str, pair: tuple[int, int], *partitions: tuple[str, int]
) -> AddPartitionsToTxnRequest:
    request = ADD_PARTITIONS_TO_TXN.request
    return request(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=pair[0],
        v3_and_below_producer_epoch=pair[1],
        v3_and_below_topics=[
            request.v3_and_below_topics(name=name, partitions=[index]) for name, index in partitions
        ],
    )


def is_over(client: Client, state: str) -> bool:
    found: str = client.describe().transaction_state
    return found == state


def settled(client: Client, state: str) -> None:
    for _ in range(300):
        if is_over(client, state):
            return
        client.stage.world.run(client.stage.world.now + 0.02)
    raise AssertionError(client.describe())


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
