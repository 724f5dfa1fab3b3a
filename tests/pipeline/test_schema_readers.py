"""Avro, Protobuf and JSON behind the numbers of a registry's schemas: versions, references, logical
types, and what is a dead letter. No Spark.
"""

import base64
import json
import struct
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")
pytest.importorskip("fastavro", reason="needs raftka[pipeline]")
pytest.importorskip("google.protobuf", reason="needs raftka[pipeline]")

import pyarrow as pa

from raftka.json_values import Json
from raftka.pipeline.records.decoding import Decoder
from raftka.pipeline.records.fields import fields
from raftka.pipeline.records.registry_client import RegistryAccess, RegistryAway, RegistryClient
from raftka.pipeline.records.schema_readers import RegistryReader
from raftka.registry.server import RegistryServer
from raftka.schemas.framing import message_indexes
from tests.pipeline.framed_values import avro, framed
from tests.registry.rest import Rest, record

TRUCK = {"truck": "int", "speed": "double?"}


@pytest.fixture
def rest(raftka_registry: RegistryServer) -> Iterator[Rest]:
    with Rest(raftka_registry) as asking:
        yield asking


def decoder(registry: RegistryServer | str, declared: Any, *formats: str) -> Decoder:
    url = registry if isinstance(registry, str) else registry.url
    return Decoder(formats, fields(declared, "fields"), registry=RegistryAccess((url,)))


# Avro


def test_a_new_version_is_read_without_a_restart(
    raftka_registry: RegistryServer, rest: Rest
) -> None:
    first = record("Truck", truck="int")
    second = record("Truck", truck="int", speed=(["null", "double"], None))
    number = rest.register("trucks-value", first)
    reading = decoder(raftka_registry, TRUCK, "avro")

    assert reading.row(framed(number, avro(first, {"truck": 7}))) == (
        {"truck": 7, "speed": None},
        None,
    )
    newer = rest.register("trucks-value", second)
    assert reading.row(framed(newer, avro(second, {"truck": 7, "speed": 1.5}))) == (
        {"truck": 7, "speed": 1.5},
        None,
    )


def logical(kind: str, name: str, **more: Json) -> Json:
    return {"type": kind, "logicalType": name, **more}


ALL_TYPES = record(
    "All",
    price=logical("bytes", "decimal", precision=9, scale=2),
    fixed_price={
        "type": "fixed",
        "name": "F",
        "size": 8,
        "logicalType": "decimal",
        "precision": 18,
        "scale": 4,
    },
    day=logical("int", "date"),
    clock=logical("int", "time-millis"),
    exact_clock=logical("long", "time-micros"),
    ms=logical("long", "timestamp-millis"),
    us=logical("long", "timestamp-micros"),
    local=logical("long", "local-timestamp-micros"),
    id=logical("string", "uuid"),
    tags={"type": "map", "values": "int"},
    either=["null", "string", "int"],
    colour={"type": "enum", "name": "Colour", "symbols": ["RED"]},
)


def test_logical_types_have_columns(raftka_registry: RegistryServer, rest: Rest) -> None:
    schema = ALL_TYPES
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    identity = uuid.UUID("12345678-1234-5678-1234-567812345678")
    value = {
        "price": Decimal("12.30"),
        "fixed_price": Decimal("-1.2345"),
        "day": date(2026, 2, 3),
        "clock": time(1, 2, 3, 4000),
        "exact_clock": time(1, 2, 3, 4005),
        "ms": moment,
        "us": moment,
        "local": moment.replace(tzinfo=None),
        "id": identity,
        "tags": {"a": 1, "b": 2},
        "either": "x",
        "colour": "RED",
    }
    declared = {
        "price": "decimal(9,2)",
        "fixed_price": "decimal(18,4)",
        "day": "date",
        "clock": "string",
        "exact_clock": "string",
    }
    declared |= {
        "ms": "timestamp",
        "us": "timestamp",
        "local": "timestamp",
        "id": "string",
        "tags": {"*": "int"},  # type: ignore[dict-item]
        "either": "string?",
    }
    number = rest.register("all-value", schema)
    reading = decoder(raftka_registry, {**declared, "colour": "string"}, "avro")

    found = reading.columns(
        pa.array(
            [
                framed(number, avro(schema, value)),
                framed(number, avro(schema, {**value, "either": 5})),
            ],
            pa.binary(),
        )
    )

    assert found.type.field("price").type == pa.decimal128(9, 2)
    assert found.type.field("tags").type == pa.map_(pa.string(), pa.int32())
    good, bad = found.to_pylist()
    assert good == {
        **value,
        "clock": "01:02:03.004000",
        "exact_clock": "01:02:03.004005",
        "ms": moment.replace(microsecond=678000),
        "local": moment,
        "id": str(identity),
        "tags": [("a", 1), ("b", 2)],
        "_error": None,
    }
    assert bad["_error"] == "either is 5 where a string is to be"


