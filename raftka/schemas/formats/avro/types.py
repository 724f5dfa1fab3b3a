"""Avro's types as the parser leaves them, with names resolved: a graph that may refer to itself."""

from dataclasses import dataclass, field
from functools import cached_property

from raftka.json_values import Json

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED = ("record", "error", "enum", "fixed")


@dataclass(eq=False)
class Type:
    """`kind` is Avro's word, union for a list; an error is a record. Parts that the kind has not
    are empty.
    """

    kind: str
    name: str = ""  # in full
    aliases: tuple[str, ...] = ()  # in full
    fields: list["Field"] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    size: int = 0
    items: "Type | None" = None  # an array's items, a map's values
    branches: tuple["Type", ...] = ()

    @property
    def local_name(self) -> str:
        return self.name.rpartition(".")[2]

    @cached_property
    def symbol_set(self) -> frozenset[str]:
        return frozenset(self.symbols)

    @cached_property
    def fields_by_name(self) -> dict[str, "Field"]:
        return {each.name: each for each in self.fields}

    @cached_property
    def branches_by_kind(self) -> dict[str, "list[Type]"]:
        """A union's branches; named ones also by kind and each name that data for them may have."""
        found: dict[str, list[Type]] = {}
        for branch in self.branches:
            found.setdefault(branch.kind, []).append(branch)
            if branch.kind in NAMED:
                for name in {branch.local_name, *branch.aliases}:
                    found.setdefault(f"{branch.kind} {name}", []).append(branch)
        return found


@dataclass(eq=False, slots=True)
class Field:
    name: str
    type: Type
    aliases: tuple[str, ...]
    has_default: bool
    default: Json


PRIMITIVE_TYPES = {kind: Type(kind) for kind in PRIMITIVES}
