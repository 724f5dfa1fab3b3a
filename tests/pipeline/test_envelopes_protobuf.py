"""Change events and keyed rows in Protobuf, whose schemas a real registry has, keys too. Bytes in,
columns out; no Spark.
"""

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
from tests.pipeline.envelopes import AT, MOMENT, ORDERS, error_of, rows, told
from tests.pipeline.protobuf_values import KEY_PROTO, PROTO, in_protobuf


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
