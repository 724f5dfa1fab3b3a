"""The records of streams groups: those that Apache Kafka 4.4.0 wrote are read, and written with the
same bytes; what cannot be read is refused.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from raftka.coordinator.machine import Record
from raftka.coordinator.modern.records import MemberState
from raftka.coordinator.streams.records import (
    CURRENT,
    FORM,
    GROUP,
    KINDS,
    MEMBER,
    TARGET,
    TARGETS,
    TOPOLOGY,
    Current,
    current_record,
    group_record,
    member_record,
    read_key,
    read_value,
    target_record,
    targets_record,
    topology_record,
)
from raftka.coordinator.streams.tasks import Held
from raftka.versions import NewerFormat

LINES = (Path(__file__).parent / "streams_records.jsonl").read_text(encoding="utf-8").splitlines()
RECORDS = [
    Record(bytes.fromhex(line["key"]), line["value"] and bytes.fromhex(line["value"]))
    for line in map(json.loads, LINES)
]


def written(what: int, group_id: str, member_id: str, value: Any) -> Record:
    match what:
        case 17:
            return group_record(group_id, value)
        case 19:
            return member_record(group_id, member_id, value)
        case 20:
            return targets_record(group_id, value)
        case 21:
            return target_record(group_id, member_id, value)
        case 22:
            return current_record(group_id, member_id, value)
        case _:
            return topology_record(group_id, value)


def test_kafkas_records_are_read_and_written_with_the_same_bytes() -> None:
    seen = set()
    for record in RECORDS:
        what, group_id, member_id = read_key(record.key)
        assert FORM.key(what, group_id, member_id) == record.key
        seen.add((what, record.value is None))
        if record.value is not None:
            value = read_value(what, record.value)
            assert written(what, group_id, member_id, value) == record
    assert seen >= {
        (what, gone)
        for what in (GROUP, MEMBER, TARGETS, TARGET, CURRENT, TOPOLOGY)
        for gone in (True, False)
    }


def test_epochs_that_kafka_4_1_did_not_write_are_the_members() -> None:
    value = b"\0\0\0\0\0\4\0\0\0\3\1\2\2\x30\2\0\0\0\1\0\1\1\1\1\1\0"

    assert read_value(CURRENT, value) == Current(
        4, 3, MemberState.STABLE, Held(active={"0": {1: 4}})
    )


def test_a_state_that_is_not_known_is_worked_out_anew() -> None:
    value = b"\0\0\0\0\0\4\0\0\0\3\x7f\1\1\1\1\1\1\0"

    assert read_value(CURRENT, value).state is MemberState.UNRELEASED


@pytest.mark.parametrize(
    "data", [b"\0", b"\0\x11", b"\0\x11\0\2g", b"\0\x11\0\1gx", b"\0\x13\0\1g\0\2m"]
)
def test_keys_that_cannot_be_read(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"is cut|is too long|a key or value of"):
        read_key(data)


@pytest.mark.parametrize("what", sorted(KINDS))
@pytest.mark.parametrize("value", [b"", b"\0\1", b"\0\0"])
def test_values_that_cannot_be_read(what: int, value: bytes) -> None:
    with pytest.raises((ValueError, NewerFormat), match=r"cannot be read|version 1|a key or value"):
        read_value(what, value)
