"""Change events and keyed rows in Protobuf, whose schemas a real registry has, keys too. Bytes in,
columns out; no Spark.
"""

from base64 import b64decode
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")
pytest.importorskip("grpc_tools", reason="needs raftka[registry]")

from raftka.pipeline.records.envelopes import EnvelopeDecoder
from raftka.pipeline.records.fields import ADDED, envelope, fields
from raftka.pipeline.records.registry_client import RegistryAccess
from raftka.registry.server import RegistryServer
from tests.pipeline.test_envelopes import AT, MOMENT, ORDERS, error_of, rows, told
from tests.registry.rest import Rest

PROTO = """syntax = "proto3";
package shop;
message Envelope {
  Value before = 1; Value after = 2; Source source = 3; string op = 4; int64 ts_ms = 5;
}
message Value {
  int64 id = 1; string state = 2; optional string price = 3; optional int32 due = 4;
  optional int64 at = 5; optional bytes blob = 6;
}
message Source { int64 ts_ms = 1; int64 lsn = 2; }
"""
KEY_PROTO = """syntax = "proto3";
package shop;
message Key { int64 id = 1; }
"""


def in_protobuf(registry: Any, subject: str, text: str, message: str) -> Any:
    """What writes a mapping as Confluent's serializer does: behind the schema's number and the
    place of the message.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    with Rest(registry) as rest:
        number = rest.register(subject, text, schemaType="PROTOBUF")
        compiled = rest.get(f"/schemas/ids/{number}?format=serialized")["schema"]
    file = descriptor_pb2.FileDescriptorProto.FromString(b64decode(compiled))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    place = [each.name for each in file.message_type].index(message)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{message}"))
    indexes = b"\0" if place == 0 else bytes([2, 2 * place])
    return lambda **values: (
        b"\0" + number.to_bytes(4, "big") + indexes + kind(**values).SerializeToString()
    )


def of_registry(registry: Any, kind: str) -> EnvelopeDecoder:
    wanted = fields(ORDERS, "fields")
    found = envelope(kind, "id", wanted, "orders")
    assert found is not None
    return EnvelopeDecoder(
        ("protobuf",), (*wanted, *ADDED[kind]), found, registry=RegistryAccess((registry.url,))
    )


def test_debeziums_events_in_protobuf(raftka_registry: RegistryServer) -> None:
    value = in_protobuf(raftka_registry, "orders-value", PROTO, "Envelope")
    key = in_protobuf(raftka_registry, "orders-key", KEY_PROTO, "Key")
    one = {"id": 1, "state": "NEW"}
    two = {**one, "state": "PAID", "price": "9.50", "due": 20000, "at": AT, "blob": b"\1"}
    source = {"ts_ms": AT, "lsn": 5}

    found = rows(
        of_registry(raftka_registry, "debezium"),
        (key(id=1), value(op="c", after=one, source=source)),
        (key(id=1), value(op="u", before=one, after=two, source=source)),
        (key(id=1), value(op="d", before=two, source=source)),
        (key(id=1), None),
        (key(id=1), value(op="x", after=one)),
        (key(id=1), value(op="u", before=one)),
        (key(id=1), value(op="c", after=one)[:-1]),
        (key(id=1)[:-1], None),
        (b"1", None),
    )

    assert [told(row)[:4] for row in found[:4]] == [
        (1, "NEW", False, "c"),
        (1, "PAID", False, "u"),
        (1, "PAID", True, "d"),
        (1, None, True, None),
    ]
    assert {name: found[1][name] for name in ("price", "due", "at", "blob", "_changed")} == {
        "price": Decimal("9.50"),
        "due": date(2024, 10, 4),
        "at": MOMENT,
        "blob": b"\1",
        "_changed": MOMENT,
    }
    wrong = [error_of(row) for row in found[4:]]
    assert [each.split(":")[0] for each in wrong[:2]] == [
        "op is 'x'",
        "op is 'u', and there is no group of fields in after",
    ]
    assert all(each.startswith("no Protobuf") for each in wrong[2:4])
    assert wrong[4]


def test_keyed_rows_in_protobuf(raftka_registry: RegistryServer) -> None:
    value = in_protobuf(raftka_registry, "orders-value", PROTO, "Value")
    key = in_protobuf(raftka_registry, "orders-key", KEY_PROTO, "Key")

    found = rows(
        of_registry(raftka_registry, "upsert"),
        (key(id=7), value(id=7, state="NEW", at=AT)),
        (key(id=7), None),
    )

    assert [(row["id"], row.get("state"), row.get("at"), row["_deleted"]) for row in found] == [
        (7, "NEW", MOMENT, False),
        (7, None, None, True),
    ]
