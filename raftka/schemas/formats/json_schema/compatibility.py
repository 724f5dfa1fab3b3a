"""Compatibility of JSON Schemas: a reader's schema must take all values that a writer's takes. The
names of the rules are those of Confluent's Schema Registry.

A node is a conjunction of parts: types with what is said of values of each (`_expand_typed`),
lists of values, choices, negations, conditions. A reader's node takes a writer's if each part of
the reader follows from one part of the writer; `docs/registry.md` has the table.
"""

from fractions import Fraction
from typing import NamedTuple

from raftka.schemas.formats.json_schema.nodes import (
    CONNECT_TYPE,
    Choice,
    Condition,
    Metaschema,
    Node,
    Not,
    Part,
    Typed,
    Values,
)
from raftka.schemas.formats.pairs import Expanded, Fault, Need

Schema = Node | Part
TOLD_VALUES = 10
Found = Expanded[Node | Part]
DEPENDENCIES = ("dependencies", "dependentRequired", "dependentSchemas")


def expand(reader: Schema, writer: Schema) -> Expanded[Schema]:
    """Pairs are of two nodes, a part and a node, or two parts."""
    if isinstance(writer, Node):
        return _expand_nodes(reader, writer)
    if isinstance(writer, Choice) and isinstance(reader, Part):
        return _expand_choice(reader, writer)
    if isinstance(reader, Typed) and isinstance(writer, Typed):
        return _expand_typed(reader, writer)
    if isinstance(reader, Values) and isinstance(writer, Values):
        return Expanded(_compare_values(reader, writer))
    if isinstance(reader, Not) and isinstance(writer, Not):
        return Expanded(needs=[Need("not", [(writer.node, reader.node)], quiet=True)])
    if isinstance(reader, Condition) and isinstance(writer, Condition):
        return _expand_condition(reader, writer)
    same = (
        isinstance(reader, Metaschema)
        and isinstance(writer, Metaschema)
        and reader.draft == writer.draft
    )
    return Expanded(
        []
        if same
        else [Fault("TYPE_CHANGED", "the reader's schema does not follow from the writer's")]
    )


