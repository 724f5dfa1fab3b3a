"""The streams, tables, functions and persistent queries that statements have made. Knows no broker
and no Spark.

Each is a record of the statements' topic: its key the name in lower case, its value JSON. Streams
are kept as the statement that would make them anew, with all their columns.
"""

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from raftka.json_values import JsonObject
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.records.fields import Field
from raftka.sql.functions import Function
from raftka.sql.language import StatementError, parse
from raftka.sql.language.reader import called_in
from raftka.sql.language.statements import Column, Create, Format, Options, Role
from raftka.sql.language.types import quoted, type_text
from raftka.versions import SQL_STATEMENTS, NewerFormat

RUN = re.compile(r"[0-9a-f]{32}")  # a folder has this name
MOST_SHOWN = 50  # names in an error
MOST = 1000  # streams, tables, functions and queries together


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream or a table over a topic."""

    kind: str  # STREAM or TABLE
    name: str
    columns: tuple[Column, ...]
    options: Options  # with topic and format

    @property
    def topic(self) -> str:
        return str(self.options.topic)

    @property
    def format(self) -> Format:
        return self.options.format or Format.JSON

    @property
    def keys(self) -> tuple[Column, ...]:
        return tuple(each for each in self.columns if is_key(each))

    @property
    def key(self) -> Column | None:
        """Return the column whose text is the key; None: the key has several, or no record has
        one.
        """
        return self.keys[0] if len(self.keys) == 1 else None

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return the fields of a record's value."""
        return tuple(
            Field(each.name, each.kind, nullable=not each.is_required)
            for each in self.columns
            if each.role is Role.VALUE
        )

    @property
    def text(self) -> str:
        """Return the statement that makes it."""
        columns = ", ".join(_column_text(each) for each in self.columns)
        options = ", ".join(
            f"{name}={_literal(value)}"
            for name, value in (
                ("KAFKA_TOPIC", self.topic),
                ("VALUE_FORMAT", str(self.format)),
                ("TIMESTAMP", self.options.timestamp),
                ("WATERMARK", self.options.watermark),
                ("VALUE_DELIMITER", self.options.delimiter),
            )
            if value is not None
        )
        return f"CREATE {self.kind} {quoted(self.name)} ({columns}) WITH ({options})"


def is_key(column: Column) -> bool:
    return column.role in (Role.KEY, Role.PRIMARY_KEY)


def _column_text(column: Column) -> str:
    words = [quoted(column.name), type_text(column.kind)]
    if column.role is Role.HEADER:
        words.append(f"HEADER({_literal(column.header)})")
    elif column.role is not Role.VALUE:
        words.append(str(column.role))
    elif column.is_required:
        words.append("NOT NULL")
    return " ".join(words)


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


@dataclass(frozen=True, slots=True)
class PersistentQuery:
    """A query that writes to the topic of a stream, as long as it is not terminated."""

    name: str
    target: str  # the stream that it writes to
    query: str
    sources: tuple[str, ...]  # names of streams, tables and topics that it reads, in lower case
    server: str  # the id of the server that runs it
    run: str  # an id that no other query has: the name of its checkpoint
    is_paused: bool = False
    schema_id: int | None = None  # that rows are written with, where their format has one
    is_final: bool = False  # EMIT FINAL: a row of a table is written when it changes no more


Entry = Stream | PersistentQuery | Function


