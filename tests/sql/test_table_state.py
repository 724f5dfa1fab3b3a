"""Newest rows of joined tables beside a checkpoint: changes before rows, batches that are done
again, deleted rows; and planted bugs that these rules find. Without Spark.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="raftka[pipeline] is not installed")

import pyarrow as pa

from raftka.sql.engine import table_state
from raftka.sql.engine.table_state import TableState, changed_rows, lookup_rows

ROW = pa.struct([("v", pa.int64())])
SIDES = pa.schema(
    [
        ("_side_0", ROW),
        ("_side_1", ROW),
        ("_number", pa.int32()),
        ("_key", pa.string()),
        ("_names", pa.string()),
        ("_changed_at", pa.int64()),
    ]
)
Change = tuple[int, str | None, int | None, int]  # side, key, v (None: deleted), offset


def batch(*changes: Change, names: str | None = None) -> Any:
    """Return changes as Spark hands them to a task. A side of -1 is a row of a stream."""
    return pa.RecordBatch.from_pylist(
        [
            {
                "_side_0": {"v": v} if side < 1 and v is not None else None,
                "_side_1": {"v": v} if side == 1 and v is not None else None,
                "_number": side,
                "_key": key,
                "_names": names if side == 0 and v is not None else None,
                "_changed_at": offset,
            }
            for side, key, v, offset in changes
        ],
        SIDES,
    )


def looked_up(path: Path, *batches: Any, kind: str = "LEFT") -> list[Any]:
    found = pa.Table.from_batches(
        list(lookup_rows(path, kind, 1, batches)),
        pa.schema([SIDES.field("_side_0"), SIDES.field("_side_1")]),
    )
    return [
        (row["_side_0"]["v"], None if row["_side_1"] is None else row["_side_1"]["v"])
        for row in found.to_pylist()
    ]


def changed(path: Path, *batches: Any, kind: str = "INNER", is_foreign: bool = False) -> Any:
    """Return the values of each row that may have changed, by key; None: it is none."""
    return {
        row["_changed_key"]: tuple(
            None if row[side] is None else row[side]["v"] for side in ("_side_0", "_side_1")
        )
        if row["_is_present"]
        else None
        for made in changed_rows(path, kind, is_foreign, batches)
        for row in made.to_pylist()
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.sqlite"


def changes_count_before_the_first_row(path: Path) -> None:
    rows = batch((-1, "a", 10, 0), (-1, "b", 20, 0), (-1, None, 30, 0))
    assert looked_up(path, rows, batch((1, "a", 1, 0), (1, "a", 2, 1))) == [
        (10, 2),
        (20, None),
        (30, None),
    ]
    assert looked_up(path, rows, kind="INNER") == [(10, 2)]


def a_batch_that_is_done_again_is_the_same(path: Path) -> None:
    assert looked_up(path, batch((1, "a", 1, 5), (1, "b", 2, 6))) == []
    again = batch((1, "a", 3, 7), (1, "b", None, 8), (1, "c", 4, 9), (1, "c", None, 10))
    for _ in range(3):
        assert looked_up(path, again, batch((-1, "a", 0, 0), (-1, "b", 0, 0), (-1, "c", 0, 0))) == [
            (0, 3),
            (0, None),
            (0, None),
        ]


def older_changes_change_nothing(path: Path) -> None:
    """Tasks get the records of several reads in any order."""
    rows = batch((-1, "a", 0, 0), (-1, "b", 0, 0))
    late = batch((1, "a", 9, 4), (1, "b", None, 3)), batch((1, "a", 1, 1), (1, "b", 2, 2))
    assert looked_up(path, *late, rows) == [(0, 9), (0, None)]


def both_sides_change_a_row(path: Path) -> None:
    assert changed(path, batch((0, "a", 1, 0), (0, "b", 2, 1), (1, "a", 3, 0))) == {
        "a": (1, 3),
        "b": None,
    }
    assert changed(path, batch((1, "b", 4, 1))) == {"b": (2, 4)}
    for _ in range(2):
        assert changed(path, batch((1, "a", None, 2), (0, "b", None, 3))) == {"a": None, "b": None}
    assert changed(path, batch((1, "a", None, 2)), kind="LEFT") == {"a": (1, None)}
    for kind in ("FULL", "RIGHT"):
        assert changed(path, batch((0, "b", None, 3)), kind=kind) == {"b": (None, 4)}
    assert changed(path, batch((1, "a", None, 2)), kind="RIGHT") == {"a": None}


def rows_follow_the_row_that_they_name(path: Path) -> None:
    name = partial(changed, path, is_foreign=True)
    first = batch((0, "1", 10, 0), (0, "2", 20, 1), names="x"), batch((1, "x", 5, 0))
    for _ in range(2):
        assert name(*first) == {"1": (10, 5), "2": (20, 5)}
    assert name(batch((1, "x", 6, 1))) == {"1": (10, 6), "2": (20, 6)}
    moved = batch((0, "2", 20, 2), names="y"), batch((1, "x", 7, 2))
    for _ in range(2):
        assert name(*moved) == {"1": (10, 7), "2": None}
    assert name(batch((1, "x", None, 3)), kind="LEFT") == {"1": (10, None)}
    assert name(batch((0, "1", None, 4))) == {"1": None}


def test_changes_of_a_batch_count_before_its_first_row(path: Path) -> None:
    changes_count_before_the_first_row(path)


def test_a_batch_that_is_done_again_is_the_same(path: Path) -> None:
    a_batch_that_is_done_again_is_the_same(path)


def test_older_changes_change_nothing(path: Path) -> None:
    older_changes_change_nothing(path)


def test_both_sides_change_a_row(path: Path) -> None:
    both_sides_change_a_row(path)


def test_rows_follow_the_row_that_they_name(path: Path) -> None:
    rows_follow_the_row_that_they_name(path)


def test_deleted_rows_take_no_place(path: Path) -> None:
    assert looked_up(path, batch(*((1, str(key), key, key) for key in range(100)))) == []
    deleted = batch(*((1, str(key), None, 100 + key) for key in range(100)))
    assert looked_up(path, deleted) == []
    with TableState(path) as state:
        assert list(state._database.execute("SELECT count(*) FROM rows")) == [(0,)]


def test_each_key_of_many_is_found_without_a_scan(path: Path) -> None:
    count = 20_000
    changes = [(1, str(key), key, key) for key in range(count)]
    assert looked_up(path, batch(*changes)) == []
    with TableState(path) as state:
        steps = 0

        def count_step() -> None:
            nonlocal steps
            steps += 1

        state._database.set_progress_handler(count_step, 1)
        assert state.find(1, ["7", "19999", "none"]) == {
            "7": ({"v": 7}, None),
            "19999": ({"v": 19999}, None),
            "none": (None, None),
        }
        assert state.naming(1, "7") == []
    assert steps < 500  # of SQLite's machine: a scan has some for each row


# planted bugs


def the_last_change_to_come_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(table_state, "PUT", table_state.PUT.split("WHERE")[0])


def changes_come_after_the_rows(patch: pytest.MonkeyPatch) -> None:
    put, waiting = TableState.put, []
    patch.setattr(TableState, "put", lambda state, *given: waiting.append(given))
    leave = TableState.__exit__

    def put_late(state: TableState, *error: Any) -> None:
        for given in waiting:
            put(state, *given)
        waiting.clear()
        leave(state, *error)

    patch.setattr(TableState, "__exit__", put_late)


def deleted_rows_stay(patch: pytest.MonkeyPatch) -> None:
    put = TableState.put
    patch.setattr(
        TableState,
        "put",
        lambda state, number, found: put(
            state, number, found.filter(found.column(f"_side_{number}").is_valid())
        ),
    )


def deleted_keys_are_forgotten_at_once(patch: pytest.MonkeyPatch) -> None:
    put = TableState.put

    def bug(state: TableState, *given: Any) -> None:
        put(state, *given)
        state.forget_deleted()

    patch.setattr(TableState, "put", bug)


def the_named_row_changes_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TableState, "naming", lambda *_: [])


@pytest.mark.parametrize(
    ("bug", "rule"),
    [
        (the_last_change_to_come_counts, older_changes_change_nothing),
        (changes_come_after_the_rows, changes_count_before_the_first_row),
        (deleted_rows_stay, a_batch_that_is_done_again_is_the_same),
        (deleted_rows_stay, both_sides_change_a_row),
        (deleted_keys_are_forgotten_at_once, older_changes_change_nothing),
        (the_named_row_changes_alone, rows_follow_the_row_that_they_name),
    ],
    ids=lambda each: each.__name__,
)
def test_a_planted_bug_is_found(
    bug: Callable[[pytest.MonkeyPatch], None],
    rule: Callable[[Path], None],
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        rule(path)
