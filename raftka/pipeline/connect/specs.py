"""Connectors as `streams.yml` declares them: which Spark format with which options they become.
Knows no Spark.

streams:
  prices: {files: inbox/*.csv, format: csv, fields: {id: bigint, price: double}}
  orders: {table: {url: "postgresql://raftka@db/shop", name: orders, column: id}, fields: {id:
  bigint, name: string}}
outputs:
  archive: {from: trucks, files: archive, format: parquet}
  orders: {from: orders, table: {url: "postgresql://raftka@db/shop", name: orders, key: [id]}}
  alerts: {from: alerts, webhook: https://example.org/hook, secret_headers: {authorization:
  HOOK_TOKEN}}
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from raftka.json_values import Json, JsonObject
from raftka.pipeline.connect.iceberg_options import iceberg_options
from raftka.pipeline.connect.table_options import table_sink, table_source
from raftka.pipeline.connect.webhook_options import webhook_options
from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.lake.options import KEYED, keyed_by
from raftka.pipeline.records.fields import Field, Group, Many, MapOf, fields

FILE_FORMATS = ("csv", "json", "parquet")
SOURCES = ("files", "table")
SINKS = ("files", "webhook", "table", "iceberg")
IN_BOTH = ["fields", "watermark", "options"]
OUT_BOTH = ["from", "columns", "options"]
WEBHOOK = [
    "rows_per_request",
    "timeout",
    "retries",
    "id",
    "ca_file",
    "dead_letters",
    "headers",
    "secret_headers",
]
# of a folder: options that we set
OURS = {
    "path",
    "mode",
    "schema",
    "inferschema",
    "columnnameofcorruptrecord",
    "format",
    "checkpointlocation",
}
CORRUPT = "_corrupt_record"
ALL_TIMES = "36500d"  # Spark passes by files that are a week older than the newest one, unless told


@dataclass(frozen=True, slots=True)
class Source:
    """A stream that is read from elsewhere than a topic."""

    name: str
    kind: str
    format: str  # Spark's name of it
    options: Mapping[str, str]
    fields: tuple[Field, ...]
    watermark: tuple[str, str] | None = None  # column, delay


@dataclass(frozen=True, slots=True)
class Sink:
    """The destination of an output that is neither a topic nor a Delta table."""

    kind: str
    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    dead_letters: str | None = None  # a topic that is made where it is not there


def kind_of(told: Mapping[str, object], kinds: Sequence[str]) -> str | None:
    """The connector that a stream or an output names; None: it names none."""
    return next((kind for kind in kinds if kind in told), None)


# sources


def source(name: str, told: Mapping[str, Json], folder: Path) -> Source:
    """Raises OptionRefused."""
    kind = kind_of(told, SOURCES)
    assert kind is not None
    if others := [each for each in (*SOURCES, "topic") if each in told and each != kind]:
        raise OptionRefused(f"{name} has {kind} and {others[0]}: it reads one of them")
    return _SOURCES[kind](name, told, folder)


def _file_source(name: str, told: Mapping[str, Json], folder: Path) -> Source:
    refuse_unknown(told, [*IN_BOTH, "files", "format"], name)
    kind = _file_format(name, told)
    given = plain_options(told.get("options", {}), f"{name}.options")
    _refuse_ours(name, given)
    wanted = _fields(name, told)
    if kind == "csv" and (
        nested := [
            each.name
            for each in wanted
            if isinstance(each.kind, Many | Group | MapOf) or each.kind == "binary"
        ]
    ):
        raise OptionRefused(
            f"{name}.fields: {nested[0]} can not be in a CSV file: lists, groups, maps and bytes "
            "have no place there"
        )
    options = {"path": path_of(told["files"], folder, f"{name}.files"), "maxFileAge": ALL_TIMES}
    if kind != "parquet":
        options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    if kind == "csv":
        options |= {"header": "true", "enforceSchema": "false"}
    return Source(
        name, "files", kind, {**options, **given}, wanted, watermark(told.get("watermark"), name)
    )


def _fields(name: str, told: Mapping[str, Json]) -> tuple[Field, ...]:
    if "fields" not in told:
        raise OptionRefused(f"{name}: which fields do its rows have?")
    return fields(told["fields"], f"{name}.fields")


def _table_source(name: str, told: Mapping[str, Json], folder: Path) -> Source:
    refuse_unknown(told, [*IN_BOTH[:2], "table"], name)
    options, wanted = _table(name, told, folder), _fields(name, told)
    with _named(name):
        if table_source(options).column not in [each.name for each in wanted]:
            raise OptionRefused(f"column names {options['column']}, which is no field")
    return Source(
        name, "table", "raftka_table", options, wanted, watermark(told.get("watermark"), name)
    )


def _table(name: str, told: Mapping[str, Json], folder: Path) -> dict[str, str]:
    """A file of SQLite counts from the project."""
    table = told["table"]
    key = table.get("key") if isinstance(table, Mapping) else None
    options = plain_options(
        {**table, "key": ",".join(map(str, key))} if isinstance(key, list) else table,
        f"{name}.table",
    )
    if match := re.fullmatch(r"sqlite:///(?!/)(.+)", options.get("url", "")):
        options["url"] = f"sqlite:///{path_of(match[1], folder, name)}"
    return options


_SOURCES: dict[str, Callable[[str, Mapping[str, Json], Path], Source]] = {
    "files": _file_source,
    "table": _table_source,
}


# sinks


def sink(name: str, told: Mapping[str, Json], folder: Path, kafka: Mapping[str, str]) -> Sink:
    """`kafka`: options that say where the cluster is, for dead letters. Raises OptionRefused."""
    kind = kind_of(told, SINKS)
    assert kind is not None
    if others := [each for each in (*SINKS, "topic", "delta") if each in told and each != kind]:
        raise OptionRefused(f"{name} has {kind} and {others[0]}: it goes to one of them")
    if kind == "webhook":
        return _webhook(name, told, kafka)
    return _SINKS[kind](name, told, folder)


def _file_sink(name: str, told: Mapping[str, Json], folder: Path) -> Sink:
    refuse_unknown(told, [*OUT_BOTH, "files", "format"], name)
    kind = _file_format(name, told)
    given = plain_options(told.get("options", {}), f"{name}.options")
    _refuse_ours(name, given)
    path = path_of(told["files"], folder, f"{name}.files")
    if "*" in path:
        raise OptionRefused(f"{name}.files is to be one folder: {path}")
    return Sink(
        "files", kind, {"path": path, **({"header": "true"} if kind == "csv" else {}), **given}
    )


def _webhook(name: str, told: Mapping[str, Json], kafka: Mapping[str, str]) -> Sink:
    refuse_unknown(told, [*OUT_BOTH, "webhook", *WEBHOOK], name)
    options = {"url": str(told["webhook"])}
    for key in WEBHOOK:
        if key in ("headers", "secret_headers"):
            each = plain_options(told.get(key, {}), f"{name}.{key}")
            options |= {f"{key[:-1]}.{header}": value for header, value in each.items()}
        elif key in told:
            options[key] = str(told[key])
    dead_letters = options.get("dead_letters")
    if dead_letters is not None:
        options |= kafka
    options |= plain_options(told.get("options", {}), f"{name}.options")
    with _named(name):
        webhook_options(options)
    return Sink("webhook", "raftka_webhook", options, dead_letters)


def _table_sink(name: str, told: Mapping[str, Json], folder: Path) -> Sink:
    refuse_unknown(told, [*OUT_BOTH[:2], "table"], name)
    options = _table(name, told, folder)
    with _named(name):
        table_sink(options)
    return Sink("table", "raftka_table", options)


def _iceberg_sink(name: str, told: Mapping[str, Json], folder: Path) -> Sink:
    refuse_unknown(told, [*OUT_BOTH[:2], "iceberg"], name)
    where = f"{name}.iceberg"
    given = told["iceberg"]
    if not isinstance(given, Mapping):
        raise OptionRefused(f"{where} is to be a mapping")
    refuse_unknown(given, ["table", "catalog", "secrets"], where)
    options = {"table": str(given.get("table", ""))}
    options |= {
        f"catalog.{key}": value
        for key, value in plain_options(given.get("catalog", {}), f"{where}.catalog").items()
    }
    options |= {
        f"secret.{key}": value
        for key, value in plain_options(given.get("secrets", {}), f"{where}.secrets").items()
    }
    if match := re.fullmatch(r"sqlite:///(?!/)(.+)", options.get("catalog.uri", "")):
        options["catalog.uri"] = f"sqlite:///{path_of(match[1], folder, where)}"
    if "catalog.warehouse" in options and options.get("catalog.type") == "sql":
        options["catalog.warehouse"] = path_of(options["catalog.warehouse"], folder, where)
    with _named(name):
        iceberg_options(options)
    return Sink("iceberg", "raftka_iceberg", options)


def keyed_options(
    name: str, told: Mapping[str, Json], options: Mapping[str, str]
) -> dict[str, str]:
    """Options of a lake whose rows are changed by key. `options`: those that the output has beside
    them. Raises OptionRefused.
    """
    found = {each: told[each] for each in KEYED if each in told}
    if twice := [each for each in found if each in [given.lower() for given in options]]:
        raise OptionRefused(f"{name} has {twice[0]} twice: leave it out of its options")
    if isinstance(found.get("key"), list):
        found["key"] = ",".join(map(str, found["key"]))
    plain = plain_options(found, name)
    with _named(name):
        keyed_by({**{key.lower(): value for key, value in options.items()}, **plain})
    return plain


_SINKS: dict[str, Callable[[str, Mapping[str, Json], Path], Sink]] = {
    "files": _file_sink,
    "table": _table_sink,
    "iceberg": _iceberg_sink,
}


# helpers


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Mistakes with the name of the stream or output that has them."""
    try:
        yield
    except OptionRefused as error:
        raise OptionRefused(f"{name}: {error}") from None