def _expand_nodes(reader: Schema, writer: Node) -> Expanded[Schema]:
    if writer.is_never:
        return Expanded()
    if isinstance(reader, Node):
        if reader.is_never:
            return Expanded([Fault("TYPE_CHANGED", "the reader takes no value, the writer does")])
        writer.nodes.spend(len(reader.parts) * len(writer.parts) // 4)
        return Expanded(
            needs=[
                _follows(part, writer)
                for part in reader.parts
                if not (isinstance(part, Typed) and part.says_nothing)
            ]
        )
    return Expanded(needs=[_follows(reader, writer)])


def _follows(part: Part, writer: Node) -> Need[Schema]:
    """One of the writer's parts must be enough; for a reader's choice, one of its options may take
    the whole of the writer.
    """
    alike = [each for each in writer.parts if type(each) is type(part)]
    choices: list[Part] = [
        each for each in writer.parts if isinstance(each, Choice) and not isinstance(part, Choice)
    ]
    if choices and all(isinstance(each, Typed) and each.is_any for each in alike):
        alike, choices = choices, alike
    options: list[tuple[Schema, Schema]] = [(part, each) for each in (*alike, *choices)]
    if isinstance(part, Choice):
        options += [(each, writer) for each in part.options if not _hopeless(each, writer)]
        said = f"the reader's {part.keyword} has nothing that takes all that the writer takes"
        return Need(
            "",
            options,
            None
            if len(options) == 1
            else Fault("COMBINED_TYPE_SUBSCHEMAS_CHANGED", said, part.keyword),
        )
    if isinstance(part, Values) and not alike:
        return Need(
            "",
            options,
            Fault(
                "ENUM_ARRAY_NARROWED",
                f"the reader takes {_listed(part)} only, the writer has no list of values",
                "enum",
            ),
        )
    if isinstance(part, Not):
        return Need(
            "",
            options,
            Fault(
                "NOT_TYPE_EXTENDED",
                "the reader excludes values that the writer does not exclude",
                "not",
            ),
            quiet=True,
        )
    if isinstance(part, Condition):
        return Need(
            "",
            options,
            Fault(
                "CONDITION_CHANGED", "the reader's if, then or else differs from the writer's", "if"
            ),
            quiet=True,
        )
    if isinstance(part, Metaschema):
        return Need(
            "",
            options,
            Fault("TYPE_CHANGED", f"the reader takes schemas of draft {part.draft} only"),
            quiet=True,
        )
    return Need("", options)


def _hopeless(reader: Node, writer: Node) -> bool:
    """Return True if a reader's option surely does not take what a writer does. A quick check: a
    choice with hundreds of options would compare each pair.
    """
    one, other = reader.only, writer.only
    if one is None or other is None or writer.never or not one.raw or CONNECT_TYPE in one.raw:
        return False
    if writer.choices:  # then one of them must be enough, if nothing else is said
        alone = other.is_any and not one.is_any
        return alone and all(
            any(_hopeless(reader, option) for option in choice.options if not option.choices)
            for choice in writer.choices
        )
    if not other.types <= one.types:
        return True
    if "object" not in other.types:
        return False
    if not one.demanded <= other.required:
        return True
    return any(
        name in other.marks and not other.marks[name] <= values
        for name, values in one.marks.items()
    )


def _expand_choice(reader: Part, writer: Choice) -> Expanded[Schema]:
    """Each of the writer's options must be taken, by an option of the reader's choice if it is
    one.
    """
    expanded: Expanded[Schema] = Expanded()
    if not isinstance(reader, Choice):
        expanded.needs = [
            Need(f"{writer.keyword}/{index}", [(reader, each)])
            for index, each in enumerate(writer.options)
        ]
        return expanded
    if reader.keyword == "oneOf" and writer.keyword == "anyOf" and len(writer.options) > 1:
        said = (
            "the reader has oneOf where the writer has anyOf: more than one of it may be valid "
            "at once"
        )
        expanded.faults.append(Fault("COMBINED_TYPE_CHANGED", said))
    for index, option in enumerate(writer.options):
        option.nodes.spend(2 * len(reader.options))
        said = (
            f"the reader's {reader.keyword} has nothing that takes what this option of the "
            f"writer's {writer.keyword} takes"
        )
        fault = Fault(
            "SUM_TYPE_NARROWED"
            if len(reader.options) < len(writer.options)
            else "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
            said,
        )
        expanded.needs.append(
            Need(
                f"{writer.keyword}/{index}",
                [(each, option) for each in reader.options if not _hopeless(each, option)],
                fault,
            )
        )
    return expanded


def _expand_condition(reader: Condition, writer: Condition) -> Expanded[Schema]:
    """The same condition, with consequences that follow."""
    expanded: Expanded[Schema] = Expanded(
        needs=[Need("if", [(writer.nodes["if"], reader.nodes["if"])], quiet=True)]
    )
    for key in ("if", "then", "else"):
        expanded.needs.append(Need(key, [(reader.nodes[key], writer.nodes[key])], quiet=True))
    return expanded


def _compare_values(reader: Values, writer: Values) -> list[Fault]:
    writer.nodes.spend(1 + len(writer.values) // 16)
    missing = [each for each in writer.values if each not in reader.values]
    if not missing:
        return []
    kind = (
        "ENUM_ARRAY_NARROWED"
        if all(each in writer.values for each in reader.values)
        else "ENUM_ARRAY_CHANGED"
    )
    told = ", ".join(each[:80] for each in missing[:TOLD_VALUES])
    return [
        Fault(
            kind, f"the writer's list of values has some that the reader's has not: {told}", "enum"
        )
    ]


def _listed(values: Values) -> str:
    told = ", ".join(each[:80] for each in list(values.values)[:TOLD_VALUES])
    return told + (", ..." if len(values.values) > TOLD_VALUES else "")


def _expand_typed(reader: Typed, writer: Typed) -> Found:
    """Compare the types that both have: conditions on other types hold for no value."""
    dependencies = sum(
        len(each.raw.get(key) or ()) for each in (reader, writer) for key in DEPENDENCIES
    )
    found: Found = Expanded(cost=(len(reader.required) + len(writer.patterns) + dependencies) // 16)
    _types(found, reader, writer)
    both = reader.types & writer.types
    if "string" in both:
        _bounds(found, reader, writer, "Length", "characters")
        _pattern(found, reader, writer)
    if "number" in both:
        _numbers(found, reader, writer)
    if "object" in both:
        _bounds(found, reader, writer, "Properties", "properties")
        _required(found, reader, writer)
        _properties(found, reader, writer)
        _pattern_properties(found, reader, writer)
        _other_properties(found, reader, writer)
        _names(found, reader, writer)
        _dependencies(found, reader, writer)
    if "array" in both:
        _bounds(found, reader, writer, "Items", "items")
        _items(found, reader, writer)
        _contains(found, reader, writer)
    return found


def _types(found: Found, reader: Typed, writer: Typed) -> None:
    if reader.raw.get(CONNECT_TYPE) == writer.raw.get(CONNECT_TYPE) == "bytes":
        return  # Connect's converters write decimals as strings or as numbers
    if not writer.types <= reader.types:
        kind = "TYPE_NARROWED" if writer.types & reader.types else "TYPE_CHANGED"
        found.faults.append(
            Fault(kind, f"the reader takes {_told(reader)}, the writer {_told(writer)}")
        )
    elif reader.integer and not writer.integer and "number" in writer.types:
        found.faults.append(
            Fault("TYPE_NARROWED", "the reader takes integers, the writer any numbers")
        )


def _told(typed: Typed) -> str:
    return (
        " or ".join(
            sorted(
                "integer" if each == "number" and typed.integer else each for each in typed.types
            )
        )
        or "nothing"
    )


def _bounds(found: Found, reader: Typed, writer: Typed, noun: str, told: str) -> None:
    for key, kind, sign, change in (
        (f"max{noun}", "MAX", 1, "DECREASED"),
        (f"min{noun}", "MIN", -1, "INCREASED"),
    ):
        asked, given = reader.number(key), writer.number(key)
        if asked is None or (sign < 0 and asked <= 0):
            continue
        if given is None:
            found.faults.append(
                Fault(
                    f"{kind}_{noun.upper()}_ADDED",
                    f"the reader has {key} {asked}, the writer has no such bound of {told}",
                    key,
                )
            )
        elif asked * sign < given * sign:
            found.faults.append(
                Fault(
                    f"{kind}_{noun.upper()}_{change}",
                    f"the reader has {key} {asked}, the writer {given}",
                    key,
                )
            )


def _pattern(found: Found, reader: Typed, writer: Typed) -> None:
    if "pattern" in reader.raw and reader.raw["pattern"] != writer.raw.get("pattern"):
        kind = "PATTERN_CHANGED" if "pattern" in writer.raw else "PATTERN_ADDED"
        found.faults.append(
            Fault(
                kind,
                "the reader's strings match an expression that the writer's need not match",
                "pattern",
            )
        )


class _Limit(NamedTuple):
    """The tighter one of maximum and exclusiveMaximum, or minimum and exclusiveMinimum, with the
    sign that makes larger ones wider.
    """

    width: int | float
    exclusive: bool
    key: str

    def within(self, other: "_Limit") -> bool:
        return self.width < other.width or (
            self.width == other.width and (self.exclusive or not other.exclusive)
        )


def _limit(typed: Typed, key: str, exclusive_key: str, sign: int) -> _Limit | None:
    """In draft 4 exclusiveMaximum is true or false, and says what maximum is."""
    found = []
    if (value := typed.number(key)) is not None:
        found.append(_Limit(value * sign, typed.raw.get(exclusive_key) is True, key))
    if (value := typed.number(exclusive_key)) is not None:
        found.append(_Limit(value * sign, True, exclusive_key))
    return min(found, key=lambda limit: (limit.width, not limit.exclusive), default=None)


def _numbers(found: Found, reader: Typed, writer: Typed) -> None:
    for key, exclusive_key, sign, change in (
        ("maximum", "exclusiveMaximum", 1, "DECREASED"),
        ("minimum", "exclusiveMinimum", -1, "INCREASED"),
    ):
        asked, given = (_limit(each, key, exclusive_key, sign) for each in (reader, writer))
        if asked is None or (given is not None and given.within(asked)):
            continue
        kind = ("EXCLUSIVE_" if asked.key == exclusive_key else "") + key.upper()
        told = "no such limit" if given is None else f"{given.key} {given.width * sign}"
        said = f"the reader has {asked.key} {asked.width * sign}, the writer {told}"
        found.faults.append(
            Fault(f"{kind}_{'ADDED' if given is None else change}", said, asked.key)
        )
    step, given_step = reader.number("multipleOf"), writer.number("multipleOf")
    if (
        step is None
        or (writer.integer and _divides(step, 1))
        or (given_step is not None and _divides(step, given_step))
    ):
        return
    kind = (
        "MULTIPLE_OF_ADDED"
        if given_step is None
        else "MULTIPLE_OF_EXPANDED"
        if _divides(given_step, step)
        else "MULTIPLE_OF_CHANGED"
    )
    said = f"the reader takes multiples of {step}, the writer " + (
        "any" if given_step is None else f"those of {given_step}"
    )
    found.faults.append(Fault(kind, said, "multipleOf"))


def _divides(one: float, other: float) -> bool:
    """As decimal fractions: 0.1 divides 0.3."""
    return (Fraction(str(other)) / Fraction(str(one))).denominator == 1


def _required(found: Found, reader: Typed, writer: Typed) -> None:
    for name in sorted(reader.required - writer.required - reader.defaults):
        if name in reader.properties and name not in writer.properties:
            kind = (
                "REQUIRED_PROPERTY_ADDED_TO_"
                + ("OPEN" if writer.surely_others.is_any and not writer.patterns else "UNOPEN")
                + "_CONTENT_MODEL"
            )
            found.faults.append(
                Fault(
                    kind,
                    f"the reader requires {name}, a new property without a default",
                    f"properties/{name}",
                )
            )
        else:
            found.faults.append(
                Fault(
                    "REQUIRED_ATTRIBUTE_ADDED",
                    f"the reader requires {name}, the writer does not",
                    f"required/{name}",
                )
            )


def _properties(found: Found, reader: Typed, writer: Typed) -> None:
    for name in dict.fromkeys((*writer.properties, *reader.properties)):
        given = writer.applying(name, doubtful=False)
        if any(each.is_never for each in given):
            continue  # the writer's values have no such property
        for asked in reader.applying(name, doubtful=True):
            if not asked.is_any:
                _property(
                    found, reader, writer, name, asked, [each for each in given if not each.is_any]
                )


def _property(
    found: Found, reader: Typed, writer: Typed, name: str, asked: Node, given: list[Node]
) -> None:
    path = f"properties/{name}"
    if name not in reader.properties and asked.is_never:
        said = f"the reader has no property {name} and takes no others"
        found.faults.append(Fault("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", said, path))
    elif not given:
        if name in writer.properties:
            found.needs.append(Need(path, [(asked, writer.properties[name])]))
            return
        if name in reader.required - writer.required - reader.defaults:
            return  # `_required` tells it
        which = "REQUIRED_PROPERTY" if name in reader.required else "OPTIONAL_PROPERTY"
        which += "_WITH_DEFAULT" if name in reader.required & reader.defaults else ""
        said = (
            f"the writer's objects may have {name}, of any kind, which the reader takes of one "
            "kind only"
        )
        found.faults.append(Fault(f"{which}_ADDED_TO_OPEN_CONTENT_MODEL", said, path))
    else:
        fault = None
        if name not in writer.properties:
            said = f"the writer's objects may have {name}, of a kind that the reader does not take"
            fault = Fault("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", said)
        elif name not in reader.properties:
            said = (
                f"the reader has no property {name}, and does not take the writer's as one of "
                "others"
            )
            fault = Fault("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", said)
        found.needs.append(Need(path, [(asked, each) for each in given], fault))


def _pattern_properties(found: Found, reader: Typed, writer: Typed) -> None:
    """Names that match one expression may match others, of which nothing is known: each that may
    hold must be enough.
    """
    for pattern, asked in reader.patterns.items():
        path = f"patternProperties/{pattern}"
        if asked.is_any:
            continue
        if pattern in writer.patterns:
            found.needs.append(Need(path, [(asked, writer.patterns[pattern])]))
            continue
        fault = Fault(
            "PATTERN_PROPERTY_ADDED", "the writer's objects may have such properties of other kinds"
        )
        reader.nodes.spend(len(writer.patterns))
        found.needs += [
            Need(path, [(asked, each)], fault)
            for each in (*writer.patterns.values(), writer.surely_others)
            if not each.is_never
        ]


def _other_properties(found: Found, reader: Typed, writer: Typed) -> None:
    """Compare the schemas for further properties. Properties that other parts evaluate are not
    followed: of two schemas with unevaluatedProperties, these are compared.
    """
    asked = reader.others
    if asked.is_any:
        return
    closed = asked.is_never
    path, kind, given = "additionalProperties", "ADDITIONAL_PROPERTIES", writer.surely_others
    if path not in reader.raw:
        path, kind, given = "unevaluatedProperties", "UNEVALUATED_PROPERTIES", writer.others
    if not given.is_never:
        if closed:
            found.faults.append(
                Fault(
                    f"{kind}_REMOVED",
                    "the reader takes no further properties, the writer does",
                    path,
                )
            )
        elif given.is_any:
            found.faults.append(
                Fault(
                    f"{kind}_NARROWED",
                    "the reader takes further properties of one kind only, the writer of any",
                    path,
                )
            )
        else:
            found.needs.append(Need(path, [(asked, given)]))
    for pattern, node in writer.patterns.items():
        if pattern not in reader.patterns and not node.is_never:
            said = "the reader has no such expression, and does not take the properties as others"
            found.needs.append(
                Need(
                    f"patternProperties/{pattern}",
                    [(asked, node)],
                    Fault("PATTERN_PROPERTY_REMOVED", said),
                )
            )


def _names(found: Found, reader: Typed, writer: Typed) -> None:
    asked, given = reader.child("propertyNames"), writer.child("propertyNames")
    if asked is not None and not asked.is_any:
        fault = Fault(
            "PROPERTY_NAMES_NARROWED",
            "the writer's objects may have names that the reader does not take",
        )
        found.needs.append(Need("propertyNames", [(asked, given or writer.nodes.anything)], fault))


def _dependencies(found: Found, reader: Typed, writer: Typed) -> None:
    for key in DEPENDENCIES:
        given = {**(writer.raw.get("dependencies") or {}), **(writer.raw.get(key) or {})}
        for name, asked in (reader.raw.get(key) or {}).items():
            path, other = f"{key}/{name}", given.get(name)
            if isinstance(asked, list):
                _dependent_names(found, path, asked, other, writer)
            elif other is None or isinstance(other, list):
                node = reader.nodes.node(asked, reader.document)
                if not node.is_any:
                    said = f"the reader has a schema for objects with {name}, the writer has none"
                    found.faults.append(Fault("DEPENDENCY_SCHEMA_ADDED", said, path))
            else:
                found.needs.append(
                    Need(
                        path,
                        [
                            (
                                reader.nodes.node(asked, reader.document),
                                writer.nodes.node(other, writer.document),
                            )
                        ],
                    )
                )


def _dependent_names(
    found: Found, path: str, asked: list[str], other: object, writer: Typed
) -> None:
    given = set(other) if isinstance(other, list) else set()
    missing = sorted(set(asked) - given - writer.required)
    if missing:
        kind = (
            "ADDED"
            if not isinstance(other, list)
            else "EXTENDED"
            if given <= set(asked)
            else "CHANGED"
        )
        said = f"the reader requires {', '.join(missing[:10])} beside it, the writer does not"
        found.faults.append(Fault(f"DEPENDENCY_ARRAY_{kind}", said, path))


def _items(found: Found, reader: Typed, writer: Typed) -> None:
    if reader.raw.get("uniqueItems") is True and writer.raw.get("uniqueItems") is not True:
        found.faults.append(
            Fault(
                "UNIQUE_ITEMS_ADDED",
                "the reader takes no equal items, the writer does",
                "uniqueItems",
            )
        )
    for index in range(max(len(reader.prefix), len(writer.prefix))):
        asked = reader.prefix[index] if index < len(reader.prefix) else reader.rest
        given = writer.prefix[index] if index < len(writer.prefix) else writer.surely_rest
        path = f"items/{index}"
        if given.is_never or asked.is_any:
            continue
        if index >= len(reader.prefix):
            kind = (
                "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL"
                if asked.is_never
                else "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            )
            found.needs.append(
                Need(
                    path,
                    [(asked, given)],
                    Fault(
                        kind,
                        "the reader has no such place in its tuple, and does not take the item",
                    ),
                )
            )
        elif index >= len(writer.prefix):
            kind = (
                "ITEM_ADDED_TO_OPEN_CONTENT_MODEL"
                if given.is_any
                else "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            )
            found.needs.append(
                Need(
                    path,
                    [(asked, given)],
                    Fault(kind, "the writer's tuple may have other items there"),
                )
            )
        else:
            found.needs.append(Need(path, [(asked, given)]))
    _further_items(found, reader, writer)


def _further_items(found: Found, reader: Typed, writer: Typed) -> None:
    asked, path, kind = reader.rest, reader.rest_keyword, "ADDITIONAL_ITEMS"
    given = writer.surely_rest
    if path not in reader.raw:
        path, kind, given = "unevaluatedItems", "UNEVALUATED_ITEMS", writer.rest
    if given.is_never or asked.is_any:
        return
    if asked.is_never:
        found.faults.append(
            Fault(f"{kind}_REMOVED", "the reader takes no further items, the writer does", path)
        )
    elif given.is_any:
        found.faults.append(
            Fault(
                f"{kind}_NARROWED",
                "the reader takes items of one kind only, the writer of any",
                path,
            )
        )
    else:
        found.needs.append(Need(path, [(asked, given)]))


def _contains(found: Found, reader: Typed, writer: Typed) -> None:
    """Compare `contains`. A minimum is met if the writer has at least as many of a narrower kind; a
    maximum, the other way round.
    """
    asked, given = reader.child("contains"), writer.child("contains")
    if asked is None:
        return
    least, given_least = _least(reader), 0 if given is None else _least(writer)
    if given_least < least:
        found.faults.append(
            Fault(
                "MIN_CONTAINS_INCREASED",
                f"the reader's arrays contain {least} items of a kind, the writer's need not",
                "contains",
            )
        )
    elif given is not None and least > 0:
        found.needs.append(Need("contains", [(asked, given)]))
    most = reader.number("maxContains")
    if most is not None:
        given_most = writer.number("maxContains")
        if given is None or given_most is None or given_most > most:
            said = (
                f"the reader's arrays contain {most} items of a kind at most, the writer's may "
                "contain more"
            )
            found.faults.append(Fault("MAX_CONTAINS_DECREASED", said, "maxContains"))
        else:
            fault = Fault(
                "MAX_CONTAINS_DECREASED", "the reader counts items that the writer does not count"
            )
            found.needs.append(Need("contains", [(given, asked)], fault, quiet=True))


def _least(typed: Typed) -> float:
    """Return the least number of items that a `contains` asks for."""
    given = typed.number("minContains")
    return 1 if given is None else given
