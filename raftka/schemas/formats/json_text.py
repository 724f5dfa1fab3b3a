"""JSON texts: read within bounds, written compactly. Avro and JSON Schema are written in it."""

import json
from collections.abc import Iterator
from typing import NoReturn

from raftka.json_values import Json
from raftka.schemas.formats.schema import MAX_DEPTH, InvalidSchema


def read(text: str) -> Json:
    """The value of a text. Raises InvalidSchema for what is no JSON, too deep, no Unicode, or a
    number beyond a double's range.
    """
    try:
        value = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise InvalidSchema(f"nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:  # also integers of more than 4300 digits
        raise InvalidSchema(f"the text is no JSON: {error}") from None
    _check(value)
    return value


def write(value: Json) -> str:
    """The value without white space, its keys in the order that they have."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def write_sorted(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _check(value: Json) -> None:
    """Level by level, without recursion."""
    level = [value]
    for _ in range(MAX_DEPTH):
        for each in level:
            if isinstance(each, float) and each in (float("inf"), float("-inf")):
                raise InvalidSchema("a number is beyond the range of a double")
            if isinstance(each, str):
                _check_string(each)
            elif isinstance(each, dict):
                for key in each:
                    _check_string(key)
        level = [child for each in level for child in _children(each)]
        if not level:
            return
    raise InvalidSchema(f"nested deeper than {MAX_DEPTH} levels")


def _check_string(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidSchema(
            "a string has half of a surrogate pair, which UTF-8 cannot express"
        ) from None


def _children(value: Json) -> Iterator[Json]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value
