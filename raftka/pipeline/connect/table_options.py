"""Options of tables that are read or written, and their errors as sentences. Opens no
connection.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from raftka.pipeline.connect.databases import Database, column, database, quoted
from raftka.pipeline.connect.options import (
    KEEP_REMOVED_S,
    Keyed,
    keyed,
    known_options,
    span_s,
    whole,
)
from raftka.pipeline.errors import OptionRefused

BOTH = ["url", "name", "password_from", "timeout"]
READ = [*BOTH, "column", "lag", "rows_per_batch"]
WRITTEN = [*BOTH, "key", "order", "delete", "keep_removed"]
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
    delete: str | None = None  # a boolean column that the table has not: true removes the row
    # with `order`: so long older changes do not bring back a row that was removed
    keep_removed_s: int = KEEP_REMOVED_S


def table_source(given: Mapping[str, str]) -> TableSource:
    """Raises OptionRefused."""
    options = known_options(given, READ)
    if not options.get("column", "").strip():
        raise OptionRefused("which column of the table grows with each new row? `column: id`")
    text = options.get("lag", "0").strip()
    match = LAG.fullmatch(text)
    if match is None:
        raise OptionRefused(
            f"lag is {text!r}: a number for a column of numbers, such as 1000, or a time for one "
            "of times, such as 30 seconds"
        )
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
    keep = options.get("keep_removed", "").strip()
    if keep and (found is None or found.delete is None or found.order is None):
        raise OptionRefused(
            "keep_removed says how long removed rows are remembered: it needs a delete and an order"
        )
    keep_s = span_s(keep, "keep_removed") if keep else KEEP_REMOVED_S
    if found is None:
        return TableSink(_database(options), _name(options))
    return TableSink(
        _database(options), _name(options), found.key, found.order, found.delete, keep_s
    )


def check_columns(sink: TableSink, columns: tuple[str, ...]) -> None:
    """Of the rows that are to be written. Raises OptionRefused."""
    for name in columns:
        column(name)
    Keyed(sink.key, sink.order, sink.delete).check_columns(columns)


def _database(options: Mapping[str, str]) -> Database:
    return database(
        options.get("url", ""),
        options.get("password_from") or None,
        whole(options, "timeout", 300, 1, 86_400),
    )


def _name(options: Mapping[str, str]) -> str:
    name = options.get("name", "").strip()
    if not name:
        raise OptionRefused("which table? `name: orders`, or `name: schema.orders`")
    quoted(name)
    return name
