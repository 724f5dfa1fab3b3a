"""Values to columns: what fits, what changed and still fits, and why the rest does not. No
Spark.
"""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")

import pyarrow as pa

from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.records.decoding import Decoder
from raftka.pipeline.records.fields import CHECKS, fields, spark_json

TRUCK = {"truck": "int", "latitude": "double", "speed": "double?"}
WRITTEN = {
    "type": "record",
    "name": "Position",
    "fields": [
        {"name": "truck", "type": "int"},
        {"name": "latitude", "type": "double"},
        {"name": "speed", "type": ["null", "double"], "default": None},
    ],
}


def decoder(declared: Any = None, *formats: str, schemas: dict[int, Any] | None = None) -> Decoder:
    return Decoder(formats or ("json",), fields(declared or TRUCK, "fields"), schemas)


def error(value: bytes | None, **declared: Any) -> str | None:
    return decoder(declared or None).row(value)[1]


def avro(number: int, schema: Any, record: Any) -> bytes:
    fastavro = pytest.importorskip("fastavro", reason="needs raftka[pipeline]")
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def test_a_column_for_each_field_and_one_for_what_was_wrong() -> None:
    values = [
        b'{"truck": 7, "latitude": 52, "colour": "red"}',
        b'{"truck": 8, "latitude": 52.5, "speed": 80.5}',
        b"{",
        None,
    ]

    found = decoder().columns(pa.array(values, pa.binary()))

    assert found.type.field("truck").type == pa.int32()
    assert found.to_pylist() == [
        {"truck": 7, "latitude": 52.0, "speed": None, "_error": None},
        {"truck": 8, "latitude": 52.5, "speed": 80.5, "_error": None},
        {
            "truck": None,
            "latitude": None,
            "speed": None,
            "_error": "no JSON: Expecting property name enclosed in double quotes at character 1",
        },
        {"truck": None, "latitude": None, "speed": None, "_error": "it has no value"},
    ]


def test_errors_alone() -> None:
    values = pa.array([b'{"truck": 7, "latitude": 52}', b'{"truck": 7}', None], pa.binary())

    assert decoder().errors(values).to_pylist() == [None, "there is no latitude", "it has no value"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b'{"truck": "7", "latitude": 1}', "truck is '7' where a int is to be"),
        (b'{"truck": 7.0, "latitude": 1}', "truck is 7.0 where a int is to be"),
        (b'{"truck": true, "latitude": 1}', "truck is True where a int is to be"),
        (b'{"truck": 2147483648, "latitude": 1}', "truck is 2147483648 where a int is to be"),
        (b'{"truck": 7, "latitude": "52.5"}', "latitude is '52.5' where a double is to be"),
        (b'{"truck": 7, "latitude": 1, "speed": {}}', "speed is {} where a double is to be"),
        (b'{"truck": 7}', "there is no latitude"),
        (b'{"truck": null, "latitude": 1}', "truck is null"),
        (b"[7]", "the record is [7] where a group of fields is to be"),
        (b'{"truck": 7, "latitude": NaN}', "no JSON: NaN"),
        (b'{"truck": 7, "latitude": 1}x', "no JSON: Extra data at character 27"),
        (b"\xff", "no JSON: invalid start byte at byte 0"),
        (b"[" * 100_000, "no JSON of ours: it is nested too deeply"),
    ],
)
def test_what_does_not_fit_says_why(value: bytes, said: str) -> None:
    assert error(value) == said


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("string", b'"\\ud800"', r"name is '\ud800' where a string is to be"),
        ("string", b"9" * 5000, "no JSON of ours: Exceeds the limit"),
        ("[string]", b'["a", "\\udfff"]', r"name[1] is '\udfff' where a string is to be"),
        (
            "timestamp",
            b'"0001-01-01T00:00:00+14:00"',
            "name is '0001-01-01T00:00:00+14:00' where a timestamp is to be",
        ),
        (
            "timestamp",
            b"99999999999999999999",
            "name is 99999999999999999999 where a timestamp is to be",
        ),
        ("bigint", b'"\\ud800"', r"name is '\ud800' where a bigint is to be"),
    ],
)
def test_a_value_that_no_column_holds_is_one_dead_letter_and_the_rows_beside_it_stay(
    kind: str, value: bytes, said: str
) -> None:
    declared = {"truck": "int", "name": [kind[1:-1]] if kind.startswith("[") else f"{kind}?"}
    with_it = b'{"truck": 2, "name": ' + value + b"}"
    plain = (
        [b'{"truck": 1, "name": null}', b'{"truck": 3, "name": null}']
        if "[" not in kind
        else [b'{"truck": %d, "name": []}' % at for at in (1, 3)]
    )

    found = (
        decoder(declared).columns(pa.array([plain[0], with_it, plain[1]], pa.binary())).to_pylist()
    )

    assert [row["truck"] for row in found] == [1, None, 3]
    assert [row["_error"] is None for row in found] == [True, False, True]
    assert found[1]["_error"].startswith(said)


