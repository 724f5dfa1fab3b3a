"""Schemas made from columns, as texts for a registry: Avro, JSON Schema and Protobuf. Each field
may be null. Knows no registry.
"""

import json
import re
from collections.abc import Sequence

from raftka.json_values import Json, JsonObject
from raftka.pipeline.records.fields import EXACT_DIGITS, Exact, Field, Group, Kind, Many, MapOf
from raftka.pipeline.records.registry_client import SchemaRefused
from raftka.schemas.client import Schema
from raftka.sql.language.statements import Format
from raftka.sql.registered import CONNECT_DECIMAL

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
AVRO: dict[str, Json] = {
    "boolean": "boolean",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "date": {"type": "int", "logicalType": "date"},
}
# `connect.type` is Kafka Connect's and ksqlDB's, which tell an INT from a BIGINT by it
JSON: dict[str, JsonObject] = {
    "boolean": {"type": "boolean"},
    "int": {"type": "integer", "connect.type": "int32"},
    "bigint": {"type": "integer", "connect.type": "int64"},
    "float": {"type": "number", "connect.type": "float32"},
    "double": {"type": "number", "connect.type": "float64"},
    "string": {"type": "string"},
    "timestamp": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
}
PROTOBUF = {
    "boolean": "bool",
    "int": "int32",
    "bigint": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "timestamp": "google.protobuf.Timestamp",
    "date": "google.type.Date",
}
DECIMAL = "confluent.type.Decimal"
IMPORTS = {
    "google.protobuf.Timestamp": "google/protobuf/timestamp.proto",
    "google.type.Date": "google/type/date.proto",
    DECIMAL: "confluent/type/decimal.proto",
}


def made_schema(form: Format, topic: str, fields: Sequence[Field], previous: Json = None) -> Schema:
    """Return the schema of a topic's values. `previous`: the descriptor of the Protobuf message
    that the topic has so far, whose fields keep their numbers. Raise SchemaRefused for columns that
    the format has no place for.
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", topic)
    name = name if NAME.fullmatch(name) else f"_{name}"
    group = Group(tuple(fields))
    if form is Format.AVRO:
        return Schema("AVRO", json.dumps(_Avro().kind(group, name)))
    if form is Format.PROTOBUF:
        return Schema("PROTOBUF", _Protobuf().text(name, group, previous))
    return Schema("JSON", json.dumps({"title": name, **_json_kind(group, "the row")}))


def _refuse(where: str, cause: str, step: str) -> SchemaRefused:
    return SchemaRefused(f"the column {where} {cause}. Next step: {step}")


def _check_name(name: str, form: str) -> None:
    if NAME.fullmatch(name) is None:
        raise _refuse(
            name, f"has a name that {form} has not: letters, digits and _", "name it with AS"
        )


class _Avro:
    """Records within records have names of their own."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def kind(self, kind: Kind, name: str) -> Json:
        """`name`: of the record that the kind becomes, if it does."""
        if isinstance(kind, Exact):
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": kind.digits,
                "scale": kind.scale,
            }
        if isinstance(kind, Many):
            return {"type": "array", "items": ["null", self.kind(kind.of, name)]}
        if isinstance(kind, MapOf):
            return {"type": "map", "values": ["null", self.kind(kind.of, name)]}
        if not isinstance(kind, Group):
            return AVRO[kind]
        while name in self._names:
            name += "_"
        self._names.add(name)
        fields = []
        for each in kind.fields:
            _check_name(each.name, "Avro")
            inside = ["null", self.kind(each.kind, f"{name}_{each.name}")]
            fields.append({"name": each.name, "type": inside, "default": None})
        return {"type": "record", "name": name, "fields": fields}


def _json_kind(kind: Kind, where: str) -> JsonObject:
    if isinstance(kind, Exact):
        if kind.digits > EXACT_DIGITS:
            return {"type": "string", "title": str(kind)}
        return {
            "type": "number",
            "title": CONNECT_DECIMAL,
            "connect.type": "bytes",
            "connect.parameters": {
                "scale": str(kind.scale),
                "connect.decimal.precision": str(kind.digits),
            },
        }
    if isinstance(kind, Many):
        return {"type": "array", "items": _or_null(kind.of, where)}
    if isinstance(kind, MapOf):
        return {
            "type": "object",
            "connect.type": "map",
            "additionalProperties": _or_null(kind.of, where),
        }
    if isinstance(kind, Group):
        # closed: then a further property is compatible
        return {
            "type": "object",
            "properties": {each.name: _or_null(each.kind, each.name) for each in kind.fields},
            "additionalProperties": False,
        }
    if kind not in JSON:
        raise _refuse(where, "has bytes, which JSON has no place for", "base64() or CAST")
    return JSON[kind]


def _or_null(kind: Kind, where: str) -> JsonObject:
    return {"oneOf": [{"type": "null"}, _json_kind(kind, where)]}


class _Protobuf:
    """The text of a file with one message."""

    def __init__(self) -> None:
        self._imports: set[str] = set()

    def text(self, name: str, group: Group, previous: Json) -> str:
        message = "\n".join(self._message(name, group, previous, ""))
        imports = "".join(f'import "{each}";\n' for each in sorted(self._imports))
        return f'syntax = "proto3";\n{imports}\n{message}\n'

    def _message(self, name: str, group: Group, previous: Json, indent: str) -> list[str]:
        known = {} if previous is None else dict(previous.fields_by_name)
        numbers = {field.number for field in known.values()}
        names = {each.name for each in group.fields}
        lines = [f"{indent}message {name} {{"]
        removed = sorted(field.number for field in known.values() if field.name not in names)
        if removed:
            lines.append(f"{indent}  reserved {', '.join(map(str, removed))};")
        for each in group.fields:
            _check_name(each.name, "Protobuf")
            number = known[each.name].number if each.name in known else max(numbers, default=0) + 1
            numbers.add(number)
            label, written, inner = self._field(each.kind, each.name)
            if inner is not None:
                while written in names:
                    written += "_"
                before = known[each.name].message_type if each.name in known else None
                if before is not None and before.GetOptions().map_entry:
                    before = before.fields_by_name["value"].message_type
                lines += self._message(written, inner, before, f"{indent}  ")
            shown = f"map<string, {written}>" if label == "map" else f"{label} {written}"
            lines.append(f"{indent}  {shown} {each.name} = {number};")
        return [*lines, f"{indent}}}"]

    def _field(self, kind: Kind, name: str) -> tuple[str, str, Group | None]:
        """Return the label of a field, the name of its type, and the fields of that type where the
        file defines it.
        """
        label = "optional"
        if isinstance(kind, Many | MapOf):
            label = "repeated" if isinstance(kind, Many) else "map"
            kind = kind.of
        if isinstance(kind, Many | MapOf):
            raise _refuse(
                name,
                "has lists or maps within a list or a map, which Protobuf has not",
                "put a STRUCT between them, or to_json() them",
            )
        if isinstance(kind, Group):
            return label, f"{name}_struct", kind
        written = DECIMAL if isinstance(kind, Exact) else PROTOBUF[kind]
        if written in IMPORTS:
            self._imports.add(IMPORTS[written])
        return label, written, None
