"""`format("raftka_delta")` of Spark, which looks for modules named pyspark_*: Delta tables without
a jar, written exactly once. What it does is in raftka/pipeline.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    Filter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from raftka.json_values import JsonObject
from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.lake import record_batches, upsert
from raftka.pipeline.lake.files import write_files
from raftka.pipeline.lake.options import READ, WRITTEN, Lake, lake_options
from raftka.pipeline.lake.read import File, Plan, leave_out_files, plan, read, shape
from raftka.pipeline.lake.table import Attempt, Done, abort, commit, prepare
from raftka.pipeline.lake.where import pushed
from raftka.pipeline.workers import keep_imports

if TYPE_CHECKING:
    import pyarrow as pa

# Spark's names for what a task can know of its query
QUERY, BATCH, RUN = "sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id"


class DefaultSource(DataSource):  # type: ignore[misc]
    """A Delta table at any URL that the package deltalake takes (docs/pipeline/lakes.md)."""

    @classmethod
    def name(cls) -> str:
        return "raftka_delta"

    def schema(self) -> StructType:
        return from_arrow_schema(shape(self._read()))

    def reader(self, schema: StructType) -> "BatchReader":
        lake = self._read()
        return (FilteredReader if lake.takes_filters else BatchReader)(
            lake, plan(lake, schema.names)
        )

    def writer(self, schema: StructType, overwrite: bool) -> "BatchWriter":
        if overwrite:
            raise OptionRefused(
                'a lake takes appends: .mode("append"), which with the option key changes rows as '
                "well"
            )
        return BatchWriter(lake_options(self.options, known=WRITTEN), arrow_schema(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamWriter":
        if overwrite:
            raise OptionRefused(
                'a lake takes appends: .outputMode("append"), not complete; with the option key '
                "it changes rows as well"
            )
        rows = record_batches.rows_of(schema)
        lake = lake_options(self.options, known=WRITTEN, streaming=True)
        return StreamWriter(
            lake, arrow_schema(schema if rows is None else rows), is_batched=rows is not None
        )

    def _read(self) -> Lake:
        return lake_options(self.options, known=READ)


def arrow_schema(schema: StructType) -> "pa.Schema":
    """Make every column nullable: whether a query's column may be null changes with the query, and
    a table should not fix it.
    """
    return to_arrow_schema(schema.toNullable(), timezone="UTC")


class Files(InputPartition):  # type: ignore[misc]
    def __init__(self, files: tuple[File, ...]) -> None:
        self.files = files


class BatchReader(DataSourceReader):  # type: ignore[misc]
    """Planned where it is made, in the driver; its pickled copies read the files that their
    partitions name.
    """

    def __init__(self, lake: Lake, planned: Plan) -> None:
        self._lake, self._plan = lake, planned

    def __getstate__(self) -> JsonObject:
        return {**self.__dict__, "_plan": self._plan._replace(tasks=[])}

    def partitions(self) -> list[InputPartition]:
        return [Files(files) for files in self._plan.tasks] or [Files(())]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        assert isinstance(partition, Files)
        return read(self._lake, self._plan, partition.files)


class FilteredReader(BatchReader):
    """For a frame that is asked once: Spark keeps the filters of one query for the next one of the
    same frame.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Leave out files. Spark filters the rows itself."""
        told = [
            pushed(
                type(each).__name__, each.attribute, getattr(each, "value", None), self._plan.schema
            )
            for each in filters
            if hasattr(each, "attribute")
        ]
        self._plan = leave_out_files(
            self._lake, self._plan, [each for each in told if each is not None]
        )
        yield from filters


class Message(WriterCommitMessage):  # type: ignore[misc]
    def __init__(self, done: Done) -> None:
        self.done = done


def dones(messages: Sequence[WriterCommitMessage | None]) -> list[Done | None]:
    """None: a task that did not end."""
    return [message.done if isinstance(message, Message) else None for message in messages]


class Writer:
    """Made twice a batch: to be pickled for the tasks, and, in another process, to commit. What
    commit needs comes with the messages.
    """

    def __init__(self, lake: Lake, schema: object, *, is_batched: bool = False) -> None:
        """`schema`: of the rows, which come in record batches or one by one."""
        self._lake, self._schema, self._is_batched = lake, schema, is_batched
        self._partition_by: tuple[str, ...] = ()
        if lake.keyed is not None:
            upsert.prepare(lake, schema)
        else:
            self._partition_by = prepare(lake, schema)

    def write(self, iterator: Iterator[object]) -> WriterCommitMessage:
        attempt = self._attempt(TaskContext.get())
        rows = record_batches.unpack(iterator) if self._is_batched else iterator
        if self._lake.keyed is not None:
            return Message(upsert.stage(self._lake, self._schema, rows, attempt))
        return Message(
            Done(
                attempt,
                write_files(self._lake, self._schema, self._partition_by, rows, attempt.stem),
            )
        )

    def _attempt(self, task: object) -> Attempt:
        raise NotImplementedError

    def _commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        add = commit if self._lake.keyed is None else upsert.commit
        add(self._lake, self._schema, [done for done in dones(messages) if done is not None])

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        discard = abort if self._lake.keyed is None else upsert.abort
        discard(self._lake, dones(messages))


class BatchWriter(Writer, DataSourceArrowWriter):  # type: ignore[misc]
    def _attempt(self, task: TaskContext) -> Attempt:
        query, batch = self._lake.transaction or (None, 0)
        return Attempt(query, batch, "batch query", task.attemptNumber())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._abort(messages)


class StreamWriter(Writer, DataSourceStreamArrowWriter):  # type: ignore[misc]
    def _attempt(self, task: TaskContext) -> Attempt:
        query, batch, run = (task.getLocalProperty(name) for name in (QUERY, BATCH, RUN))
        assert query is not None, "Spark does not tell its tasks which query they are of"
        return Attempt(query, int(batch), run, task.attemptNumber())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        assert all(done is None or done.attempt.batch == batchId for done in dones(messages)), (
            "a task was of another batch"
        )
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._abort(messages)


keep_imports()