def test_references_of_references_are_followed(raftka_registry: RegistryServer, rest: Rest) -> None:
    engine = {**record("Engine", power="int"), "namespace": "parts"}
    truck = {
        **record("Truck", engine="parts.Engine", spare=["null", "parts.Engine"]),
        "namespace": "fleet",
    }
    fleet = {
        **record("Fleet", trucks={"type": "array", "items": "Truck"}, best="fleet.Truck"),
        "namespace": "fleet",
    }
    rest.register("engine", engine)
    rest.register(
        "truck", truck, references=[{"name": "parts.Engine", "subject": "engine", "version": 1}]
    )
    number = rest.register(
        "fleet", fleet, references=[{"name": "fleet.Truck", "subject": "truck", "version": 1}]
    )
    one = {"engine": {"power": 5}, "spare": None}
    body = avro(
        fleet, {"trucks": [one], "best": {**one, "spare": {"power": 6}}}, engine=engine, truck=truck
    )
    group = {"engine": {"power": "int"}, "spare": {"power": "int?"}}
    reading = decoder(
        raftka_registry, {"trucks": [{"engine": {"power": "int"}}], "best": group}, "avro"
    )

    row, wrong = reading.row(framed(number, body))

    assert wrong is None
    assert row == {
        "trucks": [{"engine": {"power": 5}}],
        "best": {"engine": {"power": 5}, "spare": {"power": 6}},
    }


def test_a_union_of_references_is_read(raftka_registry: RegistryServer, rest: Rest) -> None:
    rest.register("a", record("A", x="int"))
    rest.register("b", record("B", y="string"))
    references = [{"name": name, "subject": name.lower(), "version": 1} for name in ("A", "B")]
    number = rest.register("events", ["A", "B"], references=references)
    reading = decoder(raftka_registry, {"x": "int?", "y": "string?"}, "avro")

    assert reading.row(framed(number, b"\0\x0a")) == ({"x": 5, "y": None}, None)
    assert reading.row(framed(number, b"\2\2q")) == ({"x": None, "y": "q"}, None)


def test_unknown_numbers_and_other_types_are_dead_letters(
    raftka_registry: RegistryServer, rest: Rest
) -> None:
    number = rest.register("other", {"type": "object"}, schemaType="JSON")
    reading = decoder(raftka_registry, TRUCK, "avro")

    assert reading.row(framed(999, b"\2"))[1] == "schema 999: the registry has no schema 999"
    assert (
        reading.row(framed(number, b"{}"))[1]
        == f"schema {number} is of the type JSON, and this stream is avro"
    )
    assert reading.row(b"{}")[1] == "no Avro: it does not begin with a zero byte and a schema id"


def test_several_formats_in_one_topic(raftka_registry: RegistryServer, rest: Rest) -> None:
    schema = record("Truck", truck="int")
    number = rest.register("a", schema)
    text = rest.register("b", {"type": "object"}, schemaType="JSON")
    reading = decoder(raftka_registry, TRUCK, "json", "avro")
    values = [
        b'{"truck": 1}',
        framed(number, avro(schema, {"truck": 2})),
        framed(text, b'{"truck": 3}'),
        framed(text, b"{"),
        b"{",
    ]

    found = reading.columns(pa.array(values, pa.binary()))

    assert found.field("truck").to_pylist() == [1, 2, 3, None, None]
    assert [each is None for each in found.field("_error").to_pylist()] == [True] * 3 + [False] * 2


def test_a_registry_that_is_away_makes_no_dead_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftka.pipeline.records.registry_client.PAUSES_S", ())
    reading = decoder("http://127.0.0.1:1", TRUCK, "json", "avro")

    with pytest.raises(RegistryAway):
        reading.columns(pa.array([b'{"truck": 1}', framed(1, b"\2")], pa.binary()))
    assert reading.columns(pa.array([b'{"truck": 1}'], pa.binary())).field("truck").to_pylist() == [
        1
    ]


