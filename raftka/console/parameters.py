"""Declared parameters of a query and fields of a body: their checks, and their JSON schemas.

What is not declared, missing or malformed is refused by name.
"""

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, get_origin
from urllib.parse import parse_qsl

from raftka.console.call import ApiError
from raftka.console.limits import PARAMETER_CHARACTERS
from raftka.json_values import Json, JsonObject

BAD_REQUEST = "BAD_REQUEST"
LARGEST, INT32, INT16 = 2**63 - 1, 2**31 - 1, 2**15 - 1  # of the fields of Kafka's messages


class _Required:
    """Marks a parameter or a field that has no default."""


REQUIRED = _Required()


class Parameter(Protocol):
    @property
    def default(self) -> Json: ...

    def parse(self, name: str, values: Sequence[str]) -> Json:
        """Raises ApiError. `values`: at least one."""

    def schema(self) -> JsonObject: ...


def refusal(message: str) -> ApiError:
    return ApiError(400, BAD_REQUEST, message)


def _only(name: str, values: Sequence[str]) -> str:
    if len(values) > 1:
        raise refusal(f"{name} is given {len(values)} times: once is enough")
    return values[0]


def _text(name: str, value: str) -> str:
    limit = PARAMETER_CHARACTERS.value
    if len(value) > limit:
        raise refusal(f"{name} has {len(value):,} characters, {limit:,} are allowed")
    return value


@dataclass(frozen=True, slots=True)
class Text:
    default: Json = None

    def parse(self, name: str, values: Sequence[str]) -> Json:
        return _text(name, _only(name, values))

    def schema(self) -> JsonObject:
        return {"type": "string", "maxLength": PARAMETER_CHARACTERS.value}


@dataclass(frozen=True, slots=True)
class Texts:
    """A parameter that may come several times: a tuple of texts."""

    most: int = 100
    default: Json = ()

    def parse(self, name: str, values: Sequence[str]) -> Json:
        if len(values) > self.most:
            raise refusal(f"{name} is given {len(values)} times, {self.most} are allowed")
        return tuple(_text(name, value) for value in values)

    def schema(self) -> JsonObject:
        return {"type": "array", "items": Text().schema(), "maxItems": self.most}


@dataclass(frozen=True, slots=True)
class Number:
    default: Json = None
    least: int = 0
    most: int = LARGEST

    def parse(self, name: str, values: Sequence[str]) -> Json:
        value = _only(name, values)
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
            raise refusal(f"{name} is a whole number, not {value[:40]!r}")
        number = int(value)
        if not self.least <= number <= self.most:
            raise refusal(f"{name} is {self.least} to {self.most}, not {number}")
        return number

    def schema(self) -> JsonObject:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class Numbers:
    """A parameter that may come several times: a tuple of whole numbers."""

    least: int = 0
    most: int = LARGEST
    most_times: int = 1000
    default: Json = ()

    def parse(self, name: str, values: Sequence[str]) -> Json:
        if len(values) > self.most_times:
            raise refusal(f"{name} is given {len(values)} times, {self.most_times} are allowed")
        number = Number(least=self.least, most=self.most)
        return tuple(number.parse(name, [value]) for value in values)

    def schema(self) -> JsonObject:
        items = Number(least=self.least, most=self.most).schema()
        return {"type": "array", "items": items, "maxItems": self.most_times}


@dataclass(frozen=True, slots=True)
class Choice:
    default: Json
    options: Sequence[str]

    def parse(self, name: str, values: Sequence[str]) -> Json:
        value = _only(name, values)
        if value not in self.options:
            raise refusal(f"{name} is {' or '.join(self.options)}, not {value[:40]!r}")
        return value

    def schema(self) -> JsonObject:
        return {"type": "string", "enum": list(self.options)}


@dataclass(frozen=True, slots=True)
class Flag:
    default: Json = False

    def parse(self, name: str, values: Sequence[str]) -> Json:
        value = _only(name, values)
        if value not in ("true", "false"):
            raise refusal(f"{name} is true or false, not {value[:40]!r}")
        return value == "true"

    def schema(self) -> JsonObject:
        return {"type": "boolean"}