@dataclass
class Catalog:
    """`replay` is the only place where it changes."""

    entries: dict[str, Entry] = field(default_factory=dict)  # by name in lower case

    def replay(self, key: str, value: bytes | None, where: str) -> None:
        """Raises PipelineError for records of a later release, and for values without a statement.
        `where`: topic and offset.
        """
        if value is None:
            self.entries.pop(key, None)
        else:
            self.entries[key] = decode(value, where)

    def streams(self, kind: str) -> Iterator[Stream]:
        """Yield those of a kind, by name."""
        for _, each in sorted(self.entries.items()):
            if isinstance(each, Stream) and each.kind == kind:
                yield each

    def queries(self) -> Iterator[PersistentQuery]:
        for _, each in sorted(self.entries.items()):
            if isinstance(each, PersistentQuery):
                yield each

    def functions(self) -> Iterator[Function]:
        for _, each in sorted(self.entries.items()):
            if isinstance(each, Function):
                yield each

    def function_users(self, name: str) -> list[PersistentQuery]:
        """Return the queries that call a function."""
        return [each for each in self.queries() if name.lower() in called_in(each.query)]

    def stream(self, name: str) -> Stream | None:
        found = self.entries.get(name.lower())
        return found if isinstance(found, Stream) else None

    def no_source(self, name: str, topics: Sequence[str]) -> str:
        """Return the sentence that nothing to read has this name. `topics`: of the cluster."""
        streams = [each.name for kind in ("STREAM", "TABLE") for each in self.streams(kind)]
        known = list(dict.fromkeys([*streams, *topics]))
        near = difflib.get_close_matches(name, known, 1)
        return (
            f"there is no stream, table or topic {name}."
            + (f" Is it {near[0]}?" if near else "")
            + f" There are: {', '.join(known[:MOST_SHOWN]) or 'none'}"
        )

    def query(self, name: str) -> PersistentQuery | None:
        found = self.entries.get(name.lower())
        return found if isinstance(found, PersistentQuery) else None

    def keys_of_table(self, name: str) -> tuple[str, ...] | None:
        """Return the key columns of a table; None: the name is none of a table."""
        found = self.stream(name)
        if found is None or found.kind != "TABLE":
            return None
        return tuple(each.name for each in found.keys)

    def delay_of(self, name: str) -> str | None:
        """Return how late records of a stream may be; None: nothing says it."""
        found = self.stream(name)
        return None if found is None else found.options.watermark

    def with_watermarks(self, delays: Mapping[str, str]) -> "Catalog":
        """Return a copy whose streams of these names, in lower case, have other watermarks."""
        changed: dict[str, Entry] = {
            name: replace(found, options=replace(found.options, watermark=delay))
            for name, delay in delays.items()
            if (found := self.stream(name)) is not None
        }
        return Catalog({**self.entries, **changed})

    def users(self, name: str) -> list[str]:
        """Return the names of the queries that read or write a stream."""
        return [
            each.name
            for each in self.queries()
            if name.lower() in each.sources or each.target.lower() == name.lower()
        ]

    def new_name(self, wanted: str) -> str:
        """Return a name of a query that no entry has: the wanted one, or one with a number."""
        found, number = wanted, 2
        while found.lower() in self.entries:
            found, number = f"{wanted}_{number}", number + 1
        return found


def encode(entry: Entry) -> bytes:
    """Return the value of an entry's record."""
    if isinstance(entry, Stream):
        return json.dumps({"version": 0, "statement": entry.text}).encode()
    if isinstance(entry, Function):
        return json.dumps({"version": 0, "function": entry.name, "python": entry.code}).encode()
    has_schema = {} if entry.schema_id is None else {"schema": entry.schema_id}
    return json.dumps(
        {
            "version": 0,
            "query": entry.query,
            "name": entry.name,
            "target": entry.target,
            "sources": entry.sources,
            "server": entry.server,
            "run": entry.run,
            "paused": entry.is_paused,
            **has_schema,
            **({"final": True} if entry.is_final else {}),
        }
    ).encode()


def decode(value: bytes, where: str) -> Entry:
    """Raises PipelineError."""
    try:
        found: JsonObject = dict(json.loads(value))
        SQL_STATEMENTS.check(int(found["version"]), where)
        if "function" in found:
            return Function(str(found["function"]), str(found["python"]))
        return _stream(found["statement"]) if "statement" in found else _query(found)
    except NewerFormat as error:
        raise PipelineError(str(error)) from None
    except (ValueError, TypeError, KeyError, StatementError) as error:
        raise PipelineError(
            f"{where} has a record that is no statement: {type(error).__name__} {error}"
        ) from None


def _stream(text: str) -> Stream:
    made = parse(text)
    if not isinstance(made, Create) or made.columns is None:
        raise ValueError(text)
    return Stream(made.kind, made.name, made.columns, made.options)


def _query(found: Mapping[str, object]) -> PersistentQuery:
    sources, run, schema_id = found["sources"], str(found["run"]), found.get("schema")
    if not isinstance(sources, list) or RUN.fullmatch(run) is None:
        raise ValueError(f"sources {sources!r:.100}, run {run!r:.100}")
    return PersistentQuery(
        str(found["name"]),
        str(found["target"]),
        str(found["query"]),
        tuple(map(str, sources)),
        str(found["server"]),
        run,
        bool(found["paused"]),
        None if schema_id is None else int(str(schema_id)),
        bool(found.get("final")),  # of 0.x, which had none: false
    )
