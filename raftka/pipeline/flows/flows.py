"""Turn the declarations of `streams.yml` into a Spark Declarative Pipeline: views, sinks, flows.
Runs in classic sessions and in Spark Connect's.

In a definition nothing may ask Spark what a frame looks like, and Connect's frames ask when they
are given a Python function: `told` spares them it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import StringType, StructType, TimestampType

from raftka.pipeline.flows.frames import PACKED, of_source, with_schema
from raftka.pipeline.flows.packing import Packing
from raftka.pipeline.flows.sources import declare_source
from raftka.pipeline.flows.streams import Declared, Output, StreamSpec, decoder_of, digest_of, load
from raftka.pipeline.records.arrow_types import ERROR
from raftka.pipeline.records.decoding import TEXT
from raftka.pipeline.records.fields import spark_json
from raftka.pipeline.topics.creation import ensure_topics
from raftka.pipeline.topics.shared import BAD, GOOD, RECORD
from raftka.pipeline.topics.shared import RAW as RAW_ROWS

RAW = StructType.fromJson(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in [
                ("key", "binary"),
                ("value", "binary"),
                ("topic", "string"),
                ("partition", "integer"),
                ("offset", "long"),
                ("timestamp", "timestamp"),
                ("timestampType", "integer"),
            ]
        ],
    }
)


def declare(path: str | Path = "streams.yml") -> Declared:
    """Call it in a file of the project. Topics that outputs need are made. Raises PipelineError."""
    found = load(Path(path).resolve())
    ensure_topics(found)
    for stream in found.streams:
        _views(found, stream)
    for source in found.sources:
        declare_source(source)
    for output in found.outputs:
        _output(found, output)
    return found


def raw(found: Declared, stream: StreamSpec, bounded: Mapping[str, str] | None = None) -> DataFrame:
    """Records as they are; with options of where they begin and end as a batch."""
    if bounded is None and _is_shared(found, stream):
        return with_schema(_shared(found, stream, RAW_ROWS), RAW)
    reader = SparkSession.active().readStream if bounded is None else SparkSession.active().read
    options = {**found.connection, "subscribe": stream.topic, **stream.options, **(bounded or {})}
    return with_schema(reader.format("raftka").options(**options).load(), RAW)


def _is_shared(found: Declared, stream: StreamSpec) -> bool:
    return stream.shared and found.file is not None


def _shared(
    found: Declared,
    stream: StreamSpec,
    rows: str,
    packing: Packing | None = None,
    batches: str | None = None,
) -> DataFrame:
    """Rows of a stream whose records are fetched and decoded once for all flows."""
    which = {
        "stream.file": str(found.file),
        "stream.name": stream.name,
        "stream.rows": rows,
        "stream.digest": digest_of(stream),
    }
    packs = {} if packing is None else {"stream.packing": packing.as_json()}
    if batches is not None:
        packs["stream.batches"] = batches
    options = {**found.connection, "subscribe": stream.topic, **stream.options, **which, **packs}
    return SparkSession.active().readStream.format("raftka_stream").options(**options).load()


def _packed(found: Declared, stream: StreamSpec, packing: Packing) -> DataFrame | None:
    """Packs made where records are read, with the watermark that the rows would have."""
    if packing.at != "_timestamp" or (
        stream.watermark is not None and stream.watermark[0] != packing.at
    ):
        return None
    frame = _shared(found, stream, GOOD, packing)
    if stream.watermark is not None:  # on the column that is dropped: what is late for it counts
        frame = frame.withWatermark(packing.at, stream.watermark[1])
    return with_schema(frame.drop(packing.at), PACKED)


def _shape(stream: StreamSpec) -> StructType:
    shape = StructType.fromJson(spark_json(stream.fields or TEXT))
    for each in RECORD:
        shape = shape.add(f"_{each}", RAW[each].dataType)
    return shape


def parsed(
    found: Declared, stream: StreamSpec, bounded: Mapping[str, str] | None = None
) -> DataFrame:
    """`_decoded` beside the record's own columns: its fields, or why there are none."""
    wanted = StructType.fromJson(spark_json(stream.fields or TEXT)).add(ERROR, "string")
    return _with_decoded(found, stream, bounded, decoder_of(stream).columns, wanted)


def _with_decoded(
    found: Declared,
    stream: StreamSpec,
    bounded: Mapping[str, str] | None,
    function: Callable[[pa.Array], pa.Array],
    kind: StructType | StringType,
) -> DataFrame:
    def decode(values: pa.Array) -> pa.Array:
        return function(values)

    # Said to be random, so that Spark does not decode once to filter and once more to select.
    decoded = arrow_udf(decode, kind).asNondeterministic()
    told = f.col("value") if stream.envelope is None else f.struct("key", "value")
    return raw(found, stream, bounded).select("*", decoded(told).alias("_decoded"))


