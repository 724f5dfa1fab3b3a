"""Delta tables without Spark: each batch is in the log once, whoever died in between; what was left
over is removed, and nothing else.
"""

import errno
import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")
pytest.importorskip("deltalake", reason="needs raftka[pipeline]")

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from raftka.pipeline.errors import OptionRefused, PipelineError
from raftka.pipeline.lake import files as lake_files
from raftka.pipeline.lake.files import write_files
from raftka.pipeline.lake.options import READ, WRITTEN, Lake, lake_options
from raftka.pipeline.lake.read import plan, read
from raftka.pipeline.lake.table import Attempt, Done, abort, commit, opened, prepare

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


class Query:
    """A query on a lake as Spark runs it: what commit is told was pickled in a task."""

    def __init__(
        self,
        folder: Path,
        schema: Any = SCHEMA,
        partition_by: tuple[str, ...] = (),
        run: str = "run one",
    ) -> None:
        self.folder, self.schema, self.run = folder, schema, run
        self.lake = Lake(str(folder), partition_by=partition_by)

    def write(self, batch: int, *tasks: list[dict[str, Any]], number: int = 0) -> list[Done]:
        own = prepare(self.lake, self.schema)
        attempt = Attempt("query", batch, self.run, number)
        batches = [pa.RecordBatch.from_pylist(rows, schema=self.schema) for rows in tasks]
        done = [
            Done(attempt, write_files(self.lake, self.schema, own, [each], attempt.stem))
            for each in batches
        ]
        return pickle.loads(pickle.dumps(done))  # type: ignore[no-any-return]

    def commit(self, done: list[Done]) -> None:
        commit(self.lake, self.schema, done)

    def both(self, batch: int, *tasks: list[dict[str, Any]]) -> None:
        self.commit(self.write(batch, *tasks))

    def rows(self) -> list[dict[str, Any]]:
        wanted = plan(self.lake)
        return sorted(
            (
                row
                for task in wanted.tasks
                for each in read(self.lake, wanted, task)
                for row in each.to_pylist()
            ),
            key=lambda row: row["id"],
        )

    def ids(self) -> list[int]:
        return [row["id"] for row in self.rows()]

    def files(self) -> int:
        return len(list(self.folder.rglob("*.parquet*")))


def named(*ids: int) -> list[dict[str, Any]]:
    return [{"id": each, "name": f"n{each % 3}"} for each in ids]


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path / "lake")


def test_batches_of_several_tasks_are_there_once_each(query: Query) -> None:
    query.both(0, named(0, 1), named(2))
    query.both(1, named(3), [])

    assert query.ids() == [0, 1, 2, 3]
    assert query.files() == 3
    table = DeltaTable(str(query.folder))
    assert (table.version(), table.transaction_version("query")) == (2, 1)
    assert sorted(pa.table(table.get_add_actions())["num_records"].to_pylist()) == [1, 1, 2]


def test_a_repeated_batch_is_not_added_again_and_leaves_no_files(query: Query) -> None:
    query.both(0, named(0, 1))
    query.both(0, named(0), named(1))

    assert query.ids() == [0, 1]
    assert query.files() == 1


def test_files_of_a_killed_try_are_removed_once_the_batch_is_added(query: Query) -> None:
    query.both(0, named(0))
    query.write(1, named(1), named(2))  # and nobody ever commits it
    other = Query(query.folder, run="of another query")
    write_files(
        other.lake,
        SCHEMA,
        (),
        [pa.RecordBatch.from_pylist(named(9), schema=SCHEMA)],
        "raftka-other-1-",
    )
    again = Query(query.folder, run="run two")
    again.both(1, named(1, 2))

    assert again.ids() == [0, 1, 2]
    assert again.files() == 3  # two batches, and the file of another query


@pytest.mark.parametrize("partition_by", [(), ("name",)])
def test_a_driver_killed_between_its_entry_and_its_tidying_leaves_nothing_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partition_by: tuple[str, ...]
) -> None:
    """A try is killed before its entry in the log; the next one behind it, before it removes what
    the first left; the third finds the batch there.
    """
    query = Query(tmp_path / "lake", partition_by=partition_by)
    query.both(0, named(0))
    query.write(1, named(3))  # and is killed
    second = Query(query.folder, run="run two")
    with monkeypatch.context() as patch:
        patch.setattr("raftka.pipeline.lake.table.remove_tries", lambda *_: None)
        second.both(1, named(3))
    assert query.files() == 3
    third = Query(query.folder, run="run three")
    third.both(1, named(3))

    assert (third.ids(), query.files()) == ([0, 3], 2)


