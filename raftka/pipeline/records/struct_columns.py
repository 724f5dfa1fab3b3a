"""Structs of msgspec for declared fields, and columns of them, one at a time. Where a column
refuses a value it raises: another way is to judge then.

Values come from JSON's text (`PARSED`), or are Python's, as Avro and Protobuf give them (`PYTHON`):
there are moments, days, decimals and bytes among them, and msgspec would take a decimal for a
number.
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate, chain
from operator import attrgetter
from typing import Annotated

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from raftka.json_values import Json
from raftka.pipeline.records.arrow_types import arrow_type
from raftka.pipeline.records.fields import (
    CHECKS,
    PLAIN_DECIMAL,
    Exact,
    Field,
    Group,
    Kind,
    Many,
    MapOf,
)

PARSED, PYTHON = "parsed", "python"
Type = Json  # one that msgspec reads
Struct = Json  # a value of such a type
# kinds whose values msgspec gives as Arrow takes them
DIRECT = ("boolean", "int", "bigint", "string", "binary")
NUMBERS = {
    bits: Annotated[int, msgspec.Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)]
    for bits in (32, 64)
}
SHARED: dict[str, Type] = {
    "boolean": bool,
    "int": NUMBERS[32],
    "bigint": NUMBERS[64],
    "string": str,
}
# what msgspec gives: it leaves to us what is another type here than its kind
READ: dict[str, dict[str, Type]] = {
    PARSED: {
        **SHARED,
        "float": float,
        "double": float,
        "timestamp": int | str,
        "date": str,
        "decimal": int | float | str,
    },
    PYTHON: {
        **SHARED,
        "float": Json,
        "double": Json,
        "timestamp": Json,
        "date": Json,
        "decimal": Json,
        "binary": bytes,
    },
}
FLOATS = {int, float, type(None)}
MOMENTS = {datetime, type(None)}
# about the year 2109: below it a double holds each microsecond, and Python's way through one is
# exact
SAFE_MS = 1 << 42
EARLY, LATE = (
    int((datetime(*day) - datetime(1970, 1, 1)).total_seconds()) * 1_000_000
    for day in ((1, 1, 3), (9999, 12, 29))
)


class Unsupported(Exception):
    """A kind that these values never are, or a name that msgspec takes for none: all rows go the
    slow way.
    """


def struct_type(group: Group, origin: str) -> Type:
    """A type with the attributes f0, f1, ... for the fields in their order. Raises Unsupported."""
    names = {f"f{at}": each.name for at, each in enumerate(group.fields)}
    told: list[Type] = []
    for at, each in enumerate(group.fields):
        if each.kind == "binary" and each.nullable and origin == PARSED:
            told.append((f"f{at}", None, None))
        elif each.nullable:
            told.append((f"f{at}", _read(each.kind, origin) | None, None))
        else:
            told.append((f"f{at}", _read(each.kind, origin)))
    # Required fields may stand behind optional ones where all are given by name.
    try:
        return msgspec.defstruct("Record", told, rename=names, kw_only=True, gc=False, eq=False)
    except (ValueError, TypeError) as error:
        raise Unsupported(str(error)) from None


def _read(kind: Kind, origin: str) -> Type:
    if isinstance(kind, Group):
        return struct_type(kind, origin)
    if isinstance(kind, Many):
        return list[_read(kind.of, origin)]  # type: ignore[misc]
    if isinstance(kind, MapOf):
        return dict[str, _read(kind.of, origin)]  # type: ignore[misc]
    name = "decimal" if isinstance(kind, Exact) else kind
    if name not in READ[origin]:
        raise Unsupported(name)
    return READ[origin][name]


# structs to columns: each raises where the slow way is to judge


def group_columns(
    rows: Sequence[Struct | None], wanted: Sequence[Field], origin: str
) -> list[pa.Array]:
    """Return a column for each field of structs. Fields of a struct that is None are null."""
    present = [row for row in rows if row is not None] if None in rows else rows
    arrays = []
    for at, each in enumerate(wanted):
        values = list(map(attrgetter(f"f{at}"), present))
        if not each.nullable:
            refuse_null(values, origin)
        if present is not rows:
            given = iter(values)
            values = [None if row is None else next(given) for row in rows]
        arrays.append(column(values, each.kind, origin))
    return arrays


def refuse_null(values: Sequence[Json], origin: str) -> None:
    """Refuse null for a type that msgspec leaves to this code: it leaves null to it, too."""
    if origin == PYTHON and None in values:
        raise ValueError


def column(values: Sequence[Json], kind: Kind, origin: str) -> pa.Array:
    """A column of a kind; None is null."""
    if isinstance(kind, Group):
        arrays = group_columns(values, kind.fields, origin)
        fields = [pa.field(each.name, arrow_type(each.kind)) for each in kind.fields]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=_nulls(values))
    if isinstance(kind, Many):
        bounds = pa.array(
            [0, *accumulate(0 if each is None else len(each) for each in values)], pa.int32()
        )
        items = _items(
            list(chain.from_iterable(each for each in values if each is not None)), kind.of, origin
        )
        return pa.ListArray.from_arrays(bounds, items, type=arrow_type(kind), mask=_nulls(values))
    if isinstance(kind, MapOf):
        bounds = pa.array(
            [0, *accumulate(0 if each is None else len(each) for each in values)], pa.int32()
        )
        maps = [each for each in values if each is not None]
        names = pa.array(list(chain.from_iterable(maps)), pa.string())
        items = _items(list(chain.from_iterable(each.values() for each in maps)), kind.of, origin)
        return pa.MapArray.from_arrays(
            bounds, names, items, type=arrow_type(kind), mask=_nulls(values)
        )
    if kind == "timestamp":
        return _moments(values, origin)
    if kind in ("float", "double"):
        if origin == PYTHON and not FLOATS.issuperset(map(type, values)):
            raise ValueError
        # whole numbers that are not exactly there are refused
        return pa.array(values, arrow_type(kind))
    if kind in DIRECT:
        return pa.array(values, arrow_type(kind))
    if isinstance(kind, Exact):
        return _decimals(values, kind)
    return _checked(values, kind)


def _items(values: Sequence[Json], kind: Kind, origin: str) -> pa.Array:
    refuse_null(values, origin)
    return column(values, kind, origin)


def _nulls(values: Sequence[Json]) -> pa.Array | None:
    return pa.array([each is None for each in values], pa.bool_()) if None in values else None


def _moments(values: Sequence[Json], origin: str) -> pa.Array:
    """All of them moments, texts or numbers: by Arrow, where it reads as Python does. Else one by
    one.
    """
    moment = arrow_type("timestamp")
    if origin == PYTHON:
        found = pa.array(values, moment) if MOMENTS.issuperset(map(type, values)) else None
        return (
            found
            if found is not None and _between(found.cast(pa.int64()), EARLY, LATE)
            else _checked(values, "timestamp")
        )
    try:
        numbers = pa.array(values, pa.int64())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return _texts(values)
    if not _between(numbers, -SAFE_MS, SAFE_MS):
        return _checked(values, "timestamp")
    return pc.multiply(numbers, 1000).cast(moment)


def _texts(values: Sequence[Json]) -> pa.Array:
    try:
        texts = pa.array(values, pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return _checked(values, "timestamp")
    # with an offset from UTC; without one it is UTC
    for target in (arrow_type("timestamp"), pa.timestamp("us")):
        try:
            found = texts.cast(target)
        except pa.ArrowInvalid:
            continue
        # Arrow has years that Python has not.
        return (
            found.cast(arrow_type("timestamp"))
            if _between(found.cast(pa.int64()), EARLY, LATE)
            else _checked(values, "timestamp")
        )
    return _checked(values, "timestamp")


def _decimals(values: Sequence[Json], kind: Exact) -> pa.Array:
    """All of them texts: by Arrow, which refuses to round as well, and also reads exponents. Else
    one by one.
    """
    try:
        texts = pa.array(values, pa.string())
        if pc.all(pc.match_substring_regex(texts, f"^{PLAIN_DECIMAL.pattern}$")).as_py():
            return texts.cast(arrow_type(kind))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        pass
    return _checked(values, kind)


def _checked(values: Sequence[Json], kind: str | Exact) -> pa.Array:
    check = kind.check if isinstance(kind, Exact) else CHECKS[kind]
    return pa.array([None if each is None else check(each) for each in values], arrow_type(kind))


def _between(numbers: pa.Array, low: int, high: int) -> bool:
    if numbers.null_count == len(numbers):
        return True
    bounds = pc.min_max(numbers)
    return bool(bounds["min"].as_py() >= low and bounds["max"].as_py() <= high)
