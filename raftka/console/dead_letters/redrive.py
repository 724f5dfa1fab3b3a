"""Sending dead letters again: to the topic that they came from, or to another one.

Promised: within one redrive, and between redrives of one console, no letter is sent twice unless
the user asks for that. Letters of one partition that go to one partition arrive in their order. A
letter whose acknowledgement is lost is noted as in doubt. A letter that cannot be sent is counted
under its reason, and the others are sent.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import NamedTuple

from raftka.client.blocking.client import Client, Where, check
from raftka.client.blocking.connection import ClientError
from raftka.client.blocking.producer import Producer, partition_of
from raftka.client.blocking.reader import FetchedRecord
from raftka.console.dead_letters.letters import (
    REDRIVEN_AT,
    REDRIVEN_FROM,
    REDRIVEN_TIMES,
    Letter,
    Origin,
    own_headers,
    read_letter,
)
from raftka.console.dead_letters.reading import POLL_RECORDS, read_forward
from raftka.console.dead_letters.selection import Filter, Spans, partitions_of, within
from raftka.console.dead_letters.sent import Sent
from raftka.wire.errors import KafkaError
from raftka.wire.messages.list_offsets import EARLIEST, LATEST
from raftka.wire.records import NewRecord, RecordHeaders

UNKNOWN_ORIGIN = "its origin is not known: choose a topic"
NO_CONTENT = "it has no content, and its original is not in the log any more"
ALREADY_SENT = "it was sent before"
IN_DOUBT = "it may have been sent before: the answer was lost"


class Again(Enum):
    """Letters of earlier redrives that are sent again."""

    NOTHING = "nothing"
    IN_DOUBT = "in doubt"
    ALL = "all"


class Body(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders


@dataclass(frozen=True, slots=True)
class Order:
    """The letters that the user wants to have sent, and where to."""

    topic: str  # of the letters
    spans: Spans
    wanted: Filter
    target: str | None = None  # None: the topic that each letter came from
    again: Again = Again.NOTHING
    edited: Mapping[str, bytes | None] = field(default_factory=dict)  # "key", "value": for one


class Ready(NamedTuple):
    """A letter as the record that it becomes."""

    letter: Letter
    where: Where
    record: NewRecord


class Refused(NamedTuple):
    letter: Letter
    reason: str


class Preparation:
    """Makes records of letters, and says why others cannot be sent."""

    def __init__(
        self,
        client: Client,
        order: Order,
        sent: Sent,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`now`: seconds since 1970."""
        self._client, self._order, self._sent, self._now = client, order, sent, now
        self._partitions: dict[str, int | str] = {}  # by topic: how many, or why it cannot be
        self._originals = Originals(client)

    def prepare(self, letter: Letter) -> Ready | Refused:
        """Raises Unreachable, and KafkaError for what is no fault of this letter."""
        order, record = self._order, letter.record
        if (reason := self._sent_before(record)) is not None:
            return Refused(letter, reason)
        target = order.target or (letter.origin.topic if letter.origin is not None else None)
        if target is None:
            return Refused(letter, UNKNOWN_ORIGIN)
        count = self._partitions_of(target)
        if isinstance(count, str):
            return Refused(letter, count)
        source = self._original_of(letter) if letter.lacks_content else record
        if source is None and not order.edited:
            return Refused(letter, NO_CONTENT)
        source = source or record
        body = Body(
            order.edited.get("key", source.key),
            order.edited.get("value", source.value),
            own_headers(source),
        )
        where = (target, self._partition(letter, target, body.key, count))
        return Ready(letter, where, self._as_record(letter, body))

    def _sent_before(self, record: FetchedRecord) -> str | None:
        topic, place = self.topic_key, (record.partition, record.offset)
        if self._order.again is not Again.ALL and self._sent.was_sent(topic, *place):
            return ALREADY_SENT
        if self._order.again is Again.NOTHING and self._sent.is_in_doubt(topic, *place):
            return IN_DOUBT
        return None

    @property
    def topic_key(self) -> str:
        """Return the key under which sent letters are remembered. Raises KafkaError."""
        topic = self._order.topic
        if not self._client.topic_id(topic):
            partitions_of(self._client, topic)  # the answer has the id
        return self._client.topic_id(topic) or topic

    def _partitions_of(self, topic: str) -> int | str:
        if topic not in self._partitions:
            if topic == self._order.topic:
                self._partitions[topic] = f"{topic} is the topic of the letters itself"
            else:
                try:
                    self._partitions[topic] = self._count_partitions(topic)
                except KafkaError as error:
                    self._partitions[topic] = f"{topic}: {error.code.name}"
        return self._partitions[topic]

    def _count_partitions(self, topic: str) -> int | str:
        """Return their number, or why nothing is sent there. Raises KafkaError."""
        (row,) = self._client.metadata([topic]).topics
        check(row.error_code, topic)
        if row.is_internal:  # brokers refuse it: the redrive would end there
            return f"{topic} is a topic of the brokers themselves"
        return len(row.partitions)

    def _original_of(self, letter: Letter) -> FetchedRecord | None:
        origin = letter.origin
        if origin is None or origin.partition is None:
            return None
        count = self._partitions_of(origin.topic)
        if isinstance(count, str) or origin.partition >= count:
            return None
        return self._originals.find(origin)

    def _partition(self, letter: Letter, target: str, key: bytes | None, count: int) -> int:
        """The partition that it came from; else that of its key, as Kafka's producers choose it;
        else one for each partition of letters, which keeps their order.
        """
        origin = letter.origin
        if (
            origin is not None
            and origin.topic == target
            and origin.partition is not None
            and origin.partition < count
        ):
            return origin.partition
        if key is not None:
            return partition_of(key, count)
        return letter.record.partition % count

    def _as_record(self, letter: Letter, body: "Body") -> NewRecord:
        record, now = letter.record, self._now()
        at = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
        headers = (
            *body.headers,
            (REDRIVEN_FROM, f"{record.topic}-{record.partition}@{record.offset}".encode()),
            (REDRIVEN_AT, at.encode()),
            (REDRIVEN_TIMES, str(letter.redriven_times + 1).encode()),
        )
        # its old timestamp could be out of the target's retention already
        return body.key, body.value, headers, round(now * 1000)


