"""The fast way of JSON says what the slow one says, for good, bad and hostile values. No Spark."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")
pytest.importorskip("msgspec", reason="needs raftka[pipeline]")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from raftka.pipeline.records.decoding import Decoder
from raftka.pipeline.records.fast_json import FastJson, valid_one
from raftka.pipeline.records.fields import fields
from tests.pipeline.declared_columns import DECLARED

GOOD = {
    "numbers": [1, 2.5],
    "stops": [{"name": "a", "since": 5, "tags": {"p": 1}}],
    "at": {"x": 7, "y": 1, "deeper": {"z": ["q"]}},
}
WAYS = Decoder(("json",), fields(DECLARED, "f"))


def same(values: Sequence[bytes | None], decoder: Decoder = WAYS) -> pa.StructArray:
    array = pa.array(values, pa.binary())
    fast, slow = decoder.columns(array), decoder.one_by_one(array)
    assert fast.type == slow.type
    # repr tells 0.0 from -0.0
    for value, one, other in zip(values, fast.to_pylist(), slow.to_pylist(), strict=True):
        assert repr(one) == repr(other), value
    return fast


def json_way() -> FastJson:
    found = FastJson.for_fields(fields(DECLARED, "f"))
    assert found is not None
    return found


def refused(array: pa.StructArray) -> list[bool]:
    return [error is not None for error in array.field("_error").to_pylist()]


def record(**members: str) -> bytes:
    """A good record but for these members, which are written as they are."""
    text = {name: json.dumps(value) for name, value in GOOD.items()} | members
    return (
        "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in text.items()) + "}"
    ).encode("utf-8", "surrogatepass")


NUMBERS = st.one_of(
    st.integers().map(str),
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(json.dumps),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.sampled_from(
        [
            "-0",
            "-0.0",
            "0e0",
            "1e400",
            "-1e-400",
            "01",
            "1.",
            ".5",
            "+1",
            "1e",
            "-",
            "9" * 25,
            "9" * 400,
            "9" * 5000,
            "0." + "3" * 900,
        ]
    ),
    st.from_regex(r"\A-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,3})?\Z"),
)
MOMENTS = st.one_of(
    st.datetimes(timezones=st.none() | st.timezones()).map(lambda value: value.isoformat()),
    st.from_regex(
        r"\A[0-9]{4}-[0-1][0-9]-[0-3][0-9]([T "
        r"][0-2][0-9](:?[0-6][0-9](:?[0-6][0-9]([.,][0-9]{1,"
        r"9})?)?)?)?(Z|z|[+-][0-9]{2}(:?[0-9]{2})?)?\Z"
    ),
    st.from_regex(r"\A[0-9]{8}(T[0-9]{2,6})?\Z"),
    st.sampled_from(
        [
            "",
            "now",
            "2026-W01-1",
            "0000-12-31T23:00:00-05:00",
            "0001-01-01T00:00:00+14:00",
            "2026-06-30T23:59:60Z",
            "2026-01-01T24:00:00",
        ]
    ),
).map(json.dumps)
TEXTS = st.one_of(
    st.text().map(json.dumps),
    st.text().map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.lists(
        st.sampled_from(
            [
                r"\ud83d",
                r"\ude00",
                r"\u0041",
                r"\n",
                r"\q",
                r"\u00",
                "a",
                "\x01",
                "\x7f",
                "é",
                '"',
                r"\/",
            ]
        )
    ).map(lambda parts: '"' + "".join(parts) + '"'),
)
JSON = st.recursive(
    st.one_of(
        NUMBERS, TEXTS, st.sampled_from(["null", "true", "false", "NaN", "Infinity", "nul", ""])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda each: "[" + ",".join(each) + "]"),
        st.lists(
            st.tuples(
                st.sampled_from(["x", "y", "name", "since", "tags", "deeper", "z", r"\u0078", "é"]),
                inner,
            ),
            max_size=4,
        ).map(lambda each: "{" + ", ".join(f'"{name}": {value}' for name, value in each) + "}"),
    ),
    max_leaves=6,
)
LIKELY = {
    "small": NUMBERS,
    "large": NUMBERS,
    "single": NUMBERS,
    "number": NUMBERS,
    "price": NUMBERS | NUMBERS.map(json.dumps),
    "amount": NUMBERS,
}
LIKELY |= {
    "moment": MOMENTS | NUMBERS,
    "day": MOMENTS,
    "text": TEXTS,
    "unknown": JSON,
    "numbers": st.lists(NUMBERS).map(lambda each: f"[{','.join(each)}]"),
}
MEMBER = st.sampled_from([*DECLARED, "unknown"]).flatmap(
    lambda name: st.tuples(st.just(name), LIKELY.get(name, JSON) | JSON)
)
RECORD = st.lists(MEMBER, max_size=4).map(lambda members: record(**dict(members)))


@given(st.lists(RECORD | st.none(), max_size=6))
@settings(max_examples=80, deadline=None)
def test_generated_records(values: list[bytes | None]) -> None:
    same(values)


@given(RECORD, st.integers(0, 300), st.binary(max_size=3), st.integers(0, 3))
@settings(max_examples=80, deadline=None)
def test_records_with_bytes_that_were_changed(value: bytes, at: int, new: bytes, gone: int) -> None:
    same([record(), value[:at] + new + value[at + gone :], record()])


@given(
    st.lists(
        st.tuples(st.sampled_from(["small", "at", "text", "stops", r"\u0073mall"]), JSON),
        max_size=5,
    )
)
@settings(max_examples=80, deadline=None)
def test_names_that_come_twice(members: list[tuple[str, str]]) -> None:
    more = "".join(f', "{name}": {value}' for name, value in members)
    same([record()[:-1] + more.encode("utf-8", "surrogatepass") + b"}"])


@given(st.lists(MOMENTS | NUMBERS | st.just("null"), min_size=1, max_size=30))
@settings(max_examples=80, deadline=None)
def test_moments_of_all_kinds_in_one_column(moments: list[str]) -> None:
    same([record(moment=each) for each in moments])


@pytest.mark.parametrize(
    "value",
    [
        record(unknown='"\xff'.replace("\xff", "\udcff") + '"').replace(
            "\udcff".encode("utf-8", "surrogatepass"), b"\xff"
        ),
        record(unknown="9" * 5000),
        record(unknown="-" + "9" * 4301),
        record(unknown="[" * 100_000),
        record(unknown="[" * 5000 + "]" * 5000),
        record(small="true"),
        record(small="7.0"),
        record(small="2147483648"),
        record(large="9223372036854775808"),
        record(price='"1.234"'),
        record(price="12345678"),
        record(price='"NaN"'),
        record(price='"1e2"'),
        record(price='"1\\n"'),
        record(price='"12345678"'),
        record(amount="0.5"),
        record(day='"2026-02-30"'),
        record(bytes='"AA=="'),
        record(moment="1e3"),
        record(stops='[{"name": "a", "tags": {"\\ud800": 1}}]'),
        record() + b"\0",
        b"\xef\xbb\xbf" + record(),
        b"[" + record() + b"]",
        b"null",
        b"",
        b"\0\0\0\0\1" + record(),
    ],
)
def test_one_bad_value_among_good_ones(value: bytes) -> None:
    assert refused(same([record(small=str(at)) for at in range(50)] + [value] + [record()])) == [
        False
    ] * 50 + [True, False]


@given(
    st.lists(
        NUMBERS.map(json.dumps)
        | st.just("null")
        | st.decimals(-(10**9), 10**9, places=2).map(lambda each: f'"{each}"'),
        min_size=1,
    )
)
@settings(max_examples=80, deadline=None)
def test_decimals_of_all_kinds_in_one_column(decimals: list[str]) -> None:
    same([record(price=each, amount=each) for each in decimals])


def test_deep_values_are_left_to_the_slow_way() -> None:
    assert valid_one(record(unknown="[" * 700 + "]" * 700))
    assert not valid_one(record(unknown="[" * 900 + "]" * 900))


@pytest.mark.parametrize(
    "value",
    [
        record(unknown=r'"\ud800"'),
        record(unknown="1e999"),
        record(unknown="9" * 4300),
        record(unknown="[" * 700 + "]" * 700),
        record(number="1e999"),
        record(number="-0"),
        record(number="-0.0"),
        record(numbers="[-0, -0.0]"),
        record(small="-0"),
        record(price="1.5", amount='"-12345678901234567890.0123456789"'),
        record(price="-0.0"),
        record(moment='"20260101"'),
        record(moment='"2026-W01-1"'),
        record(moment=str(2**45 + 1)),
        record(moment='"2026-01-01T00:00:00.1234567"'),
        record(day='"2026-02-28"'),
        b" \n" + record() + b"\r\t",
    ],
)
def test_what_fits_by_either_way(value: bytes) -> None:
    assert refused(same([record(), value])) == [False, False]


def test_good_rows_keep_their_places_among_refused_ones() -> None:
    values = [
        record(large=str(at), moment='"2026-01-01"' if at % 7 else '"some day"') if at % 5 else b"{"
        for at in range(1000)
    ]

    found = same(values)

    assert found.field("large").to_pylist() == [
        at if at % 5 and at % 7 else None for at in range(1000)
    ]


def test_the_slow_way_sees_only_what_is_refused() -> None:
    seen: list[bytes] = []

    def slow(places: pa.Array) -> pa.StructArray:
        seen.extend(array.take(places).to_pylist())
        return WAYS.one_by_one(array.take(places))

    array = pa.array([record(), b"{", record(moment='"2026-01-01T00:00:00Z"'), b"}"], pa.binary())
    json_way().columns(array, slow)

    assert seen == [b"{", b"}"]


def test_a_column_that_refuses_one_row_of_thousands_sends_few_to_the_slow_way() -> None:
    seen: list[bytes] = []

    def slow(places: pa.Array) -> pa.StructArray:
        seen.extend(array.take(places).to_pylist())
        return WAYS.one_by_one(array.take(places))

    array = pa.array(
        [record(moment='"never"' if at == 1234 else "5") for at in range(4000)], pa.binary()
    )
    found = json_way().columns(array, slow)

    assert len(seen) <= 16
    assert [at for at, bad in enumerate(refused(found)) if bad] == [1234]


@pytest.mark.parametrize(
    "declared", [{"a": "binary"}, {"a": ["binary"]}, {'a"b': "int"}, {"a\nb": "int"}]
)
def test_kinds_and_names_that_only_the_slow_way_has(declared: dict[str, Any]) -> None:
    decoder = Decoder(("json",), fields(declared, "f"))

    same([b'{"a": 1}', b'{"a": []}', b'{"a\\"b": 1}', b"{"], decoder)


def test_no_rows_and_parts_of_arrays() -> None:
    array = pa.array([record(small=str(at)) for at in range(9)], pa.binary())

    assert WAYS.columns(array[:0]).equals(WAYS.one_by_one(array[:0]))
    assert WAYS.columns(array[3:5]).equals(WAYS.one_by_one(array[3:5]))
    assert WAYS.columns(array.cast(pa.large_binary())).equals(WAYS.one_by_one(array))
