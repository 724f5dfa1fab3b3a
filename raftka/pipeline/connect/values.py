"""Values of rows as JSON, for receivers that know no Arrow."""

import base64
import json
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal

from raftka.json_values import Json


def as_json(told: Json) -> bytes:
    """Bytes as base64, times as ISO 8601, decimals as text. NaN and infinity, which JSON has not,
    are null.
    """
    return json.dumps(
        _plain(told), ensure_ascii=False, allow_nan=False, separators=(",", ":")
    ).encode(errors="replace")


def _plain(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value
