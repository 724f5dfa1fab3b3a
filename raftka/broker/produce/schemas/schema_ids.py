"""Schema ids in front of the keys and values of a batch, and the payloads behind them. Knows no
registry.

For a batch that is not small this runs off the loop: it touches nothing of the loop's.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from raftka.limits import DECOMPRESSED_BYTES, SCHEMAS_OF_BATCH, LimitExceeded
from raftka.log.config import SchemaRule, SchemaRules
from raftka.log.validation import RefusedRecords
from raftka.schemas.framing import (
    HEADER_BYTES,
    Indexes,
    NotFramed,
    message_indexes,
    schema_id_of,
)
from raftka.wire.errors import Code, ProtocolError
from raftka.wire.records import Record, records_of

Part = Literal["key", "value"]
Errors = dict[int, str]  # the reason, by the place of a record in its batch


class Use(NamedTuple):
    """A schema as a key or a value names it; without indexes where nothing depends on them."""

    part: Part
    schema_id: int
    indexes: Indexes = ()


@dataclass(slots=True)
class SchemaIds:
    """The schemas that the records of a batch name."""

    errors: Errors = field(default_factory=dict)
    uses: dict[Use, list[int]] = field(default_factory=dict)  # places of records


def rules_of(rules: SchemaRules) -> list[tuple[Part, SchemaRule]]:
    found: list[tuple[Part, SchemaRule]] = []
    if rules.key is not None:
        found.append(("key", rules.key))
    if rules.value is not None:
        found.append(("value", rules.value))
    return found


def find_schema_ids(
    batch: memoryview, rules: SchemaRules, with_indexes: Container[int] = ()
) -> SchemaIds:
    """`with_indexes`: the ids of Protobuf schemas where it matters which message a value is. Raise
    RefusedRecords or LimitExceeded.
    """
    found = SchemaIds()
    parts = [part for part, _ in rules_of(rules)]
    for place, record in numbered_records(batch):
        for part in parts:
            content = record.key if part == "key" else record.value
            if content is None:
                continue  # no key, or a tombstone
            try:
                schema_id = schema_id_of(content)
            except NotFramed as error:
                found.errors.setdefault(place, f"the {part} {error}")
                continue
            indexes: Indexes = ()
            if schema_id in with_indexes:
                try:
                    indexes, _ = message_indexes(content, HEADER_BYTES)
                except NotFramed as error:
                    found.errors.setdefault(place, f"the {part} of schema {schema_id} has {error}")
                    continue
            found.uses.setdefault(Use(part, schema_id, indexes), []).append(place)
            if len(found.uses) > SCHEMAS_OF_BATCH.value:
                raise LimitExceeded(SCHEMAS_OF_BATCH, len(found.uses))
    return found


def numbered_records(batch: memoryview) -> Iterator[tuple[int, Record]]:
    """Return the records with their places in the batch. Raise RefusedRecords."""
    try:
        yield from enumerate(records_of(batch))
    except ProtocolError as error:
        # producers split such a batch, and the parts may be taken
        if error.limit is DECOMPRESSED_BYTES:
            raise RefusedRecords(Code.MESSAGE_TOO_LARGE, str(error)) from error
        raise RefusedRecords(Code.INVALID_RECORD, str(error)) from error


def payloads_of(
    batch: memoryview, uses: Mapping[tuple[Part, int], Container[int]]
) -> dict[tuple[Part, int], list[tuple[int, bytes]]]:
    """Return (place, bytes behind the schema id) of the records at these places, by part and schema
    id. Raise RefusedRecords.
    """
    found: dict[tuple[Part, int], list[tuple[int, bytes]]] = {use: [] for use in uses}
    parts: set[Part] = {part for part, _ in uses}
    for place, record in numbered_records(batch):
        for part in parts:
            content = record.key if part == "key" else record.value
            if content is None:
                continue
            try:
                use = (part, schema_id_of(content))
            except NotFramed:
                continue
            if use in uses and place in uses[use]:
                found[use].append((place, content[HEADER_BYTES:]))
    return found
