"""Planted in types of schemas: what is compatible, and what the text of a stranger may do; and in
brokers that compare records with schemas.
"""

from dataclasses import replace
from typing import Any

from raftka.broker.produce.schemas.checks import SchemaChecks
from raftka.broker.produce.schemas.dead_letters import DeadLetters
from raftka.broker.produce.schemas.registry import RegistryAway
from raftka.log import client_batches
from raftka.log.config import LogConfig
from raftka.schemas.formats import pairs
from raftka.schemas.formats.avro import compatibility as avro_rules
from raftka.schemas.formats.avro.types import Field, Type
from raftka.schemas.formats.json_schema import compatibility as json_rules
from raftka.schemas.formats.json_schema.nodes import Choice, Part, Typed
from raftka.schemas.formats.pairs import Expanded
from raftka.schemas.formats.protobuf import printer, protoc, types
from raftka.wire.records import read_header
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
        self.wrong = {
            key for key, each in self.expanded.items() if each.faults and key == self.root
        }

    return bug


@mutant(json_rules, "_other_properties")
def closed_model_takes_what_was_open(_: Any) -> Any:
    """A reader that takes no further properties is compatible with a writer that has some."""

    def bug(found: object, reader: Typed, writer: Typed) -> None:
        pass

    return bug


@mutant(json_rules, "_expand_choice")
def one_option_is_enough(expand_choice: Any) -> Any:
    """Of the options of a writer's anyOf or oneOf, only the first one must be taken by the
    reader.
    """

    def bug(reader: Part, writer: Choice) -> Any:
        expanded = expand_choice(reader, writer)
        del expanded.needs[1:]
        return expanded

    return bug


@mutant(types, "SCALARS")
def zigzag_is_taken_for_plain(scalars: Any) -> Any:
    """sint32 and int32 are of one group: a reader of the one reads other numbers than were written
    with the other.
    """
    return {
        type_: "number" if group == "signed number" else group for type_, group in scalars.items()
    }


@mutant(printer, "checked")
def names_are_written_as_they_come(_: Any) -> Any:
    """A name in a serialized descriptor is written into the text as it is, with all the
    declarations that are in it.
    """
    return lambda name: name


@mutant(protoc, "check_name")
def references_leave_their_folder(_: Any) -> Any:
    """The text of a reference is written to whatever path its name says."""
    return lambda name: None


@mutant(SchemaChecks, "_find_errors")
def silent_registry_takes_everything(errors: Any) -> Any:
    """While the registry does not answer, records are stored that were compared with no schema."""

    def bug(self: SchemaChecks, check: Any) -> Any:
        try:
            return (yield from errors(self, check))
        except RegistryAway:
            return {}

    return bug


@mutant(client_batches, "repair")
def log_asks_for_no_schemas(repair: Any) -> Any:
    """The log takes a client's batch that nobody has compared with the topic's schemas."""

    def bug(batch: Any, now_ms: int, config: LogConfig, *others: Any) -> Any:
        return repair(batch, now_ms, replace(config, schemas=None), *others)

    return bug


@mutant(DeadLetters, "send")
def letters_are_not_waited_for(send: Any) -> Any:
    """A batch goes on without the records that became dead letters, whether these could be written
    or not.
    """

    def bug(self: DeadLetters, topic: str, batches: Any, done: Any) -> None:
        send(self, topic, batches, lambda error: None)
        self._context.later(lambda: done(None))

    return bug


@mutant(client_batches.ClientBatches, "_repair")
def letters_leave_a_gap_in_sequences(repair: Any) -> Any:
    """A batch counts with the records that stayed in it, so that its producer's next one seems to
    be out of order.
    """

    def bug(self: client_batches.ClientBatches, batch: Any, now_ms: int) -> Any:
        batch, *others, _, due = repair(self, batch, now_ms)
        return (batch, *others, read_header(batch).count, due)

    return bug


@mutant(DeadLetters, "find_obstacle")
def letters_lend_the_right_to_write(unfit: Any) -> Any:
    """A client writes to a topic that it may not write to, by a dead letter of the broker."""
    return lambda self, topic, batch, may_write: unfit(self, topic, batch, lambda _: True)
