"""acks=1: a leader alone in the ISR answers after its flush, so an answered record can be read;
otherwise it answers after the write.
"""

from typing import Any

import pytest

from raftka.metadata.image import TOPIC
from raftka.wire.errors import Code
from raftka.wire.frame import encode_request
from raftka.wire.messages.delete_records import DELETE_RECORDS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.list_offsets import LATEST, LIST_OFFSETS
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import batch, fetch, fetched, list_offsets, produce, produced
from tests.broker.stage import Stage, Wire

FLUSH_S = 0.5


def slow_flushes(stage: Stage, node_id: int = 1) -> None:
    stage.world.disk(f"n{node_id}").sync_s = (FLUSH_S, FLUSH_S)


def latest(wire: Wire, topic: str = "t") -> int:
    (of_topic,) = wire.ask(LIST_OFFSETS, list_offsets(topic, LATEST)).topics
    return int(of_topic.partitions[0].offset)


def idempotent(sequence: int, *values: bytes) -> bytes:
    return batch(*values, producer_id=7, producer_epoch=0, base_sequence=sequence)


@pytest.mark.parametrize("answers", [1, 4], ids=["decoded", "by a plan"])
def test_an_answered_record_can_be_read(answers: int) -> None:
    with Stage() as stage:
        stage.create("t")
        slow_flushes(stage)
        wire, other = stage.wire(), stage.wire()
        for offset in range(answers):
            began = stage.world.now
            answer = produced(wire.ask(PRODUCE, produce("t", batch(b"v"), acks=1)))

            assert (answer.error_code, answer.base_offset) == (0, offset)
            assert stage.world.now >= began + FLUSH_S
            assert latest(other) == offset + 1
            assert fetched(other.ask(FETCH, fetch("t", offset))).records
        request = DELETE_RECORDS.request
        asked = request.topics(
            name="t", partitions=[request.topics.partitions(partition_index=0, offset=-1)]
        )
        (deleted,) = other.ask(DELETE_RECORDS, request(topics=[asked], timeout_ms=1000)).topics
        assert deleted.partitions[0].low_watermark == answers


def pipelined(wire: Wire, count: int, **fields: Any) -> None:
    """`count` requests in one piece."""
    first = wire.correlation_id + 1
    wire.correlation_id += count
    row = produce("t", batch(b"v"), acks=1, **fields)
    wire.send(b"".join(encode_request(PRODUCE, 12, first + at, "test", row) for at in range(count)))


def test_requests_sent_in_one_piece_are_answered_in_order_after_one_flush() -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()
        for _ in range(2):
            wire.ask(PRODUCE, produce("t", batch(b"v"), acks=1))
        slow_flushes(stage)
        counted, began = stage.nodes[1].metrics.latency("Produce").count, stage.world.now
        pipelined(wire, 20)
        pipelined(wire, 20)

        answers = [produced(wire.answer(PRODUCE)) for _ in range(40)]

        assert [answer.base_offset for answer in answers] == list(range(2, 42))
        assert began + FLUSH_S <= stage.world.now < began + 3 * FLUSH_S
        assert latest(wire) == 42
        assert stage.nodes[1].metrics.latency("Produce").count == counted + 40


def test_a_produce_of_several_partitions_waits_for_all_of_them() -> None:
    with Stage() as stage:
        stage.create("t", partitions=2)
        slow_flushes(stage)
        row = produce("t", batch(b"v"), acks=1)
        parts = PRODUCE.request.topic_data.partition_data
        row.topic_data[0].partition_data = [
            parts(index=index, records=batch(b"v")) for index in (0, 1)
        ]
        (topic,) = stage.wire().ask(PRODUCE, row).responses

        assert [partition.error_code for partition in topic.partition_responses] == [0, 0]
        assert [stage.partition("t", index).high_watermark for index in (0, 1)] == [1, 1]


def test_without_flushes_for_answers_nothing_waits() -> None:
    with Stage(raftka_log_flush="os") as stage:
        stage.create("t")
        slow_flushes(stage)
        wire = stage.wire()
        for offset in range(4):
            began = stage.world.now
            assert produced(wire.ask(PRODUCE, produce("t", batch(b"v"), acks=1))).error_code == 0
            assert stage.world.now < began + FLUSH_S
            assert latest(stage.wire()) == offset + 1


