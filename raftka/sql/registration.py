"""The schema that a stream's records are written with: the newest one of its topic, or one that is
made from the columns and registered; and values written with it, in Confluent's framing.
"""

import json
from collections.abc import Callable

from raftka.json_values import Json
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.records.registry_client import (
    RegistryAccess,
    RegistryClient,
    UnknownSchema,
    register_schema,
)
from raftka.schemas.framing import HEADER_BYTES, MAGIC
from raftka.schemas.values import Misfit
from raftka.sql.catalog import Stream
from raftka.sql.language.statements import Format
from raftka.sql.made_schemas import made_schema
from raftka.sql.registered import newest, registry_of, subject_of


def registered_id(access: RegistryAccess | None, target: Stream, *, is_new: bool) -> int | None:
    """Return the id of the schema for a stream's records; None: its format has none. `is_new`: the
    columns decide, and what the topic had before must be compatible. Raise SchemaRefused and
    PipelineError.
    """
    if not target.format.has_schema:
        return None
    try:
        found = newest(access, target.topic, target.format)
    except UnknownSchema:
        found = None
    if found is not None and not is_new:
        return found.schema_id
    access = registry_of(access)
    previous = None
    if found is not None and target.format is Format.PROTOBUF:
        from raftka.schemas.values.protobuf import first_type

        try:
            previous = first_type(found.schema, RegistryClient.of(access))
        except Misfit as misfit:
            raise PipelineError(f"the schema of {target.topic} cannot be used: {misfit}") from None
    made = made_schema(target.format, target.topic, target.fields, previous)
    return register_schema(access, subject_of(target.topic), made)


def header_of(schema_id: int) -> bytes:
    """Return the bytes before a value that is written with a schema."""
    return bytes([MAGIC]) + schema_id.to_bytes(HEADER_BYTES - 1)


class ValueWriter:
    """Writes values with a schema. Goes to the workers, pickled."""

    def __init__(self, access: RegistryAccess, form: Format, schema_id: int) -> None:
        self._access, self._form, self.schema_id = access, form, schema_id
        self._write: Callable[[Json], bytes] | None = None

    def __getstate__(self) -> dict[str, Json]:
        return {**self.__dict__, "_write": None}

    def __call__(self, value: Json) -> bytes:
        """Return the bytes of a record's value. Dates, times and decimals are Python's, but of
        JSON. Raise Misfit, and PipelineError without a registry that knows the schema.
        """
        if self._write is None:
            try:
                self._write = self._made()
            except UnknownSchema as error:
                raise PipelineError(f"schema {self.schema_id}: {error}") from None
        return header_of(self.schema_id) + self._write(value)

    def _made(self) -> Callable[[Json], bytes]:
        if self._form is Format.JSON_SR:
            return lambda value: json.dumps(value, ensure_ascii=False).encode()
        client = RegistryClient.of(self._access)
        if self._form is Format.AVRO:
            from raftka.schemas.values import avro

            schema = avro.put_references_inside(client.schema(self.schema_id), client)
            return avro.make_writer(schema, self.schema_id)
        from raftka.schemas.values import protobuf

        return protobuf.make_writer(client.schema(self.schema_id, serialized=True), client)
