"""Columns of a stream from the newest schema of its topic. Knows no Spark."""

import json
from collections.abc import Mapping
from typing import NoReturn

from raftka.json_values import Json, JsonObject
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.records.fields import (
    DECIMAL_KIND,
    LARGEST_DECIMAL,
    Exact,
    Field,
    Group,
    Kind,
    Many,
    MapOf,
)
from raftka.pipeline.records.registry_client import RegistryAccess, RegistryClient, UnknownSchema
from raftka.schemas.client import Registered, Schema
from raftka.schemas.values import Misfit
from raftka.sql.language.statements import Column, Format

DEEPEST = 20  # types within types: a schema may name itself
AVRO = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    "fixed": "binary",
    "enum": "string",
}
AVRO_LOGICAL = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp",
    "local-timestamp-micros": "timestamp",
    "time-millis": "string",
    "time-micros": "string",
    "uuid": "string",
}
JSON_TYPES = {"boolean": "boolean", "integer": "bigint", "number": "double", "string": "string"}
CONNECT_TYPES = {"int32": "int", "int64": "bigint", "float32": "float", "float64": "double"}
CONNECT_DECIMAL = "org.apache.kafka.connect.data.Decimal"
PROTOBUF: Mapping[int, Kind] = {  # by the number that a descriptor has for a type
    1: "double",
    2: "float",
    3: "bigint",
    4: Exact(20, 0),
    5: "int",
    6: Exact(20, 0),
    7: "bigint",
    8: "boolean",
    9: "string",
    12: "binary",
    13: "bigint",
    14: "string",
    15: "int",
    16: "bigint",
    17: "int",
    18: "bigint",
}
PROTOBUF_MESSAGES: Mapping[str, Kind] = {
    "google.protobuf.Timestamp": "timestamp",
    "google.type.Date": "date",
    "google.protobuf.StringValue": "string",
    "google.protobuf.BytesValue": "binary",
    "google.protobuf.BoolValue": "boolean",
    "google.protobuf.Int32Value": "int",
    "google.protobuf.Int64Value": "bigint",
    "google.protobuf.UInt32Value": "bigint",
    "google.protobuf.UInt64Value": Exact(20, 0),
    "google.protobuf.FloatValue": "float",
    "google.protobuf.DoubleValue": "double",
    "confluent.type.Decimal": Exact(38, 9),
}


class NoColumn(Exception):
    """A type of a schema that no column has: the text says where."""


def _refuse(where: str, kind: object) -> NoReturn:
    raise NoColumn(f"{where} has the type {json.dumps(kind, default=str):.100}")


def subject_of(topic: str) -> str:
    return f"{topic}-value"


def registry_of(access: RegistryAccess | None) -> RegistryAccess:
    """Raises PipelineError for a server without one."""
    if access is None:
        raise PipelineError(
            "there is no registry. Next step: name its columns, or start with "
            "RAFTKA_REGISTRY_URL=http://localhost:8081"
        )
    return access


def newest(access: RegistryAccess | None, topic: str, form: Format) -> Registered:
    """Return the newest schema of a topic's values. Raise UnknownSchema, and PipelineError."""
    subject = subject_of(topic)
    client = RegistryClient.of(registry_of(access))
    found = client.latest(subject)
    kind = found.schema.kind.lower()
    if kind != form.decoded_as:
        raise PipelineError(f"the schema of {subject} is {kind}, and VALUE_FORMAT is {form}")
    return client.latest(subject, serialized=True) if form is Format.PROTOBUF else found


def registered_columns(
    access: RegistryAccess | None, topic: str, form: Format
) -> tuple[Column, ...]:
    """Return the columns that the newest schema has. Raise PipelineError."""
    try:
        found = newest(access, topic, form)
    except UnknownSchema:
        raise PipelineError(
            f"the registry has no schema for {subject_of(topic)}. Next step: name the columns in "
            "the statement"
        ) from None
    try:
        fields = _fields(found.schema, access, form)
    except (NoColumn, Misfit, UnknownSchema, ValueError, KeyError, TypeError) as error:
        raise PipelineError(
            f"the columns of {topic} cannot be taken from its schema: {error}. Next step: name "
            "them in the statement"
        ) from None
    return tuple(Column(each.name, each.kind) for each in fields if not each.name.startswith("_"))


def _fields(schema: Schema, access: RegistryAccess | None, form: Format) -> tuple[Field, ...]:
    assert access is not None, "the schema has come from there"
    client = RegistryClient.of(access)
    if form is Format.AVRO:
        from raftka.schemas.values.avro import put_references_inside

        kind = _Avro().kind(put_references_inside(schema, client), "the schema", 0)
    elif form is Format.PROTOBUF:
        from raftka.schemas.values.protobuf import first_type

        kind = _message(first_type(schema, client), "the schema", 0)
    else:
        kind = _json_kind(json.loads(schema.text), "the schema", 0)
    if not isinstance(kind, Group) or not kind.fields:
        raise NoColumn("it is no record with fields")
    return kind.fields


