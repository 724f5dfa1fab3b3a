"""Options of tables that are read or written, and what is wrong with them in a sentence. Opens no connection."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from raftka.pipeline.connect.databases import Database, column, database, quoted
from raftka.pipeline.connect.options import Keyed, keyed, known_options, whole
from raftka.pipeline.errors import OptionRefused

BOTH = ["url", "name", "password_from", "timeout"]
READ = [*BOTH, "column", "lag", "rows_per_batch"]
WRITTEN = [*BOTH, "key", "order"]
LAG = re.compile(r"(\d{1,12})(?:\s*(seconds?|minutes?|hours?|days?))?")
UNIT_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}


@dataclass(frozen=True, slots=True)
class TableSource:
    database: Database
    name: str
    column: str  # whose values grow
    lag: int = 0  # numbers, or seconds of a column of times: so far behind the end reading stays
    lag_is_time: bool = False
    rows_per_batch: int = 100_000


@dataclass(frozen=True, slots=True)
class TableSink:
    database: Database
    name: str
    key: tuple[str, ...] = ()  # of upserts; empty: rows are appended
    order: str | None = None  # of two rows with a key the one with the higher value stays


def table_source(given: Mapping[str, str]) -> TableSource:
    """Raises OptionRefused."""
    options = known_options(given, READ)
    if not options.get("column", "").strip():
        raise OptionRefused("which column of the table grows with each new row? `column: id`")
    text = options.get("lag", "0").strip()
    match = LAG.fullmatch(text)
    if match is None:
        raise OptionRefused(f"lag is {text!r}: a number for a column of numbers, such as 1000, or a time for one of times, such as 30 seconds")
    unit = None if match[2] is None else match[2].rstrip("s")
    column(options["column"].strip())
    return TableSource(
        _database(options),
        _name(options),
        options["column"].strip(),
        int(match[1]) * (1 if unit is None else UNIT_S[unit]),
        unit is not None,
        whole(options, "rows_per_batch", 100_000, 1, 100_000_000),
    )


def table_sink(given: Mapping[str, str]) -> TableSink:
    """Raises OptionRefused."""
    options = known_options(given, WRITTEN)
    found = keyed(options)
    return TableSink(_database(options), _name(options), *(() if found is None else (found.key, found.order)))


def check_columns(sink: TableSink, columns: tuple[str, ...]) -> None:
    """Of the rows that are to be written. Raises OptionRefused."""
    for name in columns:
        column(name)
    Keyed(sink.key, sink.order).check_columns(columns)


def _database(options: Mapping[str, str]) -> Database:
    return database(options.get("url", ""), options.get("password_from") or None, whole(options, "timeout", 300, 1, 86_400))


def _name(options: Mapping[str, str]) -> str:
    name = options.get("name", "").strip()
    if not name:
        raise OptionRefused("which table? `name: orders`, or `name: schema.orders`")
    quoted(name)
    return name
