"""Statements as values: one frozen class for each kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from raftka.json_values import Json
from raftka.pipeline.records.fields import Kind


class Role(StrEnum):
    """The part of a record that a column comes from."""

    VALUE = ""
    KEY = "KEY"
    PRIMARY_KEY = "PRIMARY KEY"
    HEADERS = "HEADERS"
    HEADER = "HEADER"  # the last one of a name


class Format(StrEnum):
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    DELIMITED = "delimited"
    JSON_SR = "json_sr"  # JSON behind the id of a JSON Schema

    @property
    def has_schema(self) -> bool:
        """Return whether a registry has the schema of its values."""
        return self in (Format.AVRO, Format.PROTOBUF, Format.JSON_SR)

    @property
    def decoded_as(self) -> str:
        """Return the name that decoders of values have for it."""
        return "json" if self is Format.JSON_SR else str(self)


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: Kind
    role: Role = Role.VALUE
    header: str = ""  # the name of the header, of the role HEADER
    is_required: bool = False  # NOT NULL


@dataclass(frozen=True, slots=True)
class Options:
    """The options of WITH. None: not given."""

    topic: str | None = None
    format: Format | None = None
    partitions: int | None = None
    replicas: int | None = None
    timestamp: str | None = None  # the column with the time of a record
    watermark: str | None = None  # how late a record may be
    delimiter: str | None = None  # between the values of a delimited record


@dataclass(frozen=True, slots=True)
class Statement:
    text: str  # all of it
    at: int  # the place of its name in the text, for errors


@dataclass(frozen=True, slots=True)
class Show(Statement):
    what: str  # STREAMS, TABLES, QUERIES, TOPICS or FUNCTIONS


@dataclass(frozen=True, slots=True)
class Describe(Statement):
    name: str
    is_extended: bool


@dataclass(frozen=True, slots=True)
class Print(Statement):
    topic: str
    from_beginning: bool
    limit: int | None


@dataclass(frozen=True, slots=True)
class Query(Statement):
    """A question. `at` is the place of its first word."""

    query: str  # Spark's part of the text
    is_push: bool
    from_beginning: bool
    limit: int | None


@dataclass(frozen=True, slots=True)
class Explain(Statement):
    """Of a query as text, or of one that goes on."""

    query: Query | None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Create(Statement):
    kind: str  # STREAM or TABLE
    name: str
    columns: tuple[Column, ...] | None  # None: those of the registry
    options: Options
    is_replacing: bool
    if_missing: bool


@dataclass(frozen=True, slots=True)
class CreateAs(Statement):
    kind: str  # STREAM or TABLE
    name: str
    options: Options
    query: str
    query_at: int
    key: str | None  # the column of PARTITION BY
    is_final: bool  # EMIT FINAL: rows of windows that are closed
    is_replacing: bool = False
    if_missing: bool = False


@dataclass(frozen=True, slots=True)
class CreateFunction(Statement):
    name: str
    code: str | None  # of its file, in Python
    path: str | None  # of the file, which the prompt reads
    file_at: int  # the place of either
    is_replacing: bool
    if_missing: bool


@dataclass(frozen=True, slots=True)
class DropFunction(Statement):
    name: str
    if_there: bool


@dataclass(frozen=True, slots=True)
class DescribeFunction(Statement):
    name: str


@dataclass(frozen=True, slots=True)
class InsertQuery(Statement):
    name: str
    query: str
    query_at: int


@dataclass(frozen=True, slots=True)
class InsertValues(Statement):
    name: str
    columns: tuple[str, ...] | None
    rows: Sequence[Sequence[Json]]


@dataclass(frozen=True, slots=True)
class Drop(Statement):
    kind: str  # STREAM or TABLE
    name: str
    deletes_topic: bool
    if_there: bool


@dataclass(frozen=True, slots=True)
class Control(Statement):
    action: str  # PAUSE, RESUME or TERMINATE
    name: str