def test_a_batch_that_others_have_compacted_since_loses_no_file(query: Query) -> None:
    """Readers of the version before may still read what the log does not name any more."""
    query.both(0, named(0))
    query.both(1, named(1), named(2))
    DeltaTable(str(query.folder)).optimize.compact()
    again = Query(query.folder, run="run two")
    again.both(1, named(1, 2))

    assert again.ids() == [0, 1, 2]
    assert DeltaTable(str(query.folder), version=2).to_pyarrow_table().num_rows == 3
    assert query.files() == 4


KILLED = """
import os, sys
import pyarrow as pa
from raftka.pipeline.lake.files import _Writing
from raftka.pipeline.lake.options import Lake
schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
writing = _Writing(Lake(sys.argv[1]), schema, (), "raftka-query-1-")
rows = [{"id": at, "name": str(hash(str(at)))} for at in range(500_000)]
writing.add(pa.RecordBatch.from_pylist(rows, schema=schema))
for file in writing._open.values():
    file.write_out()
os.kill(os.getpid(), 9)
"""


def test_half_a_file_and_half_an_entry_of_a_killed_process_are_removed(query: Query) -> None:
    query.both(0, named(0))
    assert (
        subprocess.run(
            [sys.executable, "-c", KILLED, str(query.folder)], check=False, timeout=60
        ).returncode
        == -9
    )
    (half,) = query.folder.glob("*.parquet#1")  # as deltalake names what it has not finished
    log = query.folder / "_delta_log"
    entries = [log / f"{version:020}.json#1" for version in (0, 1, 9)]
    for entry in entries:
        entry.write_text("half of")
    again = Query(query.folder, run="run two")
    again.both(1, named(1))

    assert again.ids() == [0, 1]
    assert not half.exists()
    # the last one may be of a writer that lives
    assert [entry.exists() for entry in entries] == [False, False, True]


def test_a_file_that_the_driver_does_not_see_stops_the_batch(query: Query) -> None:
    query.both(0, named(0))
    gone, short = query.write(1, named(1)), query.write(1, named(2))
    (query.folder / gone[0].files[0].path).unlink()
    path = query.folder / short[0].files[0].path
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        PipelineError,
        match=(
            r"to the lake .*lake, and the driver sees no such file there. Nothing was added. "
            r"Next step: a path that"
        ),
    ):
        query.commit(gone)
    with pytest.raises(PipelineError, match=r"and the driver sees one of \d+ bytes there"):
        query.commit(short)
    assert query.ids() == [0]
    query.both(1, named(3))
    assert query.ids() == [0, 3]
    with pytest.raises(
        PipelineError,
        match=(
            r"there is no folder .*other on .*, where a task is to write to it, and the driver "
            r"has made"
        ),
    ):
        write_files(Lake(str(query.folder / "other")), SCHEMA, (), [], "x")


def test_small_files_are_compacted_every_so_many_batches(query: Query) -> None:
    query.lake = replace(query.lake, compact_every=4)
    for batch in range(10):
        query.both(batch, named(2 * batch), named(2 * batch + 1))
    sizes = [
        len(DeltaTable(str(query.folder), version=version).file_uris()) for version in range(13)
    ]

    assert query.ids() == list(range(20))
    assert sizes == [0, 2, 4, 6, 8, 1, 3, 5, 7, 9, 1, 3, 5]
    assert DeltaTable(str(query.folder)).transaction_version("query") == 9
    again = Query(query.folder, run="run two")
    again.both(9, named(18, 19))
    assert again.ids() == list(range(20))


