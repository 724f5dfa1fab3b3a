"""Columns of the values of records: JSON, text, Avro and Protobuf behind a schema id. A value that
does not fit has an error instead. Knows Arrow, no Spark.

A record of Avro or Protobuf is in Confluent's framing; its schema is in a registry, or is the file
7.avsc of a folder. It is read as it was written, then judged by the declared fields, like JSON: so
all formats change by the same rules.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from raftka.json_values import Json, JsonObject
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.records.arrow_types import ERROR, arrow_type, struct_array
from raftka.pipeline.records.fast_json import FastJson, FastRows
from raftka.pipeline.records.fields import Field, Group, fitting
from raftka.pipeline.records.registry_client import RegistryAccess
from raftka.pipeline.records.schema_readers import FolderReader, RegistryReader
from raftka.schemas.framing import HEADER_BYTES
from raftka.schemas.values import Misfit
from raftka.schemas.values.json_text import parse_json

TEXT = (Field("value", "string", nullable=True),)  # all there is of the format string


def storable(text: str) -> str:
    """The text in UTF-8: lone surrogates, which have no bytes there, are spelt out."""
    return text.encode("utf-8", "backslashreplace").decode()


class Decoder:
    """Goes to the workers, pickled; `schemas` are Avro's, by id, where there is no `registry`."""

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
        self._framed: FolderReader | RegistryReader | None = None
        self._fast: FastRows | None = None

    def __getstate__(self) -> JsonObject:
        return {**self.__dict__, "_framed": None, "_fast": None}

    @staticmethod
    def input_of(batch: pa.RecordBatch) -> pa.Array:
        """Return the argument of `columns` for a batch of records."""
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
        """Return the error of each row, null where it fits."""
        return self.columns(values).field(ERROR)

    def _framed_columns(self, values: pa.Array) -> pa.StructArray:
        if self._fast is None:
            self._fast = FastRows.of(self._wanted, self._framed_value)
        if self._fast is None:
            return self.one_by_one(values)
        return self._fast.columns(values, lambda places: self.one_by_one(values.take(places)))

    def _bare(self, values: pa.Array) -> pa.Array:
        """Remove the schema ids from JSON: they say nothing there."""
        if self._registry is None or self._formats != ("json",):
            return values
        framed = pc.fill_null(
            pc.and_(
                pc.starts_with(values, b"\0"),
                pc.greater_equal(pc.binary_length(values), HEADER_BYTES),
            ),
            False,
        )
        # pyarrow 26's binary_slice fails on short values
        bare = [value[HEADER_BYTES:] for value in values.filter(framed).to_pylist()]
        return pc.replace_with_mask(values, framed, pa.array(bare, values.type)) if bare else values

    def one_by_one(self, values: pa.Array) -> pa.StructArray:
        """Do the same as `columns`, each row judged in Python. The fast way must give the same rows
        and errors, or leave a row to this one.
        """
        rows, errors = self._rows(values.to_pylist())
        try:
            arrays = [self._column(rows, each) for each in self._wanted]
        except Exception:  # Arrow does not say which row it refuses
            self._set_aside(rows, errors)
            arrays = [self._column(rows, each) for each in self._wanted]
        return struct_array(self._wanted, arrays, pa.array(errors, pa.string()))

    def row(self, value: bytes | None) -> tuple[JsonObject | None, str | None]:
        """Return the fields, or the error of a dead letter. Raise RegistryAway."""
        try:
            return self._row(value), None
        except Misfit as misfit:
            return None, storable(str(misfit))
        except PipelineError:  # the registry is away: no fault of this record
            raise
        # An error of a library on a wrong value: the record is a dead letter, the flow goes on.
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
        """Return the value as its format has it, before the declared fields judge it. Raise Misfit
        or RegistryAway.
        """
        # No JSON begins with the zero byte of a frame.
        framed = "json" not in self._formats or (value[:1] == b"\0" and self._may_be_framed)
        return self._framed_value(value) if framed else parse_json(value)

    @property
    def _may_be_framed(self) -> bool:
        return self._registry is not None or "avro" in self._formats

    def _framed_value(self, value: bytes) -> Json:
        if self._framed is None:
            self._framed = (
                FolderReader(self._schemas)
                if self._registry is None
                else RegistryReader.of(self._registry, self._formats)
            )
            # The registry's readers belong to this process: earlier tasks have made them.
            self._framed.refresh()
        return self._framed.value(value)

    @staticmethod
    def _text(value: bytes | None) -> str | None:
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError as error:
            raise Misfit(f"no UTF-8: {error.reason} at byte {error.start}") from None
