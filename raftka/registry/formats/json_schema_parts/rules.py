"""JSON Schema: whether a reader's schema takes all values that a writer's takes. The rules' names
are those of Confluent's Schema Registry.

A node is a conjunction of parts: types with what is said of values of each (`typed.py`), lists of
values, choices, negations, conditions. A reader's node takes a writer's if each part of the reader
follows from one part of the writer; `docs/registry.md` has the table.
"""

from raftka.registry.formats.json_schema_parts.nodes import (
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
from raftka.registry.formats.json_schema_parts.typed import expand_typed
from raftka.registry.formats.pairs import Expanded, Fault, Need

Schema = Node | Part
TOLD_VALUES = 10


def expand(reader: Schema, writer: Schema) -> Expanded[Schema]:
    """Pairs are of two nodes, a part and a node, or two parts."""
    if isinstance(writer, Node):
        return _expand_nodes(reader, writer)
    if isinstance(writer, Choice) and isinstance(reader, Part):
        return _expand_choice(reader, writer)
    if isinstance(reader, Typed) and isinstance(writer, Typed):
        return expand_typed(reader, writer)
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
    """Whether a reader's option surely does not take what a writer does, at a glance: of hundreds
    of options each pair would be compared.
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
