"""JSON to columns with msgspec: the same rows as `decoding.Decoder.one_by_one` makes, or none. Knows Arrow, no Spark.

msgspec reads the declared fields alone and refuses what is of another kind; columns are made from its structs, one column at a time.
It is as strict as Python's own `json` and our checks but for these, which are seen to here: in fields that nobody has declared it passes by
bytes that are no UTF-8, whole numbers of thousands of digits, and nesting that json gives up at; and moments, dates and decimals are left to us.
A row that it accepts is right. Each row that it refuses goes to the slow way, which finds that it fits after all (half of a surrogate pair in a
field that is passed by), or says what is wrong. tests/pipeline/test_fast_json.py compares both ways.
"""

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import accumulate, chain
from operator import attrgetter
from typing import Annotated

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from raftka.json_values import Json
from raftka.pipeline.records.arrow_types import arrow_type, struct_array
from raftka.pipeline.records.fields import CHECKS, PLAIN_DECIMAL, Exact, Field, Group, Kind, Many, MapOf

Type = Json  # one that msgspec reads
Struct = Json  # a value of such a type
DIRECT = ("boolean", "int", "bigint", "float", "double", "string")  # kinds whose values msgspec gives as Arrow takes them
CHECKED: dict[str, Type] = {"timestamp": int | str, "date": str}  # what msgspec gives, for a check of ours
NUMBERS = {bits: Annotated[int, msgspec.Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)] for bits in (32, 64)}
READ: dict[str, Type] = {"boolean": bool, "int": NUMBERS[32], "bigint": NUMBERS[64], "float": float, "double": float, "string": str, **CHECKED}
SAFE_MS = 1 << 42  # about the year 2109: below it a double holds each microsecond, and Python's way through one is exact
NESTED = 800  # lists and groups in a value, and no more: json gives up at some 950 levels, depending on its caller
FEW = 16  # rows that are given up together when a column refuses one of them
EARLY, LATE = (int((datetime(*day) - datetime(1970, 1, 1)).total_seconds()) * 1_000_000 for day in ((1, 1, 3), (9999, 12, 29)))

Slow = Callable[[pa.Array], pa.StructArray]


class Unsupported(Exception):
    """A kind that no JSON has, or a name that msgspec takes for none: all rows go the slow way."""


class FastJson:
    """Decodes arrays of values; `supported` says whether it can for these fields."""

    def __init__(self, wanted: tuple[Field, ...]) -> None:
        self._wanted = wanted
        try:
            self._decode: Callable[[bytes], Struct] | None = msgspec.json.Decoder(_struct(Group(wanted))).decode
        except Unsupported:
            self._decode = None

    @staticmethod
    @lru_cache(maxsize=64)
    def of(wanted: tuple[Field, ...]) -> "FastJson":
        """One for these fields: decoders come to workers anew with each task."""
        return FastJson(wanted)

    @property
    def supported(self) -> bool:
        return self._decode is not None

    def columns(self, values: pa.Array, slow: Slow) -> pa.StructArray:
        """The declared fields of each value, and its error; `slow` decodes the values at the places that are refused here."""
        rows, places, refused = self._rows(values)
        pieces, order = [], []
        for array, at in self._built(rows, places, refused):
            pieces.append(array)
            order += at
        if refused:
            pieces.append(slow(pa.array(refused, pa.int64())))
            order += refused
        if not pieces:
            return slow(pa.array([], pa.int64()))
        found = pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)
        if order == list(range(len(order))):
            return found
        back = sorted(range(len(order)), key=order.__getitem__)
        return found.take(pa.array(back, pa.int64()))

    def _rows(self, values: pa.Array) -> tuple[list[Struct], list[int], list[int]]:
        """Structs, the places where they come from, and the places of values that are refused."""
        decode, texts = self._decode, values.to_pylist()
        assert decode is not None
        if valid(values):
            try:
                return list(map(decode, texts)), list(range(len(texts))), []
            except Exception:  # one of them: which one is found below
                pass
        rows, places, refused = [], [], []
        for at, text in enumerate(texts):
            try:
                if not valid_one(text):
                    raise ValueError
                rows.append(decode(text))
                places.append(at)
            except Exception:  # whatever it is: the slow way says it
                refused.append(at)
        return rows, places, refused

    def _built(self, rows: list[Struct], places: list[int], refused: list[int]) -> Iterable[tuple[pa.StructArray, list[int]]]:
        """Arrays of rows with their places. Rows that a column refuses are found by halving, and added to `refused`."""
        waiting = [(rows, places)] if rows else []
        while waiting:
            rows, places = waiting.pop()
            try:
                arrays = group_columns(rows, self._wanted)
            except Exception:  # Arrow does not say which row it refuses
                if len(rows) <= FEW:
                    refused += places
                else:
                    half = len(rows) // 2
                    waiting += [(rows[half:], places[half:]), (rows[:half], places[:half])]
                continue
            yield struct_array(self._wanted, arrays, pa.nulls(len(rows), pa.string())), places


