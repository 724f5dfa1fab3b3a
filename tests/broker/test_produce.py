"""Produce: which of many wrong things is told, what is stored all the same, and that one
partition's error is not another's.
"""

from collections.abc import Callable
from struct import pack_into
from typing import Any

import pytest

from raftka.limits import DECOMPRESSED_BYTES
from raftka.wire.errors import Code
from raftka.wire.frame import encode_request
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.produce import PRODUCE, ProduceRequest
from raftka.wire.messages.topics import CREATE_TOPICS
from raftka.wire.records import BATCH_HEADER_BYTES, build_batch, iterate, records_of, seal
from tests.broker.requests import batch, fetch, fetched, produce, produced
from tests.broker.stage import Stage, decoded

GOOD = batch(b"1", b"2")
INTERNAL = "__consumer_offsets"


def changed(data: bytes, position: int, layout: str, value: int, *, sealed: bool = True) -> bytes:
    copy = bytearray(data)
    pack_into(layout, copy, position, value)
    if sealed:
        seal(memoryview(copy))
    return bytes(copy)


WRONG_CRC = changed(GOOD, 17, ">I", 1, sealed=False)
MAGIC_1, MAGIC_3 = (changed(GOOD, 16, ">b", magic, sealed=False) for magic in (1, 3))
TRANSACTIONAL = batch(b"1", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
CONTROL = changed(GOOD, 21, ">h", 0x20)
CODEC_5 = changed(GOOD, 21, ">h", 5)
BASE_7 = changed(GOOD, 0, ">q", 7, sealed=False)
TOO_LARGE = batch(bytes(2000))
NO_PRODUCER_SEQUENCE = batch(b"1", producer_id=5, producer_epoch=0, base_sequence=-1)

# The first that is wrong is told: each row is (what is sent, acks, topic, code, whether the answer
# has come to the log).
ORDER: dict[str, tuple[bytes | None, int, str, Code, bool]] = {
    "transactional wins over unknown": (
        TRANSACTIONAL,
        -1,
        "nope",
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        False,
    ),
    "unknown wins over no batch": (b"", 5, "nope", Code.UNKNOWN_TOPIC_OR_PARTITION, False),
    "null records": (None, -1, "t", Code.INVALID_RECORD, False),
    "no bytes": (b"", -1, "t", Code.INVALID_RECORD, False),
    "a few bytes": (GOOD[:30], -1, "t", Code.INVALID_RECORD, False),
    "two batches win over acks": (GOOD + GOOD, 5, "t", Code.INVALID_RECORD, False),
    "two batches win over internal": (GOOD + GOOD, -1, INTERNAL, Code.INVALID_RECORD, False),
    "old magic wins over acks": (MAGIC_1, 5, "t", Code.INVALID_RECORD, False),
    "new magic": (MAGIC_3, 5, "t", Code.CORRUPT_MESSAGE, False),
    "acks win over internal": (GOOD, 5, INTERNAL, Code.INVALID_REQUIRED_ACKS, False),
    "internal wins over size": (TOO_LARGE, -1, INTERNAL, Code.INVALID_TOPIC_EXCEPTION, False),
    "size wins over CRC": (
        changed(TOO_LARGE, 17, ">I", 1, sealed=False),
        -1,
        "t",
        Code.MESSAGE_TOO_LARGE,
        False,
    ),
    "CRC wins over the rest": (
        changed(BASE_7, 17, ">I", 1, sealed=False),
        -1,
        "t",
        Code.CORRUPT_MESSAGE,
        False,
    ),
    "codec": (CODEC_5, -1, "t", Code.UNKNOWN_SERVER_ERROR, True),
    "base offset": (BASE_7, -1, "t", Code.INVALID_RECORD, True),
    "last offset delta": (changed(GOOD, 23, ">i", 5), -1, "t", Code.INVALID_RECORD, True),
    "no records": (changed(GOOD, 57, ">i", 0), -1, "t", Code.INVALID_RECORD, True),
    "control batch": (CONTROL, -1, "t", Code.INVALID_RECORD, True),
    "producer without sequence": (NO_PRODUCER_SEQUENCE, -1, "t", Code.INVALID_RECORD, True),
}


@pytest.mark.parametrize(("sent", "acks", "topic", "code", "reached"), ORDER.values(), ids=ORDER)
def test_the_first_that_is_wrong_is_reported(
    sent: bytes | None, acks: int, topic: str, code: Code, reached: bool
) -> None:
    with Stage() as stage:
        stage.create("t", configs={"max_message_bytes": "1000"})
        stage.create(INTERNAL, configs={"max_message_bytes": "1000"})

        answer = produced(stage.wire().ask(PRODUCE, produce(topic, sent, acks=acks)))

        assert (Code(answer.error_code), answer.base_offset, answer.log_append_time_ms) == (
            code,
            -1,
            -1,
        )
        assert answer.log_start_offset == (0 if reached else -1)
        assert stage.partition("t").log.end_offset == stage.partition(INTERNAL).log.end_offset == 0


@pytest.mark.parametrize("version", [3, 6, 7])
def test_zstd_is_for_those_who_know_it(version: int) -> None:
    with Stage() as stage:
        stage.create("t")

        answer = produced(
            stage.wire().ask(PRODUCE, produce("t", batch(b"1", compression=4)), version)
        )

    assert answer.error_code == (Code.UNSUPPORTED_COMPRESSION_TYPE if version < 7 else 0)


def test_a_random_legacy_message_is_not_taken_for_a_transaction() -> None:
    with Stage() as stage:
        stage.create("t")

        answer = produced(
            stage.wire().ask(PRODUCE, produce("t", changed(MAGIC_1, 21, ">h", 0x10, sealed=False)))
        )

    assert answer.error_code == Code.INVALID_RECORD


STORED: dict[str, tuple[bytes, Callable[[Any], bool]]] = {
    "11 bytes behind it are left out": (GOOD + bytes(11), lambda header: True),
    "and the beginning of another": (GOOD + GOOD[:-1], lambda header: True),
    "the leader epoch is the current one": (
        changed(GOOD, 12, ">i", 77, sealed=False),
        lambda header: header.leader_epoch == 0,
    ),
    "LogAppendTime is not the client's to say": (
        changed(GOOD, 21, ">h", 8),
        lambda header: header.attributes == 0,
    ),
    "unused attributes stay": (
        changed(GOOD, 21, ">h", 0x40),
        lambda header: header.attributes == 0x40,
    ),
}


@pytest.mark.parametrize(("sent", "holds"), STORED.values(), ids=STORED)
def test_what_is_stored(sent: bytes, holds: Callable[[Any], bool]) -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()

        answer = produced(wire.ask(PRODUCE, produce("t", sent)))
        ((header, stored),) = iterate(
            memoryview(fetched(wire.ask(FETCH, fetch("t"))).records or b"")
        )

        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert holds(header)
        assert [record.value for record in records_of(stored)] == [b"1", b"2"]
        assert len(stored) == len(GOOD)


def test_partitions_do_not_spoil_each_other() -> None:
    with Stage() as stage:
        stage.create("t", partitions=3)
        row = produce("t", GOOD)
        parts = PRODUCE.request.topic_data.partition_data
        sent = {0: GOOD, 1: WRONG_CRC, 2: b"", 9: GOOD}
        row.topic_data[0].partition_data = [
            parts(index=index, records=records) for index, records in sent.items()
        ]

        (topic,) = stage.wire().ask(PRODUCE, row).responses

        told = {
            partition.index: Code(partition.error_code) for partition in topic.partition_responses
        }
        assert told == {
            0: Code.NONE,
            1: Code.CORRUPT_MESSAGE,
            2: Code.INVALID_RECORD,
            9: Code.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert [stage.partition("t", index).log.end_offset for index in range(3)] == [2, 0, 0]


def test_a_good_produce_without_acknowledgement_gets_no_answer() -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()
        wire.request(PRODUCE, produce("t", GOOD, acks=0))

        assert produced(wire.ask(PRODUCE, produce("t", GOOD))).base_offset == 2
        assert wire.frames == []


def test_a_bad_one_closes_and_what_was_answered_before_arrives() -> None:
    with Stage(raftka_log_flush="os") as stage:
        stage.create("t")
        wire = stage.wire()
        wire.request(PRODUCE, produce("t", GOOD, acks=1))
        wire.request(PRODUCE, produce("t", WRONG_CRC, acks=0))
        wire.request(PRODUCE, produce("t", GOOD, acks=1))

        assert produced(wire.answer(PRODUCE)).base_offset == 0
        assert wire.frame() is None
        assert stage.partition("t").log.end_offset == 2


def test_the_real_brokers_duplicate_answer() -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()
        sent = batch(b"1", producer_id=7, producer_epoch=0, base_sequence=0)
        for _ in range(2):
            wire.ask(PRODUCE, produce("t", GOOD))
            answer = produced(wire.ask(PRODUCE, produce("t", sent)))

        assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (
            0,
            2,
            1_700_000_000_000,
        )


def with_time(
    row: ProduceRequest, key: bytes | None = b"k", time_ms: int = 1_700_000_000_000
) -> ProduceRequest:
    row.topic_data[0].partition_data[0].records = bytes(build_batch([(key, b"v", (), time_ms)]))
    return row


def test_refused_records_are_named() -> None:
    with Stage() as stage:
        stage.create("compacted", configs={"cleanup_policy": "compact"})
        stage.create("t")
        wire = stage.wire()

        keyless = produced(wire.ask(PRODUCE, with_time(produce("compacted", None), key=None)))
        late = produced(wire.ask(PRODUCE, with_time(produce("t", None), time_ms=1_800_000_000_000)))

        assert (keyless.error_code, [e.batch_index for e in keyless.record_errors]) == (
            Code.INVALID_RECORD,
            [0],
        )
        assert "compacted-0" in str(keyless.record_errors[0].batch_index_error_message)
        assert (late.error_code, [e.batch_index for e in late.record_errors]) == (
            Code.INVALID_TIMESTAMP,
            [0],
        )
        assert late.log_start_offset == 0


@pytest.mark.parametrize(
    ("validation", "code"), [("header", Code.NONE), ("records", Code.UNKNOWN_SERVER_ERROR)]
)
def test_a_payload_that_is_none_is_seen_where_records_are_looked_at(
    validation: str, code: Code
) -> None:
    garbage = bytearray(build_batch([(None, bytes(100), (), 1_700_000_000_000)], compression=1))
    garbage[BATCH_HEADER_BYTES:] = b"\xaa" * (len(garbage) - BATCH_HEADER_BYTES)
    seal(memoryview(garbage))
    with Stage(raftka_validation=validation) as stage:
        stage.create("t")

        assert produced(stage.wire().ask(PRODUCE, produce("t", bytes(garbage)))).error_code == code


def test_a_bomb_ends_at_the_limit() -> None:
    """Only where records are looked at; else the broker does not open the batch."""
    bomb = batch(bytes(DECOMPRESSED_BYTES.value + 1), compression=4)
    with Stage(raftka_validation="records") as stage:
        stage.create("t")

        answer = produced(stage.wire().ask(PRODUCE, produce("t", bomb)))

        assert answer.error_code == Code.MESSAGE_TOO_LARGE
        assert str(DECOMPRESSED_BYTES.value) in str(answer.error_message)
        assert stage.counted(DECOMPRESSED_BYTES.metric) == 1
        assert stage.partition("t").log.end_offset == 0


def test_too_many_partitions_in_one_create_are_refused() -> None:
    with Stage() as stage:
        request = CREATE_TOPICS.request
        row = request(
            topics=[request.topics(name="t", num_partitions=100_000, replication_factor=1)]
        )

        assert stage.wire().ask(CREATE_TOPICS, row).topics[0].error_code == Code.POLICY_VIOLATION


def test_requests_that_come_together_are_answered_as_if_they_came_alone() -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()
        bad = bytearray(batch(b"bad"))
        bad[-1] ^= 1
        good = [produce("t", batch(b"%d" % i), acks=1) for i in range(5)]
        for row in (good[0], good[0]):  # the second goes the short way
            wire.ask(PRODUCE, row, 9)
        together = [
            good[0],
            good[1],
            produce("t", bytes(bad), acks=1),
            good[2],
            produce("nope", batch(b"x"), acks=1),
            good[3],
            good[4],
        ]
        wire.send(
            b"".join(
                encode_request(PRODUCE, 9, number, "test", row)
                for number, row in enumerate(together, 100)
            )
        )
        answers = [wire.frame() for _ in together]

        assert [int.from_bytes(answer[:4]) for answer in answers if answer] == list(range(100, 107))
        rows = [produced(decoded(PRODUCE, 9, answer)) for answer in answers if answer]
        codes = [
            Code.NONE,
            Code.NONE,
            Code.CORRUPT_MESSAGE,
            Code.NONE,
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            Code.NONE,
            Code.NONE,
        ]
        assert [Code(row.error_code) for row in rows] == codes
        assert [row.base_offset for row in rows] == [2, 3, -1, 4, -1, 5, 6]
        stage.wait(lambda: stage.partition("t").high_watermark == 7)


def test_a_disk_that_is_full_amid_many_requests_acknowledges_none_that_is_not_flushed() -> None:
    with Stage() as stage:
        stage.create("t", configs={"internal_segment_bytes": "1000"})
        wire = stage.wire()
        row = produce("t", batch(bytes(230)), acks=1)
        for _ in range(2):
            assert produced(wire.ask(PRODUCE, row, 9)).error_code == Code.NONE
        # the second of these begins a segment, for which the first is written
        stage.world.machine("n1").disk.room_bytes = 350
        wire.send(b"".join(encode_request(PRODUCE, 9, number, "test", row) for number in range(3)))
        stage.wait(lambda: wire.close_reason is not None or len(wire.frames) == 3)

        rows = [produced(decoded(PRODUCE, 9, frame)) for frame in wire.frames]
        partition = stage.nodes[1].replicas.partitions["t", 0]
        assert partition.log.failed is not None
        assert (partition.log.flushed_offset, partition.log.end_offset) == (2, 3)
        assert [row for row in rows if row.error_code == Code.NONE] == []
        assert not partition.delayed_by_flush
