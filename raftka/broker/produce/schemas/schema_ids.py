"""The numbers of schemas in front of keys and values of a batch, and the payloads behind them.
Knows no registry.

Off the loop for a batch that is not small: nothing here touches what the loop does.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from raftka.broker.produce.schemas.names import Indexes, message_indexes
from raftka.limits import DECOMPRESSED_BYTES, SCHEMAS_OF_BATCH, LimitExceeded
from raftka.log.config import SchemaRule, SchemaRules
from raftka.log.validation import RefusedRecords
from raftka.wire.errors import Code, ProtocolError
from raftka.wire.records import Record, records_of

Part = Literal["key", "value"]
HEADER_BYTES = 5  # a zero byte, and the number in four
Errors = dict[int, str]  # why, by the place of a record in its batch


class Use(NamedTuple):
    """A schema as a key or a value names it; without indexes where nothing depends on them."""

    part: Part
    number: int
    indexes: Indexes = ()


@dataclass(slots=True)
class Numbers:
    errors: Errors = field(default_factory=dict)
    uses: dict[Use, list[int]] = field(default_factory=dict)  # places of records


def rules_of(rules: SchemaRules) -> list[tuple[Part, SchemaRule]]:
    found: list[tuple[Part, SchemaRule]] = []
    if rules.key is not None:
        found.append(("key", rules.key))
    if rules.value is not None:
        found.append(("value", rules.value))
    return found


def numbers_of(batch: memoryview, rules: SchemaRules, messages: Container[int] = ()) -> Numbers:
    """`messages`: the numbers of Protobuf schemas where it matters which message a value is. Raises
    RefusedRecords, and LimitExceeded.
    """
    found = Numbers()
    parts = rules_of(rules)

    def look(place: int, record: Record) -> None:
        for part, _ in parts:
            content = record.key if part == "key" else record.value
            if content is None:
                continue  # no key, or a tombstone
            if len(content) < HEADER_BYTES or content[0]:
                found.errors.setdefault(
                    place, f"the {part} does not begin with a zero byte and the number of a schema"
                )
                continue
            number = int.from_bytes(content[1:HEADER_BYTES], signed=True)
            indexes: Indexes = ()
            if number in messages:
                try:
                    indexes, _ = message_indexes(content, HEADER_BYTES)
                except ValueError as error:
                    found.errors.setdefault(place, f"the {part} of schema {number} has {error}")
                    continue
            found.uses.setdefault(Use(part, number, indexes), []).append(place)
            if len(found.uses) > SCHEMAS_OF_BATCH.value:
                raise LimitExceeded(SCHEMAS_OF_BATCH, len(found.uses))

    walk(batch, look)
    return found


def walk(batch: memoryview, look: Callable[[int, Record], None]) -> None:
    """Raises RefusedRecords."""
    try:
        for place, record in enumerate(records_of(batch)):
            look(place, record)
    except ProtocolError as error:
        # producers split such a batch, and the parts may be taken
        if error.limit is DECOMPRESSED_BYTES:
            raise RefusedRecords(Code.MESSAGE_TOO_LARGE, str(error)) from error
        raise RefusedRecords(Code.INVALID_RECORD, str(error)) from error


def payloads_of(
    batch: memoryview, uses: Mapping[tuple[Part, int], Container[int]]
) -> dict[tuple[Part, int], list[tuple[int, bytes]]]:
    """(place, bytes behind the number) of the records at these places, by part and number of the
    schema. Raises RefusedRecords.
    """
    found: dict[tuple[Part, int], list[tuple[int, bytes]]] = {use: [] for use in uses}
    parts: set[Part] = {part for part, _ in uses}

    def look(place: int, record: Record) -> None:
        for part in parts:
            content = record.key if part == "key" else record.value
            if content is not None and len(content) >= HEADER_BYTES:
                use = (part, int.from_bytes(content[1:HEADER_BYTES], signed=True))
                if use in uses and place in uses[use]:
                    found[use].append((place, content[HEADER_BYTES:]))

    walk(batch, look)
    return found
