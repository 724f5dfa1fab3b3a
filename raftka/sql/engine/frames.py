"""Streams, tables and topics as frames of Spark: their columns from the parts of a record.

A frame has a record's own columns (`_offset` and others) only where the query names them, so that
SELECT * is the declared columns.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import DataType, StructField, StructType

from raftka.pipeline.records.arrow_types import ERROR
from raftka.pipeline.records.decoding import Decoder
from raftka.pipeline.records.fields import Field, spark_json
from raftka.pipeline.records.registry_client import RegistryAccess
from raftka.pipeline.sql import AS_TEXT
from raftka.sql.catalog import Stream
from raftka.sql.language.changes import CHANGED_AT, CHANGED_KEY, IS_PRESENT
from raftka.sql.language.statements import Column as Declared
from raftka.sql.language.statements import Format, Role

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUE, TIME = "_decoded", "_timestamp"
# the record's own columns, by the names that a query may have for them; ROWTIME is ksqlDB's
RECORD = {
    "_key": "cast(key as string)",
    "_topic": "topic",
    "_partition": "partition",
    "_offset": "offset",
    "rowpartition": "partition",
    "rowoffset": "offset",
    IS_PRESENT: "value is not null",
    CHANGED_KEY: "key",
    CHANGED_AT: "offset",
}
OF_TIME = {TIME: TIME, "rowtime": f"unix_millis({TIME})"}
NEWEST = "_newest"


def topic_frame(spark: "SparkSession", options: Mapping[str, str], *, is_push: bool) -> DataFrame:
    """Return the records of a topic as text. `options`: of the source."""
    return _records(spark, options, is_push).selectExpr(*AS_TEXT)


def stream_frame(
    spark: "SparkSession",
    stream: Stream,
    options: Mapping[str, str],
    mentioned: Collection[str],
    registry: RegistryAccess | None,
    *,
    is_push: bool,
) -> DataFrame:
    """Return the rows of a stream or a table; records that do not fit are left out.

    `options`: of the source. `mentioned`: words of the query in lower case.
    """
    has_headers = any(each.role in (Role.HEADERS, Role.HEADER) for each in stream.columns)
    if has_headers:
        options = {**options, "includeHeaders": "true"}
    records = _records(spark, options, is_push)
    if stream.kind == "TABLE":
        records = records.where("key is not null")
        records = records if is_push else _newest(records)
    if stream.fields:
        records = records.select("*", _decoded(stream, registry).alias(VALUE))
        is_good = f.col(VALUE)[ERROR].isNull()
        # a record without a value is a row that was deleted
        if stream.kind == "TABLE":
            is_good = is_good | f.col("value").isNull()
        records = records.where(is_good)
    return _columns(stream, records, {each.lower() for each in mentioned}, is_push)


def _records(spark: "SparkSession", options: Mapping[str, str], is_push: bool) -> DataFrame:
    reader = spark.readStream if is_push else spark.read
    return reader.format("raftka").options(**options).load()


def _newest(records: DataFrame) -> DataFrame:
    """Return the newest record of each key. All records of a key are in one partition."""
    newest = f.max_by(f.struct("*"), f.col("offset")).alias(NEWEST)
    found = records.groupBy(f.col("key").alias("_group")).agg(newest).select(f"{NEWEST}.*")
    return found.where("value is not null")


def _decoded(stream: Stream, registry: RegistryAccess | None) -> Column:
    """Return a struct of the fields, and of `_error`: not null where the record does not fit."""
    shape = StructType.fromJson(spark_json(stream.fields))
    if stream.format is Format.DELIMITED:
        separator = stream.options.delimiter or ","
        # the error is the text of a line that does not fit
        options = {"sep": separator, "columnNameOfCorruptRecord": ERROR, "mode": "PERMISSIVE"}
        line = f.col("value").cast("string")
        return f.from_csv(line, shape.add(ERROR, "string").toDDL(), options)
    decoder = Decoder((stream.format.decoded_as,), stream.fields, {}, registry)

    def decode(values: pa.Array) -> pa.Array:
        return decoder.columns(values)

    # Said to be random, so that Spark does not decode once to filter and once more to select.
    return arrow_udf(decode, shape.add(ERROR, "string")).asNondeterministic()(f.col("value"))


def _columns(
    stream: Stream, records: DataFrame, mentioned: Collection[str], is_push: bool
) -> DataFrame:
    keys = _key_columns(stream)
    found = {
        each.name: keys[each.name] if each.name in keys else _column(each)
        for each in stream.columns
    }
    timestamp, delay = stream.options.timestamp, stream.options.watermark
    column = next(
        (each for each in stream.columns if each.name.lower() == (timestamp or "").lower()), None
    )
    if column is None:
        records = records.withColumn(TIME, f.col("timestamp"))
    elif column.kind == "bigint":
        records = records.withColumn(TIME, f.timestamp_millis(found[column.name]))
    else:
        records = records.withColumn(TIME, found[column.name])
    if delay is not None and is_push:
        records = records.withWatermark(TIME, delay)
    if column is not None and column.kind == "timestamp":
        found[column.name] = f.col(TIME)
    own = {**RECORD, **OF_TIME}
    return records.select(
        *(column.alias(name) for name, column in found.items()),
        *(f.expr(text).alias(name) for name, text in own.items() if name in mentioned),
    )


def typed_key(key: Column, column: Declared) -> Column:
    """Return the value of a key's bytes; null where they are none of its type."""
    return key if column.kind == "binary" else key.cast("string").try_cast(spark_type(column))


def _key_columns(stream: Stream) -> dict[str, Column]:
    """Return the columns that a record's key has. Several are the fields of an object of JSON."""
    if stream.key is not None:
        return {stream.key.name: typed_key(f.col("key"), stream.key)}
    shape = StructType([StructField(each.name, spark_type(each)) for each in stream.keys])
    key = f.from_json(f.col("key").cast("string"), shape)
    return {each.name: key[each.name] for each in stream.keys}


def _column(column: Declared) -> Column:
    if column.role is Role.HEADERS:
        return f.col("headers")
    if column.role is Role.HEADER:
        matching = f.filter("headers", lambda header: header["key"] == f.lit(column.header))
        newest = f.try_element_at(matching, f.lit(-1))["value"]
        return newest.cast("string") if column.kind == "string" else newest
    return f.col(VALUE)[column.name]


def spark_type(column: Declared) -> DataType:
    """Return the type of a column in Spark."""
    return StructType.fromJson(spark_json((Field("c", column.kind),)))[0].dataType
