"""Types of values that come from JSON or go there, and their encoder. What others have written is
looked at before it is believed.
"""

import json
import math
from collections.abc import Callable
from typing import Any

Json = Any  # None, bool, int, float, str, or lists and objects of these
JsonObject = dict[str, Any]


def encode_json(value: Json, default: Callable[[object], Json] | None = None) -> bytes:
    """Numbers that JSON has not (NaN, Infinity), which a record may hold, become texts. `default`:
    returns JSON for a value that is none. Raises TypeError for such a value without it.
    """
    try:
        return _dumps(value, default)
    except ValueError:
        return _dumps(_finite(value), default)


def _dumps(value: Json, default: Callable[[object], Json] | None) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False, default=default).encode()


def _finite(value: Json) -> Json:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value
