"""Values to columns with msgspec: the same rows as `decoding.Decoder.one_by_one` makes, or none.
Knows Arrow, no Spark.

msgspec takes the declared fields alone and refuses what is of another kind; columns are made from
its structs, one column at a time. Of JSON it is as strict as Python's own `json` and our checks but
for these, which are seen to here: in fields that nobody has declared it passes by bytes that are no
UTF-8, whole numbers of thousands of digits, and nesting that json gives up at; and moments, dates
and decimals are left to us. A row that it accepts is right. Each row that it refuses goes to the
slow way, which finds that it fits after all (half of a surrogate pair in a field that is passed
by), or says what is wrong. tests/pipeline/test_fast_json.py and test_fast_values.py compare both
ways.
"""

import re
import sys
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from uuid import UUID

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from raftka.json_values import Json
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.records.arrow_types import struct_array
from raftka.pipeline.records.fields import Field, Group
from raftka.pipeline.records.struct_columns import (
    PARSED,
    PYTHON,
    Unsupported,
    group_columns,
    struct_type,
)

# that msgspec passes on as they are
PYTHONS = (bytes, bytearray, datetime, date, time, timedelta, Decimal, UUID)
# lists and groups in a value, and no more: json gives up at some 950 levels, depending on its
# caller
NESTED = 800
FEW = 16  # rows that are given up together when a column refuses one of them

Struct = Json  # what msgspec makes of a row
Slow = Callable[[pa.Array], pa.StructArray]


class FastRows:
    """Decodes arrays of values that are not JSON; `decode` is a function of one value."""

    def __init__(
        self, wanted: tuple[Field, ...], decode: Callable[[bytes], Struct], origin: str = PYTHON
    ) -> None:
        self._wanted, self._decode, self._origin = wanted, decode, origin

    @staticmethod
    def of(wanted: tuple[Field, ...], value: Callable[[bytes], Json]) -> "FastRows | None":
        """`value` gives Python's values, as a registry's formats do. None: there is no such way for
        these fields.
        """
        kind = _type(wanted, PYTHON)
        if kind is None:
            return None
        convert = msgspec.convert
        return FastRows(wanted, lambda text: convert(value(text), kind, builtin_types=PYTHONS))

    def columns(self, values: pa.Array, slow: Slow) -> pa.StructArray:
        """The declared fields of each value, and its error; `slow` decodes the values at the places
        that are refused here.
        """
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
        rows, places, refused = [], [], []
        for at, text in enumerate(texts):
            try:
                rows.append(decode(text))
                places.append(at)
            except PipelineError:  # the registry is away: no fault of this record
                raise
            except Exception:  # whatever it is: the slow way says it
                refused.append(at)
        return rows, places, refused

    def _built(
        self, rows: list[Struct], places: list[int], refused: list[int]
    ) -> Iterable[tuple[pa.StructArray, list[int]]]:
        """Arrays of rows with their places. Rows that a column refuses are found by halving, and
        added to `refused`.
        """
        waiting = [(rows, places)] if rows else []
        while waiting:
            rows, places = waiting.pop()
            try:
                arrays = group_columns(rows, self._wanted, self._origin)
            except Exception:  # Arrow does not say which row it refuses
                if len(rows) <= FEW:
                    refused += places
                else:
                    half = len(rows) // 2
                    waiting += [(rows[half:], places[half:]), (rows[:half], places[:half])]
                continue
            yield struct_array(self._wanted, arrays, pa.nulls(len(rows), pa.string())), places


class FastJson(FastRows):
    """Decodes arrays of JSON."""

    @staticmethod
    @lru_cache(maxsize=64)
    def for_fields(wanted: tuple[Field, ...]) -> "FastJson | None":
        """One for these fields: decoders come to workers anew with each task. None: there is no
        such way for them.
        """
        kind = _type(wanted, PARSED)
        return None if kind is None else FastJson(wanted, msgspec.json.Decoder(kind).decode, PARSED)

    def _rows(self, values: pa.Array) -> tuple[list[Struct], list[int], list[int]]:
        decode, texts = self._decode, values.to_pylist()
        if valid(values):
            try:
                return list(map(decode, texts)), list(range(len(texts))), []
            except Exception:  # one of them: which one is found below
                pass
        rows, places, refused = [], [], []
        for at, text in enumerate(texts):
            try:
                if text is None or text[:1] == b"\0" or not valid_one(text):
                    refused.append(at)
                    continue
                rows.append(decode(text))
                places.append(at)
            except Exception:  # whatever it is: the slow way says it
                refused.append(at)
        return rows, places, refused


@lru_cache(maxsize=128)
def _type(wanted: tuple[Field, ...], origin: str) -> Json:
    try:
        return struct_type(Group(wanted), origin)
    except Unsupported:
        return None


def valid(values: pa.Array) -> bool:
    """Return whether all values are UTF-8, and none has a number that Python does not read. msgspec
    does not look at fields that it passes by.
    """
    longest = pc.max(pc.binary_length(values)).as_py()
    if (
        values.null_count
        or longest is None
        or longest > 2 * NESTED
        or longest > (sys.get_int_max_str_digits() or longest)
    ):
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
