"""The records of __share_group_state: Kafka's bytes, and those that cannot be read."""

import json
from pathlib import Path

import pytest

from raftka.coordinator.machine import Record
from raftka.coordinator.share_state.records import (
    SNAPSHOT_KEY,
    UPDATE_KEY,
    Snapshot,
    read_key,
    read_snapshot,
    read_update,
    snapshot_record,
    tombstone,
    update_record,
)
from raftka.share.state import SharePartitionKey, StateBatch
from raftka.versions import NewerFormat

KEY = SharePartitionKey("g\u00e9", b"t" * 16, 3)
SNAPSHOT = Snapshot(1, 2, 3, 10, 6, 98, 99, [StateBatch(10, 14, 0, 1)])
PATH = Path(__file__).parent / "golden_share_state_records.jsonl"


def golden() -> list[tuple[bytes, bytes | None]]:
    """The records that Apache Kafka 4.4.0 had in the topic after the recorded exchanges."""
    lines = map(json.loads, PATH.read_text().splitlines())
    return [
        (bytes.fromhex(line["key"]), line["value"] and bytes.fromhex(line["value"]))
        for line in lines
    ]


def written_anew(key: bytes, value: bytes | None) -> Record:
    where = read_key(key)
    if value is None:
        return tombstone(where)
    if key[1] == SNAPSHOT_KEY:
        return snapshot_record(where, read_snapshot(value))
    assert key[1] == UPDATE_KEY
    return update_record(where, read_update(value))


def test_kafkas_records_are_read_and_written_byte_for_byte() -> None:
    records = golden()

    assert len(records) > 90
    assert [written_anew(*each) for each in records] == records


def test_a_record_comes_back_as_it_was() -> None:
    key, value = snapshot_record(KEY, SNAPSHOT)
    assert value is not None

    assert (read_key(key), read_snapshot(value)) == (KEY, SNAPSHOT)


def test_a_newer_version_is_refused() -> None:
    _, value = snapshot_record(KEY, SNAPSHOT)
    assert value is not None

    with pytest.raises(NewerFormat, match="version 1 of states of share partitions"):
        read_snapshot(b"\0\1" + value[2:])


@pytest.mark.parametrize("cut", [0, 1, 3, 10, 23])
def test_a_key_that_is_cut_is_an_error(cut: int) -> None:
    with pytest.raises(ValueError, match="share partition is cut"):
        read_key(tombstone(KEY).key[:cut])


@pytest.mark.parametrize("cut", [1, 2, 20, 45, 60])
def test_a_value_that_is_cut_is_an_error(cut: int) -> None:
    _, value = snapshot_record(KEY, SNAPSHOT)
    assert value is not None

    with pytest.raises(ValueError, match=r"cannot be read|bytes"):
        read_snapshot(value[:cut])


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (KEY.coordinator_key(), KEY),
        ("a:b:" + "A" * 22 + ":-1", SharePartitionKey("a:b", bytes(16), -1)),
        ("g:" + "A" * 22, None),
        ("g:!!:0", None),
        ("g:" + "A" * 22 + ":x", None),
        ("", None),
        (":" + "A" * 22 + ":0", None),
        ("g:" + "A" * 23 + ":0", None),
    ],
)
def test_the_key_of_find_coordinator(text: str, key: SharePartitionKey | None) -> None:
    assert SharePartitionKey.parse(text) == key
