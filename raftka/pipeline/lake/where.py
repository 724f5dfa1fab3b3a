"""Conditions on the rows of a lake that are to be read: `day >= '2026-01-02' and hour in (7, 8)`.
Their text, and values of a column's kind. Knows no lake.

Spark could tell a reader its filters, but Spark 4.3 keeps for a frame what it last told: two
queries of one frame, or a frame joined with itself, would have each other's rows left out. So a
lake is told by an option, which holds for the frame.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, NamedTuple

from raftka.json_values import Json
from raftka.pipeline.errors import OptionRefused

if TYPE_CHECKING:
    import pyarrow as pa

TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|`(?P<quoted>[^`]+)`|"
    r"(?P<number>-?\d+)(?![\w.])|(?P<word>[A-Za-z_]\w*)|(?P<sign><=|>=|=|<|>|\(|\)|,"
    r"))",
    re.ASCII,
)
FILTERS = {  # of Spark's
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "In": "in",
    "IsNull": "null",
    "IsNotNull": "not null",
}
COMPARISONS = ("=", "<", "<=", ">", ">=")
GRAMMAR = (
    "COLUMN = VALUE (or <, <=, >, >=), COLUMN in (VALUE, ...), COLUMN is null, COLUMN is not "
    "null, joined by `and`; a VALUE is 'text', 7, true, false"
)


class Condition(NamedTuple):
    """On a column. `how`: =, <, <=, >, >=, in (several values), null, not null."""

    column: str
    how: str
    value: Json = None


def conditions(text: str) -> tuple[Condition, ...]:
    """Raises OptionRefused."""
    try:
        return tuple(_Parser(text).all())
    except (StopIteration, ValueError):
        raise OptionRefused(
            f"where is {text!r}, which is not understood. There are: {GRAMMAR}"
        ) from None


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = [*_tokens(text), ("end", "")]
        self._at = 0

    def all(self) -> Iterator[Condition]:
        yield self._condition()
        while self._take() == ("word", "and"):
            yield self._condition()
        if self._tokens[self._at - 1][0] != "end":
            raise ValueError

    def _take(self) -> tuple[str, Json]:
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, *wanted: tuple[str, object]) -> None:
        for each in wanted:
            if self._take() != each:
                raise ValueError

    def _condition(self) -> Condition:
        kind, column = self._take()
        if kind not in ("name", "word"):
            raise ValueError
        kind, sign = self._take()
        if kind == "sign" and sign in COMPARISONS:
            return Condition(column, sign, self._value())
        if (kind, sign) == ("word", "in"):
            return Condition(column, "in", tuple(self._values()))
        if (kind, sign) != ("word", "is"):
            raise ValueError
        is_not = self._tokens[self._at] == ("word", "not")
        self._expect(*([("word", "not")] if is_not else []), ("word", "null"))
        return Condition(column, "not null" if is_not else "null")

    def _values(self) -> Iterator[Json]:
        self._expect(("sign", "("))
        yield self._value()
        while (token := self._take()) == ("sign", ","):
            yield self._value()
        if token != ("sign", ")"):
            raise ValueError

    def _value(self) -> Json:
        kind, value = self._take()
        if kind == "value":
            return value
        if kind == "word" and value in ("true", "false"):
            return value == "true"
        raise ValueError


def _tokens(text: str) -> Iterator[tuple[str, Json]]:
    at, text = 0, text.rstrip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise ValueError
        at = match.end()
        if match["text"] is not None:
            yield "value", match["text"][1:-1].replace("''", "'")
        elif match["number"] is not None:
            yield "value", int(match["number"])
        elif match["quoted"] is not None:
            yield "name", match["quoted"]
        elif match["word"] is not None:
            word = match["word"]
            yield (
                "word",
                word.lower()
                if word.lower() in ("and", "in", "is", "not", "null", "true", "false")
                else word,
            )
        else:
            yield "sign", match["sign"]


def pushed(
    kind: str, column: Sequence[str], value: object, schema: "pa.Schema"
) -> Condition | None:
    """A filter of Spark's, by the name of its class, as a condition that all its rows meet; None:
    there is none for it.
    """
    if len(column) != 1 or column[0] not in schema.names:
        return None
    how, types_of = FILTERS.get(kind), schema.field(column[0]).type
    if how is None:
        return None
    values = value if how == "in" else (value,)
    if how in ("null", "not null"):
        return Condition(column[0], how)
    if not isinstance(values, Sequence) or not all(_is_of(each, types_of) for each in values):
        return None
    return Condition(column[0], how, tuple(values) if how == "in" else value)


def _is_of(value: object, kind: "pa.DataType") -> bool:
    """Return whether it is a value of this type, compared as Spark compares it."""
    from pyarrow import types

    tests = {
        bool: types.is_boolean,
        int: types.is_integer,
        str: types.is_string,
        date: types.is_date,
    }
    return type(value) in tests and bool(tests[type(value)](kind))


def typed(condition: Condition, kind: object) -> Condition:
    """With values of the column's Arrow type. Raises OptionRefused: also for floating point
    numbers, for Arrow and Spark do not agree about NaN.
    """
    try:
        if condition.how in ("null", "not null"):
            return condition
        if condition.how == "in":
            return condition._replace(value=tuple(_typed(each, kind) for each in condition.value))
        return condition._replace(value=_typed(condition.value, kind))
    except ValueError:
        said = f"{condition.column} {condition.how} {condition.value!r}"
        raise OptionRefused(
            f"where has {said}, and {condition.column} is {kind}: only text, whole numbers, "
            "booleans, dates and times are compared"
        ) from None


def _typed(value: Json, kind: "pa.DataType") -> Json:
    from pyarrow import types

    if types.is_date(kind) and isinstance(value, str):
        return date.fromisoformat(value)
    if types.is_timestamp(kind) and isinstance(value, str):
        moment = datetime.fromisoformat(value)
        if kind.tz is None and moment.tzinfo is not None:
            raise ValueError
        return (
            moment if kind.tz is None or moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        )
    wanted = {bool: types.is_boolean, int: types.is_integer, str: types.is_string}.get(type(value))
    if wanted is None or not wanted(kind):
        raise ValueError
    return value