def refuse_unknown(told: Mapping[str, object], known: Sequence[str], where: str) -> None:
    for name in told:
        if name not in known:
            raise OptionRefused(
                f"{where} has {name}, which means nothing; there are {', '.join(known)}"
            )


def plain_options(told: object, where: str) -> dict[str, str]:
    """Names and texts; YAML's true and false as Spark has them."""
    if not isinstance(told, Mapping):
        raise OptionRefused(f"{where} is to be a mapping")
    found: JsonObject = {str(name): each for name, each in told.items()}
    if nested := [
        name for name, each in found.items() if isinstance(each, Mapping | list) or each is None
    ]:
        raise OptionRefused(f"{where}.{nested[0]} is to be a text or a number")
    return {
        name: str(each).lower() if isinstance(each, bool) else str(each)
        for name, each in found.items()
    }


def columns(told: object, name: str) -> tuple[str, ...]:
    """SQL expressions of the rows that go out; empty: all columns of the view."""
    if told is None:
        return ()
    if not isinstance(told, list) or not told or not all(isinstance(each, str) for each in told):
        raise OptionRefused(
            f"{name}.columns is to be a list of columns, such as [truck, upper(name) as name]"
        )
    return tuple(told)


def watermark(told: object, name: str) -> tuple[str, str] | None:
    if told is None:
        return None
    if isinstance(told, Mapping) and told.keys() == {"column", "delay"}:
        return str(told["column"]), str(told["delay"])
    raise OptionRefused(
        f"{name}.watermark is {told!r}: {{column: sent, delay: 10 seconds}}, as its rows have no "
        "time of their own"
    )


def path_of(told: object, folder: Path, where: str) -> str:
    """Of a folder or a URL; a folder counts from the project."""
    if not isinstance(told, str) or not told.strip():
        raise OptionRefused(f"{where} is to be a folder or a URL")
    return told if "://" in told else str(folder.resolve() / told)


def _file_format(name: str, told: Mapping[str, Json]) -> str:
    kind = told.get("format", "json")
    if kind not in FILE_FORMATS:
        raise OptionRefused(f"{name}.format is {kind!r}: one of {', '.join(FILE_FORMATS)}")
    return str(kind)


def _refuse_ours(name: str, given: Mapping[str, str]) -> None:
    if ours := [each for each in given if each.lower() in OURS]:
        raise OptionRefused(
            f"{name}.options: {ours[0]} can not be set: files, format and fields say it, and rows "
            f"that do not fit go to {name}_bad"
        )