def test_what_was_read_once_needs_no_registry_again(
    raftka_registry: RegistryServer, rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = record("Truck", truck="int")
    value = framed(rest.register("a", schema), avro(schema, {"truck": 2}))
    assert decoder(raftka_registry, TRUCK, "avro").row(value)[1] is None
    monkeypatch.setattr(RegistryClient, "_answer", None)

    # another task's decoder in the same process
    assert decoder(raftka_registry, TRUCK, "avro").row(value)[1] is None


# JSON


def test_json_behind_a_number_is_read_like_json() -> None:
    reading = decoder("http://127.0.0.1:1", TRUCK, "json")  # never asked
    values = [b'{"truck": 1}', framed(7, b'{"truck": 2}'), framed(7, b"{"), b"\0\0", b"\0{", None]

    found = reading.columns(pa.array(values, pa.binary()))

    assert found.equals(reading.one_by_one(pa.array(values, pa.binary())))
    assert found.field("truck").to_pylist() == [1, 2, None, None, None, None]


# Protobuf

PROTO = """
syntax = "proto3";
package fleet;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "parts/engine.proto";
message Unused {}
message Truck {
  int32 truck = 1;
  optional double speed = 2;
  google.protobuf.Timestamp at = 3;
  google.protobuf.StringValue driver = 4;
  map<string, int32> tags = 5;
  repeated parts.Engine engines = 6;
  Colour colour = 7;
  oneof load { string goods = 8; int64 weight = 9; }
  bytes raw = 10;
  message Inner { message Deep { uint64 large = 1; } }
}
enum Colour { RED = 0; BLUE = 1; }
"""
ENGINE = 'syntax = "proto3"; package parts; message Engine { int32 power = 1; }'
DECLARED = {
    "truck": "int",
    "speed": "double?",
    "at": "timestamp?",
    "driver": "string?",
    "tags": {"*": "int"},
    "engines": [{"power": "int"}],
    "colour": "string",
    "goods": "string?",
    "weight": "bigint?",
    "raw": "binary",
}
EMPTY: Json = {
    "truck": 0,
    "speed": None,
    "at": None,
    "driver": None,
    "tags": {},
    "engines": [],
    "colour": "RED",
    "goods": None,
    "weight": None,
    "raw": b"",
}


@pytest.fixture
def truck(rest: Rest) -> int:
    """The number of PROTO's schema."""
    rest.register("engine", ENGINE, schemaType="PROTOBUF")
    return rest.register(
        "trucks",
        PROTO,
        schemaType="PROTOBUF",
        references=[{"name": "parts/engine.proto", "subject": "engine", "version": 1}],
    )


def test_a_message_with_all_kinds_of_fields(raftka_registry: RegistryServer, truck: int) -> None:
    body = (
        b"\x08\x07" + b"\x11" + struct.pack("<d", 1.5) + b"\x1a\x02\x08\x05" + b"\x22\x03\x0a\x01d"
    )
    body += (
        b"\x2a\x05\x0a\x01a\x10\x03"
        + b"\x32\x02\x08\x09"
        + b"\x38\x01"
        + b"\x48\x64"
        + b"\x52\x02\x01\x02"
        + b"\x98\x06\x01"
    )
    reading = decoder(raftka_registry, DECLARED, "protobuf")

    row, wrong = reading.row(framed(truck, b"\x02\x02" + body))

    assert wrong is None
    assert row == {
        "truck": 7,
        "speed": 1.5,
        "at": datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC),
        "driver": "d",
        "tags": {"a": 3},
        "engines": [{"power": 9}],
        "colour": "BLUE",
        "goods": None,
        "weight": 100,
        "raw": b"\x01\x02",
    }
    assert reading.row(framed(truck, b"\x02\x02")) == (EMPTY, None)
    unknown = reading.row(framed(truck, b"\x02\x02\x38\x05"))[0]
    assert unknown is not None
    assert unknown["colour"] == "5"


