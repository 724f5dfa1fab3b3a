"""Iceberg tables without Spark, in a catalog in SQLite: batches that count once, several writers,
columns that change, what is said of mistakes.
"""

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")
pytest.importorskip(
    "pyiceberg.catalog.sql", reason="needs raftka[iceberg]: ./run setup pipeline installs it"
)

from raftka.pipeline.connect.iceberg import (
    Attempt,
    Done,
    abort,
    commit,
    opened,
    plan,
    prepare,
    read,
    shape,
    write_files,
)
from raftka.pipeline.connect.iceberg_options import Iceberg, iceberg_options
from raftka.pipeline.errors import OptionRefused, PipelineError

pytestmark = pytest.mark.filterwarnings("default")

SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", tz="UTC"))]
)
AT = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)


class Lake:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "warehouse"
        self.to = iceberg_options(
            {
                "table": "shop.orders",
                "catalog.type": "sql",
                "catalog.uri": f"sqlite:///{folder}/catalog.db",
                "catalog.warehouse": str(self.folder),
            }
        )

    def tried(
        self, batch: int, *tasks: list[int], query: str = "q", schema: Any = SCHEMA
    ) -> list[Done]:
        folder = prepare(self.to, schema)
        rows = [[{"id": each, "name": f"n{each}", "at": AT} for each in ids] for ids in tasks]
        batches = [
            [pa.RecordBatch.from_pylist(each, schema=schema)] if each else [] for each in rows
        ]
        return [
            write_files(self.to, schema, folder, each, Attempt(query, batch)) for each in batches
        ]

    def write(self, batch: int, *tasks: list[int], query: str = "q", schema: Any = SCHEMA) -> None:
        commit(self.to, self.tried(batch, *tasks, query=query, schema=schema))

    def rows(self) -> list[dict[str, Any]]:
        schema = shape(self.to)
        found = [
            row
            for task in plan(self.to, schema.names)
            for batch in read(self.to, schema, task)
            for row in batch.to_pylist()
        ]
        return sorted(found, key=lambda row: int(row["id"]))

    def ids(self) -> list[int]:
        return [row["id"] for row in self.rows()]

    def files(self) -> int:
        return len(list(self.folder.rglob("*.parquet")))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def test_a_batch_that_is_done_again_counts_once_and_leaves_no_files(lake: Lake) -> None:
    for _ in range(2):
        lake.write(0, [1, 2], [3], [])
    assert (lake.ids(), lake.files()) == ([1, 2, 3], 2)
    lake.write(1, [])
    lake.write(2, [4])

    assert lake.rows()[3] == {"id": 4, "name": "n4", "at": AT}
    assert [
        (each.summary["raftka.query"], each.summary["raftka.batch"])
        for each in opened(lake.to).snapshots()
    ] == [("q", "0"), ("q", "2")]
    with pytest.raises(
        PipelineError,
        match="has batch 2 of this query, whose checkpoint is at batch 1: the checkpoint is older",
    ):
        lake.write(1, [9])


def test_a_batch_is_known_when_its_snapshot_has_expired(lake: Lake) -> None:
    lake.write(0, [1])
    lake.write(0, [2], query="other")
    table = opened(lake.to)
    table.maintenance.expire_snapshots().by_id(table.snapshots()[0].snapshot_id).commit()
    lake.write(0, [1])

    assert (len(opened(lake.to).snapshots()), lake.ids()) == (1, [1, 2])


def test_of_two_drivers_one_adds_the_batch(lake: Lake) -> None:
    first, second = lake.tried(0, [1]), lake.tried(0, [1])
    commit(lake.to, first)
    commit(lake.to, second)

    assert (lake.ids(), lake.files()) == ([1], 1)


