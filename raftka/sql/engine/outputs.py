"""Rows of a persistent query as records of its stream's topic: their columns, and what cannot be
written. Records are written exactly once.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from raftka.json_values import Json
from raftka.pipeline.flows.graph import file_manager
from raftka.pipeline.records.fields import Exact, Field, Group, Kind, Many, MapOf
from raftka.pipeline.sql import sentence_of
from raftka.pipeline.topics.decisions import Decision
from raftka.pipeline.topics.exactly_once import Part, begin, commit
from raftka.pipeline.topics.sink import EXACTLY_ONCE, SinkOptions, sink_options, write_task
from raftka.sql.catalog import PersistentQuery, Stream
from raftka.sql.engine.analysis import Asked
from raftka.sql.engine.frames import typed_key
from raftka.sql.engine.table_keys import groups_of, plan_of
from raftka.sql.engine.values import value_of
from raftka.sql.language.changes import HIDDEN, IS_ROW, ROW_KEY, ROW_ORDER
from raftka.sql.language.statements import Column, Format, Role
from raftka.sql.language.types import quoted, type_text
from raftka.sql.registration import ValueWriter

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

EVERY = "250 milliseconds"
KINDS = {
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "bigint",
    "timestamp_ntz": "timestamp",
    **{
        each: each
        for each in ("boolean", "float", "double", "string", "binary", "timestamp", "date")
    },
}
UNSUPPORTED_MODE = "STREAMING_OUTPUT_MODE"
WINDOWS = ("window", "session_window")
JOIN, WATERMARK = re.compile(r"\.Join$"), re.compile(r"\.EventTimeWatermark$")


def mode_of(frame: DataFrame, kind: str, *, is_final: bool = False) -> str:
    """Return the output mode of a query: rows of a table are written whenever they change.
    `is_final`: each once, when it changes no more.
    """
    has_changes = kind == "TABLE" and not is_final
    is_changing = has_changes and (ROW_KEY in frame.columns or groups_of(frame) is not None)
    return "update" if is_changing else "append"


def check_streaming(
    frame: DataFrame, asked: Asked, mentioned: Sequence[str], mode: str = "append"
) -> None:
    """Raise StatementError for a query whose rows cannot be written in this mode."""
    if not frame.isStreaming:
        raise asked.error(
            "this query reads no stream, so no rows would come. Next step: name one in FROM"
        )
    _check_join(frame, asked)
    jvm = frame.sparkSession._jvm
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    try:
        checker.checkForStreaming(
            frame._jdf.queryExecution().analyzed(),
            modes.Update() if mode == "update" else modes.Append(),
        )
    except AnalysisException as error:
        if mode == "update" or not str(error.getCondition()).startswith(UNSUPPORTED_MODE):
            raise asked.error(sentence_of(error)) from None
        at = asked.query.lower().find("group by")
        place = at if at >= 0 else None
        if any(each in mentioned for each in WINDOWS):
            raise asked.error(
                "a window is written when it is closed, and nothing says how late a record may be. "
                "Next step: WINDOW ... (..., GRACE PERIOD 10 SECONDS), or create the stream that "
                "is read WITH (WATERMARK='10 seconds')",
                place,
            ) from None
        raise asked.error(
            "the rows of a GROUP BY without a window change for ever, and a stream only grows. "
            "Next step: CREATE TABLE ... AS SELECT, which has the newest row of each group, or "
            "WINDOW TUMBLING (SIZE 1 MINUTE) before the GROUP BY",
            place,
        ) from None


def _check_join(frame: DataFrame, asked: Asked) -> None:
    """Refuse a join of streams that nothing says the age of rows for."""
    nodes = [str(each["class"]) for each in plan_of(frame)]
    if any(map(JOIN.search, nodes)) and not any(map(WATERMARK.search, nodes)):
        at = asked.query.lower().find("join")
        raise asked.error(
            "a join of streams would keep all their rows for ever. Next step: WITHIN 10 MINUTES "
            "before its ON, for rows whose times are so close",
            at if at >= 0 else None,
        )


def columns_of(
    frame: DataFrame, keys: Sequence[str], form: Format, asked: Asked, role: Role = Role.KEY
) -> tuple[Column, ...]:
    """Return the columns of the stream of this format that gets these rows: those of the key in
    its order. Raise StatementError.
    """
    frame = frame.drop(*HIDDEN)
    _check_names(frame.columns, asked)
    fields = frame.schema.jsonValue()["fields"]
    found = {
        each["name"].lower(): Column(each["name"], _kind(each["type"], each["name"], asked))
        for each in fields
    }
    wanted = [each.lower() for each in keys]
    for name, each in found.items():
        has_no_place = form not in (Format.AVRO, Format.PROTOBUF) and _is_binary(each.kind)
        if has_no_place and name not in wanted:
            raise asked.error(
                f"the column {each.name} has bytes, which {form} has no place for. Next step: "
                "base64() or CAST"
            )
    for key in wanted:
        if key not in found:
            raise asked.error(
                f"the query has no column {key} for PARTITION BY. Next step: SELECT it too"
            )
        kind = found[key].kind
        if not isinstance(kind, str):
            raise asked.error(
                f"the key {key} is {type_text(kind)}, which has no text. Next step: to_json({key})"
            )
        is_required = role is Role.PRIMARY_KEY
        found[key] = replace(found[key], role=role, is_required=is_required)
    ordered = iter(wanted)
    return tuple(found[next(ordered) if name in wanted else name] for name in found)


def _check_names(names: Sequence[str], asked: Asked) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise asked.error(f"the column {name} is there twice. Next step: name one with AS")
        if name.startswith("_"):
            raise asked.error(
                f"the column {name} has the name of a record's own. Next step: name it with AS"
            )
        seen.add(name.lower())


def _kind(found: Json, where: str, asked: Asked) -> Kind:
    if isinstance(found, str):
        if found in KINDS:
            return KINDS[found]
        if found.startswith("decimal("):
            digits, scale = found.removeprefix("decimal(").removesuffix(")").split(",")
            return Exact(int(digits), int(scale))
    elif found["type"] == "array":
        return Many(_kind(found["elementType"], where, asked))
    elif found["type"] == "map" and found["keyType"] == "string":
        return MapOf(_kind(found["valueType"], where, asked))
    elif found["type"] == "struct":
        return Group(
            tuple(
                Field(each["name"], _kind(each["type"], where, asked), nullable=True)
                for each in found["fields"]
            )
        )
    raise asked.error(f"the column {where} has a type that no record has. Next step: CAST it")


def check_target(frame: DataFrame, target: Stream, asked: Asked) -> None:
    """Raise StatementError for rows that are none of the stream's."""
    _check_names(frame.drop(*HIDDEN).columns, asked)
    names = {each.lower() for each in frame.columns}
    keys = [each.name for each in target.keys if each.name.lower() in names]
    given = {each.name.lower(): each for each in columns_of(frame, keys, target.format, asked)}
    wanted = {
        each.name.lower(): each
        for each in target.columns
        if each.role not in (Role.HEADERS, Role.HEADER)
    }
    if unknown := [given[name].name for name in given.keys() - wanted.keys()]:
        raise asked.error(
            f"{target.name} has no column {sorted(unknown)[0]}. It has "
            f"{', '.join(each.name for each in wanted.values())}"
        )
    for name, column in wanted.items():
        if name not in given:
            if column.is_required:
                raise asked.error(
                    f"{target.name} needs the column {column.name}. Next step: SELECT it too"
                )
        elif given[name].kind != column.kind:
            raise asked.error(
                f"{column.name} is {type_text(given[name].kind)} here and "
                f"{type_text(column.kind)} in {target.name}. Next step: CAST it"
            )
    if target.format is Format.DELIMITED and not all(
        isinstance(each.kind, str | Exact) for each in wanted.values()
    ):
        raise asked.error(
            "a delimited record has no lists, maps or structs. Next step: to_json() them"
        )


