"""Change events of Debezium and keyed topics to rows: what changes, what goes, and what is a dead
letter. Bytes in, columns out; no Spark.
"""

import json
import random
import sys
from base64 import b64encode
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")
fastavro = pytest.importorskip("fastavro", reason="needs raftka[pipeline]")

from io import BytesIO

from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.projects.orders.play import Shop
from raftka.pipeline.records.debezium import UNAVAILABLE
from raftka.pipeline.records.envelopes import EnvelopeDecoder
from raftka.pipeline.records.fields import ADDED, Envelope, envelope, fields
from tests.pipeline.envelopes import AT, MOMENT, ORDERS, as_bytes, error_of, rows, told


def decoder(
    kind: str = "debezium",
    declared: Any = None,
    key: Any = "id",
    formats: Any = ("json",),
    schemas: Any = None,
) -> EnvelopeDecoder:
    wanted = fields(declared or ORDERS, "fields")
    found = envelope(kind, key, wanted, "orders")
    assert found is not None
    return EnvelopeDecoder(formats, (*wanted, *ADDED[kind]), found, schemas)


def event(op: str, before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "op": op,
        "before": before,
        "after": after,
        "source": {"ts_ms": AT, "lsn": 5},
        "ts_ms": AT + 9,
        "transaction": None,
        **more,
    }


def test_events_of_each_kind() -> None:
    one = {"id": 1, "state": "NEW"}
    two = {"id": 1, "state": "PAID", "price": "9.50", "due": 20000, "at": AT, "more": [1]}
    found = rows(
        decoder(),
        ({"id": 1}, event("r", None, one)),
        ({"id": 1}, event("c", None, one)),
        ({"id": 1}, event("u", one, two)),
        ({"id": 1}, event("d", two)),
        ({"id": 1}, None),
    )

    assert [told(row)[:4] for row in found] == [
        (1, "NEW", False, "r"),
        (1, "NEW", False, "c"),
        (1, "PAID", False, "u"),
        (1, "PAID", True, "d"),
        (1, None, True, None),
    ]
    assert (found[2]["price"], found[2]["due"], found[2]["at"]) == (
        Decimal("9.50"),
        date(2024, 10, 4),
        MOMENT,
    )
    assert [row.get("_changed") for row in found] == [MOMENT] * 4 + [None]
    (iso,) = rows(
        decoder(),
        (
            None,
            event("c", None, {**one, "due": "2026-01-31Z", "at": "2026-01-31T10:20:30.000005Z"}),
        ),
    )
    assert (iso["due"], iso["at"]) == (
        date(2026, 1, 31),
        datetime(2026, 1, 31, 10, 20, 30, 5, tzinfo=UTC),
    )


def test_a_deletion_needs_the_key_alone() -> None:
    found = rows(
        decoder(),
        (None, event("d", {"id": 1, "state": None})),  # REPLICA IDENTITY DEFAULT
        ({"id": 2}, event("d", None)),
        # a field that does not fit does not keep a row from going
        ({"id": 3}, event("d", {"id": None, "state": 5, "due": "no day"})),
        (None, event("d", {"state": "NEW"})),
        ({"nr": 4}, None),
        (None, None),
        (b"\xff", None),
    )

    assert [told(row)[:3] for row in found[:3]] == [
        (1, None, True),
        (2, None, True),
        (3, None, True),
    ]
    assert [error_of(row) for row in found[3:]] == [
        "there is no id",
        "there is no id",
        "there is no id",
        "no JSON: invalid start byte at byte 0",
    ]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (event("t"), "the table was truncated: that removes no row of a lake"),
        (event("m"), "op is 'm': no change of a row"),
        (event("c", None, None), "op is 'c', and there is no group of fields in after"),
        (event("u", {"id": 1}, [1]), "op is 'u', and there is no group of fields in after"),
        (
            {**event("c"), "op": {"x": "y" * 100}},
            "op is \"{'x': 'yyyyyyyyyyyyy\": no change of a row",
        ),
        (
            {"id": 1, "state": "NEW"},
            "no change event of Debezium: it has no op (does ExtractNewRecordState",
        ),
        ([1], "no change event of Debezium"),
        (event("c", None, {"id": 1}), "there is no state"),
        (event("c", None, {"id": "1", "state": "NEW"}), "id is '1' where a bigint is to be"),
        (
            event("c", None, {"id": 1, "state": "NEW", "due": 10**12}),
            "due is 1000000000000 where a date is to be",
        ),
        # µs without a schema
        (
            event("c", None, {"id": 1, "state": "NEW", "at": AT * 1000}),
            f"at is {AT * 1000} where a timestamp is to be",
        ),
        (
            event("c", None, {"id": 1, "state": "NEW", "blob": "?"}),
            "blob is '?' where a binary is to be",
        ),
        (b"{", "no JSON"),
        (b"[" * 100_000, "no JSON of ours: it is nested too deeply"),
    ],
)
def test_what_is_no_change_is_a_dead_letter(value: Any, said: str) -> None:
    bad, good = rows(
        decoder(), ({"id": 1}, value), ({"id": 2}, event("c", None, {"id": 2, "state": "NEW"}))
    )

    assert error_of(bad).startswith(said)
    assert told(good)[:3] == (2, "NEW", False)


