"""The records of share groups: Kafka's bytes, and keys and values that cannot be read."""

import pytest

from raftka.coordinator.consumer.records import Epoch
from raftka.coordinator.machine import Record
from raftka.coordinator.modern.records import Targets
from raftka.coordinator.share.records import (
    CURRENT,
    FORM,
    GROUP,
    MEMBER,
    PARTITIONS,
    Current,
    Partitions,
    Said,
    Topic,
    current_record,
    group_record,
    member_record,
    partitions_record,
    read_key,
    read_value,
    target_record,
    targets_record,
)
from raftka.versions import NewerFormat

ACK = bytes.fromhex("2eead34c9cc948ce8ff1035743c0a27f")
SA = bytes.fromhex("35b527482cf8482a9812db1ec7b90d6a")
A = "A" * 22
TOPIC = Topic("ack", frozenset({0}))
KAFKAS = (
    (
        member_record("ga", A, Said(None, "golden", "/127.0.0.1", ("ack",))),
        "00000007676f6c64656e0b2f3132372e302e302e31020461636b00",
    ),
    (
        member_record("g1", "B" * 22, Said("rack-7", "golden", "/127.0.0.1", ("sa",))),
        "0000077261636b2d3707676f6c64656e0b2f3132372e302e302e310203736100",
    ),
    (group_record("ga", Epoch(2, -7019106113269271639)), "0000000000029e97202dc5cff3a900"),
    (target_record("ga", A, {}), "00000100"),
    (targets_record("ga", Targets(2, 1795737804411)), "000000000002010008000001a21a505e7b"),
    (current_record("ga", A, Current(2, 0, {})), "00000000000200000000000100"),
    (
        partitions_record("ga", Partitions({ACK: TOPIC}, {ACK: TOPIC})),
        "0000022eead34c9cc948ce8ff1035743c0a27f0461636b020000000000"
        "022eead34c9cc948ce8ff1035743c0a27f0461636b0200000000000100",
    ),
    (
        partitions_record("ga", Partitions({}, {SA: Topic("sa", frozenset({0}))}, {ACK: "ack"})),
        "0000010235b527482cf8482a9812db1ec7b90d6a03736102000000000002"
        "2eead34c9cc948ce8ff1035743c0a27f0461636b0000",
    ),
)


@pytest.mark.parametrize(("record", "value"), KAFKAS)
def test_the_bytes_are_kafkas(record: Record, value: str) -> None:
    assert record.value is not None
    assert record.value.hex() == value
    what, group_id, _ = read_key(record.key)
    assert group_id in ("ga", "g1")
    assert read_value(what, record.value) is not None


def test_keys_are_kafkas() -> None:
    assert FORM.key(MEMBER, "ga", A).hex() == "000a000267610016" + "41" * 22
    assert FORM.key(GROUP, "ga").hex() == "000b00026761"
    assert read_key(FORM.key(CURRENT, "ga", A)) == (CURRENT, "ga", A)


def test_a_topic_without_partitions_is_none() -> None:
    record = partitions_record("ga", Partitions({ACK: Topic("ack", frozenset())}))
    assert record.value is not None

    assert read_value(PARTITIONS, record.value) == Partitions()


@pytest.mark.parametrize("data", [b"\0\x0b", b"\0\x0b\0\5g", b"\0\x0b\0\1gx", b"\0\x0a\0\1g\0\2m"])
def test_keys_that_cannot_be_read(data: bytes) -> None:
    with pytest.raises(ValueError, match="the key of a share group"):
        read_key(data)


def test_values_that_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        read_value(GROUP, b"\0\0\0")
    with pytest.raises(NewerFormat):
        read_value(GROUP, b"\0\1" + bytes(13))
