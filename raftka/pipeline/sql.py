"""`raftka sql`: one query on the present rows of topics and lakes. Knows no command line.

A name that Spark does not know becomes a view when the query asks for it: what streams.yml
declares, else a topic of that name as text.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from raftka.json_values import Json
from raftka.pipeline.column_pruning import needed_columns
from raftka.pipeline.errors import PipelineError, sentence_in
from raftka.pipeline.flows.streams import Declared, StreamSpec, connection
from raftka.pipeline.flows.supervisor import explained
from raftka.pipeline.topics.brokers import Brokers, no_answer, open_brokers
from raftka.pipeline.topics.options import EARLIEST, LATEST
from raftka.pipeline.topics.positions import nested

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERIES = ("select", "with", "from", "values", "table", "describe", "desc", "explain")
AS_TEXT = (
    "cast(key as string) as key",
    "cast(value as string) as value",
    "partition",
    "offset",
    "timestamp",
)
FILTERS = "spark.sql.python.filterPushdown.enabled"
UNKNOWN = "TABLE_OR_VIEW_NOT_FOUND"
CAUSE = re.compile(r"Caused by: [\w.$]+: \[[A-Z_.]+\] (.*)")
CONDITION = re.compile(r"^\[[A-Z_.0-9]+\] ")  # Spark's name of an error
STATE = re.compile(r" SQLSTATE: \w+")
PLACE = re.compile(r"; line \d+ pos \d+$|\(line \d+, pos \d+\)")
PATIENCE_S = 30.0  # for brokers: a person waits
HEX = "x'"  # begins bytes that are no text
LINES = dict.fromkeys(map(ord, "\t\n\r"))


@dataclass(frozen=True, slots=True)
class Places:
    """The topics and tables that names in a query may mean."""

    bootstrap: str
    declared: Declared | None = None
    last: int | None = None  # so many records of each partition
    options: Mapping[str, str] = field(default_factory=dict)  # of the source
    config: Path | None = None  # client properties of the cluster

    @property
    def connection(self) -> dict[str, str]:
        return (
            connection(self.bootstrap, self.config)
            if self.declared is None
            else self.declared.connection
        )


@dataclass(frozen=True, slots=True)
class QueryResult:
    columns: Sequence[str]
    rows: Sequence[Mapping[str, Json]]
    is_all: bool  # the query has no more rows than these


def run_query(spark: "SparkSession", query: str, places: Places, limit: int) -> QueryResult:
    """Return at most `limit` rows. Raise PipelineError."""
    word = re.match(r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(\w+)", query, re.DOTALL)
    if word is None or word[1].lower() not in QUERIES:
        raise PipelineError(
            f"this is for questions, which begin with {', '.join(each.upper() for each in QUERIES)}"
        )
    names = _Names(spark, places)
    try:
        frame = _analyze(spark, query, names)
        with names.with_needed_columns(frame, query) as pruned:
            try:
                rows = pruned.take(limit + 1)
            except Exception as error:  # Spark's are of many kinds
                raise failure(error) from None
    finally:
        names.drop_views()
    return QueryResult(
        frame.columns,
        [{name: plain(row[at]) for at, name in enumerate(frame.columns)} for row in rows[:limit]],
        len(rows) <= limit,
    )


def _analyze(spark: "SparkSession", query: str, names: "_Names") -> "DataFrame":
    from pyspark.errors import AnalysisException, ParseException

    while True:
        try:
            return spark.sql(query)
        except ParseException as error:
            raise PipelineError(sentence_of(error)) from None
        except AnalysisException as error:
            if error.getCondition() != UNKNOWN:
                raise PipelineError(sentence_of(error)) from None
            names.make(table_name(error.getMessageParameters()["relationName"]))


def sentence_of(error: Exception) -> str:
    """Return Spark's sentence, without its names of errors, without the plan and the place."""
    text = " ".join(str(error).split(";\n")[0].split("\n== SQL")[0].split())
    return PLACE.sub("", STATE.sub("", CONDITION.sub("", text))).rstrip(".; ")


def failure(error: Exception) -> PipelineError:
    """Return the error of a run as a sentence: Spark wraps what went wrong in a task into pages."""
    text = str(error)
    if (own := sentence_in(text)) is not None:
        return PipelineError(own)
    if "\n== SQL" in text:  # the words of an expression, and then the statement
        return PipelineError(sentence_of(error))
    causes = CAUSE.findall(text)
    if causes:
        return PipelineError(STATE.sub("", causes[-1]).strip())
    return PipelineError(explained(text.split(";\n", 1)[0].strip()))


def table_name(quoted: str) -> str:
    """Return the name without quotes. Raise PipelineError for a name of several parts."""
    parts: list[str] = [part.replace("``", "`") for part in re.findall(r"`((?:[^`]|``)*)`", quoted)]
    if len(parts) > 1:
        raise PipelineError(
            f"there is no table {'.'.join(parts)}. A topic with dots in its name stands in "
            f"backticks: `{'.'.join(parts)}`"
        )
    return parts[0]


