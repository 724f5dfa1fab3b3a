"""One reading of all lags in seconds: its bounds, and the order of groups in it."""

from collections.abc import Mapping

import pytest

from raftka.client.blocking.client import Where
from raftka.console.groups import seconds as module
from raftka.console.groups.next_records import ONLY_MARKERS, NextRecord, RecordTimes
from raftka.console.groups.seconds import AllSeconds, Oldest, Place, places_of, read_seconds
from raftka.limits import Limit

A, B, C = ("t", 0), ("t", 1), ("u", 0)
Asked = list[dict[Where, int]]


def read(
    waiting: Mapping[str, list[Place]], asked: Asked, silent: Where | None = None
) -> AllSeconds:
    """Each record is as many milliseconds old as its offset."""

    def ask(places: Mapping[Where, int]) -> dict[Where, NextRecord]:
        asked.append(dict(places))
        return {
            where: NextRecord(offset, offset) for where, offset in places.items() if where != silent
        }

    return read_seconds(waiting.items(), RecordTimes(), ask, lambda: 7.0)


def times(found: AllSeconds) -> dict[str, int | None]:
    return {group_id: each.time_ms for group_id, each in found.of.items()}


def test_a_group_has_the_time_of_its_oldest_record() -> None:
    asked: Asked = []
    found = read({"g": [(A, 9), (B, 4)], "h": [(A, 9)], "done": []}, asked)
    assert found.of == {"g": Oldest(4, 7.0), "h": Oldest(9, 7.0), "done": Oldest(None, 7.0)}
    assert asked == [{A: 9, B: 4}]
    assert found.of["done"].seconds(100.0) == 0.0
    assert found.of["g"].seconds(1.0) == pytest.approx(0.996)


def test_groups_at_different_offsets_of_a_partition_are_asked_one_after_the_other() -> None:
    asked: Asked = []
    assert times(read({"g": [(A, 1)], "h": [(A, 2)], "i": [(A, 3)]}, asked)) == {
        "g": 1,
        "h": 2,
        "i": 3,
    }
    assert sorted(each[A] for each in asked) == [1, 2, 3]


def test_only_markers_of_transactions_are_no_record() -> None:
    answer = {A: NextRecord(None, 9, ONLY_MARKERS), B: NextRecord(3, 3)}
    found = read_seconds(
        [("g", [(A, 2), (B, 3)]), ("h", [(A, 2)])], RecordTimes(), lambda _: answer
    )
    assert times(found) == {"g": 3, "h": None}


def test_a_silent_leader_is_asked_once_and_its_groups_are_not_known() -> None:
    asked: Asked = []
    found = read({"g": [(A, 1), (B, 1)], "h": [(A, 2)], "i": [(C, 5)]}, asked, silent=A)
    assert times(found) == {"i": 5}
    assert sum(A in each for each in asked) == 1
    assert found.tried_s.keys() == {"g", "h", "i"}


def test_one_reading_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS_PARTITIONS", Limit("few", 2, "of the test"))
    monkeypatch.setattr(module, "SECONDS_AT_ONCE", Limit("one", 1, "of the test"))
    asked: Asked = []
    found = read({"g": [(A, 1)], "wide": [(B, 1), (C, 1)], "h": [(C, 3)]}, asked)
    assert times(found) == {"g": 1, "h": 3}
    assert [len(each) for each in asked] == [1, 1]
    assert found.tried_s.keys() == {"g", "h"}, "the others come first in the next reading"


def test_a_reading_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS_READ_SECONDS", Limit("none", 0, "of the test"))
    asked: Asked = []
    assert times(read({"g": [(A, 1)], "done": []}, asked)) == {"done": None}
    assert asked == []


def test_groups_that_were_never_read_come_first() -> None:
    committed = {"a": {A: 1}, "b": {A: 5}, "c": {B: 1}, "none": {}}
    ends = {A: 5}
    assert list(places_of(committed, ends, {"a": 3.0})) == [("b", []), ("a", [(A, 1)])], (
        "the end of B is not known"
    )