class Originals:
    """Records that letters refer to, read from where they came from. Neighbours come at once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._read: dict[Where, dict[int, FetchedRecord]] = {}

    def find(self, origin: Origin) -> FetchedRecord | None:
        """Return the record; None: the log has it no more. Raises KafkaError and Unreachable."""
        if origin.partition is None or origin.offset is None:
            return None
        where = (origin.topic, origin.partition)
        if origin.offset not in self._read.get(where, ()):
            self._read[where] = self._read_from(where, origin.offset)
        return self._read[where].get(origin.offset)

    def _read_from(self, where: Where, offset: int) -> dict[int, FetchedRecord]:
        begin = self._client.offsets({where: EARLIEST})[where]
        end = self._client.offsets({where: LATEST})[where]
        if not begin <= offset < end:
            return {}
        for _, records in read_forward(
            self._client, {where: (offset, min(end, offset + POLL_RECORDS))}, lambda: False
        ):
            if records:
                return {record.offset: record for record in records}
        return {}


@dataclass(slots=True)
class Plan:
    """The letters that a redrive would send, and those that it would not."""

    letters: int = 0  # that the order chooses
    by_target: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)  # by reason
    first: list[Ready] = field(default_factory=list)
    first_refused: list[Refused] = field(default_factory=list)
    bytes: int = 0  # of keys and values that would be sent

    def add(self, prepared: Ready | Refused, most_shown: int) -> None:
        self.letters += 1
        if isinstance(prepared, Refused):
            self.refused[prepared.reason] += 1
            if len(self.first_refused) < most_shown:
                self.first_refused.append(prepared)
            return
        key, value, _, _ = prepared.record
        self.by_target[prepared.where[0]] += 1
        self.bytes += len(key or b"") + len(value or b"")
        if len(self.first) < most_shown:
            self.first.append(prepared)


def plan_redrive(
    client: Client, order: Order, sent: Sent, most_shown: int, is_gone: Callable[[], bool]
) -> Iterator[tuple[Plan, int, int]]:
    """Yield the plan as it grows, with the offsets that were passed and all of them. Raises
    Unreachable and KafkaError.
    """
    plan, preparation = Plan(), Preparation(client, order, sent)
    yield plan, 0, 0
    for forward, records in read_forward(client, within(order.spans, order.wanted), is_gone):
        for letter in map(read_letter, records):
            if order.wanted.matches(letter):
                plan.add(preparation.prepare(letter), most_shown)
        yield plan, forward.done, forward.total


class State(Enum):
    RUNNING = "running"
    STOPPED = "stopped"  # by the user, or with the user's session
    FAILED = "failed"
    DONE = "done"


class Redrive:
    """One redrive. `run` works in a thread; all else may be asked from others."""

    def __init__(self, order: Order, sent: Sent) -> None:
        self.order = order
        self.state = State.RUNNING
        self.error = ""  # the reason of FAILED
        self.sent = 0  # letters that the brokers have acknowledged
        self.in_doubt = 0
        self.refused: Counter[str] = Counter()  # by reason
        self.by_target: Counter[str] = Counter()  # sent ones
        self.done, self.total = 0, 0  # offsets
        self.began_s, self.ended_s = time.time(), 0.0
        self._memory = sent
        self._stops = False
        self._topic = ""
        # by target partition: letters that are on their way, as partition and offset
        self._under_way: dict[Where, deque[tuple[int, int]]] = {}

    def stop(self) -> None:
        """Ask it to end; records on their way arrive."""
        self._stops = True

    def run(self, client: Client, is_over: Callable[[], bool]) -> None:
        """Send until the end, or until `is_over`. Never raises: `state` and `error` tell."""
        try:
            self._send_all(client, is_over)
        except (KafkaError, ClientError, OSError) as error:
            self.error = str(error) or type(error).__name__
        except Exception as error:  # a thread has nobody to tell
            self.error = f"{type(error).__name__}: {error}"
        finally:
            self._note_doubts()
            self.ended_s = time.time()
            if self.error:
                self.state = State.FAILED
            elif self.done < self.total:
                self.state = State.STOPPED
            else:
                self.state = State.DONE

    def _send_all(self, client: Client, is_over: Callable[[], bool]) -> None:
        order = self.order
        preparation = Preparation(client, order, self._memory)
        producer = Producer(client, on_written=self._on_written)
        spans = within(order.spans, order.wanted)
        self.total = sum(end - begin for begin, end in spans.values())
        self._topic = preparation.topic_key
        for forward, records in read_forward(client, spans, lambda: self._stops or is_over()):
            for letter in map(read_letter, records):
                if order.wanted.matches(letter):
                    self._send(producer, preparation.prepare(letter))
            producer.flush()  # so no more than one piece is ever in doubt
            self.done = forward.done

    def _send(self, producer: Producer, prepared: Ready | Refused) -> None:
        if isinstance(prepared, Refused):
            self.refused[prepared.reason] += 1
            return
        if self._memory.is_full:
            raise ClientError(
                "the console remembers no further letters as sent: restart it, or choose letters "
                "that are neighbours"
            )
        record = prepared.letter.record
        # noted before it can be acknowledged: a batch may leave within `add`
        self._under_way.setdefault(prepared.where, deque()).append(
            (record.partition, record.offset)
        )
        producer.add(prepared.where, prepared.record)

    def _on_written(self, where: Where, offset: int, records: int) -> None:
        waiting = self._under_way[where]
        arrived = [waiting.popleft() for _ in range(records)]
        self._memory.note_sent(self._topic, arrived)
        self.sent += records
        self.by_target[where[0]] += records

    def _note_doubts(self) -> None:
        """Letters without an acknowledgement may have arrived."""
        doubtful = [each for waiting in self._under_way.values() for each in waiting]
        self.in_doubt = len(doubtful)
        self._memory.note_in_doubt(self._topic, doubtful)
