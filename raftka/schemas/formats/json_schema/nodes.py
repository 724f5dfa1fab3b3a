"""JSON Schemas as rules compare them: a node is a schema as the parts that all must hold, with
references and `allOf` followed.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from raftka.json_values import Json, JsonObject
from raftka.schemas.formats import json_text
from raftka.schemas.formats.json_schema.documents import (
    METASCHEMAS,
    Document,
    Documents,
    Scope,
    Target,
    is_known,
)
from raftka.schemas.formats.json_schema.patterns import matches
from raftka.schemas.formats.pairs import TooComplex

MAX_STEPS = 500_000  # schemas that are followed, names and patterns that are looked at: two seconds
FOLLOWED = 4  # steps for a schema: it takes a kilobyte or two
TYPES = frozenset(("array", "boolean", "null", "number", "object", "string"))
TYPED = frozenset(
    (
        "type",
        *("maxLength", "minLength", "pattern"),
        *("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"),
        *(
            "additionalItems",
            "contains",
            "items",
            "maxContains",
            "maxItems",
            "minContains",
            "minItems",
            "prefixItems",
            "unevaluatedItems",
        ),
        "uniqueItems",
        *(
            "additionalProperties",
            "dependencies",
            "dependentRequired",
            "dependentSchemas",
            "maxProperties",
            "minProperties",
            "patternProperties",
        ),
        *("properties", "propertyNames", "required", "unevaluatedProperties"),
    )
)
CONNECT_TYPE = "connect.type"  # Kafka Connect's converters note it


class Part:
    """One of the conditions of a schema."""


@dataclass(eq=False)
class Typed(Part):
    """Types, and what is said of values of each, in `raw`. `types`, `integer`, `required` and
    `defaults` are those of the whole node.
    """

    nodes: "Nodes"
    document: Document
    raw: JsonObject
    types: frozenset[str] = TYPES
    integer: bool = False  # numbers are integers
    required: frozenset[str] = frozenset()
    defaults: frozenset[str] = frozenset()  # properties that have a default
    alone: bool = True  # the node has no other parts

    @property
    def is_any(self) -> bool:
        return self.types == TYPES and not self.integer and TYPED.isdisjoint(self.raw)

    @property
    def says_nothing(self) -> bool:
        """More than the other parts of its node."""
        return self.is_any or not self.raw

    def number(self, key: str) -> int | float | None:
        found = self.raw.get(key)
        return found if isinstance(found, int | float) and not isinstance(found, bool) else None

    def child(self, key: str) -> "Node | None":
        return self.nodes.node(self.raw[key], self.document) if key in self.raw else None

    def children(self, key: str) -> dict[str, "Node"]:
        return {
            name: self.nodes.node(each, self.document)
            for name, each in (self.raw.get(key) or {}).items()
        }

    @cached_property
    def properties(self) -> dict[str, "Node"]:
        return self.children("properties")

    @cached_property
    def patterns(self) -> dict[str, "Node"]:
        return self.children("patternProperties")

    @cached_property
    def others(self) -> "Node":
        """The schema of properties that neither a name nor a pattern covers, here; other parts may
        evaluate some of them.
        """
        return (
            self.child("additionalProperties")
            or self.child("unevaluatedProperties")
            or self.nodes.anything
        )

    @cached_property
    def surely_others(self) -> "Node":
        """The schema of other properties, as far as it holds with any other parts."""
        return (
            self.others if self.alone or "additionalProperties" in self.raw else self.nodes.anything
        )

    def applying(self, name: str, doubtful: bool) -> list["Node"]:
        """Return the schemas of a property with that name. `doubtful`: also those of a pattern that
        cannot be matched here, and may hold.
        """
        self.nodes.spend(1 + len(self.patterns) * (1 + len(name) // 64))
        found = [self.properties[name]] if name in self.properties else []
        certain = bool(found)
        for pattern, node in self.patterns.items():
            matched = matches(pattern, name)
            certain |= bool(matched) or (matched is None and not doubtful)
            if matched or (matched is None and doubtful):
                found.append(node)
        return found if certain else [*found, self.others if doubtful else self.surely_others]

    @cached_property
    def demanded(self) -> frozenset[str]:
        """Properties that the writer must require as well."""
        return self.required - self.defaults

    @cached_property
    def marks(self) -> dict[str, frozenset[str]]:
        """Properties of which a list gives the values: they tell the options of a choice apart."""
        found = {}
        for name, raw in (self.raw.get("properties") or {}).items():
            if (
                isinstance(raw, dict)
                and raw.keys().isdisjoint(("$ref", "allOf", "anyOf", "oneOf"))
                and ("enum" in raw) != ("const" in raw)
            ):
                values = (
                    raw["enum"]
                    if "enum" in raw
                    else [raw["const"]]
                    if is_known("const", self.document.draft)
                    else None
                )
                if values is not None:
                    found[name] = frozenset(_equality(each) for each in values)
        return found

    @cached_property
    def prefix(self) -> list["Node"]:
        """The schemas of a tuple's places."""
        places = self.raw.get("prefixItems", self.raw.get("items"))
        return (
            [self.nodes.node(each, self.document) for each in places]
            if isinstance(places, list)
            else []
        )

    @cached_property
    def rest(self) -> "Node":
        """The schema of an array's further items; other parts may evaluate some of them."""
        return (
            self.child(self.rest_keyword) or self.child("unevaluatedItems") or self.nodes.anything
        )

    @cached_property
    def surely_rest(self) -> "Node":
        return self.rest if self.alone or self.rest_keyword in self.raw else self.nodes.anything

    @property
    def rest_keyword(self) -> str:
        return "additionalItems" if isinstance(self.raw.get("items"), list) else "items"


