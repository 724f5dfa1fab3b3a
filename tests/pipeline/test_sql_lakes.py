"""`raftka sql` on lakes reads the files and the columns that a question is about: the others are
destroyed here, and nobody notices.
"""

import io
import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")
import pyarrow as pa
import pyarrow.parquet as pq

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)
pytest.importorskip("deltalake", reason="needs raftka[pipeline]")

from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

from raftka.pipeline.flows.streams import declared
from raftka.pipeline.lake import read as read_module
from raftka.pipeline.lake.options import READ, lake_options
from raftka.pipeline.lake.read import leave_out_files, plan, read
from raftka.pipeline.lake.where import pushed
from raftka.pipeline.sql import FILTERS, Places, run_query

pytestmark = pytest.mark.filterwarnings("default")

DAYS, COLUMNS, ROWS = 20, 20, 1000
FOOTER = 64 << 10  # bytes at the end of a file, which Arrow reads first


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty days of twenty columns of noise, a file a day; a second table of names."""
    folder = tmp_path_factory.mktemp("lakes")
    noise = ", ".join(f"uuid() as c{at}" for at in range(COLUMNS - 2))
    days = spark.sql(
        f"select id, date_add(date'2026-01-01', cast(id div {ROWS} as int)) as day, {noise} from "
        f"range(0, {DAYS * ROWS}, 1, {DAYS})"
    )
    days.write.format("raftka_delta").mode("append").save(str(folder / "days"))
    spark.sql("select id, concat('n', id) as name from range(30)").write.format(
        "raftka_delta"
    ).mode("append").save(str(folder / "names"))
    return folder


Ask = Callable[[str], list[dict[str, Any]]]


def asking(spark: Any, folder: Path) -> Ask:
    places = Places(
        "nowhere:1",
        declared({"outputs": {name: {"delta": name} for name in ("days", "names")}}, folder, {}),
    )
    return lambda query: [dict(row) for row in run_query(spark, query, places, 100_000).rows]


@pytest.fixture
def ask(spark: Any, lake: Path) -> Ask:
    return asking(spark, lake)


def files(lake: Path) -> list[Path]:
    return sorted((lake / "days").glob("*.parquet"))


class Counted(io.RawIOBase):
    """A file whose bytes are counted when they are read."""

    def __init__(self, file: Any, read: list[int]) -> None:
        self._file, self._read = file, read

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, at: int, whence: int = 0) -> int:
        return int(self._file.seek(at, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def read(self, size: int = -1) -> bytes:
        found = bytes(self._file.read(None if size < 0 else size))
        self._read.append(len(found))
        return found


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """Bytes that are read of each file."""
    found: dict[str, list[int]] = {}

    class Handler(DeltaStorageHandler):  # type: ignore[misc]
        def open_input_file(self, path: str) -> Any:
            return pa.PythonFile(
                Counted(super().open_input_file(path), found.setdefault(path, [])), mode="r"
            )

    monkeypatch.setattr(read_module, "files_of", lambda lake: PyFileSystem(Handler(lake.url, None)))
    return found


def test_one_day_of_twenty_is_one_file_and_two_columns_are_their_bytes(
    lake: Path, counted: dict[str, list[int]]
) -> None:
    there = lake_options({"path": str(lake / "days"), "takeFilters": "true"}, known=READ)

    def spent(columns: tuple[str, ...], day: date | None) -> tuple[int, int, int]:
        counted.clear()
        found = plan(there, columns)
        if day is not None:
            condition = pushed("EqualTo", ("day",), day, found.schema)
            assert condition is not None
            found = leave_out_files(there, found, [condition])
        rows = sum(batch.num_rows for task in found.tasks for batch in read(there, found, task))
        return rows, len(counted), sum(map(sum, counted.values()))

    rows, opened, everything = spent((), None)
    assert (rows, opened) == (DAYS * ROWS, DAYS)
    rows, opened, one_day = spent((), date(2026, 1, 7))
    assert (rows, opened) == (ROWS, 1)
    assert one_day < everything / DAYS * 1.1
    rows, opened, two_columns = spent(("id", "c3"), None)
    assert (rows, opened) == (DAYS * ROWS, DAYS)
    assert two_columns < everything * 2 / (COLUMNS - 2) + DAYS * FOOTER
    rows, opened, both = spent(("id", "c3"), date(2026, 1, 7))
    assert (rows, opened) == (ROWS, 1)
    assert both < everything / DAYS * 2 / (COLUMNS - 2) + FOOTER


@pytest.mark.parametrize(
    ("kind", "column", "value", "how"),
    [
        ("EqualTo", ("id",), 7, "="),
        ("LessThan", ("day",), date(2026, 1, 1), "<"),
        ("In", ("c0",), ("a", "b"), "in"),
        ("IsNotNull", ("day",), None, "not null"),
        ("EqualTo", ("id",), 7.5, None),
        ("EqualTo", ("day",), "2026-01-01", None),
        ("EqualTo", ("id",), True, None),
        ("In", ("id",), (1, "b"), None),
        ("EqualTo", ("s", "a"), 7, None),
        ("EqualTo", ("nowhere",), 7, None),
        ("StringContains", ("c0",), "a", None),
        ("EqualTo", ("id",), None, None),
    ],
)
def test_filters_of_spark(kind: str, column: tuple[str, ...], value: Any, how: str | None) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("day", pa.date32()),
            ("c0", pa.string()),
            ("s", pa.struct([("a", pa.int64())])),
        ]
    )

    found = pushed(kind, column, value, schema)

    assert (None if found is None else (found.column, found.how, found.value)) == (
        None if how is None else (column[0], how, value)
    )


def test_answers_are_right_whatever_is_left_out(ask: Ask, spark: Any) -> None:
    assert ask("select count(*) as n from days") == [{"n": DAYS * ROWS}]
    assert ask("select count(*) as n from days where day = date'2026-01-05'") == [{"n": ROWS}]
    assert ask("select count(*) as n from days where day = date'2026-01-05' or id = 0") == [
        {"n": ROWS + 1}
    ]
    both = (
        "select count(*) as n from (select id from days where day = date'2026-01-05' union all "
        "select id from days where day = date'2026-01-06')"
    )
    assert ask(both) == [{"n": 2 * ROWS}]
    named = (
        "select name, day from days join names using (id) where day < date'2026-01-02' and name "
        "= 'n7'"
    )
    assert [row["name"] for row in ask(named)] == ["n7"]
    scalar = (
        "select (select count(*) from days where day = date'2026-01-05') as n, count(*) as m "
        "from days where day = date'2026-01-06'"
    )
    assert ask(scalar) == [{"n": ROWS, "m": ROWS}]
    twice = (
        "with x as (select * from days) select count(*) as n from x where day = "
        "date'2026-01-05' and id in (select id + 1 from x where id = 4500)"
    )
    assert ask(twice) == [{"n": 1}]
    assert ask("select count(*) as n from days where id in (select id from names)") == [{"n": 30}]
    assert len(ask("select * from days where day = date'2026-01-05' limit 3")[0]) == COLUMNS
    assert ask("select id from days where id >= 19998 order by id desc") == [
        {"id": 19999},
        {"id": 19998},
    ]
    assert ask("select count(*) as n from days where day is null") == [{"n": 0}]
    assert spark.conf.get(FILTERS) == "false"


def test_a_day_and_a_column_are_found_when_all_the_rest_is_destroyed(
    spark: Any, lake: Path, tmp_path: Path
) -> None:
    """In a copy, noise is written over the other columns of the day's file, and the files of other
    days are removed.
    """
    copy = shutil.copytree(lake, tmp_path / "copy")
    for path in files(copy):
        group = pq.ParquetFile(path).metadata.row_group(0)
        if group.column(1).statistics.min != date(2026, 1, 5):
            path.unlink()
            continue
        for at in range(group.num_columns):
            column = group.column(at)
            if column.path_in_schema not in ("id", "day"):
                begin = column.dictionary_page_offset or column.data_page_offset
                with path.open("r+b") as file:
                    file.seek(begin)
                    file.write(b"\xff" * column.total_compressed_size)

    ask = asking(spark, copy)
    assert ask("select sum(id) as s from days where day = date'2026-01-05'") == [
        {"s": sum(range(4 * ROWS, 5 * ROWS))}
    ]
    with pytest.raises(Exception, match=r"Parquet|page|deserialize|[Tt]hrift"):
        ask("select max(c3) from days where day = date'2026-01-05'")
    with pytest.raises(Exception, match=r"\.parquet"):
        ask("select sum(id) from days")
