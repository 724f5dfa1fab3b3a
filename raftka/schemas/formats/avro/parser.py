"""Avro schemas: parsed as Java's Avro 1.12 does for new schemas (names and defaults are validated),
with references by full name.

Older versions of Avro looked at neither. A schema that they have registered is still read, so names
and defaults of old ones are taken as they are.

Written here and not taken from the avro package, whose parser recurses without bound, copies the
text of a schema into the error of each level above it, warns of unknown logical types, and does not
look at defaults. Tests compare the two.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from raftka.json_values import Json, JsonObject
from raftka.schemas.formats import json_text, pairs
from raftka.schemas.formats.avro import compatibility
from raftka.schemas.formats.avro.types import NAMED, PRIMITIVE_TYPES, Field, Type
from raftka.schemas.formats.schema import InvalidSchema, Parsed, Reference, check_size

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ORDERS = ("ascending", "descending", "ignore")
SHOWN = 80  # characters of a value in a message
MAX_DEFAULT_STEPS = 1_000_000  # one per value and type: a second
MAX_DEFAULT_DEPTH = 100  # of values in values, and of records whose fields have defaults in turn
# of Java's Avro
TYPE_ORDER = (
    "type",
    "name",
    "namespace",
    "doc",
    "fields",
    "symbols",
    "items",
    "values",
    "size",
    "default",
    "aliases",
)
FIELD_ORDER = ("name", "type", "doc", "default", "order", "aliases")


@dataclass(frozen=True, eq=False)
class AvroSchema:
    root: Type
    value: Json

    @cached_property
    def text(self) -> str:
        """The client's text without white space; {"type": "string"} is "string"."""
        return json_text.write(self.value)

    @property
    def canonical(self) -> str:
        """The schema as Java's Avro writes it. That has no order of attributes, and knows no
        difference between "a.R" and a namespace.
        """
        return self.normalized

    @cached_property
    def normalized(self) -> str:
        return json_text.write(normal(self.value, ""))


def parse(text: str, references: Sequence[Reference], *, new: bool = True) -> AvroSchema:
    check_size(text, references)
    names: dict[str, Type] = {}
    for reference in references:
        try:
            _Parser(names, new=False).parse(reference.text)
        except InvalidSchema as error:
            raise InvalidSchema(f"reference {shown(reference.name)}: {error}") from None
    root, value = _Parser(names, new=new).parse(text)
    return AvroSchema(root, value)


def incompatibilities(reader: Parsed, writer: Parsed) -> list[str]:
    assert isinstance(reader, AvroSchema)
    assert isinstance(writer, AvroSchema)
    return pairs.compare(reader.root, writer.root, compatibility.expand)


