"""Transactions at the leader of a partition: batches, what readers of committed records see,
markers. The coordinator is played here.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from raftka.log.producers.aborted import AbortedTransactions
from raftka.log.producers.state import ProducerState
from raftka.log.segments.transaction_index import AbortedTransaction
from raftka.wire.errors import Code
from raftka.wire.messages.fetch import FETCH, READ_COMMITTED
from raftka.wire.messages.list_offsets import LATEST, LIST_OFFSETS
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.producers import DESCRIBE_PRODUCERS
from raftka.wire.messages.transactions import WRITE_TXN_MARKERS
from tests.broker.requests import batch, fetch, fetched, list_offsets, produced
from tests.broker.stage import Stage
from tests.kit.broker.transactional_partition import TV1, TV2, Scene, values_of


@pytest.fixture
def scene() -> Iterator[Scene]:
    with Stage() as stage:
        stage.create("t", 3)
        yield Scene(stage)


def test_records_of_a_transaction_are_read_when_it_is_committed(scene: Scene) -> None:
    assert scene.send(b"a", b"b").base_offset == 0
    row = scene.read()
    assert (
        row.high_watermark,
        row.last_stable_offset,
        bytes(row.records or b""),
        list(row.aborted_transactions or ()),
    ) == (2, 0, b"", [])
    assert scene.mark(commit=True) == [Code.NONE]
    assert scene.committed() == [b"a", b"b"]


def test_records_of_an_aborted_transaction_are_named(scene: Scene) -> None:
    scene.send(b"a")
    scene.mark(commit=False)
    scene.send(b"b", sequence=1)
    scene.mark(commit=True)
    row = scene.read()
    assert [(each.producer_id, each.first_offset) for each in row.aborted_transactions or ()] == [
        (7, 0)
    ]
    assert scene.committed() == [b"b"]


def test_the_fast_path_names_them_too(scene: Scene) -> None:
    for at in range(4):
        scene.send(b"%d" % at, sequence=at)
        scene.mark(commit=at % 2 == 0)
    wire, seen = scene.stage.wire(), []
    for offset in (0, 2, 4, 6, 0, 2, 4, 6):
        row = fetched(
            wire.ask(
                FETCH,
                fetch("t", offset, isolation_level=READ_COMMITTED, partition_max_bytes=100),
                12,
            )
        )
        seen.append((row.last_stable_offset, values_of(row)))
    assert seen == [(8, [b"0"]), (8, []), (8, [b"2"]), (8, [])] * 2


def test_a_lost_index_is_made_again_before_the_answer_and_beside_other_work(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(30):
        scene.send(b"%d" % at, sequence=at)
        scene.mark(commit=at % 2 == 0)
    log = scene.stage.partition("t").log
    log.aborted.known_from, log.segments.active._transaction_index = 1 << 63, None
    find, known = AbortedTransactions.find, []

    def watched(self: AbortedTransactions, offset: int, end: int) -> list[AbortedTransaction]:
        known.append(offset >= self.known_from)
        return find(self, offset, end)

    monkeypatch.setattr(AbortedTransactions, "find", watched)
    assert scene.committed() == [b"%d" % at for at in range(0, 30, 2)]
    assert known == [True]


def test_a_parked_reader_is_woken_by_the_marker(scene: Scene) -> None:
    scene.send(b"a")
    wire = scene.stage.wire()
    wire.request(
        FETCH, fetch("t", 0, isolation_level=READ_COMMITTED, max_wait_ms=30_000, min_bytes=1), 12
    )
    scene.stage.world.run(lambda: False, at_most_s=0.5)
    assert not wire.frames
    scene.mark(commit=True)
    assert values_of(fetched(wire.answer(FETCH))) == [b"a"]


def test_the_end_for_readers_of_committed_records_is_the_last_stable_offset(scene: Scene) -> None:
    scene.send(b"a")
    wire = scene.stage.wire()
    for _ in range(3):  # the fast path too
        ends = [
            wire.ask(
                LIST_OFFSETS,
                list_offsets("t", LATEST, replica_id=-1) if level is None else _list(level),
            )
            .topics[0]
            .partitions[0]
            .offset
            for level in (0, READ_COMMITTED)
        ]
        assert ends == [1, 0]


def _list(level: int) -> Any:
    request = list_offsets("t", LATEST)
    request.isolation_level = level
    return request


def test_the_coordinator_is_asked_once_for_the_partitions_of_a_request(scene: Scene) -> None:
    request = scene.request(b"a")
    more = scene.request(b"b", partition=2).topic_data[0].partition_data
    request.topic_data[0].partition_data += more
    answer = scene.line.ask(PRODUCE, request, TV2)
    assert [row.error_code for row in answer.responses[0].partition_responses] == [0, 0]
    assert scene.coordinator.asked == [("tx", (7, 0), [("t", 0), ("t", 2)], False)]
    assert scene.send(b"c", sequence=1).error_code == 0
    assert len(scene.coordinator.asked) == 1, "the transaction is open there"


@pytest.mark.parametrize(
    ("version", "code", "told"),
    [
        (TV2, Code.PRODUCER_FENCED, Code.INVALID_PRODUCER_EPOCH),
        (TV2, Code.CONCURRENT_TRANSACTIONS, Code.CONCURRENT_TRANSACTIONS),
        (TV1, Code.CONCURRENT_TRANSACTIONS, Code.NOT_ENOUGH_REPLICAS),
        (TV1, Code.TRANSACTION_ABORTABLE, Code.TRANSACTION_ABORTABLE),
        (10, Code.TRANSACTION_ABORTABLE, Code.INVALID_TXN_STATE),
        (TV2, Code.NOT_COORDINATOR, Code.NOT_ENOUGH_REPLICAS),
        (TV2, Code.OPERATION_NOT_ATTEMPTED, Code.NOT_ENOUGH_REPLICAS),
        (TV2, Code.INVALID_PRODUCER_ID_MAPPING, Code.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_a_batch_is_refused_when_the_coordinator_does_not_know_its_transaction(
    scene: Scene, version: int, code: Code, told: Code
) -> None:
    scene.coordinator.code = code
    answer = scene.send(b"a", version=version)
    assert (Code(answer.error_code), answer.base_offset, answer.log_start_offset) == (told, -1, -1)
    assert scene.read().high_watermark == 0
    scene.coordinator.code = Code.NONE
    assert scene.send(b"a", version=version).error_code == 0


def test_what_is_behind_waits_for_the_coordinators_answer(scene: Scene) -> None:
    scene.coordinator.held = []
    for at in range(3):
        scene.line.request(PRODUCE, scene.request(b"%d" % at, sequence=at), TV2)
    scene.stage.wait(lambda: scene.coordinator.held != [])
    scene.stage.world.run(lambda: False, at_most_s=0.2)
    assert len(scene.coordinator.held) == 1
    scene.coordinator.held.pop()()
    assert [produced(scene.line.answer(PRODUCE, TV2)).base_offset for _ in range(3)] == [0, 1, 2]


def test_an_abort_while_the_coordinator_is_asked_keeps_the_batch_out(scene: Scene) -> None:
    scene.coordinator.held = []
    scene.line.request(PRODUCE, scene.request(b"late"), TV1 - 1)
    scene.stage.wait(lambda: scene.coordinator.held != [])
    scene.mark(commit=False)
    scene.coordinator.held.pop()()
    assert produced(scene.line.answer(PRODUCE, TV1 - 1)).error_code == Code.INVALID_TXN_STATE
    assert scene.read().last_stable_offset == 1, "nothing hangs"


@pytest.mark.parametrize("version", [TV1 - 1, TV1, TV2])
def test_a_leader_that_was_truncated_meanwhile_has_the_producer_ask_again(
    scene: Scene, version: int
) -> None:
    """It has lost and regained its leadership in between: what it knew of producers was made
    anew.
    """
    partition = scene.stage.partition("t")
    scene.coordinator.held = []
    scene.line.request(PRODUCE, scene.request(b"a"), version)
    scene.stage.wait(lambda: scene.coordinator.held != [])
    partition.log.producers = ProducerState()
    scene.coordinator.held.pop()()
    assert produced(scene.line.answer(PRODUCE, version)).error_code == Code.NOT_LEADER_OR_FOLLOWER
    scene.coordinator.held = None
    assert scene.send(b"a", version=version).base_offset == 0


def test_of_two_producers_in_one_request_only_transactional_batches_are_refused(
    scene: Scene,
) -> None:
    request = scene.request(b"a")
    rows = request.topic_data[0].partition_data
    other = batch(b"b", producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
    rows.append(type(rows[0])(index=1, records=other))
    rows.append(type(rows[0])(index=2, records=batch(b"plain")))
    answer = scene.line.ask(PRODUCE, request, TV2).responses[0].partition_responses
    assert [row.error_code for row in answer] == [Code.INVALID_PRODUCER_ID_MAPPING] * 2 + [
        Code.NONE
    ]


def test_a_transactional_batch_without_a_transactional_id_is_refused(scene: Scene) -> None:
    request = scene.request(b"a")
    request.transactional_id = None
    assert (
        produced(scene.line.ask(PRODUCE, request, TV2)).error_code
        == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )


def test_markers_are_answered_for_each_partition(scene: Scene) -> None:
    scene.send(b"a")
    assert scene.mark(commit=True, partitions=(0, 1, 77)) == [
        Code.NONE,
        Code.NONE,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert scene.mark(commit=True, topic="nope") == [Code.UNKNOWN_TOPIC_OR_PARTITION]
    scene.send(b"b", sequence=1)
    scene.mark(commit=True, coordinator_epoch=5)
    assert scene.mark(commit=True, coordinator_epoch=4) == [Code.TRANSACTION_COORDINATOR_FENCED]


def test_a_marker_waits_for_its_replicas() -> None:
    with Stage(3) as stage:
        stage.create("t")
        leader = stage.leader("t")
        partition = stage.partition("t")
        for fetcher in stage.nodes.values():
            if fetcher.node_id != leader:
                fetcher.replicas.fetchers.by_leader[leader].follows.clear()
        wire = stage.wire(leader)
        rows = WRITE_TXN_MARKERS.request.markers
        marker = rows(
            producer_id=7,
            producer_epoch=0,
            transaction_result=True,
            topics=[rows.topics(name="t", partition_indexes=[0])],
        )
        wire.request(WRITE_TXN_MARKERS, WRITE_TXN_MARKERS.request(markers=[marker]))
        stage.wait(lambda: partition.log.end_offset == 1)
        assert len(partition.delayed_by_commit) == 1
        assert partition.high_watermark == 0


def test_a_producer_is_described_with_the_time_of_its_last_batch_or_marker(scene: Scene) -> None:
    def described() -> Any:
        topics = [DESCRIBE_PRODUCERS.request.topics(name="t", partition_indexes=[0])]
        (row,) = (
            scene.stage.wire()
            .ask(DESCRIBE_PRODUCERS, DESCRIBE_PRODUCERS.request(topics=topics))
            .topics[0]
            .partitions[0]
            .active_producers
        )
        return row

    scene.send(b"a")
    row = described()
    assert (row.last_timestamp, row.current_txn_start_offset, row.last_sequence) == (
        1_700_000_000_000,
        0,
        0,
    )
    before_ms = scene.stage.runtime.clock.wall_ms()
    scene.mark(commit=True, epoch=1, version=2)
    row = described()
    assert before_ms <= row.last_timestamp <= scene.stage.runtime.clock.wall_ms()
    assert (row.producer_epoch, row.current_txn_start_offset, row.last_sequence) == (1, -1, -1)
