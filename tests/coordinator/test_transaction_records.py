"""The records of __transaction_state: Kafka's bytes, both versions that may lie in a log, tags of
others, and what cannot be read.
"""

import pytest

from raftka.coordinator.transactions.records import (
    NONE,
    Growing,
    State,
    Transaction,
    read_key,
    read_value,
    tombstone,
    transaction_key,
    transaction_record,
)
from raftka.versions import NewerFormat
from raftka.wire.rows import ZERO_UUID

HEAD = f"{1000:016x}" + f"{7:04x}" + f"{60_000:08x}"  # producer id, epoch, time-out
TIMES = f"{9:016x}" + f"{8:016x}"  # last update, start
PARTITIONS_0 = f"{1:08x}" + "000174" + f"{2:08x}" + f"{1:08x}" + f"{3:08x}"
PARTITIONS_1 = "02" + "0274" + "03" + f"{1:08x}" + f"{3:08x}" + "00"


def transaction(state: State = State.ONGOING, **fields: int) -> Transaction:
    growing = Growing(NONE)
    if state not in (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        growing.add("t", ZERO_UUID, {3, 1})
    return Transaction(1000, 7, 60_000, state, growing.partitions(), 8, 9, **fields)


def written(its: Transaction) -> str:
    value = transaction_record("x", its).value
    assert value is not None
    return value.hex()


def test_the_bytes_are_kafkas() -> None:
    """As Kafka 4.3 defines them, field by field."""
    assert transaction_key("xy").hex() == "0000" + "0002" + b"xy".hex()
    assert tombstone("xy") == (transaction_key("xy"), None)
    assert read_key(transaction_key("xy")) == "xy"
    assert written(transaction()) == "0001" + HEAD + "01" + PARTITIONS_1 + TIMES + "00"
    assert written(transaction(State.EMPTY)) == "0001" + HEAD + "00" + "00" + TIMES + "00"  # null
    # none
    assert written(transaction(State.COMPLETE_ABORT)) == "0001" + HEAD + "05" + "01" + TIMES + "00"
    # 1000 is ours
    tags = "0008" + f"{500:016x}" + "0108" + f"{2000:016x}" + "0202" + "0002" + "e80702" + "0006"
    all_tags = transaction(
        State.PREPARE_COMMIT,
        previous_producer_id=500,
        next_producer_id=2000,
        version=2,
        last_epoch=6,
    )
    assert written(all_tags) == "0001" + HEAD + "02" + PARTITIONS_1 + TIMES + "04" + tags


@pytest.mark.parametrize(
    ("value", "its"),
    [
        ("0000" + HEAD + "01" + PARTITIONS_0 + TIMES, transaction()),
        ("0000" + HEAD + "00" + "ffffffff" + TIMES, transaction(State.EMPTY)),
        ("0000" + HEAD + "04" + "00000000" + TIMES, transaction(State.COMPLETE_COMMIT)),
        ("0001" + HEAD + "03" + PARTITIONS_1 + TIMES + "00", transaction(State.PREPARE_ABORT)),
        (
            "0001" + HEAD + "01" + PARTITIONS_1 + TIMES + "01" + "0202" + "0002",
            transaction(version=2),
        ),
        # the next epoch: Kafka never writes it
        ("0001" + HEAD + "01" + PARTITIONS_1 + TIMES + "01" + "0302" + "0005", transaction()),
        (
            "0001"
            + HEAD
            + "01"
            + PARTITIONS_1
            + TIMES
            + "02"
            + "0403"
            + "616263"
            + "e80702"
            + "0006",
            transaction(last_epoch=6),
        ),
        ("0001" + HEAD + "01" + PARTITIONS_1 + TIMES + "01" + "e90701" + "ff", transaction()),
        # within a topic
        ("0001" + HEAD + "01" + PARTITIONS_1[:-2] + "010501ff" + TIMES + "00", transaction()),
    ],
)
def test_both_versions_are_read_and_tags_of_others_are_skipped(
    value: str, its: Transaction
) -> None:
    assert read_value(bytes.fromhex(value)) == its


@pytest.mark.parametrize("state", State)
def test_what_is_written_is_read(state: State) -> None:
    its = transaction(
        state, previous_producer_id=500, next_producer_id=2**62, version=2, last_epoch=32_766
    )

    assert read_value(bytes.fromhex(written(its))) == its


def test_cut_records_are_refused() -> None:
    for whole in (written(transaction(last_epoch=6)), "0000" + HEAD + "01" + PARTITIONS_0 + TIMES):
        value = bytes.fromhex(whole)
        for size in range(len(value)):
            with pytest.raises(ValueError, match=r"cannot be read|a key or value of . bytes"):
                read_value(value[:size])
    key = transaction_key("xy")
    for size in range(len(key)):
        with pytest.raises(ValueError, match=r"is cut"):
            read_key(key[:size])


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("0002" + HEAD, "version 2"),
        ("0001" + HEAD + "06" + "00" + TIMES + "00", "6 is not a valid State"),
    ],
)
def test_other_versions_and_states_are_refused(value: str, says: str) -> None:
    with pytest.raises((ValueError, NewerFormat), match=says):
        read_value(bytes.fromhex(value))