@dataclass(eq=False)
class Values(Part):
    """enum and const: values by a text that is the same for equal ones."""

    nodes: "Nodes"
    values: dict[str, Json]


@dataclass(eq=False)
class Choice(Part):
    keyword: str  # anyOf or oneOf
    options: "list[Node]"


@dataclass(eq=False)
class Not(Part):
    node: "Node"


@dataclass(eq=False)
class Condition(Part):
    nodes: "dict[str, Node]"  # of if, then and else


@dataclass(eq=False)
class Metaschema(Part):
    """A schema of a draft, which is not followed."""

    draft: int


@dataclass(eq=False)
class Node:
    value: Json
    document: Document
    nodes: "Nodes"
    never: bool = False  # set with the parts: no value is valid

    @cached_property
    def parts(self) -> list[Part]:
        return self.nodes.parts(self)

    @property
    def is_never(self) -> bool:
        return bool(self.parts) and self.never

    @property
    def is_any(self) -> bool:
        return not self.is_never and all(
            isinstance(each, Typed) and each.is_any for each in self.parts
        )

    @cached_property
    def choices(self) -> list[Choice]:
        return [each for each in self.parts if isinstance(each, Choice)]

    @cached_property
    def only(self) -> Typed | None:
        """Its one Typed part, if there is one."""
        found = [each for each in self.parts if isinstance(each, Typed)]
        return found[0] if len(found) == 1 else None

    @property
    def has_default(self) -> bool:
        """True if the schema, or the one that it refers to, has a default."""
        if not isinstance(self.value, dict) or "default" in self.value:
            return isinstance(self.value, dict)
        target = self.nodes.documents.referred(self.value, self.document)
        return target is not None and isinstance(target.value, dict) and "default" in target.value


