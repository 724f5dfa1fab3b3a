"""Planted in types of schemas: what is compatible, and what the text of a stranger may do."""

from typing import Any

from raftka.registry.formats import pairs
from raftka.registry.formats.avro_parts import rules as avro_rules
from raftka.registry.formats.avro_parts.types import Field, Type
from raftka.registry.formats.json_schema_parts import rules as json_rules
from raftka.registry.formats.json_schema_parts import typed
from raftka.registry.formats.json_schema_parts.nodes import Choice, Part, Typed
from raftka.registry.formats.pairs import Expanded
from raftka.registry.formats.protobuf_parts import printer, protoc, types
from tests.mutants.registry import mutant


@mutant(avro_rules, "_expand_field")
def new_field_needs_no_default(expand_field: Any) -> Any:
    """A field that the writer does not have is taken for readable, with a default or without."""

    def bug(expanded: Expanded[Type], field: Field, index: int, writer: Type) -> None:
        if field.name in writer.fields_by_name:
            expand_field(expanded, field, index, writer)

    return bug


@mutant(avro_rules, "READABLE")
def numbers_are_promoted_both_ways(readable: Any) -> Any:
    """A reader with int reads what was written as long, of which it keeps the half."""
    return {**readable, "long": (*readable["long"], "int")}


@mutant(pairs._Comparison, "spread")
def problems_stay_where_they_are(_: Any) -> Any:
    """Only the root of a schema is compared, so problems deep in it are not found."""

    def bug(self: Any) -> None:
        self.wrong = {key for key, each in self.expanded.items() if each.faults and key == self.root}

    return bug


@mutant(typed, "_other_properties")
def closed_model_takes_what_was_open(_: Any) -> Any:
    """A reader that takes no further properties is compatible with a writer that has some."""

    def bug(found: object, reader: Typed, writer: Typed) -> None:
        pass

    return bug


@mutant(json_rules, "_expand_choice")
def one_option_is_enough(expand_choice: Any) -> Any:
    """Of the options of a writer's anyOf or oneOf, only the first one must be taken by the reader."""

    def bug(reader: Part, writer: Choice) -> Any:
        expanded = expand_choice(reader, writer)
        del expanded.needs[1:]
        return expanded

    return bug


@mutant(types, "SCALARS")
def zigzag_is_taken_for_plain(scalars: Any) -> Any:
    """sint32 and int32 are of one group: a reader of the one reads other numbers than were written with the other."""
    return {type_: "number" if group == "signed number" else group for type_, group in scalars.items()}


@mutant(printer, "checked")
def names_are_written_as_they_come(_: Any) -> Any:
    """A name in a serialized descriptor is written into the text as it is, with all the declarations that are in it."""
    return lambda name: name


@mutant(protoc, "check_name")
def references_leave_their_folder(_: Any) -> Any:
    """The text of a reference is written to whatever path its name says."""
    return lambda name: None
