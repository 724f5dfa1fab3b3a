"""`format("raftka_table")` of Spark, which looks for modules named pyspark_*: tables of SQLite and
PostgreSQL. What it does is in raftka/pipeline/connect.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from raftka.json_values import JsonObject
from raftka.pipeline.connect.table_options import TableSink, TableSource, table_sink, table_source
from raftka.pipeline.connect.table_sink import Attempt, Staged, abort, commit, prepare, write_task
from raftka.pipeline.connect.table_source import INITIAL, Plan, check, read
from raftka.pipeline.errors import OptionRefused

if TYPE_CHECKING:
    import pyarrow as pa

# Spark's names for what a task can know of its query
QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


class DefaultSource(DataSource):  # type: ignore[misc]
    """A source and a sink for streams (docs/pipeline/connectors.md)."""

    @classmethod
    def name(cls) -> str:
        return "raftka_table"

    def schema(self) -> str:
        raise OptionRefused('which columns are to be read? .schema("id bigint, name string")')

    def streamReader(self, schema: StructType) -> "StreamReader":
        source = table_source(self.options)
        wanted = to_arrow_schema(schema.toNullable(), timezone="UTC")
        check(source, wanted)
        return StreamReader(source, wanted)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamWriter":
        if overwrite:
            raise OptionRefused(
                'a table takes appends and updates: .outputMode("append") or '
                '.outputMode("update"), not complete'
            )
        return StreamWriter(table_sink(self.options), tuple(schema.names))


class Between(InputPartition):  # type: ignore[misc]
    def __init__(self, start: JsonObject, end: JsonObject) -> None:
        self.start, self.end = start, end


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Plans in the driver; a pickled copy reads in the task."""

    def __init__(self, source: TableSource, schema: "pa.Schema") -> None:
        self._source, self._schema, self._plan = source, schema, Plan(source)

    def initialOffset(self) -> JsonObject:
        return dict(INITIAL)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: JsonObject, limit: ReadLimit) -> JsonObject:
        return self._plan.latest(start)

    def prepareForTriggerAvailableNow(self) -> None:
        self._plan.freeze()

    def partitions(self, start: JsonObject, end: JsonObject) -> list[InputPartition]:
        return [Between(start, end)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        assert isinstance(partition, Between)
        return read(self._source, self._schema, partition.start, partition.end)


class Message(WriterCommitMessage):  # type: ignore[misc]
    def __init__(self, staged: Staged) -> None:
        self.staged = staged


def results(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    return [message.staged for message in messages if isinstance(message, Message)]


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    def __init__(self, sink: TableSink, columns: tuple[str, ...]) -> None:
        self._sink, self._columns = sink, columns
        prepare(sink, columns)

    def write(self, iterator: Iterator[object]) -> WriterCommitMessage:
        task = TaskContext.get()
        query, batch = task.getLocalProperty(QUERY), task.getLocalProperty(BATCH)
        assert query is not None, "Spark does not tell its tasks which query they are of"
        return Message(
            write_task(
                self._sink, self._columns, iterator, Attempt(query, int(batch), task.partitionId())
            )
        )

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        staged = results(messages)
        assert all(each.attempt.batch == batchId for each in staged), "a task was of another batch"
        commit(self._sink, self._columns, staged)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        abort(self._sink, self._columns, results(messages))