def shown(value: Json) -> str:
    text = json_text.write(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


class _Parser:
    """Parses one text. `names`: types by full name, of earlier texts as well; it adds its own."""

    def __init__(self, names: dict[str, Type], *, new: bool) -> None:
        self._names, self._new = names, new
        self._fields: list[tuple[str, Field]] = []  # with defaults, each with its record's name

    def parse(self, text: str) -> tuple[Type, Json]:
        whole = {"type": json_text.read(text)}
        root = self._child(whole, "type", "")
        defaults = Defaults()
        for record, field in self._fields if self._new else ():
            if not defaults.fits(field.type, field.default):
                said = (
                    f"the default {shown(field.default)} of field {field.name} of {record} is "
                    f"no {compatibility.describe(field.type)}"
                )
                raise InvalidSchema(said)
        return root, whole["type"]

    def _child(self, holder: JsonObject | list[Json], key: str | int, namespace: str) -> Type:
        """The type at a key of an object or list; a plain {"type": "int"} there becomes "int"."""
        value = holder[key]  # type: ignore[index]
        if isinstance(value, dict) and len(value) == 1 and _is_primitive(value.get("type")):
            value = holder[key] = value["type"]  # type: ignore[index]
        if isinstance(value, str):
            return self._named(value, namespace)
        if isinstance(value, list):
            return self._union(value, namespace)
        if isinstance(value, dict):
            return self._object(value, namespace)
        raise InvalidSchema(f"{shown(value)} is no type")

    def _named(self, name: str, namespace: str) -> Type:
        if name in PRIMITIVE_TYPES:
            return PRIMITIVE_TYPES[name]
        within = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._names.get(within) or self._names.get(name)
        if found is None:
            raise InvalidSchema(
                f"{shown(within)} is neither a type of Avro nor one that is defined here or in a "
                "reference"
            )
        return found

    def _union(self, branches: list[Json], namespace: str) -> Type:
        union = Type(
            "union",
            branches=tuple(
                self._child(branches, index, namespace) for index in range(len(branches))
            ),
        )
        seen = set()
        for branch in union.branches:
            if branch.kind == "union":
                raise InvalidSchema("a union is directly in another one")
            told = branch.name or branch.kind
            if told in seen:
                raise InvalidSchema(f"a union has {told} twice")
            seen.add(told)
        return union

    def _object(self, value: JsonObject, namespace: str) -> Type:
        kind = value.get("type")
        if not isinstance(kind, str):
            raise InvalidSchema(
                f'a type has no name of a type as its attribute "type": {shown(value)}'
            )
        if kind == "array":
            return Type(kind, items=self._required_child(value, "items", namespace))
        if kind == "map":
            return Type(kind, items=self._required_child(value, "values", namespace))
        if kind in NAMED:
            return self._definition(value, kind, namespace)
        return self._named(kind, namespace)

    def _required_child(self, value: JsonObject, key: str, namespace: str) -> Type:
        if key not in value:
            raise InvalidSchema(f'a type has no attribute "{key}": {shown(value)}')
        return self._child(value, key, namespace)

    def _definition(self, value: JsonObject, kind: str, namespace: str) -> Type:
        name, given = value.get("name"), value.get("namespace", namespace)
        if not isinstance(name, str) or not isinstance(given, str):
            raise InvalidSchema(
                f"a {kind} has no name, or name or namespace is no string: {shown(value)}"
            )
        full = name if "." in name or not given else f"{given}.{name}"
        for part in full.split("."):
            self._check_name(part, f"the name {shown(full)}")
        if full in PRIMITIVE_TYPES:
            raise InvalidSchema(f"{full} is a type of Avro and cannot be defined")
        if full in self._names:
            raise InvalidSchema(f"{full} is defined twice")
        namespace = full.rpartition(".")[0]
        aliases = [
            each if "." in each or not namespace else f"{namespace}.{each}"
            for each in _strings(value, "aliases", full)
        ]
        defined = self._names[full] = Type(
            "record" if kind == "error" else kind, full, tuple(aliases)
        )
        if kind == "fixed":
            size = value.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 31:
                raise InvalidSchema(
                    f"the size of fixed {full} is no number of bytes: {shown(size)}"
                )
            defined.size = size
        elif kind == "enum":
            self._enum(defined, value)
        else:
            self._record(defined, value, namespace)
        return defined

    def _enum(self, defined: Type, value: JsonObject) -> None:
        if "symbols" not in value:
            raise InvalidSchema(f"enum {defined.name} has no symbols")
        defined.symbols = tuple(_strings(value, "symbols", defined.name))
        for symbol in defined.symbols:
            self._check_name(symbol, f"symbol {shown(symbol)} of {defined.name}")
        if len(set(defined.symbols)) != len(defined.symbols):
            raise InvalidSchema(f"enum {defined.name} has a symbol twice")
        default = value.get("default")
        if default is not None and default not in defined.symbols and not self._new:
            default = None  # an attribute without a meaning, before Avro 1.9
        if default is not None and default not in defined.symbols:
            raise InvalidSchema(
                f"the default {shown(default)} of enum {defined.name} is none of its symbols"
            )
        defined.default_symbol = default

    def _check_name(self, name: str, described: str) -> None:
        if self._new and not NAME.fullmatch(name):
            raise InvalidSchema(
                f"{described} is none for Avro: letters, digits and _ are allowed, and no digit "
                "first"
            )

    def _record(self, defined: Type, value: JsonObject, namespace: str) -> None:
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchema(f"record {defined.name} has no list of fields")
        seen = set()
        for each in fields:
            if not isinstance(each, dict) or not isinstance(name := each.get("name"), str):
                raise InvalidSchema(f"a field of {defined.name} has no name: {shown(each)}")
            self._check_name(name, f"the name {shown(name)} of a field of {defined.name}")
            if name in seen:
                raise InvalidSchema(f"{defined.name} has the field {name} twice")
            seen.add(name)
            if "type" not in each:
                raise InvalidSchema(f"field {name} of {defined.name} has no type")
            if each.get("order", "ascending") not in ORDERS:
                raise InvalidSchema(
                    f"field {name} of {defined.name} has the order {shown(each['order'])}, which "
                    f"is none of {', '.join(ORDERS)}"
                )
            aliases = tuple(_strings(each, "aliases", name))
            field = Field(
                name,
                self._child(each, "type", namespace),
                aliases,
                "default" in each,
                each.get("default"),
            )
            defined.fields.append(field)
            if field.has_default:
                self._fields.append((defined.name, field))


def _is_primitive(value: Json) -> bool:
    return isinstance(value, str) and value in PRIMITIVE_TYPES


def _strings(value: JsonObject, key: str, owner: str) -> list[str]:
    strings = value.get(key) or []
    if not isinstance(strings, list) or not all(isinstance(each, str) for each in strings):
        raise InvalidSchema(f'"{key}" of {owner} is no list of strings')
    return strings


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
    """Checks defaults, and keeps the results: defaults of records lead to the defaults of their
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
        if depth > MAX_DEFAULT_DEPTH or self._steps > MAX_DEFAULT_STEPS:
            raise InvalidSchema("defaults are too large or too deep to validate")


def normal(value: Json, namespace: str) -> Json:
    """`value` has been parsed. Names are shortened within `namespace`, the one around."""
    if isinstance(value, str):
        space, _, name = value.rpartition(".")
        return name if space == namespace and name not in PRIMITIVE_TYPES else value
    if isinstance(value, list):
        return [normal(each, namespace) for each in value]
    kind = value["type"]
    if kind not in NAMED:
        found = {
            **value,
            **{
                key: normal(value[key], namespace)
                for key in ("items", "values")
                if key in value and kind in ("array", "map")
            },
        }
        found["type"] = normal(kind, namespace)
        return found["type"] if len(found) == 1 else _ordered(found, TYPE_ORDER)
    full = (
        value["name"]
        if "." in value["name"] or not (space := value.get("namespace", namespace))
        else f"{space}.{value['name']}"
    )
    space, _, name = full.rpartition(".")
    found = {key: each for key, each in value.items() if key != "namespace"} | {"name": name}
    if space != namespace:
        found["namespace"] = space
    if "fields" in value and kind in ("record", "error"):
        found["fields"] = [_field(each, space) for each in value["fields"]]
    if "aliases" in value:
        found["aliases"] = [normal(each, space) for each in value["aliases"] or ()]
    return _ordered(found, TYPE_ORDER)


def _field(value: JsonObject, namespace: str) -> JsonObject:
    found = {**value, "type": normal(value["type"], namespace)}
    if found.get("order") == "ascending":
        del found["order"]
    return _ordered(found, FIELD_ORDER)


def _ordered(value: JsonObject, order: tuple[str, ...]) -> JsonObject:
    """Attributes that Avro does not know follow by name. Empty aliases are none."""
    keys = [key for key in order if key in value] + sorted(value.keys() - set(order))
    return {key: value[key] for key in keys if key != "aliases" or value[key]}
