"""Rows to topics: which column is what, and the tasks that write them. Knows Arrow, and Spark's order of calls, and no Spark.

What is promised now is at least once: a task that is done again writes its rows again. The commit protocol is laid out for one transaction a batch,
so that exactly once changes no job: the driver makes an `Identity` before the tasks (when Spark pickles the writer), each task writes under it, and
the driver's commit ends the transaction, with the batch's number among its records. Until then there is no identity to hand out, each task asks for
its own, and commit has nothing to end.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from raftka.client.blocking.producer import BATCH_BYTES, Identity, Producer, partition_of
from raftka.client.connection import Address
from raftka.json_values import Json
from raftka.pipeline.errors import OptionRefused, PipelineError
from raftka.pipeline.topics.brokers import Brokers, as_pipeline_errors, kept_brokers
from raftka.pipeline.topics.options import PATIENCE_MS, addresses, check_kafka, refuse_unknown
from raftka.wire.compression import NAMES

if TYPE_CHECKING:
    import pyarrow as pa

WRITTEN = ["topic", "includeHeaders", "checkpointLocation", "queryName"]
COLUMNS = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("integer",),
    "headers": ("array",),
}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    bootstrap: tuple[Address, ...]
    topic: str | None = None
    headers: bool = False
    compression: int = 0
    batch_bytes: int = BATCH_BYTES
    client_id: str = "raftka-spark"
    patience_ms: int = PATIENCE_MS


@dataclass(frozen=True, slots=True)
class Written:
    """A task's result for the driver."""

    records: int
    identity: Identity | None = None


def sink_options(given: Mapping[str, str], columns: Mapping[str, str]) -> SinkOptions:
    """`columns`: names and Spark's names of their types. Raises OptionRefused."""
    options = {name.lower(): value for name, value in given.items()}
    kafka = {name[len("kafka.") :]: value for name, value in options.items() if name.startswith("kafka.")}
    known = {name.lower() for name in [*WRITTEN, "path"]}
    refuse_unknown([name for name in options if name not in known and not name.startswith("kafka.")], WRITTEN)
    check_kafka(kafka)
    _check_columns(columns, options.get("topic"))
    for name, allowed in (("acks", ("all", "-1")), ("enable.idempotence", ("true",))):
        if kafka.get(name, allowed[0]).lower() not in allowed:
            raise OptionRefused(f"kafka.{name}={kafka[name]} would lose or double records: it is always {allowed[0]} here")
    if "transactional.id" in kafka:
        raise OptionRefused("kafka.transactional.id cannot be set: transactions would hold the records of a task, not of a batch")
    compression = kafka.get("compression.type", "none").lower()
    if compression not in NAMES:
        raise OptionRefused(f"kafka.compression.type is {compression!r}: {', '.join(NAMES)}")
    size = kafka.get("batch.size", str(BATCH_BYTES))
    if not size.isdecimal():
        raise OptionRefused(f"kafka.batch.size is {size!r}: it is to be a number of bytes")
    return SinkOptions(
        addresses(kafka), options.get("topic"), "headers" in columns, NAMES.index(compression), int(size), kafka.get("client.id", "raftka-spark")
    )


def _check_columns(columns: Mapping[str, str], topic: str | None) -> None:
    if "value" not in columns:
        raise OptionRefused(f"there is no column value among {', '.join(columns)}: select(to_json(struct('*')).alias('value')) makes one")
    if topic is None and "topic" not in columns:
        raise OptionRefused('where to? .option("topic", "name"), or a column topic')
    for name, kinds in COLUMNS.items():
        if name in columns and columns[name] not in kinds:
            raise OptionRefused(f"column {name} is of type {columns[name]}; it is to be {' or '.join(kinds)}: cast it")


def write_task(options: SinkOptions, batches: Iterable[object], identity: Identity | None = None) -> Written:
    """Returns when all rows are acknowledged. Raises PipelineError."""
    brokers: Brokers = kept_brokers(options.bootstrap, options.client_id, options.patience_ms / 1000)
    producer = Producer(brokers, compression=options.compression, identity=identity, max_batch_bytes=options.batch_bytes)
    places = _Places(brokers)
    now_ms = time.time_ns() // 1_000_000
    with as_pipeline_errors():
        for batch in batches:
            for topic, partition, key, value, headers in _rows(batch, options):
                producer.add((topic, places.of(topic, partition, key)), (key, value, headers, now_ms))
        producer.flush()
    return Written(producer.written, identity)


Cells = tuple[str, int | None, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]


def _rows(batch: "pa.RecordBatch", options: SinkOptions) -> Iterator[Cells]:
    import pyarrow as pa

    def column(name: str, kind: "pa.DataType | None" = None) -> list[Json]:
        if name not in batch.schema.names:
            return [None] * batch.num_rows
        found = batch.column(name)
        return found.to_pylist() if kind is None else found.cast(kind).to_pylist()  # type: ignore[no-any-return]

    topics = [options.topic] * batch.num_rows if options.topic is not None else column("topic")
    if None in topics:
        raise PipelineError("a row has no topic: its column topic is null. Filter such rows, or give the option topic, which counts for all")
    headers = column("headers") if options.headers else [None] * batch.num_rows
    lists = [[(each["key"], each["value"]) for each in found or ()] for found in headers]
    return zip(topics, column("partition"), column("key", pa.binary()), column("value", pa.binary()), lists, strict=True)


class _Places:
    """The partition of each row: its own, its key's, or for rows without both one after the other, a thousand rows each."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._counts: dict[str, int] = {}
        self._turns = count(time.monotonic_ns() // 1000 % 1000 * 1000)  # tasks do not all begin with the first one

    def of(self, topic: str, partition: int | None, key: bytes | None) -> int:
        if topic not in self._counts:
            self._counts.update(partition_counts(self._brokers, [topic]))
        partitions = self._counts[topic]
        if partition is not None:
            if not 0 <= partition < partitions:
                raise PipelineError(f"a row is for partition {partition} of {topic}, which has {partitions}, from 0 on")
            return partition
        return partition_of(key, partitions) if key is not None else next(self._turns) // 1000 % partitions


def partition_counts(brokers: Brokers, topics: Sequence[str]) -> Mapping[str, int]:
    """Raises PipelineError for a topic that is not there: nothing makes it in passing."""
    found = brokers.topics(topics)
    if missing := sorted(set(topics) - found.keys()):
        raise PipelineError(f"there is no topic {missing[0]} to write to: `raftka topics create {missing[0]}` makes it")
    return {name: len(topic.partitions) for name, topic in found.items()}
