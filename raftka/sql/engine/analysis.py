"""Queries that Spark has understood: their names are streams, tables and topics, and its errors are
sentences with a place in the statement.

Each query has a session of its own: names of one mean nothing to another.
"""

import difflib
import json
import re
from collections.abc import Mapping, Sequence
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
from raftka.sql.language.dialect import translate
from raftka.sql.language.errors import StatementError
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
    at_once: int  # records of a batch


class Analyzed(NamedTuple):
    frame: "DataFrame"
    sources: tuple[str, ...]  # names of streams, tables and topics that it reads, in lower case


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
    translated = translate(asked.query)
    sources = sources._replace(catalog=sources.catalog.with_watermarks(translated.delays))
    try:
        found = _analyze(spark, Asked(translated.text, translated.text, 0), sources, begin)
    except StatementError as error:
        raise asked.error(error.message, translated.place(error.at or 0)) from None
    if others := translated.delays.keys() - set(found.sources):
        raise asked.error(
            f"GRACE PERIOD is of a stream, and {min(others)} is none. Next step: put WINDOW where "
            "the stream itself is read"
        )
    return found


def _analyze(
    spark: "SparkSession", asked: Asked, sources: Sources, begin: Start | None
) -> Analyzed:
    """Return the frame of a query in Spark's words."""
    own = spark.newSession()
    own.conf.set(ON_FILES, "false")
    check_permitted(own, asked.query, asked.error)
    register_functions(own, asked.query, sources.catalog, is_allowed=sources.has_functions)
    mentioned = words_of(asked.query)
    made: list[str] = []
    while True:
        try:
            return Analyzed(own.sql(asked.query), tuple(sorted(made)))
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
        _make(own, asked, name, sources, mentioned, begin)
        made.append(name.lower())


def _make(
    own: "SparkSession",
    asked: Asked,
    name: str,
    sources: Sources,
    mentioned: Sequence[str],
    begin: Start | None,
) -> None:
    """Make the view of a name."""
    stream = sources.catalog.stream(name)
    topic = name if stream is None else stream.topic
    partitions = sources.brokers.topics([topic])
    if topic not in partitions:
        raise asked.error(_missing(name, stream, sources), _place(asked.query, name))
    options = {
        **sources.connection,
        "subscribe": topic,
        "kafka.isolation.level": "read_committed",
        "startingOffsets": EARLIEST,
    }
    if begin is not None:
        options["maxOffsetsPerTrigger"] = str(begin.at_once)
        if begin.offsets == LATEST:
            options["startingOffsets"] = _ends(sources.brokers, topic)
    if stream is None:
        frame = topic_frame(own, options, is_push=begin is not None)
    else:
        frame = stream_frame(
            own, stream, options, mentioned, sources.registry, is_push=begin is not None
        )
    frame.createOrReplaceTempView(quoted(name))


def _ends(brokers: Brokers, topic: str) -> str:
    """Return the present ends of a topic as `startingOffsets`: Spark would look later."""
    wheres = [(topic, each) for each in brokers.topics([topic])[topic].partitions]
    return json.dumps(nested(brokers.offsets(dict.fromkeys(wheres, END))))


def _missing(name: str, stream: Stream | None, sources: Sources) -> str:
    if stream is not None:
        return f"the topic {stream.topic} of {name} is not there any more"
    known = [each.name for kind in ("STREAM", "TABLE") for each in sources.catalog.streams(kind)]
    known += sources.brokers.names()
    near = difflib.get_close_matches(name, known, 1)
    others = ", ".join(list(dict.fromkeys(known))[:50]) or "none"
    return (
        f"there is no stream, table or topic {name}."
        + (f" Is it {near[0]}?" if near else "")
        + f" There are: {others}"
    )


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