def _is_binary(kind: Kind) -> bool:
    if isinstance(kind, Group):
        return any(_is_binary(each.kind) for each in kind.fields)
    if isinstance(kind, Many | MapOf):
        return _is_binary(kind.of)
    return kind == "binary"


def records_of(
    frame: DataFrame, target: Stream, writer: ValueWriter | None, more: Sequence[str] = ()
) -> DataFrame:
    """Return rows with the key and the value of a record, and with more columns of the frame.
    `writer`: of a format with a schema.
    """
    given = {name.lower(): frame[quoted(name)] for name in frame.columns}
    found = [value_of(given, target, writer).alias("value"), *(frame[each] for each in more)]
    names = {each.name: given.get(each.name.lower()) for each in target.keys}
    if any(each is not None for each in names.values()):
        found.insert(0, _key_of(target, names).alias("key"))
    if target.kind == "TABLE":  # its topic takes no record without a key
        for column in target.keys:
            frame = frame.where(given[column.name.lower()].isNotNull())
    return frame.select(*found)


def _key_of(target: Stream, given: Mapping[str, Expression | None]) -> Expression:
    """Return the key of a record: its text, and of several columns an object of JSON. `given`: the
    query's, by the names of the target's key.
    """
    parts = {name: f.lit(None) if part is None else part for name, part in given.items()}
    if target.key is not None:
        key = parts[target.key.name]
        return key if target.key.kind == "binary" else key.cast("string")
    struct = f.struct(*(part.alias(name) for name, part in parts.items()))
    return f.to_json(struct, {"ignoreNullFields": "false"})