def test_a_row_that_arrow_refuses_is_one_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    # as if the checks let a value through that no column holds
    monkeypatch.setitem(CHECKS, "string", lambda value: value)
    values = [b'{"name": "a"}', b'{"name": "\\ud800"}', b"no JSON", b'{"name": "b"}']

    found = decoder({"name": "string"}).columns(pa.array(values, pa.binary())).to_pylist()

    assert [row["name"] for row in found] == ["a", None, None, "b"]
    assert [row["_error"] is None for row in found] == [True, False, False, True]
    assert found[1]["_error"].startswith("name does not fit its column: UnicodeEncodeError")


def test_an_error_that_nobody_has_thought_of_is_one_dead_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(value: bytes) -> Any:
        if value == b"2":
            raise RuntimeError("half of a pair: \ud800")
        return {"truck": int(value), "latitude": 1}

    monkeypatch.setattr("raftka.pipeline.records.decoding.parse_json", failing)

    found = decoder().columns(pa.array([b"1", b"2", b"3"], pa.binary())).to_pylist()

    assert [row["truck"] for row in found] == [1, None, 3]
    assert found[1]["_error"] == r"the decoder failed: RuntimeError half of a pair: \ud800"


def test_groups_and_lists() -> None:
    declared = {"stops": [{"name": "string", "since": "timestamp?"}], "at": {"x": "bigint"}}
    value = {
        "stops": [{"name": "a", "since": "2026-01-01T00:00:00"}, {"name": "b", "since": 1000}],
        "at": {"x": 1 << 40},
    }

    row, wrong = decoder(declared).row(json.dumps(value).encode())

    assert wrong is None
    assert row == {
        "stops": [
            {"name": "a", "since": datetime(2026, 1, 1, tzinfo=UTC)},
            {"name": "b", "since": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)},
        ],
        "at": {"x": 1 << 40},
    }
    assert (
        error(b'{"stops": [{"name": 1}], "at": {"x": 1}}', **declared)
        == "stops[0].name is 1 where a string is to be"
    )
    assert error(b'{"stops": [], "at": {}}', **declared) == "there is no at.x"


@pytest.mark.parametrize(
    ("value", "kind", "found"),
    [
        (b'"12.3"', "decimal(9,2)", Decimal("12.30")),
        (b"12", "decimal(9,2)", Decimal("12.00")),
        (b"0.1", "decimal(9,2)", Decimal("0.10")),
        (b"1e-2", "decimal(9,2)", Decimal("0.01")),
        (b'"-0.10"', "decimal(9,1)", Decimal("-0.1")),
        (b'"2026-02-28"', "date", date(2026, 2, 28)),
        (b'{"a": 1, "a": 2}', {"*": "int"}, {"a": 2}),
    ],
)
def test_decimals_dates_and_maps(value: bytes, kind: Any, found: Any) -> None:
    assert decoder({"x": kind}).row(b'{"x": ' + value + b"}") == ({"x": found}, None)


@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        (b'"0.123"', "decimal(9,2)", "x is '0.123' where a decimal(9,2) is to be"),
        (b"12345678", "decimal(9,2)", "x is 12345678 where a decimal(9,2) is to be"),
        (b"0.1", "decimal(16,2)", "x is 0.1 where a decimal(16,2) is to be"),
        (b'" 1"', "decimal(9,2)", "x is ' 1' where a decimal(9,2) is to be"),
        (b"true", "decimal(9,2)", "x is True where a decimal(9,2) is to be"),
        (b'"2026-02-30"', "date", "x is '2026-02-30' where a date is to be"),
        (b"5", "date", "x is 5 where a date is to be"),
        (b"[]", {"*": "int"}, "x is [] where a map is to be"),
        (b'{"a": "b"}', {"*": "int"}, "x['a'] is 'b' where a int is to be"),
        (b'{"\\ud800": 1}', {"*": "int"}, r"x has the name '\ud800' where a string is to be"),
    ],
)
def test_what_is_no_decimal_date_or_map_says_why(value: bytes, kind: Any, said: str) -> None:
    assert error(b'{"x": ' + value + b"}", x=kind) == said


