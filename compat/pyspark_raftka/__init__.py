"""`format("raftka")` of Spark, which looks for modules named pyspark_*. These are the classes it
calls; what they do is in raftka/pipeline.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from raftka.json_values import JsonObject
from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.topics.decisions import Decision
from raftka.pipeline.topics.exactly_once import Handle, Part, Written, abort, begin, commit
from raftka.pipeline.topics.options import SourceOptions, source_options, truth
from raftka.pipeline.topics.planning import Range
from raftka.pipeline.topics.sink import SinkOptions, sink_options, write_task
from raftka.pipeline.topics.source import Stream, batch_tasks, read_task
from raftka.pipeline.workers import keep_imports

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int"
)
# Spark's names for what a task can know of its query
QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
HEADERS = ", headers array<struct<key: string, value: binary>>"


class DefaultSource(DataSource):  # type: ignore[misc]
    """Topics of raftka and of Apache Kafka, with the options and columns of Spark's own Kafka
    source (docs/pipeline/script.md).
    """

    @classmethod
    def name(cls) -> str:
        return "raftka"

    def schema(self) -> str:
        return COLUMNS + (HEADERS if truth(self._options(), "includeHeaders", False) else "")

    def reader(self, schema: StructType) -> "BatchReader":
        return BatchReader(source_options(self._options(), streaming=False))

    def streamReader(self, schema: StructType) -> "StreamReader":
        return StreamReader(source_options(self._options(), streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> "BatchWriter":
        if overwrite:
            raise OptionRefused('a topic can not be overwritten: .mode("append")')
        return BatchWriter(self._sink(schema, streaming=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamWriter":
        if overwrite:
            raise OptionRefused(
                'a topic takes appends and updates: .outputMode("append") or '
                '.outputMode("update"), not complete'
            )
        return StreamWriter(self._sink(schema, streaming=True))

    def _options(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.options.items()}

    def _sink(self, schema: StructType, *, streaming: bool) -> SinkOptions:
        return sink_options(
            self._options(),
            {field.name: field.dataType.typeName() for field in schema.fields},
            streaming=streaming,
        )


class Task(InputPartition):  # type: ignore[misc]
    def __init__(self, ranges: tuple[Range, ...]) -> None:
        self.ranges = ranges


def read(options: SourceOptions, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
    return read_task(options, partition.ranges if isinstance(partition, Task) else ())


class BatchReader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, options: SourceOptions) -> None:
        self._source = options

    def partitions(self) -> list[InputPartition]:
        return [Task(ranges) for ranges in batch_tasks(self._source)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return read(self._source, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Plans in the driver; its pickled copies read in the tasks, without the driver's state."""

    def __init__(self, options: SourceOptions) -> None:
        self._source = options
        self._kept: Stream | None = None

    def __getstate__(self) -> JsonObject:
        return {"_source": self._source, "_kept": None}

    @property
    def _stream(self) -> Stream:
        self._kept = self._kept or Stream(self._source)
        return self._kept

    def initialOffset(self) -> JsonObject:
        return dict(self._stream.initial())

    def getDefaultReadLimit(self) -> ReadLimit:
        return (
            ReadAllAvailable()
            if self._source.max_offsets is None
            else ReadMaxRows(self._source.max_offsets)
        )

    def latestOffset(self, start: JsonObject, limit: ReadLimit) -> JsonObject:
        # as the trigger "once" asks
        everything = isinstance(limit, ReadAllAvailable) and self._source.max_offsets is not None
        return dict(self._stream.latest(start, everything=everything))

    def reportLatestOffset(self) -> JsonObject | None:
        newest = self._stream.newest()
        return None if newest is None else dict(newest)

    def prepareForTriggerAvailableNow(self) -> None:
        self._stream.freeze()

    def partitions(self, start: JsonObject, end: JsonObject) -> list[InputPartition]:
        return [Task(ranges) for ranges in self._stream.tasks(start, end)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return read(self._source, partition)

    def commit(self, end: JsonObject) -> None:
        self._stream.committed(end)

    def stop(self) -> None:
        if self._kept is not None:
            self._kept.stop()


class Message(WriterCommitMessage):  # type: ignore[misc]
    def __init__(self, written: Written) -> None:
        self.written = written


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    def __init__(self, options: SinkOptions) -> None:
        self._sink = options

    def write(self, iterator: Iterator[object]) -> WriterCommitMessage:
        return Message(write_task(self._sink, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are acknowledged; nothing is to be ended without transactions."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Keep the records of the failed write: at least once."""


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Made twice a batch: to be pickled for the tasks, and, in another process, to commit. What
    commit needs comes with the messages.

    So the transaction of a batch begins when the writer is pickled: in the planner, and before a
    task runs. Spark pickles it more than once.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._sink = options
        self._handle: Handle | None = None

    def __getstate__(self) -> JsonObject:
        if self._handle is None and (its := self._sink.transactional) is not None:
            self._handle = begin(self._sink.brokers(), its.transactional_id, its.timeout_ms)
        return {"_sink": self._sink, "_handle": self._handle}

    def write(self, iterator: Iterator[object]) -> WriterCommitMessage:
        return Message(
            write_task(
                self._sink, iterator, None if self._handle is None else self._part(self._handle)
            )
        )

    @staticmethod
    def _part(handle: Handle) -> Part:
        task = TaskContext.get()
        assert task is not None
        query, batch = task.getLocalProperty(QUERY), task.getLocalProperty(BATCH)
        assert query is not None, "Spark does not tell its tasks which query they are of"
        assert batch is not None, "Spark does not tell its tasks which batch they are of"
        return Part(handle, Decision(query, int(batch)), task.partitionId(), task.taskAttemptId())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if self._sink.transactional is not None:
            commit(self._sink.brokers(), results(messages), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """At least once, the records of the failed batch stay."""
        if self._sink.transactional is not None:
            abort(self._sink.brokers(), results(messages))


def results(messages: list[WriterCommitMessage | None]) -> list[Written | None]:
    """None: a task that did not end."""
    return [message.written if isinstance(message, Message) else None for message in messages]


keep_imports()
