"""Validates defaults of Avro fields: whether a JSON value is one of a type. A default of a union
may be one of any branch, as since Avro 1.12.
"""

from collections.abc import Callable

from raftka.json_values import Json
from raftka.registry.formats.avro_parts.types import Type
from raftka.registry.formats.schema import InvalidSchema

MAX_STEPS = 1_000_000  # one per value and type: a second
MAX_DEPTH = 100  # of values in values, and of records whose fields have defaults in turn


def _is_integer(value: Json, bits: int) -> bool:
    return (
        isinstance(value, int) and not isinstance(value, bool) and -(1 << bits) <= value < 1 << bits
    )


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_bytes(value: Json) -> bool:
    return isinstance(value, str) and all(char <= "\xff" for char in value)


SIMPLE: dict[str, Callable[[Type, Json], bool]] = {
    "null": lambda _, value: value is None,
    "boolean": lambda _, value: isinstance(value, bool),
    "int": lambda _, value: _is_integer(value, 31),
    "long": lambda _, value: _is_integer(value, 63),
    "float": lambda _, value: _is_number(value),
    "double": lambda _, value: _is_number(value),
    "string": lambda _, value: isinstance(value, str),
    "bytes": lambda _, value: _is_bytes(value),
    "fixed": lambda type_, value: _is_bytes(value) and len(value) == type_.size,
    "enum": lambda type_, value: isinstance(value, str) and value in type_.symbol_set,
}


class Defaults:
    """Remembers what it has found, because defaults of records lead to the defaults of their
    fields, and these to further ones.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], bool] = {}
        self._steps = 0

    def fits(self, type_: Type, value: Json, depth: int = 0) -> bool:
        if type_.kind in SIMPLE:
            self._count(depth)
            return SIMPLE[type_.kind](type_, value)
        key = id(type_), id(value)  # both live as long as the schema
        if key not in self._found:
            self._count(depth)
            self._found[key] = False  # a default that contains itself is no value
            self._found[key] = self._fits(type_, value, depth + 1)
        return self._found[key]

    def _fits(self, type_: Type, value: Json, depth: int) -> bool:
        if type_.kind == "union":
            return any(self.fits(branch, value, depth) for branch in type_.branches)
        if type_.items is not None:
            if type_.kind == "array":
                return isinstance(value, list) and all(
                    self.fits(type_.items, each, depth) for each in value
                )
            return isinstance(value, dict) and all(
                self.fits(type_.items, each, depth) for each in value.values()
            )
        if not isinstance(value, dict):
            return False
        if not all(field.name in value or field.has_default for field in type_.fields):
            return False
        return all(
            self.fits(field.type, value.get(field.name, field.default), depth)
            for field in type_.fields
        )

    def _count(self, depth: int) -> None:
        self._steps += 1
        if depth > MAX_DEPTH or self._steps > MAX_STEPS:
            raise InvalidSchema("defaults are too large or too deep to validate")