def parse_query(declared: Mapping[str, Parameter], query: str) -> dict[str, Json]:
    """Raises ApiError."""
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, strict_parsing=bool(query), errors="strict"
        )
    except ValueError:
        raise refusal("the query is not NAME=VALUE&..., in UTF-8") from None
    given: dict[str, list[str]] = {}
    for name, value in pairs:
        if name not in declared:
            known = ", ".join(sorted(declared)) or "none"
            raise refusal(f"there is no parameter {name[:80]!r} here; there is {known}")
        given.setdefault(name, []).append(value)
    found: dict[str, Json] = {}
    for name, parameter in declared.items():
        if name in given:
            found[name] = parameter.parse(name, given[name])
        elif parameter.default is REQUIRED:
            raise refusal(f"the parameter {name} is missing")
        else:
            found[name] = parameter.default
    return found


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a body: `str`, `int`, `float`, `bool`, `list[X]`, `dict[str, X]`, `Literal[...]`,
    `X | None`, or `object` for any JSON. Whole numbers in it are `least` to `most`.
    """

    kind: object
    default: Json = REQUIRED
    least: int = -LARGEST
    most: int = LARGEST

    def schema(self) -> JsonObject:
        return schema_of(self.kind, self.least, self.most)

    def check(self, name: str, value: Json) -> None:
        """Raises ApiError."""
        if not fits(self.kind, value):
            raise refusal(f"the field {name} is {described(self.kind)}")
        if not is_between(value, self.least, self.most):
            raise refusal(f"numbers of the field {name} are {self.least} to {self.most}")


SCALARS: Mapping[object, tuple[str, str]] = {
    str: ("string", "a text"),
    int: ("integer", "a whole number"),
    float: ("number", "a number"),
    bool: ("boolean", "true or false"),
    list: ("array", "a list"),
    dict: ("object", "an object"),
    type(None): ("null", "null"),
}


def parse_body(declared: Mapping[str, Field], body: Json) -> dict[str, Json]:
    """Raises ApiError."""
    if not isinstance(body, dict):
        raise refusal("the body is a JSON object")
    for name in body:
        if name not in declared:
            raise refusal(f"there is no field {name[:80]!r} here; there is {', '.join(declared)}")
    for name, each in declared.items():
        if name not in body and each.default is REQUIRED:
            raise refusal(f"the field {name} is missing")
        if name in body:
            each.check(name, body[name])
    return {name: body.get(name, each.default) for name, each in declared.items()}


def _options(kind: object) -> tuple[object, ...]:
    return get_args(kind) if isinstance(kind, types.UnionType) else (kind,)


def fits(kind: object, value: Json) -> bool:
    """Return whether a JSON value is of a declared kind."""
    if isinstance(kind, types.UnionType):
        return any(fits(each, value) for each in get_args(kind))
    origin, of = get_origin(kind), get_args(kind)
    if kind is object:
        return True
    if origin is Literal:
        return isinstance(value, str) and value in of
    if origin is list:
        return isinstance(value, list) and all(fits(of[0], each) for each in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(of[1], each) for each in value.values())
    if kind in (int, float):
        numbers = (int,) if kind is int else (int, float)
        return isinstance(value, numbers) and not isinstance(value, bool)
    return isinstance(value, kind) if isinstance(kind, type) else False


def is_between(value: Json, least: int, most: int) -> bool:
    """Return whether all whole numbers in a value are within the bounds."""
    if isinstance(value, bool) or not isinstance(value, int | list | dict):
        return True
    if isinstance(value, int):
        return least <= value <= most
    return all(
        is_between(each, least, most)
        for each in (value.values() if isinstance(value, dict) else value)
    )


def described(kind: object) -> str:
    origin, of = get_origin(kind), get_args(kind)
    if isinstance(kind, types.UnionType):
        return " or ".join(described(each) for each in of)
    if origin is Literal:
        return " or ".join(map(str, of))
    if origin is list:
        return f"a list, each item {described(of[0])}"
    if origin is dict:
        return f"an object, each value {described(of[1])}"
    return SCALARS[kind][1] if kind in SCALARS else "any JSON"


def schema_of(kind: object, least: int, most: int) -> JsonObject:
    """Return the JSON schema of a declared kind. `least`, `most`: of its whole numbers."""
    origin, of = get_origin(kind), get_args(kind)
    if isinstance(kind, types.UnionType):
        return {"anyOf": [schema_of(each, least, most) for each in of]}
    if origin is Literal:
        return {"type": "string", "enum": list(of)}
    if origin is list:
        return {"type": "array", "items": schema_of(of[0], least, most)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(of[1], least, most)}
    if kind is int:
        return {"type": "integer", "minimum": least, "maximum": most}
    return {"type": SCALARS[kind][0]} if kind in SCALARS else {}
