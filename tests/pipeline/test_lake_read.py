"""Files of a lake that a read needs, by the log's words on each: statistics, partitions, columns.
No Spark.
"""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")
pytest.importorskip("deltalake", reason="needs raftka[pipeline]")

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from raftka.pipeline.errors import OptionRefused, PipelineError
from raftka.pipeline.lake.files import write_files
from raftka.pipeline.lake.options import READ, Lake, lake_options
from raftka.pipeline.lake.read import plan, read, shape
from raftka.pipeline.lake.table import Attempt, Done, commit, prepare
from raftka.pipeline.lake.where import Condition

NOON = datetime(2026, 1, 2, 12, 0, 0, 123456, UTC)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("good", pa.bool_()),
        ("speed", pa.float64()),
        ("money", pa.decimal128(10, 2)),
        ("raw", pa.binary()),
        ("many", pa.list_(pa.int64())),
        ("group", pa.struct([("x", pa.int64())])),
    ]
)


def row(number: int, **given: Any) -> dict[str, Any]:
    plain = {
        "id": number,
        "name": f"n{number:03}",
        "at": NOON + timedelta(days=number),
        "local": datetime(2026, 1, 1) + timedelta(days=number),
        "day": date(2026, 1, 1) + timedelta(days=number),
        "good": number % 2 == 0,
        "speed": number / 2,
        "money": Decimal(number) + Decimal("0.25"),
        "raw": b"%d" % number,
        "many": [number],
        "group": {"x": number},
    }
    return {**plain, **given}