def test_large_values_that_did_not_change_come_from_the_row_before() -> None:
    blob = b64encode(b"\0x").decode()
    whole = {"id": 1, "state": "NEW", "note": "long", "blob": blob}
    unchanged = {
        "id": 1,
        "state": "PAID",
        "note": UNAVAILABLE,
        "blob": b64encode(UNAVAILABLE.encode()).decode(),
    }
    known, unknown, undeclared = rows(
        decoder(),
        (None, event("u", whole, unchanged)),
        (None, event("u", None, unchanged)),
        (None, event("u", None, {"id": 1, "state": "PAID", "story": UNAVAILABLE})),
    )

    assert (known["note"], known["blob"], known["state"]) == ("long", b"\0x", "PAID")
    assert "note did not change, and its value is not in the event" in error_of(unknown)
    assert told(undeclared)[:2] == (1, "PAID")


def test_a_moment_that_is_none_leaves_the_change_as_it_is() -> None:
    row = {"id": 1, "state": "NEW"}
    first, second, third = rows(
        decoder(),
        (None, event("c", None, row, source={"ts_ms": 10**30})),
        (None, event("c", None, row, source=None)),
        (None, event("c", None, row, source={"ts_ms": "now"}, ts_ms=None)),
    )

    assert first["_changed"] == second["_changed"] == datetime.fromtimestamp((AT + 9) / 1000, UTC)
    assert told(third)[:3] == (1, "NEW", False)
    assert "_changed" not in third


# with the schema beside the payload


def field(name: str, kind: str, semantic: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "field": name,
        "type": kind,
        "optional": True,
        **({} if semantic is None else {"name": semantic}),
        **more,
    }


def schema_of(*columns: dict[str, Any]) -> dict[str, Any]:
    row = {"type": "struct", "optional": True, "fields": list(columns)}
    return {
        "type": "struct",
        "fields": [{**row, "field": "before"}, {**row, "field": "after"}, field("op", "string")],
        "name": "shop.public.orders.Envelope",
    }


def test_types_of_the_schema_beside_the_payload() -> None:
    declared = {
        "id": "bigint",
        "price": "decimal(9,2)",
        "any": "decimal(9,3)",
        "due": "date",
        "ms": "timestamp",
        "us": "timestamp",
        "ns": "timestamp",
        "zoned": "timestamp",
        "clock": "string",
        "blob": "binary",
        "tags": ["string"],
        "days": ["date"],
    }
    schema = schema_of(
        field("id", "int64"),
        field(
            "price",
            "bytes",
            "org.apache.kafka.connect.data.Decimal",
            parameters={"scale": "2", "connect.decimal.precision": "9"},
        ),
        field(
            "any",
            "struct",
            "io.debezium.data.VariableScaleDecimal",
            fields=[field("scale", "int32"), field("value", "bytes")],
        ),
        field("due", "int32", "io.debezium.time.Date"),
        field("ms", "int64", "io.debezium.time.Timestamp"),
        field("us", "int64", "io.debezium.time.MicroTimestamp"),
        field("ns", "int64", "io.debezium.time.NanoTimestamp"),
        field("zoned", "string", "io.debezium.time.ZonedTimestamp"),
        field("clock", "int64", "io.debezium.time.MicroTime"),
        field("blob", "bytes"),
        field("tags", "array", items={"type": "string"}),
        field("days", "array", items={"type": "int32", "name": "io.debezium.time.Date"}),
    )
    after = {
        "id": 1,
        "price": b64encode((-1234).to_bytes(2, "big", signed=True)).decode(),
        "any": {"scale": 3, "value": b64encode((5).to_bytes(1, "big")).decode()},
        "due": -1,
        "ms": AT,
        "us": AT * 1000 + 7,
        "ns": AT * 1_000_000 + 7999,
        "zoned": "2026-01-02T03:04:05.000006Z",
        "clock": 3_600_000_001,
        "blob": b64encode(b"\xff").decode(),
        "tags": ["a"],
        "days": [0],
    }
    told = decoder(declared=declared)
    (row,) = rows(
        told,
        (
            {"schema": {"type": "struct"}, "payload": {"id": 1}},
            {"schema": schema, "payload": event("c", None, after)},
        ),
    )

    assert row["price"] == Decimal("-12.34")
    assert row["any"] == Decimal("0.005")
    assert (row["due"], row["days"]) == (date(1969, 12, 31), [date(1970, 1, 1)])
    assert row["ms"] == MOMENT
    assert row["us"] == row["ns"] == MOMENT.replace(microsecond=MOMENT.microsecond + 7)
    assert row["zoned"] == datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert (row["clock"], row["blob"], row["tags"]) == ("01:00:00.000001", b"\xff", ["a"])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (field("price", "bytes", "org.apache.kafka.connect.data.Decimal"), "BNI="),
        (
            field(
                "price",
                "bytes",
                "org.apache.kafka.connect.data.Decimal",
                parameters={"scale": "1000000000"},
            ),
            "BNI=",
        ),
        (
            field(
                "price", "bytes", "org.apache.kafka.connect.data.Decimal", parameters={"scale": "2"}
            ),
            "no base64",
        ),
        # 33 bytes
        (
            field(
                "price", "bytes", "org.apache.kafka.connect.data.Decimal", parameters={"scale": "2"}
            ),
            "AAAA" * 11,
        ),
        (field("price", "bytes"), 5),
        (field("due", "int32", "io.debezium.time.Date"), 10**15),
        (field("at", "int64", "io.debezium.time.NanoTimestamp"), 10**40),
        (field("at", "int64", "io.debezium.time.MicroTimestamp"), True),
    ],
)
def test_values_that_are_not_of_their_schema_are_dead_letters(column: Any, value: Any) -> None:
    payload = event("c", None, {"id": 1, "state": "NEW", column["field"]: value})
    (row,) = rows(decoder(), (None, {"schema": schema_of(column), "payload": payload}))

    assert error_of(row).startswith(f"after.{column['field']} is ")