def test_compaction_sorts_the_partitions_with_new_files(tmp_path: Path) -> None:
    schema = pa.schema(
        [("id", pa.int64()), ("x", pa.int64()), ("y", pa.int64()), ("day", pa.string())]
    )
    query = Query(tmp_path / "lake", schema, partition_by=("day",))
    query.lake = replace(query.lake, compact_every=2, z_order_by=("x", "y"))
    rows: list[dict[str, Any]] = [
        {"id": at, "x": at * 7 % 16, "y": at * 5 % 16, "day": day}
        for at, day in enumerate(["a", "b", "a", "b", "a", None, "a", None])
    ]
    for batch in range(3):
        query.both(
            batch,
            [
                {**row, "id": row["id"] + 10 * batch}
                for row in rows
                if batch < 2 or row["day"] == "b"
            ],
        )
    table = DeltaTable(str(query.folder))
    told = [entry["operation"] for entry in table.history()]
    files = {
        each["partition.day"]: each["num_records"]
        for each in pa.table(table.get_add_actions(flatten=True)).to_pylist()
    }

    assert told.count("OPTIMIZE") == 3  # of the partitions a, b and null, before the last batch
    assert query.ids() == sorted(
        [
            row["id"] + 10 * batch
            for row in rows
            for batch in range(3)
            if batch < 2 or row["day"] == "b"
        ]
    )
    assert files["a"] == 8
    query.both(3, [{"id": 100, "x": 1, "y": 1, "day": "b"}])
    query.both(4, [{"id": 101, "x": 1, "y": 1, "day": "b"}])
    # of b alone
    assert [entry["operation"] for entry in DeltaTable(str(query.folder)).history()].count(
        "OPTIMIZE"
    ) == 4


@pytest.mark.parametrize("column", ["nothing", "day"])
def test_columns_that_are_not_in_the_files_sort_nothing(tmp_path: Path, column: str) -> None:
    lake = Lake(str(tmp_path / "lake"), partition_by=("day",), z_order_by=(column,))

    with pytest.raises(OptionRefused, match=f"zOrderBy names {column}"):
        prepare(lake, pa.schema([("id", pa.int64()), ("day", pa.string())]))


