"""Statements about topics, which need no Spark: lists, records as they come, rows of VALUES."""

import json
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from raftka.client.blocking.producer import Producer, partition_of
from raftka.client.blocking.reader import FetchedRecord, Reader
from raftka.client.blocking.topics import create_topics, delete_topics
from raftka.json_values import Json, JsonObject
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.records.fields import Exact, Group, Kind, Many, MapOf, fitting, member
from raftka.pipeline.records.registry_client import RegistryAccess, SchemaRefused
from raftka.pipeline.records.schema_readers import RegistryReader
from raftka.pipeline.sql import plain
from raftka.pipeline.topics.brokers import DECISIONS, STATEMENTS, Brokers, as_pipeline_errors
from raftka.pipeline.topics.options import EARLIEST, LATEST
from raftka.schemas.framing import MAGIC
from raftka.schemas.values import Misfit
from raftka.sql.answers import Answer, Column, table
from raftka.sql.catalog import Stream, is_key
from raftka.sql.language.errors import StatementError
from raftka.sql.language.statements import Format, InsertValues, Role
from raftka.sql.registered import registry_of
from raftka.sql.registration import ValueWriter, registered_id
from raftka.wire.errors import Code, name_of_code

POLL_S, AT_ONCE = 0.25, 500
EXACT_DIGITS = 15  # of a decimal that survive in a number of JSON
DESCRIBED = (
    ("key", "STRING"),
    ("value", "STRING"),
    ("partition", "INT"),
    ("offset", "BIGINT"),
    ("timestamp", "TIMESTAMP"),
)
PRINTED = (
    Column("timestamp", "BIGINT"),
    Column("partition", "INT"),
    Column("offset", "BIGINT"),
    Column("key", "STRING"),
    Column("value", "STRING"),
)


def show_topics(brokers: Brokers) -> Answer:
    with as_pipeline_errors():
        found = brokers.metadata(None).topics
    rows = [
        [each.name, len(each.partitions), max(len(one.replica_nodes) for one in each.partitions)]
        for each in sorted(found, key=lambda topic: str(topic.name))
        if not each.error_code and not each.is_internal and each.name not in (DECISIONS, STATEMENTS)
    ]
    return table((("topic", "STRING"), ("partitions", "INT"), ("replicas", "INT")), rows)


def make_topic(
    brokers: Brokers, name: str, partitions: int, replicas: int, config: Mapping[str, str]
) -> None:
    """Make a topic unless it is there. -1: as many as brokers give. Raise PipelineError."""
    with as_pipeline_errors():
        (answer,) = create_topics(brokers, [name], partitions, replicas, config)
    if answer.error_code not in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):
        raise PipelineError(
            f"the topic {name} cannot be made: {name_of_code(answer.error_code)} "
            f"{answer.error_message or ''}".rstrip()
        )


def remove_topic(brokers: Brokers, name: str) -> None:
    """Raises PipelineError."""
    with as_pipeline_errors():
        (answer,) = delete_topics(brokers, [name])
    if answer.error_code not in (Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION):
        raise PipelineError(
            f"the topic {name} cannot be deleted: {name_of_code(answer.error_code)}"
        )


# PRINT


def print_topic(
    brokers: Brokers,
    topic: str,
    registry: RegistryAccess | None,
    *,
    from_beginning: bool,
    limit: int | None,
) -> Answer:
    """Return the records of a topic as they come, until `limit` or for ever. The answer closes the
    brokers.
    """
    wheres = [(topic, each) for each in brokers.topics([topic])[topic].partitions]
    at = EARLIEST if from_beginning else LATEST
    reader = Reader(brokers, brokers.offsets(dict.fromkeys(wheres, at)), committed=True)
    stopping = threading.Event()
    rows = _printed(brokers, reader, registry, limit, stopping)
    return Answer(PRINTED, rows, is_live=True, close=stopping.set)


def _printed(
    brokers: Brokers,
    reader: Reader,
    registry: RegistryAccess | None,
    limit: int | None,
    stopping: threading.Event,
) -> Iterator[Sequence[Json]]:
    count = 0
    try:
        while not stopping.is_set():
            with as_pipeline_errors():
                records = reader.poll(POLL_S, AT_ONCE)
            for record in records:
                if stopping.is_set() or count == limit:
                    return
                count += 1
                yield _printed_row(record, registry)
            if count == limit:
                return
    finally:
        reader.close()
        brokers.close()


def _printed_row(record: FetchedRecord, registry: RegistryAccess | None) -> Sequence[Json]:
    return [
        record.timestamp,
        record.partition,
        record.offset,
        plain(record.key),
        _shown_value(record.value, registry),
    ]


def _shown_value(value: bytes | None, registry: RegistryAccess | None) -> Json:
    """Return the text of a value; of one behind a schema id, what its schema reads there."""
    if value and value[0] == MAGIC and registry is not None:
        try:
            return plain(RegistryReader.of(registry, ("json", "avro", "protobuf")).value(value))
        except Misfit:
            return plain(value)
    return plain(value)


# VALUES