def test_a_hostile_schema_stops_no_batch() -> None:
    """For any value in the place of a schema, the row fits without it, or the record is a dead
    letter.
    """
    chance = random.Random(7)
    scraps: list[Any] = [
        None,
        1,
        "struct",
        [],
        {},
        {"type": []},
        {"fields": 5},
        {"fields": [{"field": []}]},
        {"name": {}, "type": "bytes"},
        {"type": "array", "items": 3},
    ]
    payload = event("c", None, {"id": 1, "state": "NEW"})
    for _ in range(300):
        scrap = chance.choice(scraps)
        column = {"field": "after", **(scrap if isinstance(scrap, dict) else {"type": scrap})}
        schema = chance.choice(
            [
                scrap,
                {"type": "struct", "fields": [chance.choice(scraps), column]},
                {"type": "struct", "fields": scrap},
            ]
        )
        bad, good = rows(decoder(), (None, {"schema": schema, "payload": payload}), (None, payload))
        assert told(bad)[:2] == (1, "NEW") or error_of(bad).startswith(
            ("after is ", "the value is ")
        )
        assert told(good)[:2] == (1, "NEW")


def test_the_cost_of_a_schema_is_linear() -> None:
    """A list of groups, whose schema is as long as the list: twice of both is twice the work."""

    def calls(size: int) -> int:
        item = {"type": "struct", "fields": [field(f"f{at}", "int32") for at in range(size)]}
        payload = event("c", None, {"id": 1, "state": "NEW", "lines": [{}] * size})
        document = {"schema": schema_of(field("lines", "array", items=item)), "payload": payload}
        told, count = decoder(), 0

        def profile(frame: object, what: str, argument: object) -> None:
            nonlocal count
            count += 1

        records = pa.array(
            [{"key": None, "value": as_bytes(document)}],
            pa.struct([("key", pa.binary()), ("value", pa.binary())]),
        )
        sys.setprofile(profile)
        try:
            told.columns(records)
        finally:
            sys.setprofile(None)
        return count

    calls(10)
    assert calls(800) < 2.5 * calls(400)


