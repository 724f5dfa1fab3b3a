"""Rows that go from a stream into a lake as they are: whole Arrow batches, each one value of a row.
Spark's Java hands them on without a look, where each row of its own would be taken apart and put
together twice. Tasks, batches and commits are as without.
"""

import json
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

COLUMN = "_raftka_rows"
# how many rows are in the value: who writes them counts by it, and drops it
COUNT = "_raftka_count"
# in the metadata of that column: what the rows look like, as Spark writes schemas
SHAPE = "raftka.rows"
BYTES = 4 << 20  # about, of the rows in one value
# of a query with them: more at a time would wait in Java's memory
ONE_BY_ONE = {"spark.sql.execution.arrow.maxRecordsPerBatch": "1"}


def parceled(rows: StructType, newest: Sequence[str] = ()) -> StructType:
    """The columns of the frame. `newest`: columns of which it has the largest value of each
    parcel.
    """
    return StructType(
        [
            StructField(COLUMN, BinaryType(), True, {SHAPE: rows.json()}),
            StructField(COUNT, LongType()),
            *(rows[name] for name in newest),
        ]
    )


def rows_of(schema: StructType) -> StructType | None:
    """The columns of the rows; None: they are no parcels."""
    metadata = schema[0].metadata if schema.names in ([COLUMN], [COLUMN, COUNT]) else {}
    return StructType.fromJson(json.loads(metadata[SHAPE])) if SHAPE in metadata else None


def packed(
    batches: Iterable[pa.RecordBatch], newest: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = max(1, batch.num_rows * BYTES // max(BYTES, batch.nbytes))
        for at in range(0, batch.num_rows, rows):
            some = batch.slice(at, rows)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, some.schema) as writer:
                writer.write_batch(some)
            largest = [
                pa.array([pc.max(some.column(name)).as_py()], some.column(name).type)
                for name in newest
            ]
            count = pa.array([some.num_rows], pa.int64())
            yield pa.RecordBatch.from_arrays(
                [_one(sink.getvalue()), count, *largest], names=[COLUMN, COUNT, *newest]
            )


def _one(data: pa.Buffer) -> pa.Array:
    """The bytes as the only value of an array, without a copy."""
    return pa.Array.from_buffers(
        pa.binary(), 1, [None, pa.array([0, data.size], pa.int32()).buffers()[1], data]
    )


def opened(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for value in batch.column(0):
            yield from pa.ipc.open_stream(value.as_buffer())
