"""Read a table as a stream by a column whose values grow: numbers, or times. Knows Arrow, and no
Spark.

A batch is the rows with values above one bound, up to another one. Both bounds are in the query's
checkpoint, so a batch that is done again has the same rows, unless the table has changed below the
upper bound. A row that is committed below a bound that was planned already is never read: `lag`
keeps the bounds away from values that transactions may still be writing.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from raftka.json_values import Json, JsonObject
from raftka.pipeline.connect.databases import Connection, column, connected, quoted
from raftka.pipeline.connect.table_options import TableSource
from raftka.pipeline.errors import OptionRefused, PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

AFTER = "after"  # the name of the bound in checkpoints
INITIAL: JsonObject = {AFTER: None}
FETCHED = 10_000  # rows
SHOWN = 60


def check(source: TableSource, schema: "pa.Schema") -> None:
    """Raises OptionRefused for a column that can not be followed."""
    from pyarrow import types

    if source.column not in schema.names:
        raise OptionRefused(
            f"column names {source.column}, which is no field: there are {', '.join(schema.names)}"
        )
    for name in schema.names:
        column(name)
    kind = schema.field(source.column).type
    is_time = types.is_timestamp(kind)
    if not is_time and not types.is_integer(kind):
        raise OptionRefused(
            f"the column {source.column} is to be an int, a bigint or a timestamp; other values "
            "have no order that all databases share"
        )
    if is_time and source.database.is_sqlite:
        raise OptionRefused(
            f"SQLite has no type for times: follow a column of whole numbers, not {source.column}"
        )
    if source.lag and source.lag_is_time != is_time:
        raise OptionRefused(
            f"lag is to be {'a time, such as 30 seconds' if is_time else 'a number'}, as the "
            f"column {source.column} is"
        )


class Plan:
    """The driver's side: where the next batch ends."""

    def __init__(self, source: TableSource) -> None:
        self._source = source
        self._frozen: Json = None  # availableNow: where the run ends
        self._is_frozen = False

    def freeze(self) -> None:
        with connected(self._source.database) as connection:
            self._frozen = self._highest(connection, INITIAL, None)
        self._is_frozen = True

    def latest(self, start: JsonObject) -> JsonObject:
        """The end of the next batch; `start` itself when there is nothing to read. Raises
        PipelineError.
        """
        if self._is_frozen and self._frozen is None:
            return start
        with connected(self._source.database) as connection:
            end = self._highest(connection, start, self._source.rows_per_batch)
        return start if end is None else {AFTER: _told(end)}

    def _highest(self, connection: Connection, start: JsonObject, rows: int | None) -> Json:
        """The highest value that may be read; of so many rows."""
        source, name = self._source, column(self._source.column)
        conditions, values = [f"{name} IS NOT NULL"], []
        if start[AFTER] is not None:
            conditions.append(f"{name} > ?")
            values.append(bound(start))
        if source.lag_is_time and source.lag:
            conditions.append(f"{name} <= now() - ? * interval '1 second'")
            values.append(source.lag)
        elif source.lag:
            conditions.append(f"{name} <= (SELECT max({name}) - ? FROM {quoted(source.name)})")
            values.append(source.lag)
        if self._is_frozen:
            conditions.append(f"{name} <= ?")
            values.append(self._frozen)
        rest = f"FROM {quoted(source.name)} WHERE {' AND '.join(conditions)}"
        if rows is None:
            return connection.one(f"SELECT max({name}) {rest}", values)
        return connection.one(
            f"SELECT max({name}) FROM (SELECT {name} {rest} ORDER BY {name} LIMIT ?) AS next_rows",
            [*values, rows],
        )


def bound(offset: JsonObject) -> Json:
    """As the database takes it."""
    value = offset[AFTER]
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def _told(value: object) -> Json:
    """As it stands in a checkpoint. Raises PipelineError."""
    if isinstance(value, datetime):
        return value.isoformat()
    if type(value) is int:
        return value
    if isinstance(value, Decimal) and value == int(value):
        return int(value)
    raise PipelineError(
        f"the growing column has the value {str(value)[:SHOWN]!r}, which is neither a whole "
        "number nor a time"
    )


def read(
    source: TableSource, schema: "pa.Schema", start: JsonObject, end: JsonObject
) -> "Iterator[pa.RecordBatch]":
    """The rows of one batch. Raises PipelineError."""
    name = column(source.column)
    conditions, values = [f"{name} <= ?"], [bound(end)]
    if start[AFTER] is not None:
        conditions.append(f"{name} > ?")
        values.append(bound(start))
    columns = ", ".join(column(each) for each in schema.names)
    statement = (
        f"SELECT {columns} FROM {quoted(source.name)} WHERE {' AND '.join(conditions)} ORDER BY "
        f"{name}"
    )
    with connected(source.database) as connection, connection.transaction(writes=False):
        for rows in connection.stream(statement, values, FETCHED):
            yield as_arrow(source, schema, rows)


def as_arrow(
    source: TableSource, schema: "pa.Schema", rows: Sequence[Sequence[object]]
) -> "pa.RecordBatch":
    import pyarrow as pa

    arrays = []
    for at, each in enumerate(schema):
        try:
            arrays.append(pa.array([cell(row[at], each.type) for row in rows], each.type))
        except (ValueError, TypeError, OverflowError, InvalidOperation, pa.ArrowException) as error:
            raise PipelineError(
                f"a row of {source.name} has no {each.type} in its column {each.name}: "
                f"{_first_misfit(rows, at, each.type, error)}"
            ) from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _first_misfit(rows: Sequence[Sequence[object]], at: int, kind: object, error: Exception) -> str:
    import pyarrow as pa

    for row in rows:
        try:
            pa.array([cell(row[at], kind)], kind)
        except (ValueError, TypeError, OverflowError, InvalidOperation, pa.ArrowException):
            return repr(row[at])[:SHOWN]
    return str(error)


def cell(value: object, kind: object) -> Json:
    """A database's value as Arrow takes it. Raises ValueError for one of another kind."""
    from pyarrow import types

    if value is None:
        return None
    if types.is_timestamp(kind):
        value = datetime.fromisoformat(value) if isinstance(value, str) else value
        if not isinstance(value, datetime):
            raise ValueError(value)
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if types.is_date(kind):
        if isinstance(value, datetime):
            raise ValueError(value)
        return date.fromisoformat(value) if isinstance(value, str) else value
    if types.is_decimal(kind):
        if isinstance(value, bool):
            raise ValueError(value)
        return Decimal(str(value))
    if types.is_boolean(kind):
        if value not in (0, 1):
            raise ValueError(value)
        return bool(value)
    if types.is_integer(kind):
        if isinstance(value, bool | float | str) or value != int(value):  # type: ignore[call-overload]
            raise ValueError(value)
        return int(value)  # type: ignore[call-overload]
    if types.is_floating(kind):
        if isinstance(value, bool | str):
            raise ValueError(value)
        return float(value)  # type: ignore[arg-type]
    if types.is_string(kind):
        if isinstance(value, bytes | memoryview):
            raise ValueError("bytes")
        return json.dumps(value) if isinstance(value, Mapping | list) else str(value)
    if types.is_binary(kind):
        if not isinstance(value, bytes | memoryview):
            raise ValueError(value)
        return bytes(value)
    return value  # lists and groups: Arrow looks at them