def test_the_fast_way_says_the_same_as_the_slow_one() -> None:
    """Events of a shop, and the same with bytes and pieces changed: each row, and each error."""
    declared = {
        "id": "bigint",
        "customer": "string",
        "state": "string?",
        "amount": "decimal(10,2)",
        "latitude": "double",
        "placed": "timestamp",
    }
    told, chance, shop = decoder(declared=declared), random.Random(3), Shop(3)
    pieces = [
        b"null",
        b"{",
        b"}",
        b'"',
        b"NaN",
        b"1e400",
        b"1.0",
        b"\\u005f",
        b"\\ud800",
        b"\xff",
        b'"op": "d",',
        b'"op": "u"',
        b"[" * 2000,
        b"9" * 5000,
        b"true",
    ]
    pieces += [
        f'"state": "{UNAVAILABLE}"'.encode(),
        rb'"state": "\u005f_debezium_unavailable_value"',
        b'"after": {}, ',
        b'"source": 5, ',
        b'"schema": 1',
    ]
    records = []
    for at in range(3000):
        for key, value in shop.changes(AT + at):
            if value is not None and chance.random() < 0.6:
                begin = chance.randrange(len(value))
                value = (
                    value[:begin]
                    + chance.choice(pieces)
                    + value[begin + chance.choice([0, 0, 1, 4, 12]) :]
                )
            records.append({"key": key, "value": value})
    given = pa.array(records, pa.struct([("key", pa.binary()), ("value", pa.binary())]))
    way = told._fast_rows()
    assert way is not None
    fast, places = told._changed(way, given)

    assert told.columns(given).to_pylist() == told.one_by_one(given).to_pylist()
    assert len(fast) == len(places)
    assert 800 < len(places) < 2900


def test_avro_envelopes_and_keys() -> None:
    row = {
        "type": "record",
        "name": "Value",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "state", "type": ["null", "string"]},
            {"name": "due", "type": {"type": "int", "logicalType": "date"}},
        ],
    }
    value = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "op", "type": "string"},
        ],
    }
    key = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
    schemas = {1: value, 2: key}

    def framed(number: int, document: Any) -> bytes:
        out = BytesIO()
        fastavro.schemaless_writer(
            out, fastavro.parse_schema(json.loads(json.dumps(schemas[number]))), document
        )
        return b"\0" + number.to_bytes(4, "big") + out.getvalue()

    after = {"id": 7, "state": "NEW", "due": date(2026, 1, 2)}
    made, gone = rows(
        decoder(formats=("avro",), schemas=schemas),
        (framed(2, {"id": 7}), framed(1, {"op": "c", "before": None, "after": after})),
        (framed(2, {"id": 7}), None),
    )

    assert (made["id"], made["due"], made["_deleted"]) == (7, date(2026, 1, 2), False)
    assert told(gone)[:3] == (7, None, True)


# topics whose newest record of a key counts


def test_upserts_and_tombstones() -> None:
    found = rows(
        decoder("upsert", {"id": "bigint", "state": "string"}),
        (b"7", {"id": 7, "state": "NEW"}),
        (b"8", {"state": "NEW"}),  # its key is in the record's key alone
        ({"id": 9}, None),
        (b"7", None),
        (b"seven", None),
        (None, {"state": "NEW"}),
        (b"7", [1]),
    )

    assert [told(row)[:3] for row in found[:4]] == [
        (7, "NEW", False),
        (8, "NEW", False),
        (9, None, True),
        (7, None, True),
    ]
    assert [error_of(row) for row in found[4:]] == [
        "no JSON: Expecting value at character 0",
        "there is no id",
        "the record is '[1]' where a group of fields is to be",
    ]


def test_keys_that_are_text() -> None:
    found = rows(
        decoder("upsert", {"name": "string", "n": "int?"}, "name"),
        (b"anna", None),
        (b'"anna"', None),
        ({"name": "anna"}, None),
        (b"7", None),
        (b"\xff", None),
    )

    assert [row.get("name") for row in found[:4]] == ["anna", "anna", "anna", "7"]
    assert "name" not in found[4]


def test_keys_of_several_fields() -> None:
    both = decoder("upsert", {"shop": "int", "nr": "int", "n": "int?"}, ["shop", "nr"])
    gone, short, one = rows(both, ({"shop": 1, "nr": 2}, None), ({"shop": 1}, None), (b"1", None))

    assert (gone["shop"], gone["nr"], gone["_deleted"]) == (1, 2, True)
    assert "shop" not in short
    assert "shop" not in one


@pytest.mark.parametrize(
    ("kind", "key", "said"),
    [
        ("maxwell", "id", "orders.envelope is 'maxwell': one of debezium, upsert"),
        (["debezium"], "id", "one of debezium, upsert"),
        ("debezium", None, "which fields name a row"),
        ("debezium", [], "which fields name a row"),
        ("debezium", ["nr"], "orders.key names nr, which is no field: there are id, state"),
        ("debezium", "note", "orders.key names note, which may be null"),
        (None, "id", "orders has key, which is of streams with an envelope"),
    ],
)
def test_declarations_that_mean_nothing_are_refused(kind: Any, key: Any, said: str) -> None:
    with pytest.raises(OptionRefused, match=said):
        envelope(kind, key, fields(ORDERS, "fields"), "orders")


def test_declarations() -> None:
    assert envelope(None, None, (), "x") is None
    assert envelope("debezium", ["id"], fields(ORDERS, "fields"), "x") == Envelope(
        "debezium", ("id",)
    )
