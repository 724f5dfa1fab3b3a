"""A query on a lake whose rows change by key, as Spark runs it."""

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa

from raftka.pipeline.connect.options import Keyed
from raftka.pipeline.lake import upsert
from raftka.pipeline.lake.options import Lake
from raftka.pipeline.lake.read import plan, read
from raftka.pipeline.lake.table import Attempt, Done

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("gone", pa.bool_()),
    ]
)
KEYED = Keyed(("id",), None, "gone")


class Query:
    """A query on a lake as Spark runs it: what commit is told was pickled in a task."""

    def __init__(
        self,
        folder: Path,
        keyed: Keyed = KEYED,
        schema: Any = SCHEMA,
        name: str | None = "query",
        **options: Any,
    ) -> None:
        self.folder, self.schema, self.name = folder, schema, name
        self.lake = Lake(str(folder), keyed=keyed, **options)

    def write(self, batch: int, *tasks: list[dict[str, Any]]) -> list[Done]:
        upsert.prepare(self.lake, self.schema)
        batches = [pa.RecordBatch.from_pylist(rows, schema=self.schema) for rows in tasks]
        done = [
            upsert.stage(self.lake, self.schema, [each], Attempt(self.name, batch, "run"))
            for each in batches
        ]
        return pickle.loads(pickle.dumps(done))  # type: ignore[no-any-return]

    def commit(self, done: list[Done]) -> None:
        upsert.commit(self.lake, self.schema, done)

    def both(self, batch: int, *tasks: list[dict[str, Any]]) -> None:
        self.commit(self.write(batch, *tasks))

    def rows(self) -> list[dict[str, Any]]:
        wanted = plan(Lake(str(self.folder)))
        found = [
            row
            for task in wanted.tasks
            for each in read(self.lake, wanted, task)
            for row in each.to_pylist()
        ]
        return sorted(found, key=lambda row: row["id"])

    def names(self) -> dict[int, str]:
        rows = self.rows()
        assert len({row["id"] for row in rows}) == len(rows), rows
        return {row["id"]: row["name"] for row in rows}

    def staged(self) -> list[Path]:
        return list((self.folder / upsert.STAGE).rglob("*.parquet*"))


def change(
    key: int | None, name: str, offset: int, partition: int = 0, **more: Any
) -> dict[str, Any]:
    return {
        "id": key,
        "name": name,
        "_partition": partition,
        "_offset": offset,
        "gone": None,
        **more,
    }