def test_message_indexes_choose_the_message(raftka_registry: RegistryServer, truck: int) -> None:
    reading = decoder(raftka_registry, {"large": "bigint"}, "protobuf")

    assert reading.row(framed(truck, b"\x06\x02\x02\x00\x08\x07")) == ({"large": 7}, None)
    # without the entries of its map
    assert reading.row(framed(truck, b"\x06\x02\x00\x00\x08\x07")) == ({"large": 7}, None)
    assert (
        reading.row(framed(truck, b"\x06\x02\x02\x00\x08" + b"\xff" * 9 + b"\x01"))[1]
        == f"large is {2**64 - 1} where a bigint is to be"
    )
    assert reading.row(framed(truck, b"\x00"))[1] == "there is no large"
    assert (
        reading.row(framed(truck, b"\x02\x0c"))[1] == "its schema has no message at the place [6]"
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x80",
        b"\x01",
        b"\x02",
        b"\x02\x01",
        b"\xfe\xff\xff\xff\x0f",
        b"\x80\x80\x80\x80\x80\x00",
        b"\x02\x02\x08",
        b"\x02\x02\x0a\x7f",
    ],
)
def test_bytes_that_are_no_message_are_a_dead_letter(
    raftka_registry: RegistryServer, truck: int, body: bytes
) -> None:
    assert (
        decoder(raftka_registry, DECLARED, "protobuf").row(framed(truck, body))[1] or ""
    ).startswith(("no Protobuf", "its schema has no message"))


def test_indexes_of_the_first_message_are_one_byte() -> None:
    assert message_indexes(b"\x00rest", 0) == ((0,), 1)
    assert message_indexes(b"\x04\x02\x06rest", 0) == ((1, 3), 3)


def test_confluents_decimals(
    raftka_registry: RegistryServer, rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their file comes with Confluent's registry, and is among no schema's references."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

    file = FileDescriptorProto(
        name="x",
        syntax="proto3",
        dependency=["confluent/meta.proto", "confluent/type/decimal.proto"],
    )
    file.message_type.add(name="Price").field.add(
        name="price",
        number=1,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=".confluent.type.Decimal",
    )
    answer = json.dumps(
        {"schemaType": "PROTOBUF", "schema": base64.b64encode(file.SerializeToString()).decode()}
    ).encode()
    client = RegistryClient(RegistryAccess(("http://a",)), lambda url, path: (200, answer))

    assert RegistryReader(client, ("protobuf",)).value(
        framed(1, b"\x00\x0a\x08\x0a\x02\xfb\x2e\x10\x09\x18\x02")
    ) == {"price": Decimal("-12.34")}


def test_confluents_serializer_writes_what_is_read_here(raftka_registry: RegistryServer) -> None:
    registry = pytest.importorskip(
        "confluent_kafka.schema_registry", reason="needs confluent-kafka"
    )
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext
    from google.protobuf.timestamp_pb2 import Timestamp

    with registry.SchemaRegistryClient({"url": raftka_registry.url}) as client:
        truck = record("Truck", truck="int")
        as_avro = AvroSerializer(client, json.dumps(truck))(
            {"truck": 7}, SerializationContext("a", MessageField.VALUE)
        )
        schema = {"title": "T", "type": "object", "properties": {"truck": {"type": "integer"}}}
        as_json = JSONSerializer(json.dumps(schema), client)(
            {"truck": 7}, SerializationContext("j", MessageField.VALUE)
        )
        context = SerializationContext("p", MessageField.VALUE)
        as_protobuf = ProtobufSerializer(Timestamp, client, {"use.deprecated.format": False})(
            Timestamp(seconds=5), context
        )

    for value, form in ((as_avro, "avro"), (as_json, "json")):
        assert decoder(raftka_registry, TRUCK, form).row(value) == (
            {"truck": 7, "speed": None},
            None,
        )
    wrong = decoder(raftka_registry, {"seconds": "bigint"}, "protobuf").row(as_protobuf)[1] or ""
    assert wrong.startswith("the record is datetime.datetime(1970, 1, 1, 0, 0, 5")


def test_an_id_that_a_new_registry_gives_again_has_its_new_schema() -> None:
    """A worker outlives a registry that was made anew: what it keeps of a number is compared, not
    believed for ever.
    """
    now, access = [0.0], RegistryAccess(("http://registry:8081",))
    answers = {"old": '{"type": "record", "name": "T", "fields": [{"name": "a", "type": "int"}]}'}
    answers["new"] = answers["old"].replace('"a"', '"b"')
    which = ["old"]
    client = RegistryClient(
        access,
        lambda url, path: (200, json.dumps({"schema": answers[which[0]]}).encode()),
        lambda: now[0],
    )
    worker = RegistryReader(client, ("avro",), lambda: now[0])
    value = framed(1, b"\x04")
    assert worker.value(value) == {"a": 2}
    which[0] = "new"

    worker.refresh()
    assert worker.value(value) == {"a": 2}
    now[0] += 300
    worker.refresh()
    assert worker.value(value) == {"b": 2}
