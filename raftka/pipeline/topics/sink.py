"""Rows to topics: the meaning of each column, and the tasks that write them. Knows Arrow, and no
Spark.

At least once: a task that is done again writes its rows again. Exactly once: the tasks of a batch
write in its transaction (`exactly_once.py`).
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from raftka.client.blocking.producer import BATCH_BYTES, Producer, partition_of
from raftka.client.connection import Address
from raftka.json_values import Json
from raftka.pipeline.errors import OptionRefused, PipelineError
from raftka.pipeline.topics.brokers import Brokers, as_pipeline_errors, kept_brokers
from raftka.pipeline.topics.exactly_once import Part, Written, writing
from raftka.pipeline.topics.options import PATIENCE_MS, addresses, check_kafka, refuse_unknown
from raftka.pipeline.topics.security import security_of
from raftka.security.client_security import PLAINTEXT, ClientSecurity
from raftka.wire.compression import NAMES

if TYPE_CHECKING:
    import pyarrow as pa

WRITTEN = ["topic", "includeHeaders", "checkpointLocation", "queryName", "deliveryGuarantee"]
AT_LEAST_ONCE, EXACTLY_ONCE = "at-least-once", "exactly-once"
# as long as brokers allow unless told: a batch that takes longer is done again
TRANSACTION_MS = 900_000
LONGEST_TRANSACTION_MS = 3_600_000  # claims are kept longer
COLUMNS = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("integer",),
    "headers": ("array",),
}


@dataclass(frozen=True, slots=True)
class Transactional:
    """Of a stream that is written exactly once. `given_id`: None: made of the id of the query,
    which is in its checkpoint.
    """

    given_id: str | None
    checkpoint: str
    timeout_ms: int = TRANSACTION_MS

    @property
    def transactional_id(self) -> str:
        """Raises OptionRefused."""
        if self.given_id is not None:
            return self.given_id
        for folder in self._folders():
            try:
                return f"raftka-spark-{json.loads((folder / 'metadata').read_text())['id']}"
            except (OSError, ValueError, KeyError, TypeError):
                continue
        raise OptionRefused(
            f"deliveryGuarantee={EXACTLY_ONCE} needs a name that is the query's alone, and the "
            "driver cannot read one in the checkpoint "
            f"{self.checkpoint or '(none is set as an option)'}: set checkpointLocation to a "
            "folder of the driver's machine, or "
            "kafka.transactional.id to a name that no other query has"
        )

    def _folders(self) -> tuple[Path, ...]:
        """Return the folders that the option may mean: Spark makes a URI of a folder, and of a URI
        sometimes another one.
        """
        scheme, separator, rest = self.checkpoint.partition(":")
        if not separator or scheme != "file":
            return (Path(self.checkpoint),)
        once = unquote("/" + rest.lstrip("/"))
        return Path(once), Path(unquote(once))


@dataclass(frozen=True, slots=True)
class SinkOptions:
    bootstrap: tuple[Address, ...]
    topic: str | None = None
    headers: bool = False
    compression: int = 0
    batch_bytes: int = BATCH_BYTES
    client_id: str = "raftka-spark"
    patience_ms: int = PATIENCE_MS
    transactional: Transactional | None = None
    security: ClientSecurity = PLAINTEXT

    def brokers(self) -> Brokers:
        return kept_brokers(
            self.bootstrap, self.client_id, self.patience_ms / 1000, security=self.security
        )


def sink_options(
    given: Mapping[str, str], columns: Mapping[str, str], *, streaming: bool = False
) -> SinkOptions:
    """`columns`: names and Spark's names of their types. Raises OptionRefused."""
    options = {name.lower(): value for name, value in given.items()}
    kafka = {
        name[len("kafka.") :]: value for name, value in options.items() if name.startswith("kafka.")
    }
    known = {name.lower() for name in [*WRITTEN, "path"]}
    refuse_unknown(
        [name for name in options if name not in known and not name.startswith("kafka.")], WRITTEN
    )
    check_kafka(kafka)
    _check_columns(columns, options.get("topic"))
    for name, allowed in (("acks", ("all", "-1")), ("enable.idempotence", ("true",))):
        if kafka.get(name, allowed[0]).lower() not in allowed:
            raise OptionRefused(
                f"kafka.{name}={kafka[name]} would lose or double records: it is always "
                f"{allowed[0]} here"
            )
    compression = kafka.get("compression.type", "none").lower()
    if compression not in NAMES:
        raise OptionRefused(f"kafka.compression.type is {compression!r}: {', '.join(NAMES)}")
    size = kafka.get("batch.size", str(BATCH_BYTES))
    if not size.isdecimal():
        raise OptionRefused(f"kafka.batch.size is {size!r}: it is to be a number of bytes")
    return SinkOptions(
        addresses(kafka),
        options.get("topic"),
        "headers" in columns,
        NAMES.index(compression),
        int(size),
        kafka.get("client.id", "raftka-spark"),
        transactional=_transactional(options, kafka, streaming=streaming),
        security=security_of(kafka),
    )