def insert(
    brokers: Brokers, target: Stream, statement: InsertValues, registry: RegistryAccess | None
) -> int:
    """Write rows as records of the stream's topic; return how many. Raise StatementError for rows
    that do not fit, before one is written, and PipelineError.
    """

    def refuse(message: str) -> StatementError:
        return StatementError(message, statement.text, statement.at)

    columns = {
        each.name.lower(): each
        for each in target.columns
        if each.role not in (Role.HEADERS, Role.HEADER)
    }
    names = statement.columns or [each.name for each in columns.values()]
    for name in names:
        if name.lower() not in columns:
            known = ", ".join(each.name for each in columns.values())
            raise refuse(f"{target.name} has no column {name}. It has {known}")
    if len({name.lower() for name in names}) < len(names):
        raise refuse("a column is there twice. Next step: leave one out")
    try:
        schema_id = registered_id(registry, target, is_new=False)
    except SchemaRefused as refused:
        raise refuse(str(refused)) from None
    writer = (
        None if schema_id is None else ValueWriter(registry_of(registry), target.format, schema_id)
    )
    records = []
    for number, row in enumerate(statement.rows, 1):
        where = f"row {number}: " if len(statement.rows) > 1 else ""
        if len(row) != len(names):
            raise refuse(f"{where}there are {len(row)} values for {len(names)} columns")
        given = {name.lower(): value for name, value in zip(names, row, strict=True)}
        try:
            records.append(_record(target, given, writer))
        except Misfit as misfit:
            raise refuse(f"{where}{misfit}") from None
    _write(brokers, target.topic, records)
    return len(records)


def _record(
    target: Stream, given: Mapping[str, Json], writer: ValueWriter | None
) -> tuple[bytes | None, bytes | None]:
    """Return key and value of a record. Raise Misfit and PipelineError."""
    values: JsonObject = {}
    keys: JsonObject = {}
    for each in target.columns:
        value = given.get(each.name.lower())
        if each.role in (Role.HEADERS, Role.HEADER):
            continue
        if value is None and each.is_required:
            raise Misfit(f"{each.name} may not be null")
        if value is not None:
            value = written(value, each.kind, each.name)
        (keys if is_key(each) else values)[each.name] = value
    return _key(target, keys), _encode(target, values, writer)


def _key(target: Stream, values: JsonObject) -> bytes | None:
    """Return the key of a record: the text of its value; of several the object of JSON that Spark
    writes. Raise Misfit.
    """
    if target.key is not None:
        value = values[target.key.name]
        return None if value is None else _text(value)
    if any(isinstance(each, bytes) for each in values.values()):
        raise Misfit("JSON has no place for bytes")
    if not values:
        return None
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()


def written(value: Json, kind: Kind, where: str) -> Json:
    """Return a value as JSON writes it. Raise Misfit for one that is not of the kind."""
    if value is None:
        return None
    if isinstance(kind, Many) and isinstance(value, list):
        return [written(each, kind.of, f"{where}[{at}]") for at, each in enumerate(value)]
    if isinstance(kind, MapOf) and isinstance(value, dict):
        return {name: written(each, kind.of, f"{where}[{name}]") for name, each in value.items()}
    if isinstance(kind, Group) and isinstance(value, dict):
        known = {each.name.lower(): each for each in kind.fields}
        for name in value:
            if name.lower() not in known:
                raise Misfit(f"{where} has no field {name}")
        return {
            known[name.lower()].name: written(each, known[name.lower()].kind, f"{where}.{name}")
            for name, each in value.items()
        }
    if isinstance(kind, Exact):
        fitting(value, kind, where)
        return str(value) if kind.digits > EXACT_DIGITS else float(value)
    if kind == "binary" and isinstance(value, str):
        return value.encode()
    if isinstance(value, Decimal):
        value = float(value)
    fitting(value, kind, where)
    return value


def _text(value: Json) -> bytes:
    if isinstance(value, bytes):
        return value
    return (str(value).lower() if isinstance(value, bool) else str(value)).encode()


def _encode(target: Stream, values: JsonObject, writer: ValueWriter | None) -> bytes:
    if target.format is Format.DELIMITED:
        return _line(values, target.options.delimiter or ",")
    if target.format.decoded_as == Format.JSON:
        if any(isinstance(each, bytes) for each in values.values()):
            raise Misfit("JSON has no place for bytes")
        return json.dumps(values, ensure_ascii=False).encode() if writer is None else writer(values)
    assert writer is not None, "its format has a schema"
    return writer({each.name: member(values, each) for each in target.fields})


def _line(values: JsonObject, delimiter: str) -> bytes:
    cells = []
    for name, value in values.items():
        if isinstance(value, list | dict | bytes):
            raise Misfit(f"{name}: a delimited record has plain values only")
        text = "" if value is None else _text(value).decode()
        if any(sign in text for sign in (delimiter, '"', "\n", "\r")):
            text = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        cells.append(text)
    return delimiter.join(cells).encode()


def _write(
    brokers: Brokers, topic: str, records: Sequence[tuple[bytes | None, bytes | None]]
) -> None:
    partitions = len(brokers.topics([topic])[topic].partitions)
    producer = Producer(brokers)
    with as_pipeline_errors():
        for key, value in records:
            where = (
                partition_of(key, partitions) if key is not None else random.randrange(partitions)
            )
            producer.add((topic, where), (key, value, (), time.time_ns() // 1_000_000))
        producer.flush()
