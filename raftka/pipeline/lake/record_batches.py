"""Record batches as rows of Spark: a stream's rows go into a lake as whole Arrow batches, each the
value of one row. Spark's Java passes such a value on as it is; it would take single rows apart and
put them together twice. Tasks, batches and commits stay the same.
"""

import json
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

COLUMN = "_raftka_rows"
# the number of rows in the value; the writer adds it up, and drops the column
COUNT = "_raftka_count"
# in the metadata of the first column: the schema of the rows, as Spark writes schemas
SHAPE = "raftka.rows"
BYTES = 4 << 20  # of the rows in one value, about
# settings of such a query: more batches at a time would wait in Java's memory
ONE_BY_ONE = {"spark.sql.execution.arrow.maxRecordsPerBatch": "1"}


def batch_schema(rows: StructType, newest: Sequence[str] = ()) -> StructType:
    """Return the schema of a frame of batches. `newest`: columns of which the frame has the largest
    value of each batch.
    """
    return StructType(
        [
            StructField(COLUMN, BinaryType(), True, {SHAPE: rows.json()}),
            StructField(COUNT, LongType()),
            *(rows[name] for name in newest),
        ]
    )


def rows_of(schema: StructType) -> StructType | None:
    """Return the schema of the rows inside; None: the frame has single rows."""
    metadata = schema[0].metadata if schema.names in ([COLUMN], [COLUMN, COUNT]) else {}
    return StructType.fromJson(json.loads(metadata[SHAPE])) if SHAPE in metadata else None


def pack(batches: Iterable[pa.RecordBatch], newest: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """Return rows of a frame with `batch_schema`, whose values are these batches."""
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
    """Return an array with the bytes as its only value, without a copy."""
    return pa.Array.from_buffers(
        pa.binary(), 1, [None, pa.array([0, data.size], pa.int32()).buffers()[1], data]
    )


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the batches inside the rows of such a frame."""
    for batch in batches:
        for value in batch.column(0):
            yield from pa.ipc.open_stream(value.as_buffer())
