"""Statistics of a data file as Delta's log has them, from the Parquet footer: counts of rows and
nulls, smallest and largest value of each column.

Readers that build on Arrow take a column without bounds, in a file that has bounds for others, for
a column without values. So a file has bounds for all its columns of a kind that can be compared, or
for none.
"""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from raftka.json_values import Json, JsonObject

if TYPE_CHECKING:
    from pyarrow.parquet import ColumnChunkMetaData, FileMetaData

CHARACTERS = 64  # of a text; longer bounds are cut, the upper one to something larger
LARGEST_CHARACTER = "\U0010ffff"
MS = timedelta(milliseconds=1)


class Unbounded(Exception):
    """A column has values that no bound in the log describes."""


class Bounds(NamedTuple):
    least: Json
    most: Json


def statistics(records: int, footer: object, *, finite: bool) -> str:
    """Statistics of a file with this Parquet footer; `finite`: no floating point number in it is
    NaN or infinite: JSON has no number for these.
    """
    found: JsonObject = {"numRecords": records}
    if finite:
        try:
            found |= _columns(footer)
        except (Unbounded, OverflowError):
            pass  # counts alone are right as well
    return json.dumps(found)


def is_compared(kind: object) -> bool:
    """Return whether readers compare columns of this Arrow type with bounds."""
    from pyarrow import types

    tests = (
        types.is_boolean,
        types.is_integer,
        types.is_floating,
        types.is_string,
        types.is_date,
        types.is_timestamp,
        types.is_decimal,
    )
    return any(test(kind) for test in tests)


def _columns(footer: "FileMetaData") -> Mapping[str, Json]:
    least: JsonObject = {}
    most: JsonObject = {}
    nulls: dict[str, int] = {}
    for at, field in enumerate(_leaves(footer)):
        if field is None or not is_compared(field.type):
            continue
        groups = [footer.row_group(group).column(at) for group in range(footer.num_row_groups)]
        nulls[field.name] = sum(_nulls(each) for each in groups)
        ends = [_ends(each.statistics) for each in groups if _nulls(each) < each.num_values]
        if ends:
            least[field.name] = _least(min(each.least for each in ends))
            most[field.name] = _most(max(each.most for each in ends))
    return {"minValues": least, "maxValues": most, "nullCount": nulls}


def _leaves(footer: "FileMetaData") -> "list[ColumnChunkMetaData]":
    """Return the Arrow field of each Parquet column; None for a column inside a list, a map or a
    group.
    """
    fields = {field.name: field for field in footer.schema.to_arrow_schema()}
    paths = [footer.schema.column(at) for at in range(len(footer.schema))]
    return [
        fields[each.name] if each.path == each.name and each.name in fields else None
        for each in paths
    ]


def _nulls(column: "ColumnChunkMetaData") -> int:
    found = column.statistics
    if found is None or not found.has_null_count:
        raise Unbounded
    return int(found.null_count)


def _ends(found: "ColumnChunkMetaData") -> Bounds:
    if not found.has_min_max:
        raise Unbounded
    return Bounds(found.min, found.max)


def _least(value: object) -> Json:
    if isinstance(value, str):
        return value[:CHARACTERS]
    return _moment(value) if isinstance(value, datetime) else _plain(value)


def _most(value: object) -> Json:
    if isinstance(value, str):
        cut = value[:CHARACTERS] + LARGEST_CHARACTER if len(value) > CHARACTERS else value
        if cut < value:
            raise Unbounded
        return cut
    return (
        _moment(value + (-value.replace(tzinfo=None).microsecond % 1000) * MS / 1000)
        if isinstance(value, datetime)
        else _plain(value)
    )


def _moment(value: datetime) -> str:
    """Delta has ms. A local time has no zone."""
    utc = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return utc.isoformat(timespec="milliseconds") + ("" if value.tzinfo is None else "Z")


def _plain(value: object) -> Json:
    if isinstance(value, Decimal):
        near = float(value)
        if Decimal(repr(near)) != value:
            raise Unbounded
        return near
    return value.isoformat() if isinstance(value, date) else value
