"""Values behind the number of a schema: a zero byte, four bytes of the number, and what the
schema's type says. Knows no Spark.

Readers of numbers are kept, and so is what is wrong with a schema; those of a registry for some
minutes, then the registry is asked again. The declared fields judge what they read, so a new
version of a schema needs no restart: its number is looked up when the first record with it comes.
"""

import time
from collections.abc import Callable, Mapping
from functools import lru_cache

from raftka.json_values import Json
from raftka.pipeline.records import avro_values
from raftka.pipeline.records.fields import Misfit, parsed_json
from raftka.pipeline.records.protobuf_values import Messages, message_indexes
from raftka.pipeline.records.registry_client import RegistryAccess, RegistryClient, UnknownSchema

HEADER = 5
KEPT = 10_000  # readers; the oldest one leaves first
# readers of a registry's schemas are made anew then; with the client's own time no schema is older
# than five minutes
FRESH_S = 200.0

Read = Callable[[bytes], Json]  # of the bytes behind the header


def number_of(value: bytes, what: str) -> int:
    """The number of a value's schema. Raises Misfit. `what` it should be."""
    if len(value) < HEADER or value[0] != 0:
        raise Misfit(f"no {what}: it does not begin with a zero byte and the number of a schema")
    return int.from_bytes(value[1:HEADER], "big")


class Readers:
    """Of schemas by number; `make` raises Misfit for one that is wrong for ever, and UnknownSchema
    for one that is not known now.
    """

    def __init__(self, make: Callable[[int], Read]) -> None:
        self._make = make
        self._found: dict[int, Read | str] = {}

    def forget(self) -> None:
        """Make all of them anew when they are needed."""
        self._found.clear()

    def read(self, number: int, value: bytes) -> Json:
        """Raises Misfit, and what `make` raises."""
        found = self._found.get(number)
        if found is None:
            try:
                found = self._make(number)
            except Misfit as misfit:
                found = str(misfit)
            if len(self._found) >= KEPT:
                del self._found[next(iter(self._found))]
            self._found[number] = found
        if isinstance(found, str):
            raise Misfit(found)
        return found(value)


class AvroFolder:
    """Avro by the schemas of a folder."""

    def __init__(self, schemas: Mapping[int, object]) -> None:
        self._schemas = schemas
        self._readers = Readers(self._reader)

    def refresh(self) -> None:
        """The folder was read when the query began."""

    def value(self, value: bytes) -> Json:
        """Raises Misfit."""
        return self._readers.read(number_of(value, "Avro"), value[HEADER:])

    def _reader(self, number: int) -> Read:
        if number not in self._schemas:
            known = ", ".join(map(str, sorted(self._schemas))) or "none"
            raise Misfit(
                f"Avro schema {number} is not known (known: {known}): put it beside them as "
                f"{number}.avsc, start the pipeline again, send this again"
            )
        return avro_values.reader(self._schemas[number], number)


class FromRegistry:
    """Values of the given formats by the schemas of a registry: its type of the schema says which
    one a value is.
    """

    def __init__(
        self,
        client: RegistryClient,
        formats: tuple[str, ...],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._formats, self._clock = client, formats, clock
        self._fresh_until = clock() + FRESH_S
        self._what = {"avro": "Avro", "protobuf": "Protobuf", "json": "JSON"}[formats[-1]]
        self._readers = Readers(self._reader)

    @staticmethod
    @lru_cache(maxsize=64)
    def of(access: RegistryAccess, formats: tuple[str, ...]) -> "FromRegistry":
        """The one of this process."""
        return FromRegistry(RegistryClient.of(access), formats)

    def refresh(self) -> None:
        """Call it before each batch of values: the numbers may be of other schemas now."""
        if self._clock() >= self._fresh_until:
            self._fresh_until = self._clock() + FRESH_S
            self._readers.forget()

    def value(self, value: bytes) -> Json:
        """Raises Misfit for a value that is none, and RegistryAway, which is no fault of the
        value.
        """
        number = number_of(value, self._what)
        # its schema would say nothing that the declared fields do not
        if self._formats == ("json",):
            return parsed_json(value[HEADER:])
        try:
            return self._readers.read(number, value[HEADER:])
        except UnknownSchema as error:
            raise Misfit(f"schema {number}: {error}") from None

    def _reader(self, number: int) -> Read:
        schema = self._client.schema(number)
        kind = schema.type.lower()
        if kind not in self._formats:
            raise Misfit(
                f"schema {number} is of the type {schema.type}, and this stream is "
                f"{' or '.join(self._formats)}"
            )
        if kind == "json":
            return parsed_json
        if kind == "avro":
            return avro_values.reader(avro_values.from_registry(schema, self._client), number)
        messages = Messages(self._client.schema(number, serialized=True), self._client)

        def read(value: bytes) -> Json:
            indexes, at = message_indexes(value)
            return messages.reader(indexes)(value[at:])

        return read
