"""Readers of values in Confluent's framing, by schema id. Knows no Spark.

Readers are kept, and so is the reason why a schema cannot be used; those of a registry for some
minutes, then the registry is asked again. The declared fields judge what a reader returns, so a new
version of a schema needs no restart: its id is looked up when the first record with it comes.
"""

import time
from collections.abc import Callable, Mapping
from functools import lru_cache

from raftka.json_values import Json
from raftka.pipeline.records.registry_client import RegistryAccess, RegistryClient, UnknownSchema
from raftka.schemas.framing import HEADER_BYTES, NotFramed, schema_id_of
from raftka.schemas.values import Misfit, avro
from raftka.schemas.values.json_text import parse_json

KEPT = 10_000  # readers; the oldest one leaves first
# Readers of a registry's schemas are made anew then. With the client's own time no schema is older
# than five minutes.
FRESH_S = 200.0

Read = Callable[[bytes], Json]  # of the bytes behind the schema id


def framed_schema_id(value: bytes, form: str) -> int:
    """Return the schema id of a value that is to be of the form. Raise Misfit."""
    try:
        return schema_id_of(value)
    except NotFramed as error:
        raise Misfit(f"no {form}: it {error}") from None


class ReaderCache:
    """Readers by schema id. `make` raises Misfit for a schema that can never be used, and
    UnknownSchema for one that is not known now.
    """

    def __init__(self, make: Callable[[int], Read]) -> None:
        self._make = make
        self._found: dict[int, Read | str] = {}

    def clear(self) -> None:
        """Make all readers anew when they are needed."""
        self._found.clear()

    def read(self, schema_id: int, payload: bytes) -> Json:
        """Raise Misfit, and the errors of `make`."""
        found = self._found.get(schema_id)
        if found is None:
            try:
                found = self._make(schema_id)
            except Misfit as misfit:
                found = str(misfit)
            if len(self._found) >= KEPT:
                del self._found[next(iter(self._found))]
            self._found[schema_id] = found
        if isinstance(found, str):
            raise Misfit(found)
        return found(payload)


class FolderReader:
    """Reads Avro by the schemas of a folder."""

    def __init__(self, schemas: Mapping[int, object]) -> None:
        self._schemas = schemas
        self._readers = ReaderCache(self._make_reader)

    def refresh(self) -> None:
        """Do nothing: the folder was read when the query began."""

    def value(self, value: bytes) -> Json:
        """Raise Misfit."""
        return self._readers.read(framed_schema_id(value, "Avro"), value[HEADER_BYTES:])

    def _make_reader(self, schema_id: int) -> Read:
        if schema_id not in self._schemas:
            known = ", ".join(map(str, sorted(self._schemas))) or "none"
            raise Misfit(
                f"Avro schema {schema_id} is not known (known: {known}): put it beside them as "
                f"{schema_id}.avsc, start the pipeline again, send this again"
            )
        return avro.make_reader(self._schemas[schema_id], schema_id)


class RegistryReader:
    """Reads values of the given formats by the schemas of a registry. The kind of a schema there
    says which format a value has.
    """

    def __init__(
        self,
        client: RegistryClient,
        formats: tuple[str, ...],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._formats, self._clock = client, formats, clock
        self._fresh_until = clock() + FRESH_S
        self._form = {"avro": "Avro", "protobuf": "Protobuf", "json": "JSON"}[formats[-1]]
        self._readers = ReaderCache(self._make_reader)

    @staticmethod
    @lru_cache(maxsize=64)
    def of(access: RegistryAccess, formats: tuple[str, ...]) -> "RegistryReader":
        """Return the one of this process."""
        return RegistryReader(RegistryClient.of(access), formats)

    def refresh(self) -> None:
        """Forget old readers: their ids may name other schemas now. Call it before each batch."""
        if self._clock() >= self._fresh_until:
            self._fresh_until = self._clock() + FRESH_S
            self._readers.clear()

    def value(self, value: bytes) -> Json:
        """Raise Misfit for a value that does not fit, and RegistryAway, which is no fault of the
        value.
        """
        schema_id = framed_schema_id(value, self._form)
        # A schema of JSON says nothing here that the declared fields do not say.
        if self._formats == ("json",):
            return parse_json(value[HEADER_BYTES:])
        try:
            return self._readers.read(schema_id, value[HEADER_BYTES:])
        except UnknownSchema as error:
            raise Misfit(f"schema {schema_id}: {error}") from None

    def _make_reader(self, schema_id: int) -> Read:
        schema = self._client.schema(schema_id)
        kind = schema.kind.lower()
        if kind not in self._formats:
            raise Misfit(
                f"schema {schema_id} is of the type {schema.kind}, and this stream is "
                f"{' or '.join(self._formats)}"
            )
        if kind == "json":
            return parse_json
        if kind == "avro":
            return avro.make_reader(avro.put_references_inside(schema, self._client), schema_id)
        # Most pipelines have no Protobuf, and its library takes time to import.
        from raftka.schemas.values import protobuf

        return protobuf.make_reader(self._client.schema(schema_id, serialized=True), self._client)