class _Names:
    def __init__(self, spark: "SparkSession", places: Places) -> None:
        self._spark, self._places = spark, places
        self._made: set[str] = set()
        # path, options and columns of those that the query reads
        self._lakes: dict[str, tuple[str, dict[str, str], tuple[str, ...]]] = {}

    @contextmanager
    def with_needed_columns(self, frame: "DataFrame", query: str) -> "Iterator[DataFrame]":
        """Run the query again on views of lakes that have only the needed columns, and that leave
        out files by the query's filters.
        """
        found = (
            needed_columns(
                json.loads(frame._jdf.queryExecution().optimizedPlan().toJSON()), len(self._lakes)
            )
            if self._lakes
            else None
        )
        if found is None or not found.columns:
            yield frame
            return
        before, told = self._spark.conf.get(FILTERS), str(found.takes_filters).lower()
        self._spark.conf.set(FILTERS, told)
        try:
            yield self._again(query, found.columns, told) or self._again(query, {}, told) or frame
        finally:
            self._spark.conf.set(FILTERS, before)

    def _again(
        self, query: str, columns: Mapping[tuple[str, ...], tuple[str, ...]], takes_filters: str
    ) -> "DataFrame | None":
        """Return the query on views with these columns; None: the query names others."""
        from pyspark.errors import AnalysisException

        for name, (path, options, known) in self._lakes.items():
            some = columns.get(known, ())
            told = (
                {"columns": ",".join(some)}
                if some and not any("," in each for each in some)
                else {}
            )
            reader = self._spark.read.format("raftka_delta").options(
                **options, **told, takeFilters=takes_filters
            )
            reader.load(path).createOrReplaceTempView(f"`{name}`")
        try:
            return self._spark.sql(query)
        except AnalysisException:
            return None

    def make(self, name: str) -> None:
        """Make the view of a name. Raise PipelineError when neither project nor topics have it."""
        frame = None if name in self._made else self._declared(name)
        if frame is None:
            frame = self._topic(name)
        self._made.add(name)
        frame.createOrReplaceTempView(f"`{name}`")

    def drop_views(self) -> None:
        for name in self._made:
            self._spark.catalog.dropTempView(name)

    def _declared(self, name: str) -> "DataFrame | None":
        found = self._places.declared
        if found is None:
            return None
        for output in found.outputs:
            if name == output.name and output.path is not None:
                # the others are of writing
                storage = {
                    key: value
                    for key, value in output.options.items()
                    if key.lower().startswith("storage.")
                }
                frame = self._spark.read.format("raftka_delta").options(**storage).load(output.path)
                self._lakes[name] = output.path, storage, tuple(frame.columns)
                return frame
        for stream in found.streams:
            if name in (stream.name, f"{stream.name}_raw", f"{stream.name}_bad"):
                return self._stream(found, stream, name)
        return None

    def _stream(self, found: Declared, stream: StreamSpec, name: str) -> "DataFrame":
        from raftka.pipeline.flows import flows

        bounded = self._bounded(stream.topic)
        if name == stream.name:
            return flows.good(found, name, bounded)
        return (flows.raw if name.endswith("_raw") else flows.bad)(found, stream, bounded)

    def _topic(self, name: str) -> "DataFrame":
        options = {
            **self._places.connection,
            "subscribe": name,
            "kafka.isolation.level": "read_committed",
            **self._bounded(name),
        }
        return self._spark.read.format("raftka").options(**options).load().selectExpr(*AS_TEXT)

    def _bounded(self, topic: str) -> dict[str, str]:
        """Return options that bound a read of the topic. Raise PipelineError if there is none."""
        with self._brokers() as brokers:
            found = brokers.topics([topic])
            if topic not in found:
                raise PipelineError(f"there is no topic {topic}{self._others(brokers)}")
            if self._places.last is None:
                return {"startingOffsets": "earliest", **self._places.options}
            wheres = [(topic, partition) for partition in found[topic].partitions]
            first, end = (brokers.offsets(dict.fromkeys(wheres, at)) for at in (EARLIEST, LATEST))
            starts = {where: max(first[where], end[where] - self._places.last) for where in wheres}
            return {**self._places.options, "startingOffsets": json.dumps(nested(starts))}

    def _others(self, brokers: Brokers) -> str:
        found = self._places.declared
        views = (
            [
                name
                for each in found.streams
                for name in (each.name, f"{each.name}_raw", f"{each.name}_bad")
            ]
            if found is not None
            else []
        )
        lakes = (
            [each.name for each in found.outputs if each.path is not None]
            if found is not None
            else []
        )
        told = ", ".join([*views, *lakes, *brokers.names()])
        return f". There are {told}" if told else ", and no other"

    @contextmanager
    def _brokers(self) -> Iterator[Brokers]:
        brokers = open_brokers(self._places.connection, "raftka-sql", PATIENCE_S, no_answer)
        try:
            yield brokers
        finally:
            brokers.close()


def plain(value: Json) -> Json:
    """Return the value as JSON has it; of bytes the text."""
    if isinstance(value, bytes | bytearray):
        return text_of(bytes(value))
    if hasattr(value, "asDict"):
        return {name: plain(each) for name, each in value.asDict().items()}
    if isinstance(value, Mapping):
        return {str(plain(name)): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value.isoformat() if isinstance(value, date | datetime) else value


def text_of(value: bytes) -> str:
    """Return bytes as text. Bytes that are no printable text become x'00ff'; so does a text that
    looks like that: no two values have one form.
    """
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"{HEX}{value.hex()}'"
    is_plain = text.translate(LINES).isprintable() and not text.startswith(HEX)
    return text if is_plain else f"{HEX}{value.hex()}'"
