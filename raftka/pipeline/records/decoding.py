"""Values of records to columns: JSON, Avro behind the number of its schema, text. What does not fit has an error instead. Knows Arrow, no Spark.

An Avro record of Kafka begins with a zero byte and four bytes of a schema's number. There is no registry here: the schema with the number 7 is
the file 7.avsc of a folder. It is read as it was written, then judged by the declared fields, like JSON: so both change by the same rules.
"""

from collections.abc import Mapping, Sequence
from io import BytesIO

import pyarrow as pa

from raftka.json_values import Json, JsonObject
from raftka.pipeline.records.arrow_types import arrow_type, struct_array
from raftka.pipeline.records.fast_json import FastJson
from raftka.pipeline.records.fields import Field, Group, Misfit, fitting, parsed_json

FORMATS = ("json", "avro", "string")
AVRO_HEADER = 5
TEXT = (Field("value", "string", nullable=True),)  # all there is of the format string


def storable(text: str) -> str:
    """The text in UTF-8: lone surrogates, which have no bytes there, are spelt out."""
    return text.encode("utf-8", "backslashreplace").decode()


class Decoder:
    """Goes to the workers, pickled; `schemas` are Avro's, by number."""

    def __init__(self, formats: Sequence[str], wanted: tuple[Field, ...], schemas: Mapping[int, object] | None = None) -> None:
        self._formats, self._wanted, self._schemas = tuple(formats), TEXT if "string" in formats else wanted, dict(schemas or {})
        self._group = Group(self._wanted)
        self._parsed: dict[int, Json] = {}
        self._fast: FastJson | None = None

    def __getstate__(self) -> JsonObject:
        return {**self.__dict__, "_parsed": {}, "_fast": None}

    def columns(self, values: pa.Array) -> pa.StructArray:
        """Turn an array of bytes into an array of structs: the declared fields, and the error of each row without them. No row stops the others."""
        if self._fast is None and "json" in self._formats:
            self._fast = FastJson.of(self._wanted)
        if self._fast is not None and self._fast.supported:
            return self._fast.columns(values, self.one_by_one)
        return self.one_by_one(values)

    def one_by_one(self, values: pa.Array) -> pa.StructArray:
        """The same, each row judged in Python. What it says of a row stands; the fast way says the same or nothing."""
        rows, errors = self._rows(values.to_pylist())
        try:
            arrays = [self._column(rows, each) for each in self._wanted]
        except Exception:  # Arrow does not say which row it refuses
            self._set_aside(rows, errors)
            arrays = [self._column(rows, each) for each in self._wanted]
        return struct_array(self._wanted, arrays, pa.array(errors, pa.string()))

    def row(self, value: bytes | None) -> tuple[JsonObject | None, str | None]:
        """The fields, or the error that makes this record a dead letter."""
        try:
            return self._row(value), None
        except Misfit as misfit:
            return None, storable(str(misfit))
        except Exception as error:  # a kind of wrong value that nobody has thought of: the record is a dead letter, the flow goes on
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
                rows[at], errors[at] = None, storable(f"{each.name} does not fit its column: {type(error).__name__} {error}")

    @staticmethod
    def _column(rows: list[JsonObject | None], field: Field) -> pa.Array:
        return pa.array([None if row is None else row[field.name] for row in rows], arrow_type(field.kind))

    def _row(self, value: bytes | None) -> JsonObject:
        if "string" in self._formats:
            return {"value": self._text(value)}
        if value is None:
            raise Misfit("it has no value")
        is_avro = "json" not in self._formats or ("avro" in self._formats and value[:1] == b"\0")  # no JSON begins with it
        return fitting(self._avro(value) if is_avro else parsed_json(value), self._group, "")  # type: ignore[no-any-return]

    @staticmethod
    def _text(value: bytes | None) -> str | None:
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError as error:
            raise Misfit(f"no UTF-8: {error.reason} at byte {error.start}") from None

    def _avro(self, value: bytes) -> Json:
        from fastavro import schemaless_reader

        if len(value) < AVRO_HEADER or value[0] != 0:
            raise Misfit("no Avro: it does not begin with a zero byte and the number of a schema")
        number = int.from_bytes(value[1:AVRO_HEADER], "big")
        schema = self._schema(number)
        stream = BytesIO(value[AVRO_HEADER:])
        try:
            found = schemaless_reader(stream, schema, None)
        except Exception as error:  # whatever it raises on bytes that are none of its own: one record must not stop all
            raise Misfit(f"no Avro of schema {number}: {type(error).__name__} {error}".rstrip()) from None
        if left := len(value) - AVRO_HEADER - stream.tell():
            raise Misfit(f"no Avro of schema {number}: {left} bytes are left behind it")
        return found

    def _schema(self, number: int) -> Json:
        if number not in self._schemas:
            known = ", ".join(map(str, sorted(self._schemas))) or "none"
            raise Misfit(
                f"Avro schema {number} is not known (known: {known}): put it beside them as {number}.avsc, start the pipeline again, send this again"
            )
        if number not in self._parsed:
            from fastavro import parse_schema

            self._parsed[number] = parse_schema(self._schemas[number])
        return self._parsed[number]
