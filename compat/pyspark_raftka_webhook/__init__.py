"""`format("raftka_webhook")` of Spark, which looks for modules named pyspark_*: rows posted to a
URL. What it does is in raftka/pipeline/connect.
"""

from collections.abc import Iterator

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from raftka.pipeline.connect.webhook import Place, dead_letters, post_task
from raftka.pipeline.connect.webhook_options import Webhook, webhook_options
from raftka.pipeline.errors import OptionRefused

# Spark's names for what a task can know of its query
QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


class DefaultSource(DataSource):  # type: ignore[misc]
    """A sink for streams (docs/pipeline/connectors.md)."""

    @classmethod
    def name(cls) -> str:
        return "raftka_webhook"

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamWriter":
        if overwrite:
            raise OptionRefused(
                'a webhook takes appends and updates: .outputMode("append") or '
                '.outputMode("update"), not complete'
            )
        hook = webhook_options(self.options)
        if hook.id is not None and hook.id not in schema.names:
            raise OptionRefused(
                f"id names the column {hook.id}, which is not there: there are "
                f"{', '.join(schema.names)}"
            )
        dead_letters(hook)  # refused before a task runs
        return StreamWriter(hook)


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    def __init__(self, hook: Webhook) -> None:
        self._hook = hook

    def write(self, iterator: Iterator[object]) -> WriterCommitMessage:
        task = TaskContext.get()
        query, batch = task.getLocalProperty(QUERY), task.getLocalProperty(BATCH)
        assert query is not None, "Spark does not tell its tasks which query they are of"
        post_task(self._hook, iterator, Place(query, int(batch), task.partitionId()))
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """All rows are accepted, or dead letters."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """The rows that were accepted stay where they are: at least once."""
