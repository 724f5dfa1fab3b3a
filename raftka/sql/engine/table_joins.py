"""Joins with tables as frames of Spark: rows of both sides meet by their key in one task, which
keeps the newest rows of tables.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from raftka.pipeline.errors import PipelineError
from raftka.sql.catalog import Stream
from raftka.sql.engine.frames import spark_type
from raftka.sql.engine.table_state import (
    KEY,
    NAMES,
    NUMBER,
    TableState,
    changed_rows,
    lookup_rows,
)
from raftka.sql.language.changes import CHANGE, CHANGED_AT, CHANGED_KEY, IS_PRESENT
from raftka.sql.language.table_joins import SIDE, Shape, TableJoin, with_sides
from raftka.sql.language.types import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

FOLDER, COMMITS = "raftka-tables", "commits"  # in a checkpoint; the second one is Spark's
CHANGED = StructType().add(IS_PRESENT, "boolean").add(CHANGED_KEY, "string").add(CHANGED_AT, "long")
Task = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


class Names(Protocol):
    """Streams and tables of a query."""

    def rows(self, name: str) -> DataFrame:
        """Return the rows of a stream or a topic."""
        ...

    def changes(self, name: str, *, at_once: bool) -> DataFrame:
        """Return the changes of a table, with the columns of CHANGE. `at_once`: a batch has all
        that are there.
        """
        ...

    def table(self, name: str) -> Stream: ...


def joined_frame(
    spark: "SparkSession", join: TableJoin, names: Names, checkpoint: Path | None
) -> DataFrame:
    """Return the rows of a join: a column for each side; of tables also those of CHANGE.

    `checkpoint`: of the query; None: it does not run. Raise PipelineError when the rows that were
    kept are lost.
    """
    path = Path() if checkpoint is None else _file(checkpoint, join.view)
    if join.shape is Shape.LOOKUP:
        return _lookup(spark, join, names, path, checkpoint)
    left, right = names.table(join.left), names.table(join.right)
    both = _changes(spark, join, names, left, 0).unionByName(
        _changes(spark, join, names, right, 1), allowMissingColumns=True
    )
    is_foreign = join.shape is Shape.FOREIGN
    count = 1 if is_foreign else _tasks(spark)
    task = partial(changed_rows, path, join.kind, is_foreign)
    sides = [both.schema[f"{SIDE}{number}"] for number in (0, 1)]
    found = _in_tasks(both, count, task, StructType([*CHANGED, *sides]))
    if left.key is not None and left.key.kind == "binary":
        found = found.withColumn(CHANGED_KEY, f.unhex(CHANGED_KEY))
    return found


def _lookup(
    spark: "SparkSession", join: TableJoin, names: Names, path: Path, checkpoint: Path | None
) -> DataFrame:
    number = len(join.names) - 1
    if join.below is None:
        left = names.rows(join.left).select(f.struct("*").alias(f"{SIDE}0"))
    else:
        left = joined_frame(spark, join.below, names, checkpoint)
    sides = [f"{SIDE}{each}" for each in range(number)]
    table = names.table(join.right)
    left = _with_expression(spark, join, left, sides, table)
    left = left.withColumns({NUMBER: f.lit(-1), CHANGED_AT: f.lit(None).cast("bigint")})
    if join.kind == "INNER":
        left = left.where(f.col(KEY).isNotNull())
    # Spark asks for the ends of its sources in this order: a row of the table that was there
    # before a row of the stream is read with it, or before it
    both = left.unionByName(_changes(spark, join, names, table, number), allowMissingColumns=True)
    shown = StructType([both.schema[each] for each in (*sides, f"{SIDE}{number}")])
    return _in_tasks(both, _tasks(spark), partial(lookup_rows, path, join.kind, number), shown)


def _with_expression(
    spark: "SparkSession", join: TableJoin, left: DataFrame, sides: list[str], table: Stream
) -> DataFrame:
    """Return the left side with the key of the table that its rows name."""
    view = f"{join.view}_left"
    left.createOrReplaceTempView(view)
    columns = ", ".join(f"{view}.{each}" for each in sides)
    found = spark.sql(
        f"SELECT {columns}, {join.expression} AS {KEY} FROM {with_sides(view, join.names[:-1])}"
    )
    return found.withColumn(KEY, key_text(f.col(KEY), table))


def key_text(value: Column, table: Stream) -> Column:
    """Return the text of a key of a table: the same for all forms of it."""
    assert table.key is not None, "it is joined by its key"
    typed = value.try_cast(spark_type(table.key))
    return f.hex(typed) if table.key.kind == "binary" else typed.cast("string")


def _changes(
    spark: "SparkSession", join: TableJoin, names: Names, table: Stream, number: int
) -> DataFrame:
    """Return the changes of a table as rows of its side."""
    found = names.changes(table.name, at_once=join.shape is Shape.LOOKUP)
    assert table.key is not None, "it is joined by its key"
    columns = [each for each in found.columns if each not in CHANGE]
    row = f.when(f.col(IS_PRESENT), f.struct(*(f.col(quoted(each)) for each in columns)))
    rows = found.select(
        row.alias(f"{SIDE}{number}"),
        key_text(f.col(quoted(table.key.name)), table).alias(KEY),
        CHANGED_AT,
    ).where(f.col(KEY).isNotNull())
    rows = rows.withColumn(NUMBER, f.lit(number))
    if number == 0 and join.shape is Shape.FOREIGN:
        rows.createOrReplaceTempView(f"{join.view}_left")
        right = names.table(join.right)
        text = f"SELECT {join.view}_left.*, {join.expression} AS {NAMES} FROM "
        rows = spark.sql(text + with_sides(f"{join.view}_left", join.names[:1]))
        return rows.withColumn(NAMES, key_text(f.col(NAMES), right))
    return rows.withColumn(NAMES, f.lit(None).cast("string"))


def _in_tasks(rows: DataFrame, count: int, task: Task, shown: StructType) -> DataFrame:
    return rows.repartition(count, KEY).mapInArrow(task, shown)


def _tasks(spark: "SparkSession") -> int:
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def _file(checkpoint: Path, view: str) -> Path:
    """Return the file of a join's rows; make it for a query that has done no batch yet."""
    path = checkpoint / FOLDER / f"{view}.sqlite"
    commits = checkpoint / COMMITS
    if not path.exists():
        if commits.is_dir() and any(commits.iterdir()):
            raise PipelineError(
                f"{path} is lost, and with it the rows of a table that is joined. Next step: "
                "TERMINATE the query, and create it anew"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        with TableState(path):
            pass
    return path
