"""Queries that Spark has understood: their names are streams, tables and topics, and its errors are
sentences with a place in the statement.

Each query has a session of its own: names of one mean nothing to another.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.errors import AnalysisException, ParseException

from raftka.pipeline.errors import PipelineError
from raftka.pipeline.records.registry_client import RegistryAccess
from raftka.pipeline.sql import UNKNOWN, sentence_of, table_name
from raftka.pipeline.topics.brokers import Brokers
from raftka.pipeline.topics.options import LATEST as END
from raftka.pipeline.topics.positions import nested
from raftka.sql.catalog import Catalog, Stream
from raftka.sql.engine.frames import stream_frame, topic_frame
from raftka.sql.engine.permitted import check_permitted
from raftka.sql.engine.python_functions import register_functions
from raftka.sql.engine.table_joins import joined_frame
from raftka.sql.language.changes import CHANGE, IS_PRESENT
from raftka.sql.language.errors import StatementError
from raftka.sql.language.going_on import Prepared, prepare
from raftka.sql.language.table_joins import Shape, TableJoin
from raftka.sql.language.tokens import Kind, tokens
from raftka.sql.language.types import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EARLIEST, LATEST = "earliest", "latest"
ON_FILES = "spark.sql.runSQLOnFiles"  # a server reads topics, not files of its machine
MOST_NAMES = 100  # of a query
POSITION = re.compile(r"\(line (\d+), pos (\d+)\)")


class Asked(NamedTuple):
    """A query as it stands in a statement."""

    text: str  # of the statement
    query: str
    at: int  # the place of the query in the statement

    def error(self, message: str, at: int | None = None) -> StatementError:
        """Return the error of a place in the query; None: of its beginning."""
        return StatementError(message, self.text, self.at + (at or 0))


class Start(NamedTuple):
    """The place where streams begin."""

    offsets: str  # EARLIEST or LATEST
    at_once: int | None  # records of a batch; None: all that are there
    checkpoint: Path | None = None  # None: the query is not to run
    has_changes: bool = False  # rows that leave a table are among the rows
    is_final: bool = False  # they are rows of a table that change no more


class Analyzed(NamedTuple):
    frame: "DataFrame"
    sources: tuple[str, ...]  # names of streams, tables and topics that it reads, in lower case
    alone: tuple[str, ...] = ()  # those of them that are in no join with a table
    joins: Sequence[TableJoin] = ()


class Sources(NamedTuple):
    """The place where the rows of names are."""

    connection: Mapping[str, str]  # options of the source that say where the cluster is
    registry: RegistryAccess | None
    brokers: Brokers
    catalog: Catalog
    has_functions: bool = True  # in Python; else the server refuses to run them


def analyze(
    spark: "SparkSession", asked: Asked, sources: Sources, begin: Start | None = None
) -> Analyzed:
    """Return the frame of a query. `begin`: None: it reads all that is there now, and ends. Raise
    StatementError and PipelineError.
    """
    catalog = sources.catalog
    try:
        prepared = prepare(
            asked.query,
            catalog.keys_of_table,
            goes_on=begin is not None,
            has_changes=begin is not None and begin.has_changes,
            is_final=begin is not None and begin.is_final,
        )
        delays = prepared.all_delays(catalog.delay_of)
        sources = sources._replace(catalog=catalog.with_watermarks(delays))
        found = _Analysis(spark, prepared, sources, begin).run()
    except StatementError as error:
        raise asked.error(error.message, error.at) from None
    if others := prepared.delays.keys() - set(found.sources):
        raise asked.error(
            f"GRACE PERIOD is of a stream, and {min(others)} is none. Next step: put WINDOW where "
            "the stream itself is read"
        )
    return found


class _Analysis:
    """The names of one query. Places of its errors are those in the query as it was written."""

    def __init__(
        self, spark: "SparkSession", prepared: Prepared, sources: Sources, begin: Start | None
    ) -> None:
        self._own, self._prepared, self._sources = spark.newSession(), prepared, sources
        self._begin = begin
        self._asked = Asked(prepared.text, prepared.text, 0)
        self._words = [each for each in words_of(prepared.unjoined) if each not in CHANGE]
        self._alone: list[str] = []
        self._joined: list[str] = []

    def run(self) -> Analyzed:
        """Raises StatementError and PipelineError."""
        self._own.conf.set(ON_FILES, "false")
        self._check_whole()
        try:
            frame = self._frame()
        except StatementError as error:
            raise StatementError(error.message, "", self._prepared.place(error.at or 0)) from None
        names = tuple(sorted({*self._alone, *self._joined}))
        return Analyzed(frame, names, tuple(self._alone), self._prepared.joins)

    def _check_whole(self) -> None:
        """Refuse words of the query that a server does not run; make its functions known."""
        own, sources, query = self._own, self._sources, self._prepared.unjoined
        try:
            check_permitted(own, query, Asked(query, query, 0).error)
            has_functions = sources.has_functions
            register_functions(own, query, sources.catalog, is_allowed=has_functions)
        except StatementError as error:
            place = self._prepared.place_of_unjoined(error.at or 0)
            raise StatementError(error.message, "", place) from None

    def _frame(self) -> "DataFrame":
        asked, made = self._asked, set[str]()
        while True:
            try:
                return self._own.sql(asked.query)
            except ParseException as error:
                raise asked.error(*_parse_error(asked, error)) from None
            except AnalysisException as error:
                if error.getCondition() != UNKNOWN:
                    raise asked.error(sentence_of(error), _place_of(error, asked)) from None
                name = _name_in(error, asked)
            if name.lower() in made or len(made) >= MOST_NAMES:
                raise asked.error(
                    f"{name} cannot be read here. Next step: name a stream, a table or a topic",
                    _place(asked.query, name),
                )
            made.add(name.lower())
            self._make(name)

    def _make(self, name: str) -> None:
        """Make the view of a name."""
        join = next((each for each in self._prepared.joins if each.view == name), None)
        if join is None:
            self._alone.append(name.lower())
            frame = self._read(name, words_of(self._prepared.text), self._begin)
            frame.createOrReplaceTempView(quoted(name))
            return
        assert self._begin is not None, "it goes on"
        try:
            frame = joined_frame(self._own, join, self, self._begin.checkpoint)
        except (AnalysisException, StatementError) as error:
            is_own = isinstance(error, StatementError)
            message = error.message if is_own else sentence_of(error)
            raise self._asked.error(message, _place(self._asked.query, name)) from None
        if join.shape is not Shape.LOOKUP and not self._begin.has_changes:
            frame = frame.where(IS_PRESENT)
        frame.createOrReplaceTempView(quoted(name))

    # names of joins with tables

    def rows(self, name: str) -> "DataFrame":
        """Return the rows of a stream or a topic that is joined."""
        self._joined.append(name.lower())
        return self._read(name, self._words, self._begin)

    def changes(self, name: str, *, at_once: bool) -> "DataFrame":
        """Return the changes of a table that is joined, from the first one on."""
        self._joined.append(name.lower())
        assert self._begin is not None, "it goes on"
        count = None if at_once else self._begin.at_once
        begin = self._begin._replace(offsets=EARLIEST, at_once=count)
        return self._read(name, [*self._words, *CHANGE], begin)

    def table(self, name: str) -> Stream:
        found = self._sources.catalog.stream(name)
        assert found is not None, "the join was found by it"
        return found

    def _read(self, name: str, words: Sequence[str], begin: Start | None) -> "DataFrame":
        """Return the frame of a name. `words`: of the query."""
        sources = self._sources
        stream = sources.catalog.stream(name)
        topic = name if stream is None else stream.topic
        if topic not in sources.brokers.topics([topic]):
            raise self._asked.error(
                _missing(name, stream, sources), _place(self._asked.query, name)
            )
        options = {
            **sources.connection,
            "subscribe": topic,
            "kafka.isolation.level": "read_committed",
            "startingOffsets": EARLIEST,
        }
        if begin is not None:
            if begin.at_once is not None:
                options["maxOffsetsPerTrigger"] = str(begin.at_once)
            if begin.offsets == LATEST:
                options["startingOffsets"] = _ends(sources.brokers, topic)
        is_push = begin is not None
        if stream is None:
            return topic_frame(self._own, options, is_push=is_push)
        return stream_frame(self._own, stream, options, words, sources.registry, is_push=is_push)


def _ends(brokers: Brokers, topic: str) -> str:
    """Return the present ends of a topic as `startingOffsets`: Spark would look later."""
    wheres = [(topic, each) for each in brokers.topics([topic])[topic].partitions]
    return json.dumps(nested(brokers.offsets(dict.fromkeys(wheres, END))))


def _missing(name: str, stream: Stream | None, sources: Sources) -> str:
    if stream is not None:
        return f"the topic {stream.topic} of {name} is not there any more"
    return sources.catalog.no_source(name, sources.brokers.names())


def words_of(query: str) -> list[str]:
    """Return the names and words of a query in lower case."""
    return [
        (each.value if each.kind is Kind.QUOTED else each.text).lower()
        for each in tokens(query)
        if each.kind in (Kind.WORD, Kind.QUOTED)
    ]


def _place(query: str, name: str) -> int | None:
    """Return the place of a name in a query, the first one that stands where tables do."""
    before = ""
    for token in tokens(query):
        found = token.value if token.kind is Kind.QUOTED else token.text
        if found.lower() == name.lower() and before in ("FROM", "JOIN", ","):
            return token.at
        before = token.word or token.text
    return None


def _name_in(error: AnalysisException, asked: Asked) -> str:
    """Return the name that Spark does not know. Raise StatementError for one of several parts."""
    try:
        return table_name((error.getMessageParameters() or {})["relationName"])
    except PipelineError as refused:
        raise asked.error(str(refused), _place_of(error, asked)) from None


def _place_of(error: AnalysisException, asked: Asked) -> int | None:
    """Return the place that Spark gives for an error."""
    contexts = error.getQueryContext()
    if contexts:
        start = contexts[0].startIndex()
        if 0 <= start < len(asked.query):
            return int(start)
    if (found := POSITION.search(str(error).replace(";", ""))) is not None:
        return _offset(asked.query, int(found[1]), int(found[2]))
    return None


def _parse_error(asked: Asked, error: ParseException) -> tuple[str, int | None]:
    found = POSITION.search(str(error))
    at = None if found is None else _offset(asked.query, int(found[1]), int(found[2]))
    return sentence_of(error), at


def _offset(text: str, line: int, position: int) -> int:
    """Return the place of a line, from 1 on, and of a position in it."""
    lines = text.split("\n")
    return sum(len(each) + 1 for each in lines[: line - 1]) + position
