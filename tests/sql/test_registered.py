"""Columns from the schemas of a registry, and values written with them: Avro, JSON Schema and
Protobuf, without Spark.
"""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastavro", reason="needs raftka[pipeline]")
pytest.importorskip("jsonschema_rs", reason="needs raftka[registry]")

from raftka.pipeline.errors import PipelineError
from raftka.pipeline.records.fields import Field, Group, Many
from raftka.pipeline.records.registry_client import (
    RegistryAccess,
    RegistryAway,
    RegistryClient,
    SchemaRefused,
    register_schema,
)
from raftka.pipeline.records.schema_readers import RegistryReader
from raftka.schemas.client import Schema
from raftka.schemas.values import Misfit
from raftka.sql.catalog import Stream
from raftka.sql.language import StatementError
from raftka.sql.language.statements import Column, Format, Options
from raftka.sql.language.types import type_text
from raftka.sql.made_schemas import made_schema
from raftka.sql.registered import registered_columns
from raftka.sql.registration import ValueWriter, registered_id
from raftka.sql.session import Session
from raftka.testing import Cluster
from tests.registry.rest import Rest, record

AVRO = {
    "type": "record",
    "name": "Truck",
    "namespace": "fleet",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "speed", "type": ["null", "double"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "again", "type": ["null", "fleet.Kind"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "tags", "type": {"type": "array", "items": {"type": "map", "values": "int"}}},
        {"name": "at_home", "type": record("Home", city="string", raw="bytes")},
    ],
}
PROTO = """syntax = "proto3";
package fleet;
message Truck {
  int64 id = 1;
  optional double speed = 2;
  enum Kind { A = 0; B = 1; }
  Kind kind = 3;
  repeated string tags = 4;
  map<int32, Home> homes = 5;
  message Home { bool is_own = 1; bytes raw = 2; uint64 large = 3; }
}
"""
JSON_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "speed": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": ["string", "null"]}},
        "home": {"type": "object", "properties": {"own": {"type": "boolean"}}},
        "any": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
}
COLUMNS = {
    Format.AVRO: (
        "id BIGINT, speed DOUBLE, kind STRING, again STRING, at TIMESTAMP, price DECIMAL(9, 2), "
        "tags ARRAY<MAP<STRING, INT>>, at_home STRUCT<`city` STRING, `raw` BYTES>"
    ),
    Format.PROTOBUF: (
        "id BIGINT, speed DOUBLE, kind STRING, tags ARRAY<STRING>, homes MAP<STRING, "
        "STRUCT<`is_own` BOOLEAN, `raw` BYTES, `large` DECIMAL(20, 0)>>"
    ),
    Format.JSON: (
        "id BIGINT, speed DOUBLE, at TIMESTAMP, tags ARRAY<STRING>, home STRUCT<`own` BOOLEAN>, "
        "any MAP<STRING, BIGINT>"
    ),
}
SCHEMAS: dict[Format, Any] = {
    Format.AVRO: AVRO,
    Format.PROTOBUF: PROTO,
    Format.JSON: JSON_SCHEMA,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as started:
        yield started


@pytest.fixture(scope="module")
def rest(cluster: Cluster) -> Iterator[Rest]:
    with cluster.registry() as registry, Rest(registry) as found:
        found.url = registry.url  # type: ignore[attr-defined]
        yield found


@pytest.fixture
def access(rest: Rest) -> RegistryAccess:
    return RegistryAccess((rest.url,))  # type: ignore[attr-defined]


def register(rest: Rest, form: Format, schema: Any = None) -> str:
    """Register a schema for a topic; return the topic."""
    topic = f"trucks-{form}-{id(schema)}"
    kind = {} if form is Format.AVRO else {"schemaType": form.upper()}
    rest.register(f"{topic}-value", SCHEMAS[form] if schema is None else schema, **kind)
    return topic


@pytest.mark.parametrize("form", list(COLUMNS))
def test_columns_are_those_of_the_newest_schema(
    rest: Rest, access: RegistryAccess, form: Format
) -> None:
    found = registered_columns(access, register(rest, form), form)
    assert ", ".join(f"{each.name} {type_text(each.kind)}" for each in found) == COLUMNS[form]


def test_types_that_no_column_has_are_refused(rest: Rest, access: RegistryAccess) -> None:
    union = register(rest, Format.AVRO, record("Union", a=["int", "string"]))
    with pytest.raises(PipelineError, match=r"schema\.a has"):
        registered_columns(access, union, Format.AVRO)
    plain = register(rest, Format.AVRO, '"string"')
    with pytest.raises(PipelineError, match="no record with fields"):
        registered_columns(access, plain, Format.AVRO)
    loop = {
        "type": "record",
        "name": "Loop",
        "fields": [{"name": "next", "type": ["null", "Loop"]}],
    }
    with pytest.raises(PipelineError, match="in itself"):
        registered_columns(access, register(rest, Format.AVRO, loop), Format.AVRO)


def test_a_subject_without_a_schema_or_of_another_format_is_refused(
    rest: Rest, access: RegistryAccess
) -> None:
    with pytest.raises(PipelineError, match="no schema for nothing-value"):
        registered_columns(access, "nothing", Format.AVRO)
    topic = register(rest, Format.AVRO)
    with pytest.raises(PipelineError, match="is avro, and VALUE_FORMAT is json"):
        registered_columns(access, topic, Format.JSON)
    with pytest.raises(PipelineError, match="there is no registry"):
        registered_columns(None, topic, Format.AVRO)


@pytest.mark.parametrize("form", [Format.AVRO, Format.PROTOBUF])
def test_rows_are_written_with_the_schema_of_the_topic(
    rest: Rest, access: RegistryAccess, cluster: Cluster, form: Format
) -> None:
    schema = record("Row", n="long", t=["null", "string"])
    text = 'syntax = "proto3"; message Row { int64 n = 1; optional string t = 2; }'
    topic = register(rest, form, schema if form is Format.AVRO else text)
    session = Session(cluster.bootstrap_servers, registry=access)
    try:
        session.execute(f"CREATE STREAM `{topic}` WITH (VALUE_FORMAT='{form}', PARTITIONS=1)")
        session.execute(f"INSERT INTO `{topic}` (n, t) VALUES (7, 'x'), (8, NULL)")
        found = [RegistryReader.of(access, (str(form),)).value(each.value or b"")
                 for each in cluster.records(topic)]  # fmt: skip
        assert [(each["n"], each.get("t")) for each in found] == [(7, "x"), (8, None)]
        printed = session.execute(f"PRINT '{topic}' FROM BEGINNING LIMIT 1")
        assert next(printed.rows)[4] == {"n": 7, "t": "x"}
    finally:
        session.close()


@pytest.mark.parametrize("form", [Format.AVRO, Format.PROTOBUF, Format.JSON_SR])
def test_the_first_rows_of_a_topic_register_a_schema_of_the_columns(
    access: RegistryAccess, cluster: Cluster, rest: Rest, form: Format
) -> None:
    session = Session(cluster.bootstrap_servers, registry=access)
    topic = f"first_{form}"
    try:
        session.execute(
            f"CREATE STREAM {topic} (k INT KEY, n INT, t TIMESTAMP, d DATE, p DECIMAL(9, 2)) "
            f"WITH (VALUE_FORMAT='{form}', PARTITIONS=1)"
        )
        session.execute(f"INSERT INTO {topic} VALUES (7, 1, '2026-01-02', '2026-01-02', 1.5)")
        found = registered_columns(access, topic, form)
        assert [type_text(each.kind) for each in found[:3]] == ["INT", "TIMESTAMP", "DATE"]
        (record,) = cluster.records(topic)
        value = RegistryReader.of(access, (form.decoded_as,)).value(record.value or b"")
        assert (record.key, value["n"], float(value["p"])) == (b"7", 1, 1.5)
        with pytest.raises(StatementError, match="n is 'x'"):
            session.execute(f"INSERT INTO {topic} (n) VALUES ('x')")
    finally:
        session.close()


def test_fields_of_protobuf_keep_their_numbers(access: RegistryAccess) -> None:
    def stream(*fields: Field) -> Stream:
        columns = tuple(Column(each.name, each.kind) for each in fields)
        return Stream("STREAM", "s", columns, Options("numbers", Format.PROTOBUF))

    inside = Field("o", Group((Field("x", "int"), Field("y", "string"))))
    first = registered_id(access, stream(Field("a", "int"), inside), is_new=True)
    inside = Field("o", Group((Field("y", "string"), Field("z", "int"))))
    second = registered_id(access, stream(Field("b", "string"), inside), is_new=True)
    assert second != first
    text = RegistryClient.of(access).latest("numbers-value").schema.text
    lines = [" ".join(each.split()) for each in text.splitlines()]
    for line in (
        "optional string b = 3;",
        "optional o_struct o = 2;",
        "optional string y = 2;",
        "optional int32 z = 3;",
        "reserved 1;",
    ):
        assert line in lines, text
    assert registered_id(access, stream(Field("c", "int")), is_new=False) == second


@pytest.mark.parametrize("form", [Format.AVRO, Format.PROTOBUF, Format.JSON_SR])
def test_a_further_column_is_compatible(access: RegistryAccess, form: Format) -> None:
    columns = [Column("n", "int"), Column("s", "string")]
    ids = [
        registered_id(
            access,
            Stream("STREAM", "s", tuple(columns[:count]), Options(f"more_{form}", form)),
            is_new=True,
        )
        for count in (1, 2, 2)
    ]
    assert ids[0] != ids[1] == ids[2]


def test_a_schema_that_is_not_compatible_is_refused(rest: Rest, access: RegistryAccess) -> None:
    topic = register(rest, Format.AVRO, record("Old", n="string"))
    target = Stream("STREAM", "s", (Column("n", "int"),), Options(topic, Format.AVRO))
    with pytest.raises(SchemaRefused, match=f"refuses the schema of {topic}-value: .*compatible"):
        registered_id(access, target, is_new=True)


def test_a_registry_that_is_away_is_no_refusal() -> None:
    target = Stream("STREAM", "s", (Column("n", "int"),), Options("t", Format.AVRO))
    with pytest.raises(RegistryAway, match=r"127\.0\.0\.1:1"):
        register_schema(RegistryAccess(("http://127.0.0.1:1",)), "t-value", made(target))


def made(target: Stream) -> Schema:
    return made_schema(target.format, target.topic, target.fields)


def test_records_within_records_have_names_of_their_own() -> None:
    inside = Group((Field("b", Group(())),))
    target = Stream(
        "STREAM",
        "s",
        (Column("a", inside), Column("a_b", Many(Group(())))),
        Options("1-t", Format.AVRO),
    )
    text = made(target).text
    names = [part.split('"')[0] for part in text.split('"record", "name": "')[1:]]
    assert names == ["_1_t", "_1_t_a", "_1_t_a_b", "_1_t_a_b_"]


def test_a_value_that_does_not_fit_the_schema_is_refused(
    rest: Rest, access: RegistryAccess
) -> None:
    schema_id = rest.register("misfits-value", record("One", n="int"))
    with pytest.raises(Misfit, match="does not fit"):
        ValueWriter(access, Format.AVRO, schema_id)({"n": "text"})
    text = 'syntax = "proto3"; message Row { int32 n = 1; repeated string s = 2; }'
    schema_id = rest.register("misfits-2-value", text, schemaType="PROTOBUF")
    write = ValueWriter(access, Format.PROTOBUF, schema_id)
    for value in ({"n": 1 << 40}, {"other": 1}, {"s": [None]}):
        with pytest.raises(Misfit, match="does not fit"):
            write(value)
    with pytest.raises(PipelineError, match="schema 99999"):
        ValueWriter(access, Format.AVRO, 99999)({})
