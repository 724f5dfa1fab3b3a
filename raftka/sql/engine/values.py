"""Values of records from the columns of a query, in the format of its stream. JSON and delimited
lines are Spark's own expressions; Avro and Protobuf are written in Python's workers.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import StructType

from raftka.json_values import Json, JsonObject
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.records.fields import (
    EXACT_DIGITS,
    Exact,
    Field,
    Group,
    Kind,
    Many,
    MapOf,
    spark_json,
)
from raftka.schemas.values import Misfit
from raftka.sql.catalog import Stream
from raftka.sql.language.statements import Format
from raftka.sql.registration import ValueWriter, header_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"


def value_of(given: Mapping[str, Column], target: Stream, writer: ValueWriter | None) -> Column:
    """Return the value of a record, text or bytes. `given`: the columns of the query by names in
    lower case. `writer`: of a format with a schema.
    """
    fields = [each for each in target.fields if each.name.lower() in given]
    values = [given[each.name.lower()].alias(each.name) for each in fields]
    if target.format is Format.DELIMITED:
        missing = f.lit(None).cast("string")
        cells = [given.get(each.name.lower(), missing).alias(each.name) for each in target.fields]
        return f.to_csv(_struct(cells), {"sep": target.options.delimiter or ","})
    if target.format is Format.JSON:
        # a number of JSON would lose digits
        texts = [
            value.cast("string").alias(each.name) if isinstance(each.kind, Exact) else value
            for each, value in zip(fields, values, strict=True)
        ]
        return f.to_json(_struct(texts))
    assert writer is not None, "its format has a schema"
    if target.format is Format.JSON_SR:
        rows = _struct(values).cast(_shape([_json_field(each) for each in fields]))
        text = f.to_json(rows, {"timestampFormat": MICROSECONDS}).cast("binary")
        return f.concat(f.lit(header_of(writer.schema_id)), text)
    if not fields:
        return f.lit(writer({}))
    return _written(_struct(values).cast(_shape(fields)), target.topic, writer)


def rows_in(values: pa.StructArray) -> Iterator[JsonObject]:
    """Yield the rows of structs, none of which is null: several times as fast as Arrow alone."""
    names = [each.name for each in values.type]
    columns = [_column(each) for each in values.flatten()]
    for row in zip(*columns, strict=True):
        yield dict(zip(names, row, strict=True))


def _column(values: pa.Array) -> list[Json]:
    if pa.types.is_timestamp(values.type):  # Arrow goes by the time zone of each
        return [
            None if each is None else EPOCH + timedelta(microseconds=each)
            for each in values.cast(pa.int64()).to_pylist()
        ]
    return values.to_pylist(maps_as_pydicts="strict")  # type: ignore[no-any-return]


def _struct(values: list[Column]) -> Column:
    return f.struct(*values) if values else f.struct(f.lit(None).cast("string").alias("_"))


def _shape(fields: list[Field]) -> StructType:
    """Return the type of the rows: whole numbers of 8 bits and times without a zone become columns
    of records.
    """
    return StructType.fromJson(spark_json(tuple(fields) or (Field("_", "string"),)))


def _json_field(field: Field) -> Field:
    return Field(field.name, _json_kind(field.kind), field.nullable)


def _json_kind(kind: Kind) -> Kind:
    """Return the kind as the JSON Schema has it: decimals that a number would cut are texts."""
    if isinstance(kind, Exact) and kind.digits > EXACT_DIGITS:
        return "string"
    if isinstance(kind, Many):
        return Many(_json_kind(kind.of))
    if isinstance(kind, MapOf):
        return MapOf(_json_kind(kind.of))
    if isinstance(kind, Group):
        return Group(tuple(map(_json_field, kind.fields)))
    return kind


def _written(rows: Column, topic: str, writer: ValueWriter) -> Column:
    def write(values: pa.Array) -> pa.Array:
        try:
            found = [writer(each) for each in rows_in(values)]
        except Misfit as misfit:
            raise PipelineError(f"a row cannot be written to {topic}: {misfit}") from None
        return pa.array(found, pa.binary())

    return arrow_udf(write, "binary")(rows)