class _Avro:
    """Kinds of an Avro schema, whose named types may be named again."""

    def __init__(self) -> None:
        self._named: dict[str, JsonObject] = {}

    def kind(self, schema: Json, where: str, depth: int, space: str = "") -> Kind:
        """`space`: the namespace around it."""
        if depth > DEEPEST:
            _refuse(where, "one that is in itself")
        if isinstance(schema, list):
            options = [each for each in schema if each != "null"]
            if len(options) != 1:
                _refuse(where, schema)
            return self.kind(options[0], where, depth + 1, space)
        if isinstance(schema, str):
            if schema in AVRO:
                return AVRO[schema]
            named = self._named.get(_full_name(schema, space)) or self._named.get(schema)
            if named is None:
                _refuse(where, schema)
            return self.kind(named, where, depth + 1, space)
        if isinstance(schema["type"], dict | list):
            return self.kind(schema["type"], where, depth + 1, space)
        if "name" in schema:
            full = _full_name(schema["name"], schema.get("namespace", space))
            self._named[full] = schema
            space = full.rpartition(".")[0]
        return self._plain(schema, where, depth, space)

    def _plain(self, schema: JsonObject, where: str, depth: int, space: str) -> Kind:
        kind, logical = schema["type"], schema.get("logicalType")
        if logical == "decimal":
            return Exact(int(schema["precision"]), int(schema.get("scale", 0)))
        if logical in AVRO_LOGICAL:
            return AVRO_LOGICAL[logical]
        if kind == "array":
            return Many(self.kind(schema["items"], f"{where}[]", depth + 1, space))
        if kind == "map":
            return MapOf(self.kind(schema["values"], f"{where}[]", depth + 1, space))
        if kind != "record":
            return self.kind(kind, where, depth + 1, space)
        fields = []
        for each in schema["fields"]:
            name = each["name"]
            found = self.kind(each["type"], f"{where}.{name}", depth + 1, space)
            fields.append(Field(name, found, nullable=True))
        return Group(tuple(fields))


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _json_kind(schema: Json, where: str, depth: int) -> Kind:
    if depth > DEEPEST:
        _refuse(where, "one that is in itself")
    options = schema.get("oneOf") or schema.get("anyOf")
    if options is not None:
        kinds = [each for each in options if each != {"type": "null"}]
        if len(kinds) != 1:
            _refuse(where, schema)
        return _json_kind(kinds[0], where, depth + 1)
    if (known := _connect_kind(schema)) is not None:
        return known
    kind = schema.get("type")
    if isinstance(kind, list):
        kinds = [each for each in kind if each != "null"]
        kind = kinds[0] if len(kinds) == 1 else kind
    if kind == "object" and "properties" in schema:
        return Group(
            tuple(
                Field(name, _json_kind(each, f"{where}.{name}", depth + 1), nullable=True)
                for name, each in schema["properties"].items()
            )
        )
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return MapOf(_json_kind(schema["additionalProperties"], f"{where}[]", depth + 1))
    if kind == "array" and isinstance(schema.get("items"), dict):
        return Many(_json_kind(schema["items"], f"{where}[]", depth + 1))
    if kind == "string" and schema.get("format") == "date-time":
        return "timestamp"
    if kind == "string" and schema.get("format") == "date":
        return "date"
    if not isinstance(kind, str) or kind not in JSON_TYPES:
        _refuse(where, schema)
    return JSON_TYPES[kind]


def _connect_kind(schema: JsonObject) -> Kind | None:
    """Return the kind that Kafka Connect's words, or ours for long decimals, name; None: they do
    not.
    """
    title = str(schema.get("title"))
    if title == CONNECT_DECIMAL:
        given = schema.get("connect.parameters") or {}
        digits = int(given.get("connect.decimal.precision", LARGEST_DECIMAL))
        return Exact(digits, int(given.get("scale", 0)))
    if (match := DECIMAL_KIND.fullmatch(title)) is not None:
        return Exact(int(match[1]), int(match[2]))
    return CONNECT_TYPES.get(str(schema.get("connect.type")))


def _message(descriptor: Json, where: str, depth: int) -> Kind:
    if depth > DEEPEST:
        _refuse(where, "one that is in itself")
    if descriptor.full_name in PROTOBUF_MESSAGES:
        return PROTOBUF_MESSAGES[descriptor.full_name]
    return Group(
        tuple(
            Field(each.name, _protobuf_field(each, f"{where}.{each.name}", depth), nullable=True)
            for each in descriptor.fields
        )
    )


def _protobuf_field(field: Json, where: str, depth: int) -> Kind:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return MapOf(_protobuf_field(message.fields_by_name["value"], where, depth + 1))
    if message is None:
        if field.type not in PROTOBUF:
            _refuse(where, field.type)
        kind = PROTOBUF[field.type]
    else:
        kind = _message(message, where, depth + 1)
    return Many(kind) if field.is_repeated else kind