def test_avro_is_read_as_it_was_written_and_judged_like_json() -> None:
    older = {**WRITTEN, "fields": WRITTEN["fields"][:2]}
    changed = {**WRITTEN, "fields": [{"name": "truck", "type": "string"}, WRITTEN["fields"][1]]}
    newer = {
        **WRITTEN,
        "fields": [*WRITTEN["fields"], {"name": "driver", "type": ["null", "string"]}],
    }
    both = decoder(None, "json", "avro", schemas={1: older, 2: WRITTEN, 3: changed, 4: newer})

    assert both.row(avro(1, older, {"truck": 7, "latitude": 52.5})) == (
        {"truck": 7, "latitude": 52.5, "speed": None},
        None,
    )
    assert both.row(avro(2, WRITTEN, {"truck": 7, "latitude": 52.5, "speed": 80.0})) == (
        {"truck": 7, "latitude": 52.5, "speed": 80.0},
        None,
    )
    assert (
        both.row(avro(4, newer, {"truck": 7, "latitude": 52.5, "speed": None, "driver": "x"}))[1]
        is None
    )
    assert both.row(avro(3, changed, {"truck": "7", "latitude": 52.5})) == (
        None,
        "truck is '7' where a int is to be",
    )
    assert both.row(b'{"truck": 7, "latitude": 52.5}')[1] is None


def test_avro_that_is_none() -> None:
    only = decoder(None, "avro", schemas={2: WRITTEN})
    good = avro(2, WRITTEN, {"truck": 7, "latitude": 52.5, "speed": None})

    assert (only.row(avro(9, WRITTEN, {"truck": 7, "latitude": 52.5}))[1] or "").startswith(
        "Avro schema 9 is not known (known: 2): put it beside"
    )
    assert (only.row(good[:-3])[1] or "").startswith("no Avro of schema 2: ")
    assert only.row(good + b"x")[1] == "no Avro of schema 2: 1 bytes are left behind it"
    assert (only.row(b'{"truck": 7}')[1] or "").startswith(
        "no Avro: it does not begin with a zero byte"
    )
    assert (only.row(b"\0\0\0")[1] or "").startswith("no Avro: ")


def test_no_bytes_of_avro_stop_the_others() -> None:
    only = decoder(None, "avro", schemas={2: WRITTEN})
    good = avro(2, WRITTEN, {"truck": 7, "latitude": 52.5, "speed": 1.5})

    for at in range(5, len(good)):
        for byte in (0, 1, 127, 128, 255):
            row, wrong = only.row(good[:at] + bytes([byte]) + good[at + 1 :])
            assert (row is None) != (wrong is None)


def test_text() -> None:
    text = Decoder(("string",), ())

    assert text.columns(pa.array([b"a", None, b"\xff"], pa.binary())).to_pylist() == [
        {"value": "a", "_error": None},
        {"value": None, "_error": None},
        {"value": None, "_error": "no UTF-8: invalid start byte at byte 0"},
    ]


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({}, "is to be a mapping"),
        ({"a": "integer"}, "fields.a is 'integer': one of boolean, int"),
        ({"a": ["int", "int"]}, "fields.a is"),
        ({"a": {"b": 1}}, "fields.a.b is 1"),
        ({"_a": "int"}, "names with _ before them"),
        ({"*": "int"}, "a record is no map; one of its fields may be"),
        ({"a": {"*": "int", "b": "int"}}, "fields.a is a map, whose one name is"),
        ({"a": "decimal(39,2)"}, "of 1 to 38 digits"),
        ({"a": "decimal(2,3)"}, "no more of them behind the point"),
        ({"a": "decimal"}, "fields.a is 'decimal': one of boolean"),
    ],
)
def test_wrong_declarations_are_reported(declared: Any, said: str) -> None:
    with pytest.raises(OptionRefused, match=said):
        fields(declared, "fields")


def test_types_as_spark_writes_them_down() -> None:
    assert [
        each["type"]
        for each in spark_json(fields({"a": "bigint", "b": ["int"], "c": {"d": "timestamp"}}, "f"))[
            "fields"
        ]
    ] == [
        "long",
        {"type": "array", "elementType": "integer", "containsNull": True},
        {
            "type": "struct",
            "fields": [{"name": "d", "type": "timestamp", "nullable": True, "metadata": {}}],
        },
    ]
    assert [
        each["type"]
        for each in spark_json(
            fields({"a": "decimal( 9 , 2 )?", "b": "date", "c": {"*": ["int"]}}, "f")
        )["fields"]
    ] == [
        "decimal(9,2)",
        "date",
        {
            "type": "map",
            "keyType": "string",
            "valueType": {"type": "array", "elementType": "integer", "containsNull": True},
            "valueContainsNull": True,
        },
    ]
