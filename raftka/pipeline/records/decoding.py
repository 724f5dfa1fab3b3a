"""Values of records to columns: JSON, Avro behind the number of its schema, text. What does not fit
has an error instead. Knows Arrow, no Spark.

A record of Avro or Protobuf begins with a zero byte and four bytes of a schema's number
(`framed.py`); the schema is in a registry, or the file 7.avsc of a folder. It is read as it was
written, then judged by the declared fields, like JSON: so all change by the same rules.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from raftka.json_values import Json, JsonObject
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.records.arrow_types import ERROR, arrow_type, struct_array
from raftka.pipeline.records.confluent_framing import HEADER, AvroFolder, FromRegistry
from raftka.pipeline.records.fast_json import FastJson, FastRows
from raftka.pipeline.records.fields import Field, Group, Misfit, fitting, parsed_json
from raftka.pipeline.records.registry_client import RegistryAccess

TEXT = (Field("value", "string", nullable=True),)  # all there is of the format string


def storable(text: str) -> str:
    """The text in UTF-8: lone surrogates, which have no bytes there, are spelt out."""
    return text.encode("utf-8", "backslashreplace").decode()


class Decoder:
    """Goes to the workers, pickled; `schemas` are Avro's, by number, where there is no
    `registry`.
    """

    def __init__(
        self,
        formats: Sequence[str],
        wanted: tuple[Field, ...],
        schemas: Mapping[int, object] | None = None,
        registry: RegistryAccess | None = None,
    ) -> None:
        self._formats, self._wanted, self._schemas = (
            tuple(formats),
            TEXT if "string" in formats else wanted,
            dict(schemas or {}),
        )
        self._group = Group(self._wanted)
        self._registry = registry
        self._framed: AvroFolder | FromRegistry | None = None
        self._fast: FastRows | None = None

    def __getstate__(self) -> JsonObject:
        return {**self.__dict__, "_framed": None, "_fast": None}

    @staticmethod
    def input_of(batch: pa.RecordBatch) -> pa.Array:
        """Return what `columns` is to be given of a batch of records."""
        return batch.column("value")

    def columns(self, values: pa.Array) -> pa.StructArray:
        """Turn an array of bytes into an array of structs: the declared fields, and the error of
        each row without them. No row stops the others.
        """
        if "string" in self._formats:
            return self.one_by_one(values)
        if "json" not in self._formats:
            return self._framed_columns(values)
        fast = FastJson.for_fields(self._wanted)
        if fast is None:
            return self.one_by_one(values)
        mixed = len(self._formats) > 1
        slow = self._framed_columns if mixed else self.one_by_one
        return fast.columns(self._bare(values), lambda places: slow(values.take(places)))

    def errors(self, values: pa.Array) -> pa.Array:
        """The error of each row, null where it fits."""
        return self.columns(values).field(ERROR)

    def _framed_columns(self, values: pa.Array) -> pa.StructArray:
        if self._fast is None:
            self._fast = FastRows.of(self._wanted, self._framed_value)
        if self._fast is None:
            return self.one_by_one(values)
        return self._fast.columns(values, lambda places: self.one_by_one(values.take(places)))

    def _bare(self, values: pa.Array) -> pa.Array:
        """JSON without the number of its schema, where that says nothing."""
        if self._registry is None or self._formats != ("json",):
            return values
        framed = pc.fill_null(
            pc.and_(
                pc.starts_with(values, b"\0"), pc.greater_equal(pc.binary_length(values), HEADER)
            ),
            False,
        )
        # pyarrow 26's binary_slice fails on short values
        bare = [value[HEADER:] for value in values.filter(framed).to_pylist()]
        return pc.replace_with_mask(values, framed, pa.array(bare, values.type)) if bare else values

    def one_by_one(self, values: pa.Array) -> pa.StructArray:
        """The same, each row judged in Python. What it says of a row stands; the fast way says the
        same or nothing.
        """
        rows, errors = self._rows(values.to_pylist())
        try:
            arrays = [self._column(rows, each) for each in self._wanted]
        except Exception:  # Arrow does not say which row it refuses
            self._set_aside(rows, errors)
            arrays = [self._column(rows, each) for each in self._wanted]
        return struct_array(self._wanted, arrays, pa.array(errors, pa.string()))

    def row(self, value: bytes | None) -> tuple[JsonObject | None, str | None]:
        """The fields, or the error that makes this record a dead letter. Raises RegistryAway."""
        try:
            return self._row(value), None
        except Misfit as misfit:
            return None, storable(str(misfit))
        except PipelineError:  # the registry is away: no fault of this record
            raise
        # a kind of wrong value that nobody has thought of: the record is a dead letter, the flow
        # goes on
        except Exception as error:
            return None, storable(f"the decoder failed: {type(error).__name__} {error}")

    def _rows(self, values: list[bytes | None]) -> tuple[list[JsonObject | None], list[str | None]]:
        rows: list[JsonObject | None] = []
        errors: list[str | None] = []
        for value in values:
            row, error = self.row(value)
            rows.append(row)
            errors.append(error)
        return rows, errors

    def _set_aside(self, rows: list[JsonObject | None], errors: list[str | None]) -> None:
        """Turn each row that Arrow refuses into an error."""
        for at, row in enumerate(rows):
            try:
                for each in self._wanted:
                    self._column([row], each)
            except Exception as error:
                rows[at], errors[at] = (
                    None,
                    storable(
                        f"{each.name} does not fit its column: {type(error).__name__} {error}"
                    ),
                )

    @staticmethod
    def _column(rows: list[JsonObject | None], field: Field) -> pa.Array:
        return pa.array(
            [None if row is None else row[field.name] for row in rows], arrow_type(field.kind)
        )

    def _row(self, value: Json) -> JsonObject:
        if "string" in self._formats:
            return {"value": self._text(value)}
        if value is None:
            raise Misfit("it has no value")
        return fitting(self.parsed(value), self._group, "")  # type: ignore[no-any-return]

    def parsed(self, value: bytes) -> Json:
        """The value as its format has it, before the declared fields judge it. Raises Misfit and
        RegistryAway.
        """
        # no JSON begins with it
        framed = "json" not in self._formats or (value[:1] == b"\0" and self._may_be_framed)
        return self._framed_value(value) if framed else parsed_json(value)

    @property
    def _may_be_framed(self) -> bool:
        return self._registry is not None or "avro" in self._formats

    def _framed_value(self, value: bytes) -> Json:
        if self._framed is None:
            self._framed = (
                AvroFolder(self._schemas)
                if self._registry is None
                else FromRegistry.of(self._registry, self._formats)
            )
            # the registry's readers are this process's: tasks before this one have made them
            self._framed.refresh()
        return self._framed.value(value)

    @staticmethod
    def _text(value: bytes | None) -> str | None:
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError as error:
            raise Misfit(f"no UTF-8: {error.reason} at byte {error.start}") from None
