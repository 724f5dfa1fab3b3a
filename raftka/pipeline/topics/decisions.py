"""The topic in which sinks keep what must outlive a driver: the last batch of each query that is in
its topics, and which tasks write a batch.

A *decision* is a record of the batch's own transaction, so it counts if and only if the batch does.
A *claim* is a plain record: of several attempts of a task, the first one in the log writes. Both
are found by the markers and records of the raw log. A consumer of committed records would not do:
it waits for the open transactions of all other queries.
"""

import json
import time
from collections.abc import Iterator
from typing import NamedTuple

from raftka.client.blocking.client import check
from raftka.client.blocking.producer import Producer
from raftka.client.blocking.transaction import Identity
from raftka.json_values import JsonObject
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.topics.brokers import DECISIONS, Brokers
from raftka.pipeline.topics.creation import create_topic
from raftka.versions import SINK_DECISIONS, NewerFormat
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.fetch import FETCH, READ_UNCOMMITTED
from raftka.wire.messages.list_offsets import EARLIEST, LATEST
from raftka.wire.records import (
    CONTROL,
    TRANSACTIONAL,
    BatchHeader,
    Record,
    crc_matches,
    iterate,
    records_of,
)

TOPIC = DECISIONS
LOG = (TOPIC, 0)
# the last decision of each query stays for ever; claims are looked at while their transaction is
# open, at most an hour
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "min.compaction.lag.ms": str(2 * 3_600_000),
}
# offsets: the last decision of a query is near the end, unless many others share the topic
WINDOW = 256
WIDER = 8
BY_NAME = 12  # the last version of Fetch with names of topics
FETCH_BYTES, WAIT_MS = 1 << 20, 500
COMMIT_MARKER = b"\0\0\0\1"  # key of a marker: version 0, type 1
NOBODY = Identity(-1, -1)  # without a producer id a claim may be written twice


class Decision(NamedTuple):
    """A batch that is in its topics. `query`: Spark's id of the query."""

    query: str
    batch: int


class Found(NamedTuple):
    """The last decision, and the offset where the log ended."""

    decision: Decision | None
    end: int


def ensure_topic(brokers: Brokers) -> None:
    """Create the topic if it does not exist. Raises PipelineError."""
    if TOPIC not in brokers.topics([TOPIC]):
        create_topic(brokers, TOPIC, 1, CONFIG)


def decide(brokers: Brokers, identity: Identity, decision: Decision) -> None:
    """Add the decision to the open transaction. Raises KafkaError and Unreachable."""
    producer = Producer(brokers, identity=identity)
    producer.add(
        LOG,
        (
            str(identity.transactional_id).encode(),
            decision_value(decision),
            (),
            time.time_ns() // 1_000_000,
        ),
    )
    producer.flush()


def decision_value(decision: Decision) -> bytes:
    """Return the record's value. It has no field `version`, like a claim: it is of version 0."""
    return json.dumps(decision._asdict()).encode()


def last_decision(brokers: Brokers, transactional_id: str) -> Found:
    """Read the last decision under this id, without open transactions. Raise KafkaError or
    PipelineError.
    """
    patience = brokers.patience(
        f"the marker of the last transaction of {transactional_id} in {TOPIC}"
    )
    key = transactional_id.encode()
    while True:
        begin, end = (
            brokers.offsets({LOG: at}, READ_UNCOMMITTED)[LOG] for at in (EARLIEST, LATEST)
        )
        width = WINDOW
        while True:
            start = max(begin, end - width)
            decision, is_open = _decided(brokers, key, start, end)
            if decision is not None or is_open or start == begin:
                break
            width *= WIDER
        if not is_open:
            return Found(decision, end)
        patience.wait("it is not there")  # a new leader may be behind


def _decided(brokers: Brokers, key: bytes, start: int, end: int) -> tuple[Decision | None, bool]:
    """Return the last committed decision between these offsets, and whether there is one that has
    no marker yet.
    """
    waiting: dict[int, Decision] = {}  # by producer id
    found = None
    for header, batch in _batches(brokers, start, end):
        if header.attributes & CONTROL:
            decision = waiting.pop(header.producer_id, None)
            if next(records_of(batch)).key == COMMIT_MARKER:
                found = decision or found
        elif header.attributes & TRANSACTIONAL:
            for record in records_of(batch):
                if record.key == key:
                    waiting[header.producer_id] = Decision(**_content(record))
    return found, bool(waiting)


def claim(brokers: Brokers, identity: Identity, task: int, attempt: int, since: int) -> bool:
    """Return whether this attempt of the task is the first one. `since`: the offset where the log
    ended before the tasks began.

    Raises KafkaError and PipelineError.
    """
    offsets: list[int] = []
    producer = Producer(
        brokers, identity=NOBODY, on_written=lambda where, offset, records: offsets.append(offset)
    )
    own = {"task": task, "producer": identity.producer_id, "epoch": identity.producer_epoch}
    key = f"{identity.transactional_id}/{task}".encode()
    producer.add(
        LOG,
        (key, json.dumps({**own, "attempt": attempt}).encode(), (), time.time_ns() // 1_000_000),
    )
    producer.flush()
    for header, batch in _batches(brokers, since, offsets[0] + 1):
        for record in () if header.attributes & (CONTROL | TRANSACTIONAL) else records_of(batch):
            if record.key == key and own.items() <= (found := _content(record)).items():
                return bool(found["attempt"] == attempt)
    raise PipelineError(f"{TOPIC} has lost a record that was acknowledged at offset {offsets[0]}")


def _content(record: Record) -> JsonObject:
    try:
        found = dict(json.loads(record.value or b""))
        version = int(found.pop("version", 0))
    except (TypeError, ValueError):
        raise PipelineError(
            f"{TOPIC} at offset {record.offset} has a record that no sink has written: "
            f"{record.value!r}"
        ) from None
    try:
        SINK_DECISIONS.check(version, f"{TOPIC} at offset {record.offset}")
    except NewerFormat as error:
        raise PipelineError(str(error)) from None
    return found


def _batches(brokers: Brokers, start: int, stop: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the batches with these offsets. Raises KafkaError and Unreachable."""
    patience = brokers.patience(f"reading {TOPIC} up to offset {stop}")
    topic = FETCH.request.topics
    while start < stop:
        rows = [
            topic(
                topic=TOPIC,
                partitions=[
                    topic.partitions(
                        partition=0, fetch_offset=start, partition_max_bytes=FETCH_BYTES
                    )
                ],
            )
        ]
        request = FETCH.request(
            max_wait_ms=WAIT_MS, min_bytes=1, max_bytes=FETCH_BYTES, topics=rows
        )
        answer = brokers.ask_leader(LOG, FETCH, request, BY_NAME)
        check(answer.error_code)
        (each,) = answer.responses[0].partitions
        check(each.error_code, f"{TOPIC} at offset {start}")
        before = start
        for header, batch in iterate(memoryview(each.records or b"")):
            if not crc_matches(batch, header):
                raise KafkaError(Code.CORRUPT_MESSAGE, f"{TOPIC} at offset {header.base_offset}")
            if header.last_offset >= start and header.base_offset < stop:
                yield header, batch
            start = max(start, header.last_offset + 1)
        if start == before and start < stop:
            patience.wait(f"it ends at offset {start}")  # a new leader may be behind