@dataclass(eq=False)
class Nodes:
    """Makes the nodes of a schema, each once, and counts what is done with them."""

    documents: Documents
    _made: dict[tuple[str, int] | tuple[int, Scope], Node] = field(default_factory=dict)
    _steps: int = 0

    @cached_property
    def anything(self) -> Node:
        return Node(True, self.documents.root, self)

    @cached_property
    def nothing(self) -> Node:
        return Node(False, self.documents.root, self)

    def root(self) -> Node:
        return self.node(self.documents.root.value, self.documents.root)

    def node(self, value: Json, document: Document) -> Node:
        if not isinstance(value, dict):
            return self.nothing if value is False else self.anything
        document = self.documents.entered(value, document)
        # a common case, of which one node is enough
        plain = len(value) == 1 and isinstance(value.get("type"), str)
        key = (value["type"], document.draft) if plain else (id(value), document.scope)
        if key not in self._made:
            self._made[key] = Node(value, document, self)
        return self._made[key]

    def spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise TooComplex

    def parts(self, node: Node) -> list[Part]:
        """All conditions of a node: there is a Typed one at least, of every type if need be."""
        found: list[Part] = []
        waiting = deque([Target(node.value, node.document)])
        seen: set[tuple[int, Scope]] = set()
        while waiting:
            value, document = waiting.popleft()
            if value is False:
                node.never = True
            if not isinstance(value, dict) or (id(value), document.scope) in seen:
                continue
            self.spend(FOLLOWED + len(document.scope))
            seen.add((id(value), document.scope))
            if document is METASCHEMAS[document.draft]:
                found.append(Metaschema(document.draft))
                continue
            target = self.documents.referred(value, document)
            if target is not None:
                waiting.append(target)
                if document.draft <= 7:
                    continue  # there, a $ref stands alone
            waiting += [
                Target(each, self.documents.entered(each, document))
                for each in value.get("allOf", ())
            ]
            found += self._own(value, document)
        return self._with_types(found, node)

    def _own(self, value: JsonObject, document: Document) -> Iterable[Part]:
        typed = {
            key: each
            for key, each in value.items()
            if key in TYPED and is_known(key, document.draft)
        }
        if typed:
            yield _typed(
                self, document, typed | {key: value[key] for key in (CONNECT_TYPE,) if key in value}
            )
        for values in (
            [value["const"]] if "const" in value and is_known("const", document.draft) else None,
            value.get("enum"),
        ):
            if isinstance(values, list):
                yield Values(self, {_equality(each): each for each in values})
        for keyword in ("anyOf", "oneOf"):
            if keyword in value:
                yield Choice(keyword, [self.node(each, document) for each in value[keyword]])
        if "not" in value:
            yield Not(self.node(value["not"], document))
        if (
            "if" in value
            and is_known("if", document.draft)
            and ("then" in value or "else" in value)
        ):
            yield Condition(
                {key: self.node(value.get(key, True), document) for key in ("if", "then", "else")}
            )

    def _with_types(self, found: list[Part], node: Node) -> list[Part]:
        typed = [each for each in found if isinstance(each, Typed)]
        if not typed:
            typed = [Typed(self, node.document, {})]
            found.insert(0, typed[0])
        types, integer = TYPES, False
        for each in typed:
            types, integer = types & each.types, integer or each.integer
        for values in (each.values for each in found if isinstance(each, Values)):
            types &= {_type(value) for value in values.values()}
        required = frozenset(name for each in typed for name in each.raw.get("required") or ())
        self.spend(len(typed) * (1 + len(required) // 16))
        defaults = frozenset(
            name
            for each in typed
            for name in required & each.properties.keys()
            if each.properties[name].has_default
        )
        for each in typed:
            each.types, each.integer, each.required = types, integer, required
            each.defaults = defaults
            each.alone = len(found) == 1
        node.never |= not types
        return found


def _typed(nodes: Nodes, document: Document, value: JsonObject) -> Typed:
    given = value.get("type", list(TYPES))
    names = {given} if isinstance(given, str) else set(given)
    return Typed(
        nodes,
        document,
        value,
        frozenset("number" if each == "integer" else each for each in names),
        "integer" in names and "number" not in names,
    )


def _type(value: Json) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    return next(
        name
        for name, type_ in (
            ("number", int | float),
            ("string", str),
            ("array", list),
            ("object", dict),
        )
        if isinstance(value, type_)
    )


def _equality(value: Json) -> str:
    """The same text for equal values: 1 and 1.0 are equal, and the order of keys is nothing."""
    return json_text.write_sorted(_plain(value))


def _plain(value: Json) -> Json:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return {key: _plain(each) for key, each in value.items()} if isinstance(value, dict) else value