def start(
    frame: DataFrame,
    target: Stream,
    query: PersistentQuery,
    checkpoint: Path,
    connection: Mapping[str, str],
    writer: ValueWriter | None,
) -> "StreamingQuery":
    """Start a query that goes on where it was. `writer`: of a format with a schema. Raise Spark's
    errors.
    """
    own = frame.sparkSession
    # Spark looks for the sink's name in the session of the thread
    own._get_j_spark_session_class(own._jvm).setActiveSession(own._jsparkSession)
    for setting, value in file_manager(own, str(checkpoint)).items():
        own.conf.set(setting, value)
    # one task writes: each partition of a topic must have one writer
    mode = mode_of(frame, target.kind, is_final=query.is_final)
    records = changed_records if mode == "update" else records_of
    stream = (
        records(frame, target, writer)
        .repartition(1)
        .writeStream.queryName(query.name)
        .outputMode(mode)
        .trigger(processingTime=EVERY)
        .option("checkpointLocation", str(checkpoint))
    )
    options = {**connection, "topic": target.topic, "deliveryGuarantee": EXACTLY_ONCE}
    if mode == "append":
        return stream.format("raftka").options(**options).start()
    # its connections: two queries must not share them
    options |= {
        "kafka.client.id": f"raftka-sql-{query.name}",
        "checkpointLocation": str(checkpoint),
    }
    sink = sink_options(
        {name.lower(): value for name, value in options.items()},
        {"key": "string", "value": "string"},
        streaming=True,
    )
    return stream.foreachBatch(partial(write_changes, sink)).start()


def changed_records(frame: DataFrame, target: Stream, writer: ValueWriter | None) -> DataFrame:
    """Return rows with the key and the value of a record: of a row that leaves without a value."""
    more = [each for each in HIDDEN if each in frame.columns]
    if ROW_KEY in more and target.key is not None:  # a row that leaves has no other key
        name = next(each for each in frame.columns if each.lower() == target.key.name.lower())
        frame = frame.withColumn(name, typed_key(f.col(ROW_KEY), target.key))
    records = records_of(frame, target, writer, more)
    if IS_ROW in more:
        records = records.withColumn("value", f.when(f.col(IS_ROW), f.col("value")))
    return records.drop(IS_ROW, ROW_KEY)


def write_changes(sink: SinkOptions, batch: DataFrame, number: int) -> None:
    """Write changed rows in a transaction, in the driver: Spark hands them to no sink in Python.
    Raise PipelineError.
    """
    its = sink.transactional
    assert its is not None, "it is exactly once"
    if ROW_ORDER in batch.columns:  # a key may be there twice
        batch = batch.groupBy("key").agg(f.max_by("value", ROW_ORDER).alias("value"))
    rows = batch.toArrow().to_batches()
    brokers = sink.brokers()
    handle = begin(brokers, its.transactional_id, its.timeout_ms)
    part = Part(handle, Decision(its.transactional_id, number), 0, 0)
    commit(brokers, [write_task(sink, rows, part)], number)
