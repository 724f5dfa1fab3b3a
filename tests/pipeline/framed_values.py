"""Values as Confluent's serializers frame them."""

from io import BytesIO
from typing import Any

import pytest

from raftka.json_values import Json

fastavro = pytest.importorskip("fastavro", reason="needs raftka[pipeline]")


def framed(number: int, body: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + body


def avro(schema: Json, value: Json, **named: Json) -> bytes:
    known: dict[str, Any] = {}
    for each in named.values():
        fastavro.parse_schema(each, named_schemas=known)
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema, named_schemas=known), value)
    return out.getvalue()