def _transactional(
    options: Mapping[str, str], kafka: Mapping[str, str], *, streaming: bool
) -> Transactional | None:
    guarantee = options.get("deliveryguarantee", AT_LEAST_ONCE).lower()
    if guarantee not in (AT_LEAST_ONCE, EXACTLY_ONCE):
        raise OptionRefused(
            f"deliveryGuarantee is {guarantee!r}: {AT_LEAST_ONCE} or {EXACTLY_ONCE}"
        )
    if guarantee == AT_LEAST_ONCE:
        if given := [
            name for name in ("transactional.id", "transaction.timeout.ms") if name in kafka
        ]:
            raise OptionRefused(
                f"kafka.{given[0]} has a meaning with deliveryGuarantee={EXACTLY_ONCE} only"
            )
        return None
    if not streaming:
        raise OptionRefused(
            f"deliveryGuarantee={EXACTLY_ONCE} is for streams: a batch query that is done again "
            "has no number to be known by"
        )
    timeout = kafka.get("transaction.timeout.ms", str(TRANSACTION_MS))
    if not timeout.isdecimal() or not 1 <= int(timeout) <= LONGEST_TRANSACTION_MS:
        raise OptionRefused(
            f"kafka.transaction.timeout.ms is {timeout!r}: it is to be a number of ms up to "
            f"{LONGEST_TRANSACTION_MS}"
        )
    return Transactional(
        kafka.get("transactional.id"), options.get("checkpointlocation", ""), int(timeout)
    )


def _check_columns(columns: Mapping[str, str], topic: str | None) -> None:
    if "value" not in columns:
        raise OptionRefused(
            f"there is no column value among {', '.join(columns)}: "
            "select(to_json(struct('*')).alias('value')) makes one"
        )
    if topic is None and "topic" not in columns:
        raise OptionRefused('where to? .option("topic", "name"), or a column topic')
    for name, kinds in COLUMNS.items():
        if name in columns and columns[name] not in kinds:
            raise OptionRefused(
                f"column {name} is of type {columns[name]}; it is to be {' or '.join(kinds)}: "
                "cast it"
            )


def write_task(
    options: SinkOptions, batches: "Iterable[pa.RecordBatch]", part: Part | None = None
) -> Written:
    """Returns when all rows are acknowledged. `part`: of a batch that is written exactly once.
    Raises PipelineError.
    """
    brokers = options.brokers()
    identity = None if part is None else part.handle.identity
    producer = Producer(
        brokers,
        compression=options.compression,
        identity=identity,
        max_batch_bytes=options.batch_bytes,
    )
    places = _Places(brokers)
    now_ms = time.time_ns() // 1_000_000
    is_decided = part is not None and part.is_decided
    with as_pipeline_errors(), ExitStack() as stack:
        is_writing = part is None
        for batch in batches:  # to the end: what Spark remembers is written when its rows are read
            if is_decided or not batch.num_rows:
                continue
            if part is not None and not is_writing:
                stack.enter_context(writing(brokers, part))
                is_writing = True
            for topic, partition, key, value, headers in _rows(batch, options):
                producer.add(
                    (topic, places.of(topic, partition, key)), (key, value, headers, now_ms)
                )
        producer.flush()
    return Written(producer.written, producer.partitions, part)


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
        raise PipelineError(
            "a row has no topic: its column topic is null. Filter such rows, or give the option "
            "topic, which counts for all"
        )
    headers = column("headers") if options.headers else [None] * batch.num_rows
    lists = [[(each["key"], each["value"]) for each in found or ()] for found in headers]
    return zip(
        topics,
        column("partition"),
        column("key", pa.binary()),
        column("value", pa.binary()),
        lists,
        strict=True,
    )


class _Places:
    """The partition of each row: its own, its key's, or for rows without both one after the other,
    a thousand rows each.
    """

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._counts: dict[str, int] = {}
        # tasks do not all begin with the first one
        self._turns = count(time.monotonic_ns() // 1000 % 1000 * 1000)

    def of(self, topic: str, partition: int | None, key: bytes | None) -> int:
        if topic not in self._counts:
            self._counts.update(partition_counts(self._brokers, [topic]))
        partitions = self._counts[topic]
        if partition is not None:
            if not 0 <= partition < partitions:
                raise PipelineError(
                    f"a row is for partition {partition} of {topic}, which has {partitions}, from "
                    "0 on"
                )
            return partition
        return (
            partition_of(key, partitions)
            if key is not None
            else next(self._turns) // 1000 % partitions
        )


def partition_counts(brokers: Brokers, topics: Sequence[str]) -> Mapping[str, int]:
    """Raises PipelineError for a topic that is not there: nothing makes it in passing."""
    found = brokers.topics(topics)
    if missing := sorted(set(topics) - found.keys()):
        raise PipelineError(
            f"there is no topic {missing[0]} to write to: `raftka topics create {missing[0]}` "
            "makes it"
        )
    return {name: len(topic.partitions) for name, topic in found.items()}
