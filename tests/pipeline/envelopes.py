"""Rows of Debezium envelopes."""

import json
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")

from raftka.pipeline.records.envelopes import EnvelopeDecoder

ORDERS = {
    "id": "bigint",
    "state": "string",
    "price": "decimal(9,2)?",
    "due": "date?",
    "at": "timestamp?",
    "note": "string?",
    "blob": "binary?",
}
AT = 1_795_596_654_627
MOMENT = datetime.fromtimestamp(AT / 1000, UTC)


def rows(told: EnvelopeDecoder, *records: tuple[Any, Any]) -> list[dict[str, Any]]:
    """Decode records of key and value (bytes, None, or values for JSON) as in a task, to which the
    decoder was pickled. Return the rows without nulls.
    """
    given = [{"key": as_bytes(key), "value": as_bytes(value)} for key, value in records]
    kind = pa.struct([("key", pa.binary()), ("value", pa.binary())])
    found = pickle.loads(pickle.dumps(told)).columns(pa.array(given, kind)).to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in found]


def as_bytes(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else json.dumps(value).encode()


def told(row: dict[str, Any]) -> tuple[Any, ...]:
    return (
        row.get("id"),
        row.get("state"),
        row.get("_deleted"),
        row.get("_op"),
        row.get("error", row.get("_error")),
    )


def error_of(row: dict[str, Any]) -> str:
    (found,) = [
        value for name, value in row.items() if name not in ORDERS and isinstance(value, str)
    ]
    return found
