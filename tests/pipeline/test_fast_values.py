"""Python's values, as Avro and Protobuf give them, become the same columns by structs as one by
one. No Spark.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")
pytest.importorskip("msgspec", reason="needs raftka[pipeline]")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from raftka.pipeline.records.decoding import Decoder
from raftka.pipeline.records.fast_json import FastRows
from raftka.pipeline.records.fields import fields
from tests.pipeline.declared_columns import DECLARED

REQUIRED: dict[str, Any] = {
    "number": "double",
    "single": "float",
    "moment": "timestamp",
    "day": "date",
    "price": "decimal(9,2)",
    "bytes": "binary",
    "moments": ["timestamp"],
    "prices": {"*": "decimal(9,2)"},
}
GOOD = {
    "numbers": [1, 2.5],
    "stops": [{"name": "a", "since": 5, "tags": {"p": 1}}],
    "at": {"x": 7, "y": 1, "deeper": {"z": ["q"]}},
}
FULL = {
    "number": 1.5,
    "single": 2.5,
    "moment": datetime(2026, 1, 1, tzinfo=UTC),
    "day": date(2026, 1, 1),
    "price": Decimal("1.5"),
    "bytes": b"a",
}
FULL |= {"moments": [datetime(2026, 1, 1, tzinfo=UTC)], "prices": {"a": Decimal("2.5")}}
ZONES = st.sampled_from(
    [None, UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-3, minutes=-30))]
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**65), 2**65),
    st.integers(-(2**25), 2**25),
    st.floats(),
    st.floats(width=32),
    st.text(st.characters(), max_size=3),
    st.sampled_from(["\ud800", "12.3", "2026-01-01", "2026-01-01T00:00:00Z", "YWFh"]),
    st.binary(max_size=4),
    st.datetimes(timezones=ZONES),
    st.dates(),
    st.times(),
    st.decimals(-(10**10), 10**10, places=2),
    st.decimals(),
    st.just(UUID(int=5)),
)
NESTED = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("xyz\ud800") | st.text(), inner, max_size=3)
    ),
    max_leaves=5,
)


def both(
    declared: dict[str, Any], values: Sequence[Any], monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Any], list[Any]]:
    """The rows by both ways, of a decoder to which bytes are places in `values`."""
    decoder = Decoder(("avro",), fields(declared, "f"))
    monkeypatch.setattr(decoder, "_framed_value", lambda value: values[int(value)])
    array = pa.array([b"%d" % at for at in range(len(values))], pa.binary())
    fast, slow = decoder.columns(array), decoder.one_by_one(array)
    assert fast.type == slow.type
    return fast.to_pylist(), slow.to_pylist()


def same(declared: dict[str, Any], values: Sequence[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fast, slow = both(declared, values, patch)
    for value, one, other in zip(values, fast, slow, strict=True):
        assert repr(one) == repr(other), value


def changed(good: dict[str, Any], declared: dict[str, Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from([*declared, "unknown"]), NESTED, max_size=3).map(
        lambda members: {**good, **members}
    )


@given(st.lists(changed(GOOD, DECLARED) | NESTED, max_size=5))
@settings(max_examples=80, deadline=None)
def test_optional_fields(values: list[Any]) -> None:
    same(DECLARED, values)


@given(st.lists(changed(FULL, REQUIRED) | NESTED, max_size=5))
@settings(max_examples=80, deadline=None)
def test_required_fields(values: list[Any]) -> None:
    same(REQUIRED, values)


@pytest.mark.parametrize(
    "kind",
    [
        "double",
        "float",
        "timestamp",
        "date",
        "decimal(9,2)",
        "binary",
        "string",
        "bigint",
        "int",
        "boolean",
    ],
)
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_each_kind_alone_and_inside_others(kind: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(VALUES, min_size=1, max_size=8))
    same({"a": kind}, [{"a": each} for each in values])
    same({"a": f"{kind}?"}, [{"a": each} for each in values])
    same(
        {"a": [kind], "b": {"*": kind}, "c": {"d": kind}},
        [{"a": [each], "b": {"k": each}, "c": {"d": each}} for each in values],
    )


def test_moments_in_no_year_of_utc() -> None:
    east, west = (timezone(timedelta(hours=hours)) for hours in (14, -12))
    moments = [
        datetime(1, 1, 1, tzinfo=east),
        datetime(1, 1, 1),
        datetime(9999, 12, 31, 23, tzinfo=west),
        datetime(9999, 12, 31, 23, tzinfo=UTC),
    ]

    for each in moments:
        same({"a": "timestamp"}, [{"a": each}, {"a": None}, {"a": datetime(2026, 1, 1)}])


def test_most_rows_go_the_fast_way() -> None:
    def value(text: bytes) -> Any:
        return {**FULL, "number": "none"} if text == b"7" else FULL

    def slow(places: pa.Array) -> pa.StructArray:
        seen.extend(places.to_pylist())
        return Decoder(("avro",), fields(REQUIRED, "f")).one_by_one(array.take(places))

    seen: list[int] = []
    array = pa.array([b"%d" % at for at in range(100)], pa.binary())
    fast = FastRows.of(fields(REQUIRED, "f"), value)
    assert fast is not None

    found = fast.columns(array, slow)

    assert 7 in seen
    assert len(seen) <= 16
    assert [row["number"] for at, row in enumerate(found.to_pylist()) if at not in seen] == [
        1.5
    ] * (100 - len(seen))