def good(found: Declared, name: str, bounded: Mapping[str, str] | None = None) -> DataFrame:
    """Return the declared fields of a stream, and the columns of its records with _ before their
    names: the view of this name. For Python functions on streams.
    """
    stream = found.stream(name)
    if bounded is None and _is_shared(found, stream):
        rows = _shared(found, stream, GOOD)
    else:
        rows = parsed(found, stream, bounded).where(f"_decoded.{ERROR} is null")
        names = [each.name for each in stream.fields or TEXT]
        rows = rows.select(
            *[f.col(f"_decoded.{each}") for each in names],
            *[f.col(each).alias(f"_{each}") for each in RECORD],
        )
    rows = with_schema(
        rows if stream.watermark is None else rows.withWatermark(*stream.watermark), _shape(stream)
    )
    return (
        of_source(rows, partial(_packed, found, stream))
        if bounded is None and _is_shared(found, stream)
        else rows
    )


def bad(found: Declared, stream: StreamSpec, bounded: Mapping[str, str] | None = None) -> DataFrame:
    """Return dead letters: the records as they were, with headers for the place and the error."""
    if bounded is None and _is_shared(found, stream):
        return _shared(found, stream, BAD)
    # The errors alone: the fields of the records that fit would go from Python to Java for nothing.
    rows = _with_decoded(found, stream, bounded, decoder_of(stream).errors, StringType()).where(
        "_decoded is not null"
    )
    headers = {
        "topic": "topic",
        "partition": "partition",
        "offset": "offset",
        "timestamp": "unix_millis(timestamp)",
        "error": "_decoded",
    }
    pairs = ", ".join(
        f"named_struct('key', '{name}', 'value', cast(cast({what} as string) as binary))"
        for name, what in headers.items()
    )
    return rows.selectExpr("key", "value", f"array({pairs}) as headers")


def _views(found: Declared, stream: StreamSpec) -> None:
    dp.temporary_view(name=f"{stream.name}_raw")(lambda: raw(found, stream))
    dp.temporary_view(name=stream.name)(lambda: good(found, stream.name))
    dp.temporary_view(name=f"{stream.name}_bad")(lambda: bad(found, stream))


def _output(found: Declared, output: Output) -> None:
    if output.sink is not None:
        dp.create_sink(output.name, output.sink.format, dict(output.sink.options))
    elif output.topic is not None:
        dp.create_sink(
            output.name, "raftka", {**found.connection, "topic": output.topic, **output.options}
        )
    else:
        dp.create_sink(output.name, "raftka_delta", {"path": str(output.path), **output.options})
    if output.source is not None:
        dp.append_flow(target=output.name, name=output.name)(lambda: _rows(found, output))


def _rows(found: Declared, output: Output) -> DataFrame:
    whole = _batched(found, output)
    if whole is not None:
        return whole
    frame = SparkSession.active().readStream.table(str(output.source))
    frame = frame.selectExpr(*output.columns) if output.columns else frame
    return frame if output.key is None else as_json(frame, output.key)


def _batched(found: Declared, output: Output) -> DataFrame | None:
    """Return all rows of a stream, for a lake, in record batches. None: the query needs single
    rows, or it is Spark Connect's, where a query has no setting for one batch at a time.
    """
    if output.path is None or output.columns or "connect" in type(SparkSession.active()).__module__:
        return None
    for stream in found.streams:
        if not _is_shared(found, stream):
            continue
        if output.source == f"{stream.name}_raw":
            return _shared(found, stream, RAW_ROWS, batches="")
        if output.source == stream.name and stream.watermark is None:
            return _shared(found, stream, GOOD, batches="")
        if (
            output.source == stream.name
            and stream.watermark is not None
            and stream.watermark[0] in _times(stream)
        ):
            column, delay = stream.watermark
            return (
                _shared(found, stream, GOOD, batches=column)
                .withWatermark(column, delay)
                .drop(column)
            )
    return None


def _times(stream: StreamSpec) -> list[str]:
    return [each.name for each in _shape(stream) if isinstance(each.dataType, TimestampType)]


def as_json(frame: DataFrame, key: str) -> DataFrame:
    """A record of each row: all its columns, its key being one of them."""
    return frame.select(
        f.col(key).cast("string").alias("key"), f.to_json(f.struct("*")).alias("value")
    )
