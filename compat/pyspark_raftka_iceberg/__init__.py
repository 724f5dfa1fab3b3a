"""`format("raftka_iceberg")` of Spark, which looks for modules named pyspark_*: Iceberg tables
without a jar, written exactly once. What it does is in raftka/pipeline/connect.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from raftka.pipeline.connect.iceberg import (
    Attempt,
    Done,
    abort,
    commit,
    plan,
    prepare,
    read,
    shape,
    write_files,
)
from raftka.pipeline.connect.iceberg_options import Iceberg, iceberg_options
from raftka.pipeline.errors import OptionRefused

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import FileScanTask

# Spark's names for what a task can know of its query
QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


class DefaultSource(DataSource):  # type: ignore[misc]
    """A sink for streams and a source for batches (docs/pipeline/connectors.md)."""

    @classmethod
    def name(cls) -> str:
        return "raftka_iceberg"

    def schema(self) -> StructType:
        return from_arrow_schema(shape(iceberg_options(self.options)))

    def reader(self, schema: StructType) -> "BatchReader":
        return BatchReader(iceberg_options(self.options), to_arrow_schema(schema, timezone="UTC"))

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamWriter":
        if overwrite:
            raise OptionRefused(
                'an Iceberg table takes appends: .outputMode("append"), not complete'
            )
        return StreamWriter(
            iceberg_options(self.options), to_arrow_schema(schema.toNullable(), timezone="UTC")
        )


class File(InputPartition):  # type: ignore[misc]
    def __init__(self, task: "FileScanTask") -> None:
        self.task = task


class BatchReader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, to: Iceberg, schema: "pa.Schema") -> None:
        self._to, self._schema = to, schema

    def partitions(self) -> list[InputPartition]:
        return [File(task) for task in plan(self._to, self._schema.names)] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return (
            read(self._to, self._schema, partition.task)
            if isinstance(partition, File)
            else iter(())
        )


class Message(WriterCommitMessage):  # type: ignore[misc]
    def __init__(self, done: Done) -> None:
        self.done = done


def dones(messages: Sequence[WriterCommitMessage | None]) -> list[Done]:
    return [message.done for message in messages if isinstance(message, Message)]


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Made twice a batch: to be pickled for the tasks, and, in another process, to commit. What
    commit needs comes with the messages.
    """

    def __init__(self, to: Iceberg, schema: "pa.Schema") -> None:
        self._to, self._schema, self._folder = to, schema, prepare(to, schema)

    def write(self, iterator: Iterator[object]) -> WriterCommitMessage:
        task = TaskContext.get()
        query, batch = task.getLocalProperty(QUERY), task.getLocalProperty(BATCH)
        assert query is not None, "Spark does not tell its tasks which query they are of"
        return Message(
            write_files(self._to, self._schema, self._folder, iterator, Attempt(query, int(batch)))
        )

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        done = dones(messages)
        assert all(each.attempt.batch == batchId for each in done), "a task was of another batch"
        commit(self._to, done)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        abort(self._to, dones(messages), complete=None not in messages)
