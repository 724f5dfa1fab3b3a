"""Columns of every declared type."""

from typing import Any

DECLARED: dict[str, Any] = {
    "flag": "boolean?",
    "small": "int?",
    "large": "bigint?",
    "single": "float?",
    "number": "double?",
    "text": "string?",
    "bytes": "binary?",
    "moment": "timestamp?",
    "day": "date?",
    "price": "decimal(9,2)?",
    "amount": "decimal(38,10)?",
    "numbers": ["double"],
    "stops": [{"name": "string", "since": "timestamp?", "tags": {"*": "int"}}],
    "at": {"x": "bigint", "y": "double?", "deeper": {"z": ["string"]}},
}