class Table:
    """A lake with a file for each list of rows."""

    def __init__(
        self, folder: Path, *files: list[dict[str, Any]], partition_by: tuple[str, ...] = ()
    ) -> None:
        self.lake = Lake(str(folder), partition_by=partition_by)
        for rows in files:
            self.add(rows)

    def add(self, rows: list[dict[str, Any]]) -> None:
        own = prepare(self.lake, SCHEMA)
        batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
        commit(
            self.lake,
            SCHEMA,
            [Done(Attempt(), write_files(self.lake, SCHEMA, own, [batch], "raftka-"))],
        )

    def read(
        self, *conditions: Condition, columns: tuple[str, ...] = ("id",)
    ) -> tuple[int, list[Any]]:
        """Return the number of files that were read, and the rows."""
        lake = replace(self.lake, where=conditions)
        wanted = plan(lake, columns)
        files = [each for task in wanted.tasks for each in task]
        rows = [
            found
            for task in wanted.tasks
            for batch in read(lake, wanted, task)
            for found in batch.to_pylist()
        ]
        return len(files), sorted(rows, key=str)

    def ids(self, *conditions: Condition) -> tuple[int, list[int]]:
        files, rows = self.read(*conditions)
        return files, sorted(each["id"] for each in rows)

    def stats(self) -> list[dict[str, Any]]:
        return [json.loads(action["add"]["stats"]) for action in self._actions() if "add" in action]

    def _actions(self) -> list[dict[str, Any]]:
        return [
            json.loads(line)
            for path in sorted(Path(self.lake.url, "_delta_log").glob("*.json"))
            for line in path.read_text().splitlines()
        ]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Three files with the rows 0 to 9, 10 to 19, 20 to 29."""
    return Table(
        tmp_path / "lake", *([row(at) for at in range(start, start + 10)] for start in (0, 10, 20))
    )


def test_a_file_has_the_smallest_and_largest_value_of_each_column(table: Table) -> None:
    found = table.stats()[1]

    assert found == {
        "numRecords": 10,
        "minValues": {
            "id": 10,
            "name": "n010",
            "at": "2026-01-12T12:00:00.123Z",
            "local": "2026-01-11T00:00:00.000",
            "day": "2026-01-11",
            "good": False,
            "speed": 5.0,
            "money": 10.25,
        },
        "maxValues": {
            "id": 19,
            "name": "n019",
            "at": "2026-01-21T12:00:00.124Z",
            "local": "2026-01-20T00:00:00.000",
            "day": "2026-01-20",
            "good": True,
            "speed": 9.5,
            "money": 19.25,
        },
        "nullCount": dict.fromkeys(
            ("id", "name", "at", "local", "day", "good", "speed", "money"), 0
        ),
    }


@pytest.mark.parametrize(
    "given",
    [
        {"speed": float("nan")},
        {"speed": float("-inf")},
        {"money": Decimal("12345678.90"), "name": "x" * 70 + "\U0010ffff"},
        {"name": "n" * 64 + "\U0010ffff" * 2},
        {"at": datetime(1, 1, 1, tzinfo=UTC)},
        {"at": datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)},
        {"name": "x" * 10_000},
        {"name": ""},
        dict.fromkeys(SCHEMA.names[1:]),
    ],
    ids=str,
)
def test_bounds_hold_whatever_the_values_are(tmp_path: Path, given: dict[str, Any]) -> None:
    """Read by conditions on each column, with this module and with Arrow's own datasets, which take
    the log at its word.
    """
    odd = row(5, **given)
    table = Table(tmp_path / "lake", [row(4), odd, row(6)])

    dataset = DeltaTable(table.lake.url).to_pyarrow_dataset()
    for name in ("id", "name", "at", "local", "day", "good", "money"):
        for wanted in (row(4), odd, row(6)):
            if wanted[name] is None:
                assert 5 in table.ids(Condition(name, "null"))[1]
                continue
            if name != "money":
                said = wanted[name].isoformat() if isinstance(wanted[name], date) else wanted[name]
                assert wanted["id"] in table.ids(Condition(name, "=", said))[1]
            found = dataset.to_table(
                filter=pc.field(name) == pa.scalar(wanted[name], SCHEMA.field(name).type)
            )
            assert wanted["id"] in found["id"].to_pylist()


def test_a_long_text_has_a_short_bound(tmp_path: Path) -> None:
    table = Table(tmp_path / "lake", [row(1, name="x" * 1000)])
    (found,) = table.stats()

    assert found["minValues"]["name"] == "x" * 64
    assert found["maxValues"]["name"] == "x" * 64 + "\U0010ffff"


@pytest.mark.parametrize(
    ("condition", "files", "ids"),
    [
        (Condition("id", "=", 15), 1, [15]),
        (Condition("id", "<", 10), 1, list(range(10))),
        (Condition("id", "<=", 10), 2, list(range(11))),
        (Condition("id", ">", 19), 1, list(range(20, 30))),
        (Condition("id", ">=", 19), 2, list(range(19, 30))),
        (Condition("id", "in", (1, 25, 99)), 2, [1, 25]),
        (Condition("id", "=", 99), 0, []),
        (Condition("name", "=", "n007"), 1, [7]),
        (Condition("at", "=", (NOON + timedelta(days=19)).isoformat()), 1, [19]),
        # bounds are of ms, and Delta's own reader adds one
        (Condition("at", ">", (NOON + timedelta(days=19)).isoformat()), 2, list(range(20, 30))),
        (Condition("local", "<", "2026-01-03"), 1, [0, 1]),
        (Condition("day", ">=", "2026-01-29"), 1, [28, 29]),
        (Condition("good", "=", True), 3, list(range(0, 30, 2))),
        (Condition("id", "null"), 0, []),
        (Condition("id", "not null"), 3, list(range(30))),
        (Condition("group", "not null"), 3, list(range(30))),
        (Condition("speed", "null"), 0, []),
    ],
    ids=str,
)
def test_files_without_such_rows_are_not_read(
    table: Table, condition: Condition, files: int, ids: list[int]
) -> None:
    assert table.ids(condition) == (files, ids)


@pytest.mark.parametrize(
    ("text", "files", "ids"),
    [
        ("id = 15", 1, [15]),
        ("`id` IN (1,25 , -4)", 2, [1, 25]),
        ("name >= 'n028' and good = true and day is not null", 1, [28]),
        ("day = '2026-01-08' AND name <= 'it''s'", 0, []),
        ("day = '2026-01-08'", 1, [7]),
        ("at <= '2026-01-03 12:00:00.123456' and at > '2026-01-03T00:00:00+00:00'", 1, [1]),
        ("local < '2026-01-02T00:00:00'", 1, [0]),
        ("speed is null", 0, []),
    ],
)
def test_the_option_where_says_which_rows(
    table: Table, text: str, files: int, ids: list[int]
) -> None:
    assert table.ids(*lake_options({"path": "x", "where": text}, known=READ).where) == (files, ids)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "id",
        "id = ",
        "id = 1 or id = 2",
        "id = 1 and",
        "id in ()",
        "id in (1",
        "id = 1.5",
        "day = current_date()",
        "id is 7",
        "1 = id",
        "id = 1;",
    ],
)
def test_conditions_that_are_not_understood_are_refused(text: str) -> None:
    with pytest.raises(OptionRefused, match=r"which is not understood\. There are: COLUMN = VALUE"):
        lake_options({"path": "x", "where": text}, known=READ)


@pytest.mark.parametrize(
    "condition",
    [
        Condition("speed", "=", 1),
        Condition("money", "=", 1),
        Condition("id", "=", "seven"),
        Condition("id", "=", True),
        Condition("good", "in", (1,)),
        Condition("day", "=", "yesterday"),
        Condition("local", "=", "2026-01-01T00:00:00Z"),
        Condition("raw", "=", "x"),
    ],
    ids=str,
)
def test_values_that_a_column_has_not_are_refused(table: Table, condition: Condition) -> None:
    with pytest.raises(
        OptionRefused,
        match=(
            f"where has {condition.column} .*, and {condition.column} is .*: only text, whole "
            "numbers"
        ),
    ):
        table.ids(condition)


def test_all_conditions_are_met(table: Table) -> None:
    assert table.ids(
        Condition("id", ">", 5), Condition("name", "<", "n012"), Condition("good", "=", False)
    ) == (2, [7, 9, 11])


@pytest.mark.parametrize(
    ("condition", "files", "ids"),
    [
        (Condition("day", "=", "2026-01-02"), 1, [1]),
        (Condition("day", ">", "2026-01-02"), 1, [2]),
        (Condition("day", "null"), 1, [7]),
        (Condition("day", "not null"), 3, [0, 1, 2]),
        (Condition("name", "=", "n001"), 1, [1]),
    ],
    ids=str,
)
def test_partitions_without_such_rows_are_not_read(
    tmp_path: Path, condition: Condition, files: int, ids: list[int]
) -> None:
    table = Table(
        tmp_path / "lake", [row(0), row(1), row(2), row(7, day=None)], partition_by=("day",)
    )

    assert table.ids(condition) == (files, ids)


def test_files_without_statistics_are_read(tmp_path: Path) -> None:
    """Those of other writers, and those that were written before there were any."""
    table = Table(tmp_path / "lake", [row(0, speed=float("nan"))])
    table.add([row(1)])
    write_deltalake(table.lake.url, pa.Table.from_pylist([row(2)], schema=SCHEMA), mode="append")

    assert "minValues" not in table.stats()[0]
    for name in ("id", "good", "name"):
        assert [table.ids(Condition(name, "=", row(at)[name]))[1] for at in range(3)] == (
            [[0], [1], [2]] if name != "good" else [[0, 2], [1], [0, 2]]
        )


def test_only_the_wanted_columns_are_read(table: Table) -> None:
    assert table.read(Condition("name", "=", "n011"), columns=("many", "id")) == (
        1,
        [{"many": [11], "id": 11}],
    )
    assert shape(Lake(table.lake.url, columns=("day", "id"))).names == ["day", "id"]
    with pytest.raises(PipelineError, match="has no column nobody: there are id, name"):
        table.read(columns=("nobody",))