def test_a_compaction_that_fails_harms_no_batch(
    query: Query, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    query.lake = replace(query.lake, compact_every=1)
    query.both(0, named(0))
    monkeypatch.setattr(
        "deltalake.table.TableOptimizer.compact",
        lambda *_, **__: (_ for _ in ()).throw(OSError("no space left")),
    )
    query.both(1, named(1))

    assert query.ids() == [0, 1]
    assert "could not be compacted: no space left" in caplog.text


def test_compaction_can_be_left_to_others(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftka.pipeline.lake.table.compact", lambda *_: pytest.fail("compacted"))
    query.lake = replace(query.lake, compact_every=0)
    for batch in range(3):
        query.both(batch, named(batch))

    assert query.ids() == [0, 1, 2]


def test_files_of_a_retried_task_are_removed(query: Query) -> None:
    query.both(0, named(0))
    query.write(1, named(1))
    query.commit(query.write(1, named(1), number=1))

    assert (query.ids(), query.files()) == ([0, 1], 2)


def test_a_run_under_way_does_not_look_for_leftovers(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.both(0, named(0))
    monkeypatch.setattr(
        "raftka.pipeline.lake.upkeep.names_in",
        lambda *_: pytest.fail("a list of all files for every batch"),
    )
    query.both(1, named(1))

    assert query.ids() == [0, 1]


def test_files_of_ended_tasks_go_when_another_failed(query: Query) -> None:
    done = query.write(0, named(0), named(1))
    abort(query.lake, [*done, None])

    assert query.files() == 0


def test_when_all_tasks_ended_an_abort_touches_nothing(query: Query) -> None:
    """Commit itself has failed, or its answer was lost: the log may have them."""
    done = query.write(0, named(0))
    query.commit(done)
    abort(query.lake, done)

    assert query.ids() == [0]


def test_of_two_drivers_one_adds_the_batch(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one is between its look at the log and its entry."""
    query.both(0, named(0))
    mine, theirs = query.write(1, named(1)), query.write(1, named(1))
    stale = opened(query.lake)
    query.commit(theirs)
    tables = [stale]
    monkeypatch.setattr(
        "raftka.pipeline.lake.table.opened",
        lambda lake, version=None: tables.pop() if tables else opened(lake, version),
    )
    query.commit(mine)

    assert query.ids() == [0, 1]
    assert not tables


def test_others_may_add_to_the_table_at_the_same_time(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = query.write(0, named(0))
    tables = [opened(query.lake)]
    write_deltalake(str(query.folder), pa.table({"id": [7], "name": ["theirs"]}), mode="append")
    monkeypatch.setattr(
        "raftka.pipeline.lake.table.opened",
        lambda lake, version=None: tables.pop() if tables else opened(lake, version),
    )
    query.commit(done)

    assert query.ids() == [0, 7]


def test_a_checkpoint_older_than_the_lake_is_reported(query: Query) -> None:
    query.both(0, named(0))
    query.both(1, named(1))

    with pytest.raises(
        PipelineError,
        match=r"has batch 1 of this query, whose checkpoint is at batch 0.*newest checkpoint",
    ):
        query.both(0, named(5))
    assert query.ids() == [0, 1]


def test_a_column_that_is_added_is_null_before(query: Query) -> None:
    query.both(0, named(0))
    wider = Query(query.folder, SCHEMA.append(pa.field("speed", pa.float64())))
    wider.both(1, [{"id": 1, "name": "a", "speed": 1.5}])
    query.both(2, named(2))  # and who does not know of it goes on

    assert [row["speed"] for row in query.rows()] == [None, 1.5, None]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (
            pa.schema([("id", pa.string()), ("name", pa.string())]),
            "column id is long in the lake .*, and string in this query. Nothing was written. Next",
        ),
        (
            pa.schema([("id", pa.int64()), ("Name", pa.string())]),
            "column Name is spelt name in the lake",
        ),
        (SCHEMA.append(pa.field("none", pa.null())), "column none has no type"),
    ],
)
def test_a_column_that_does_not_fit_is_reported_before_a_row_is_written(
    query: Query, schema: Any, why: str
) -> None:
    query.both(0, named(0))

    with pytest.raises(PipelineError, match=why):
        prepare(query.lake, schema)
    assert query.files() == 1


KINDS: Mapping[str, Any] = {
    "bool": (pa.bool_(), True),
    "day": (pa.date32(), date(2026, 2, 3)),
    "number": (pa.int32(), -7),
    "text": (pa.string(), "a/../b=% ?#é"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_partitions(tmp_path: Path, kind: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", KINDS[kind][0])])
    query = Query(tmp_path / "in" / "lake", schema, ("p",))
    rows = [{"id": 0, "p": KINDS[kind][1]}, {"id": 1, "p": None}, {"id": 2, "p": KINDS[kind][1]}]
    query.both(0, rows)

    assert query.rows() == rows
    assert query.files() == 2
    assert len(list(tmp_path.rglob("*.parquet"))) == 2  # none beside the lake
    assert (
        sorted(
            DeltaTable(str(query.folder)).to_pyarrow_table().to_pylist(), key=lambda row: row["id"]
        )
        == rows
    )
    query.write(1, rows)
    replace_run = Query(query.folder, schema, run="run two")
    replace_run.both(1, [{**row, "id": row["id"] + 10} for row in rows])
    assert query.files() == 4  # what the killed try left in its partitions is gone


def test_two_partition_columns(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.string()), ("id", pa.int64()), ("b", pa.int32())])
    query = Query(tmp_path / "lake", schema, ("b", "a"))
    rows = [{"id": at, "a": f"a{at % 2}", "b": at % 3} for at in range(60)]
    query.both(0, rows)

    assert [{name: row[name] for name in ("id", "a", "b")} for row in query.rows()] == rows
    assert query.files() == 6


def test_types(tmp_path: Path) -> None:
    struct = pa.struct([("x", pa.int16()), ("y", pa.list_(pa.binary()))])
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("ts", pa.timestamp("us", "UTC")),
            ("local", pa.timestamp("us")),
            ("money", pa.decimal128(10, 2)),
            ("s", struct),
            ("m", pa.map_(pa.string(), pa.float32())),
        ]
    )
    row = {
        "id": 0,
        "ts": datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
        "local": datetime(2026, 1, 2),
        "money": Decimal("1.25"),
        "s": {"x": 1, "y": [b"z"]},
    }
    query = Query(tmp_path / "lake", schema)
    query.both(0, [{**row, "m": [("k", 0.5)]}])

    assert query.rows() == [{**row, "m": [("k", 0.5)]}]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "where is the lake"),
        ({"path": "x", "partitionsBy": "a"}, "no option partitionsby: is it partitionBy"),
        ({"path": "x", "txnAppId": "a"}, "go together"),
        ({"path": "x", "txnAppId": "a", "txnVersion": "b"}, "'b': it is to be a whole number"),
    ],
)
def test_options_that_are_refused(given: dict[str, str], why: str) -> None:
    with pytest.raises(OptionRefused, match=why):
        lake_options(given, known=WRITTEN)


def test_a_stream_is_numbered_by_its_checkpoint_alone() -> None:
    with pytest.raises(OptionRefused, match="a stream's batches are numbered by its checkpoint"):
        lake_options(
            {"path": "x", "txnAppId": "a", "txnVersion": "1"}, known=WRITTEN, streaming=True
        )


def test_where_lakes_may_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    urls = [
        lake_options({"path": path}, known=READ).url
        for path in ("a/b", "file:/x y", "file:///x", "s3://bucket/x", "abfss://c@a/x")
    ]
    storage = lake_options(
        {"path": "s3://b/x", "storage.AWS_REGION": "eu", "Storage.timeout": "9s"}, known=READ
    ).storage

    assert urls == [f"{tmp_path}/a/b", "/x y", "/x", "s3://bucket/x", "abfss://c@a/x"]
    assert storage == {"aws_region": "eu", "timeout": "9s"}


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("nobody",), "names nobody, which is no column"),
        (("id", "name"), "all columns"),
        (("id",), "is partitioned by nothing, not by id"),
    ],
)
def test_partition_columns_that_can_not_be(query: Query, names: tuple[str, ...], why: str) -> None:
    query.both(0, named(0))

    with pytest.raises(OptionRefused, match=why):
        prepare(replace(query.lake, partition_by=names), SCHEMA)


def test_a_partition_column_has_a_simple_type(tmp_path: Path) -> None:
    with pytest.raises(OptionRefused, match="of type double; it is to be one of string"):
        prepare(
            Lake(str(tmp_path / "lake"), partition_by=("x",)),
            pa.schema([("id", pa.int64()), ("x", pa.float64())]),
        )


def test_many_rows_are_written_out_and_large_files_ended(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_files, "BUFFERED_BYTES", 1000)
    monkeypatch.setattr(lake_files, "FILE_BYTES", 1000)
    batches = [
        pa.RecordBatch.from_pylist(named(*range(at, at + 50)), schema=SCHEMA)
        for at in range(0, 1000, 50)
    ]
    prepare(query.lake, SCHEMA)
    files = write_files(query.lake, SCHEMA, (), batches, "raftka-")
    query.commit([Done(Attempt(), files)])

    assert len(files) > 2
    assert sum(each.records for each in files) == 1000
    assert [each.size for each in files] == [
        (query.folder / each.path).stat().st_size for each in files
    ]
    assert query.ids() == list(range(1000))


def test_no_more_than_so_many_files_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_files, "OPEN_FILES", 3)
    query = Query(tmp_path / "lake", pa.schema([("id", pa.int64()), ("p", pa.int64())]), ("p",))
    query.both(0, [{"id": at, "p": at % 10} for at in range(100)])

    assert query.ids() == list(range(100))


class Full:
    """A disk that is full after so many files."""

    def __init__(self, root: Any, left: int) -> None:
        self.root, self.left = root, left

    def __getattr__(self, name: str) -> Any:
        return getattr(self.root, name)

    def open_output_stream(self, path: str) -> Any:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.root.open_output_stream(path)


def test_a_full_disk_is_reported_and_what_was_begun_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(tmp_path / "lake", pa.schema([("id", pa.int64()), ("p", pa.int64())]), ("p",))
    query.both(0, [{"id": 0, "p": 0}])
    monkeypatch.setattr(lake_files, "OPEN_FILES", 1)  # so some are whole before
    full = Full(lake_files.files_of(query.lake), 2)
    monkeypatch.setattr(lake_files, "files_of", lambda lake: full)

    with pytest.raises(
        PipelineError,
        match=(
            r"no space left for the lake .*lake. Nothing of this batch counts.*Next step: make "
            r"room"
        ),
    ):
        query.write(1, [{"id": at, "p": at} for at in range(5)])
    assert query.ids() == [0]
    assert query.files() == 1


def test_a_folder_without_a_table_is_reported(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="there is no Delta table at /nowhere"):
        plan(Lake("/nowhere"))
    with pytest.raises(PipelineError, match="the lake nothing://x"):
        prepare(Lake("nothing://x"), SCHEMA)


def test_an_earlier_version_is_read(query: Query) -> None:
    query.both(0, named(0))
    query.both(1, named(1))
    early = replace(query.lake, version=1)
    wanted = plan(early, size=1)

    assert (wanted.version, len(wanted.tasks)) == (1, 1)
    assert len(plan(query.lake, size=1).tasks) == 2