def test_writers_at_the_same_moment_lose_nothing(lake: Lake) -> None:
    lake.write(0, [0], query="first")
    failures: list[BaseException] = []

    def write(query: int) -> None:
        try:
            for batch in range(3):
                lake.write(batch, [100 * query + batch], query=f"q{query}")
        except BaseException as error:
            failures.append(error)

    writers = [threading.Thread(target=write, args=(query,)) for query in (1, 2)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()

    assert failures == []
    assert lake.ids() == [0, *(100 * query + batch for query in (1, 2) for batch in range(3))]


def test_a_failed_batch_leaves_no_files_unless_the_table_may_have_them(lake: Lake) -> None:
    done = lake.tried(0, [1], [2])
    abort(lake.to, done, complete=True)
    assert lake.files() == 2
    abort(lake.to, done, complete=False)
    assert lake.files() == 0

    def rows() -> Any:
        yield pa.RecordBatch.from_pylist([{"id": 1, "name": "a", "at": AT}], schema=SCHEMA)
        raise RuntimeError("the task was ended")

    with pytest.raises(PipelineError, match="the task was ended"):
        write_files(lake.to, SCHEMA, prepare(lake.to, SCHEMA), rows(), Attempt("q", 0))
    assert lake.files() == 0


def test_columns_are_added_and_never_change(lake: Lake) -> None:
    lake.write(0, [1])
    lake.write(1, [2], schema=SCHEMA.append(pa.field("more", pa.float64())))
    lake.write(2, [3], schema=pa.schema([SCHEMA.field("name"), SCHEMA.field("id")]))

    assert [(row["id"], row["name"], row["at"], row["more"]) for row in lake.rows()] == [
        (1, "n1", AT, None),
        (2, "n2", AT, None),
        (3, "n3", None, None),
    ]
    with pytest.raises(
        PipelineError,
        match=(
            r"column id is int64 in the Iceberg table shop\.orders, and string in this query\. "
            r"Nothing was written"
        ),
    ):
        prepare(lake.to, pa.schema([("id", pa.string())]))


def test_a_catalog_that_is_not_there_is_told(tmp_path: Path) -> None:
    to = Iceberg(
        "a.b",
        {"type": "sql", "uri": f"sqlite:///{tmp_path}/none/catalog.db", "warehouse": str(tmp_path)},
    )
    with pytest.raises(PipelineError, match=r"the Iceberg table a\.b: .*unable to open"):
        prepare(to, SCHEMA)
    with pytest.raises(PipelineError, match=r"the Iceberg table a\.b: NoSuch"):
        opened(
            Iceberg(
                "a.b",
                {
                    "type": "sql",
                    "uri": f"sqlite:///{tmp_path}/catalog.db",
                    "warehouse": str(tmp_path),
                },
            )
        )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"table": "orders"}, "is to be namespace.name"),
        ({"catalog.type": None}, "which catalog"),
        ({"catalog.token": "x"}, "the catalog's token is a secret: name an environment variable"),
        ({"catalog.uri": "postgresql://u:p@h/d"}, "the catalog's uri has a password"),
        ({"catalog.s3.secret-access-key": "x"}, "is a secret"),
        ({"secret.type": "X"}, "the catalog's type is given twice"),
        ({"tabel": "x"}, "there is no option tabel: is it table"),
    ],
)
def test_mistakes_are_told(options: dict[str, str | None], said: str) -> None:
    given = {"table": "a.b", "catalog.type": "sql", **options}
    with pytest.raises(OptionRefused, match=said):
        iceberg_options({name: value for name, value in given.items() if value is not None})


def test_secrets_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iceberg_options(
        {"table": "a.b", "catalog.uri": "https://x", "secret.token": "LAKE_TOKEN"}
    )
    monkeypatch.delenv("LAKE_TOKEN", raising=False)
    with pytest.raises(
        OptionRefused,
        match="the catalog's token is to come from the environment variable LAKE_TOKEN",
    ):
        found.properties()
    monkeypatch.setenv("LAKE_TOKEN", "t")
    assert found.properties() == {"uri": "https://x", "token": "t"}