def test_with_others_in_the_isr_the_answer_comes_after_the_write() -> None:
    with Stage(3, replica_lag_time_max_ms="60000", broker_session_timeout_ms="60000") as stage:
        stage.create("t")
        leader = stage.leader("t")
        assert (
            produced(stage.wire(leader).ask(PRODUCE, produce("t", batch(b"v"), acks=-1))).error_code
            == 0
        )
        slow_flushes(stage, leader)
        wire = stage.wire(leader)
        for _ in range(3):
            began = stage.world.now
            assert produced(wire.ask(PRODUCE, produce("t", batch(b"v"), acks=1))).error_code == 0
            assert stage.world.now < began + FLUSH_S


@pytest.mark.parametrize("before", [0, 2], ids=["decoded", "by a plan"])
def test_a_wait_for_the_flush_ends_with_the_leadership(before: int) -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()
        for _ in range(before):
            wire.ask(PRODUCE, produce("t", batch(b"v"), acks=1))
        stage.world.disk("n1").sync_s = (30.0, 30.0)
        pipelined(wire, 2)
        partition = stage.partition("t")
        stage.wait(lambda: partition.log.written_offset == before + 2)
        stage.nodes[1].replicas.stop(partition)

        answers = [produced(wire.answer(PRODUCE)) for _ in range(2)]
        assert [(answer.error_code, answer.base_offset) for answer in answers] == [
            (Code.KAFKA_STORAGE_ERROR, -1)
        ] * 2


def test_a_duplicate_that_a_plan_answers_waits_for_the_flush_of_its_batch() -> None:
    with Stage() as stage:
        stage.create("t")
        again = stage.wire()
        for sequence in range(2):
            again.ask(PRODUCE, produce("t", idempotent(sequence, b"v"), acks=1))
        slow_flushes(stage)
        stage.wire().request(PRODUCE, produce("t", idempotent(2, b"v"), acks=1))
        stage.wait(lambda: stage.partition("t").log.written_offset == 3)

        answer = produced(again.ask(PRODUCE, produce("t", idempotent(2, b"v"), acks=1)))

        assert (answer.error_code, answer.base_offset) == (0, 2)
        assert stage.partition("t").log.flushed_offset == 3
        assert latest(again) == 3


@pytest.mark.parametrize("acks", [1, -1])
def test_a_duplicate_waits_for_its_own_batch_alone(acks: int) -> None:
    with Stage() as stage:
        stage.create("t")
        slow_flushes(stage)
        first, second, again = stage.wire(), stage.wire(), stage.wire()
        partition = stage.partition("t")
        first.request(PRODUCE, produce("t", idempotent(0, b"1"), acks=acks))
        stage.wait(lambda: partition.log.written_offset == 1)
        second.request(PRODUCE, produce("t", idempotent(1, b"2"), acks=acks))
        stage.wait(lambda: partition.log.written_offset == 2)
        again.request(PRODUCE, produce("t", idempotent(0, b"1"), acks=acks))

        assert produced(again.answer(PRODUCE)).base_offset == 0
        assert partition.high_watermark == 1
        assert second.frames == []
        assert produced(first.answer(PRODUCE)).base_offset == 0
        assert produced(second.answer(PRODUCE)).base_offset == 1


def test_a_duplicate_among_requests_in_one_piece_waits_for_its_own_batch_alone() -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()
        for sequence in range(3):
            wire.ask(PRODUCE, produce("t", idempotent(sequence, b"v"), acks=1))
        slow_flushes(stage)
        rows = [produce("t", idempotent(sequence, b"v"), acks=1) for sequence in (2, 3, 1, 4)]
        wire.send(
            b"".join(
                encode_request(PRODUCE, 12, 100 + at, "test", row) for at, row in enumerate(rows)
            )
        )

        assert produced(wire.answer(PRODUCE)).base_offset == 2
        assert stage.partition("t").high_watermark == 3
        assert [produced(wire.answer(PRODUCE)).base_offset for _ in range(3)] == [3, 1, 4]


def test_flush_messages_set_back_during_a_flush_leaves_nothing_behind() -> None:
    with Stage(raftka_log_flush="os") as stage:
        stage.create("t", configs={"flush_messages": "1"})
        wire, partition = stage.wire(), stage.partition("t")
        stage.world.disk("n1").sync_s = (5.0, 5.0)
        wire.request(PRODUCE, produce("t", batch(b"1"), acks=1))
        stage.wait(lambda: partition.log.written_offset == 1)
        wire.request(PRODUCE, produce("t", batch(b"2"), acks=1))
        stage.wait(lambda: partition.log.written_offset == 2)
        stage.world.disk("n1").sync_s = (0.001, 0.002)

        stage.set(TOPIC, "t", flush_messages=None)

        assert [produced(wire.answer(PRODUCE)).base_offset for _ in range(2)] == [0, 1]
        stage.wait(lambda: partition.high_watermark == 2)
        assert latest(wire) == 2
