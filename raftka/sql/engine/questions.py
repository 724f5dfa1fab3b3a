"""Questions to Spark: rows that are there now, and rows as they come."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, StreamingQueryException

from raftka.json_values import Json
from raftka.pipeline.flows.graph import file_manager
from raftka.pipeline.flows.spark_statements import sentence
from raftka.pipeline.sql import failure, plain
from raftka.sql.answers import Answer, Column, table
from raftka.sql.engine.analysis import (
    EARLIEST,
    LATEST,
    Analyzed,
    Asked,
    Sources,
    Start,
    analyze,
)
from raftka.sql.engine.live_rows import LiveRows
from raftka.sql.engine.table_keys import changing_tables, plan_of
from raftka.sql.language.statements import Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

IDS = re.compile(r"#\d+L?")  # of columns in a plan
WIDEST = 150  # characters of a line of a plan
AT_ONCE = 10_000  # records of a batch
GROUPING = (".Aggregate", ".Distinct")  # nodes of a plan
EVERY = "200 milliseconds"  # a push query looks for records


def asked_of(query: Query) -> Asked:
    return Asked(query.text, query.query, query.at)


def columns_of(frame: "DataFrame") -> list[Column]:
    return [Column(each.name, each.dataType.simpleString()) for each in frame.schema.fields]


def values_of(row: Sequence[Json]) -> list[Json]:
    return [plain(each) for each in row]


def pull(spark: "SparkSession", query: Query, sources: Sources, limit: int | None) -> Answer:
    """Return the rows that are there now, at most `limit`. Raise StatementError and
    PipelineError.
    """
    frame = analyze(spark, asked_of(query), sources).frame
    columns = columns_of(frame)
    try:
        if limit is None:
            return Answer(columns, _all_rows(frame))
        rows = frame.take(limit + 1)
    except Exception as error:  # Spark's are of many kinds
        raise failure(error) from None
    note = f"there are more than {limit} rows" if len(rows) > limit else ""
    return Answer(columns, iter([values_of(row) for row in rows[:limit]]), note)


def explain(spark: "SparkSession", asked: Asked, sources: Sources, begin: Start | None) -> Answer:
    """Return Spark's plan, a line a row, the last step first. `begin`: as in `analyze`. Raise
    StatementError and PipelineError.
    """
    found = analyze(spark, asked, sources, begin)
    own = found.frame.sparkSession
    analyzed = found.frame._jdf.queryExecution().analyzed()
    plan = own._jsparkSession.sessionState().optimizer().execute(analyzed).toString()
    lines = [IDS.sub("", line.replace("~", "")) for line in plan.splitlines()]
    rows = [[line if len(line) <= WIDEST else f"{line[:WIDEST]}..."] for line in lines if line]
    return table((("plan", "STRING"),), rows, f"reads {', '.join(found.sources) or 'nothing'}")


def _all_rows(frame: "DataFrame") -> Iterator[Sequence[Json]]:
    """Raises PipelineError."""
    try:
        for row in frame.toLocalIterator():
            yield values_of(row)
    except Exception as error:
        raise failure(error) from None


def push(spark: "SparkSession", query: Query, sources: Sources, limit: int | None) -> Answer:
    """Return the rows as they come, of which at most `limit`. Raise StatementError and
    PipelineError.
    """
    folder = tempfile.mkdtemp(prefix="raftka-sql-")
    try:
        return _push(spark, query, sources, limit, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _push(
    spark: "SparkSession", query: Query, sources: Sources, limit: int | None, folder: str
) -> Answer:
    """`folder`: of the checkpoint; it is removed with the end of the answer."""
    asked = asked_of(query)
    begin = Start(EARLIEST if query.from_beginning else LATEST, AT_ONCE, Path(folder))
    found = analyze(spark, asked, sources, begin)
    if not found.frame.isStreaming:
        raise asked.error("this query reads no stream. Next step: leave EMIT CHANGES out")
    _check_groups(found, asked, sources)
    running: list[StreamingQuery] = []

    def is_running() -> bool:
        error = running[0].exception()
        if error is not None:
            raise failure(error)
        return bool(running[0].isActive)

    def end() -> None:
        with suppress(Exception):  # Java may be gone
            running[0].stop()
        shutil.rmtree(folder, ignore_errors=True)

    rows = LiveRows(limit, is_running, end)

    def take_batch(batch: "DataFrame", number: int) -> None:
        for row in batch.toLocalIterator():
            if not rows.put(values_of(row)):
                return

    running.append(_started(found, asked, take_batch, folder))
    return Answer(columns_of(found.frame), rows, is_live=True, close=rows.close)


def _check_groups(found: Analyzed, asked: Asked, sources: Sources) -> None:
    """Refuse groups of a table: its changes come as rows, so each change would be counted, and none
    taken back. Raise StatementError.
    """
    if not any(node["class"].endswith(GROUPING) for node in plan_of(found.frame)):
        return
    for name in changing_tables(found, sources.catalog):
        stream = sources.catalog.stream(name)
        if stream is not None:
            raise asked.error(
                f"{stream.name} is a table: groups with EMIT CHANGES would count its changes, not "
                "its rows. Next step: leave EMIT CHANGES out, or CREATE STREAM over its topic "
                f"{stream.topic}"
            )


def _started(
    found: Analyzed, asked: Asked, take_batch: Callable[["DataFrame", int], None], folder: str
) -> "StreamingQuery":
    """Start a query whose changed rows are shown, where it has such; raise StatementError."""
    own = found.frame.sparkSession
    for name, value in file_manager(own, folder).items():
        own.conf.set(name, value)
    refused = ""
    for mode in ("update", "append"):  # a join of two streams has no changed rows
        try:
            return (
                found.frame.writeStream.foreachBatch(take_batch)
                .outputMode(mode)
                .trigger(processingTime=EVERY)
                .option("checkpointLocation", folder)
                .start()
            )
        except (AnalysisException, StreamingQueryException) as error:
            refused = refused or sentence(error)
    raise asked.error(refused)