def valid(values: pa.Array) -> bool:
    """Return whether all values are UTF-8, and none has a number that Python does not read. msgspec does not look at fields that it passes by."""
    longest = pc.max(pc.binary_length(values)).as_py()
    if values.null_count or longest is None or longest > 2 * NESTED or longest > (sys.get_int_max_str_digits() or longest):
        return False
    try:
        values.cast(pa.large_string() if values.type == pa.large_binary() else pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def valid_one(value: bytes) -> bool:
    """The same of one value. Raises UnicodeDecodeError, too."""
    value.decode()
    if len(value) > 2 * NESTED and value.count(b"[") + value.count(b"{") > NESTED:
        return False
    digits = sys.get_int_max_str_digits()
    return not digits or len(value) <= digits or many_digits(digits).search(value) is None


@lru_cache(maxsize=8)
def many_digits(limit: int) -> re.Pattern[bytes]:
    return re.compile(rb"[0-9]{%d}" % (limit + 1))


# structs of the declared fields


def _struct(group: Group) -> Type:
    """A type with the attributes f0, f1, ... for the fields in their order. Raises Unsupported."""
    names = {f"f{at}": each.name for at, each in enumerate(group.fields)}
    told: list[Type] = []
    for at, each in enumerate(group.fields):
        if each.kind == "binary" and each.nullable:
            told.append((f"f{at}", None, None))
        elif each.nullable:
            told.append((f"f{at}", _read(each.kind) | None, None))
        else:
            told.append((f"f{at}", _read(each.kind)))
    # Required fields may stand behind optional ones where all are given by name.
    try:
        return msgspec.defstruct("Record", told, rename=names, kw_only=True, gc=False, eq=False)
    except (ValueError, TypeError) as error:
        raise Unsupported(str(error)) from None


def _read(kind: Kind) -> Type:
    if isinstance(kind, Group):
        return _struct(kind)
    if isinstance(kind, Many):
        return list[_read(kind.of)]  # type: ignore[misc]
    if isinstance(kind, MapOf):
        return dict[str, _read(kind.of)]  # type: ignore[misc]
    if isinstance(kind, Exact):
        return int | float | str
    if kind not in READ:
        raise Unsupported(kind)
    return READ[kind]


# structs to columns: each raises where the slow way is to judge


def group_columns(rows: Sequence[Struct | None], wanted: Sequence[Field]) -> list[pa.Array]:
    """A column for each field of structs; a struct may be None, whose fields are null."""
    if None in rows:
        return [column([None if row is None else getattr(row, f"f{at}") for row in rows], each.kind) for at, each in enumerate(wanted)]
    return [column(list(map(attrgetter(f"f{at}"), rows)), each.kind) for at, each in enumerate(wanted)]


def column(values: Sequence[Json], kind: Kind) -> pa.Array:
    """A column of a kind; None is null."""
    if isinstance(kind, Group):
        arrays = group_columns(values, kind.fields)
        fields = [pa.field(each.name, arrow_type(each.kind)) for each in kind.fields]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=_nulls(values))
    if isinstance(kind, Many):
        bounds = pa.array([0, *accumulate(0 if each is None else len(each) for each in values)], pa.int32())
        items = column(list(chain.from_iterable(each for each in values if each is not None)), kind.of)
        return pa.ListArray.from_arrays(bounds, items, type=arrow_type(kind), mask=_nulls(values))
    if isinstance(kind, MapOf):
        bounds = pa.array([0, *accumulate(0 if each is None else len(each) for each in values)], pa.int32())
        maps = [each for each in values if each is not None]
        names = pa.array(list(chain.from_iterable(maps)), pa.string())
        items = column(list(chain.from_iterable(each.values() for each in maps)), kind.of)
        return pa.MapArray.from_arrays(bounds, names, items, type=arrow_type(kind), mask=_nulls(values))
    if kind == "timestamp":
        return _moments(values)
    if kind in DIRECT or kind == "binary":
        return pa.array(values, arrow_type(kind))
    if isinstance(kind, Exact):
        return _decimals(values, kind)
    return _checked(values, kind)


def _nulls(values: Sequence[Json]) -> pa.Array | None:
    return pa.array([each is None for each in values], pa.bool_()) if None in values else None


def _moments(values: Sequence[Json]) -> pa.Array:
    """All of them texts, or all numbers: by Arrow, where it reads as Python does. Else one by one."""
    moment = arrow_type("timestamp")
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
    for target in (arrow_type("timestamp"), pa.timestamp("us")):  # with an offset from UTC; without one it is UTC
        try:
            found = texts.cast(target)
        except pa.ArrowInvalid:
            continue
        # Arrow has years that Python has not.
        return found.cast(arrow_type("timestamp")) if _between(found.cast(pa.int64()), EARLY, LATE) else _checked(values, "timestamp")
    return _checked(values, "timestamp")


def _decimals(values: Sequence[Json], kind: Exact) -> pa.Array:
    """All of them texts: by Arrow, which refuses to round as well, and also reads exponents. Else one by one."""
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
