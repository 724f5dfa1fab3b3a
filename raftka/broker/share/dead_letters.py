"""Dead letters of share groups (KIP-1191): records that a group rejects, or has tried too often,
are written to the group's dead-letter topic before they are archived. Knows no request.

Each partition of a dead-letter topic has a lane: one batch at a time is written there, and tried
again where that may help. Records that cannot be written are archived all the same, as in Apache
Kafka; the log and a metric tell it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import NamedTuple, Protocol

from raftka.broker.context import BrokerContext
from raftka.broker.controller.topic_creation import TopicCreation
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.work.long_work import LongWork, Steps
from raftka.log.log import Log
from raftka.metadata.commands import NewTopic
from raftka.metadata.configs.groups import GROUP_SETTINGS
from raftka.metadata.image import GROUP, TopicImage
from raftka.share.partition import DeadRange
from raftka.share.state import SharePartitionKey
from raftka.versions import SHARE_VERSION
from raftka.wire.errors import Code, KafkaError, ProtocolError
from raftka.wire.records import (
    BATCH_HEADER_BYTES,
    CONTROL,
    NewRecord,
    build_batch,
    iterate,
    records_of,
)

LEVEL = 2  # of share.version, from which on groups may have dead-letter topics
TOPIC_OF_GROUP = "errors.deadletterqueue.topic.name"
COPIES = "errors.deadletterqueue.copy.record.enable"
MAY_CREATE = "errors.deadletterqueue.auto.create.topics.enable"
PREFIX = "errors.deadletterqueue.topic.name.prefix"
TAKES_LETTERS = "errors.deadletterqueue.group.enable"  # a setting of the topic
INTERNAL = "__"
LETTERS, LOST = "raftka_share_dead_letters_total", "raftka_share_dead_letters_lost_total"
TRIES_S = 15.0  # from the first try to the last, as Kafka's five
PAUSE_S = 0.1  # after the first try, and twice as long after each
BATCH_BYTES = 256 * 1024  # of records before compression, when a batch has more than one
OVERHEAD_BYTES = 300  # of a record with these headers, about
READ_BYTES = 128 * 1024
AGAIN = frozenset(
    {
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.LEADER_NOT_AVAILABLE,
        Code.REQUEST_TIMED_OUT,
        Code.NETWORK_EXCEPTION,
    }
)
Place = tuple[str, int]  # of a dead-letter topic: its name, and the partition


class Writer(Protocol):
    """Writes batches to partitions, here or at their leaders (produce/schemas/dead_letters.py)."""

    def write(
        self,
        topic: str,
        index: int,
        leader: int,
        batch: bytes,
        done: Callable[[KafkaError | None], None],
    ) -> None: ...


class _Order(NamedTuple):
    """The records of one call of `send`."""

    key: SharePartitionKey
    records: Sequence[DeadRange]
    done: Callable[[], None]


class ShareDeadLetters:
    def __init__(
        self,
        context: BrokerContext,
        replicas: ReplicaManager,
        topic_creation: TopicCreation,
        long_work: LongWork,
        writer: Writer,
    ) -> None:
        self.context = context
        self.long_work = long_work
        self.writer = writer
        self._replicas = replicas
        self._topic_creation = topic_creation
        self._lanes: dict[Place, _Lane] = {}

    def wants(self, group_id: str) -> bool:
        """Return whether the group has a dead-letter topic, and the cluster's level allows it."""
        image = self.context.metadata.image
        return image.features.get(SHARE_VERSION, 0) >= LEVEL and bool(self._topic_of(group_id))

    def send(
        self, key: SharePartitionKey, records: Sequence[DeadRange], done: Callable[[], None]
    ) -> None:
        """Call `done` once, in a later turn, when the records are written, or given up."""
        order = _Order(key, records, done)
        try:
            place = self._place_for(key)
        except KafkaError as error:
            self.give_up(order, records, str(error))
            self.context.later(done)
            return
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = _Lane(self, place)
        lane.add(order)

    def _topic_of(self, group_id: str) -> str:
        return self.context.metadata.image.config(GROUP, group_id).get(TOPIC_OF_GROUP, "")

    def _place_for(self, key: SharePartitionKey) -> Place:
        """Return the place for the letters of a share partition. Raises KafkaError if there may be
        none.
        """
        name = self._topic_of(key.group_id)
        topic = self.topic(name)
        partitions: int = (
            len(topic.partitions)
            if topic is not None
            else self.context.metadata.settings["num.partitions"]
        )
        return name, key.partition % partitions

    def topic(self, name: str) -> TopicImage | None:
        """Return the dead-letter topic of this name; None: it is being created. Raises KafkaError
        if it may not be one.
        """
        metadata = self.context.metadata
        settings, image = metadata.settings, metadata.image
        if not name:
            raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, "the group has no dead-letter topic")
        if name.startswith(INTERNAL):
            raise KafkaError(
                Code.INVALID_TOPIC_EXCEPTION, f"{name} is the name of an internal topic"
            )
        if not name.startswith(settings[PREFIX]):
            raise KafkaError(
                Code.INVALID_TOPIC_EXCEPTION, f"{name} does not begin with {settings[PREFIX]}"
            )
        topic = image.topic_named(name)
        if topic is not None:
            if not metadata.topic_configs.of(image, name).values[TAKES_LETTERS]:
                raise KafkaError(
                    Code.INVALID_TOPIC_EXCEPTION, f"{name} does not have {TAKES_LETTERS}=true"
                )
            return topic
        if not settings[MAY_CREATE]:
            raise KafkaError(
                Code.UNKNOWN_TOPIC_OR_PARTITION,
                f"there is no topic {name}, and {MAY_CREATE} is false",
            )
        self._topic_creation.want(
            NewTopic(
                name,
                settings["num.partitions"],
                settings["default.replication.factor"],
                (),
                ((TAKES_LETTERS, "true"), ("message.timestamp.type", "CreateTime")),
            )
        )
        return None

    def forget(self, lane: "_Lane") -> None:
        if self._lanes.get(lane.place) is lane:
            del self._lanes[lane.place]

    def give_up(self, order: _Order, records: Sequence[DeadRange], why: str) -> None:
        """Tell that records are archived without a letter."""
        count = sum(each.last - each.first + 1 for each in records)
        self.context.metrics.count(LOST, count)
        self.context.events.warning(
            "share_dead_letters_lost",
            group=order.key.group_id,
            partition=order.key.partition,
            records=count,
            error=why,
        )

    def copies(self, group_id: str) -> bool:
        """Return whether the group's letters have the keys and values of their records."""
        setting = GROUP_SETTINGS[COPIES]
        config = self.context.metadata.image.config(GROUP, group_id)
        return bool(setting.parse(config.get(COPIES, setting.default or "")))

    def find_log(self, key: SharePartitionKey) -> Log:
        """Return the log of the records. Raises KafkaError."""
        return self._replicas.find_by_id(key.topic_id, key.partition).log


class _Letters:
    """The letters of one order, made batch by batch: the records may be large."""

    def __init__(self, owner: ShareDeadLetters, order: _Order) -> None:
        self._owner = owner
        self._key = order.key
        self._ranges = deque(order.records)
        self._at = order.records[0].first  # the next offset
        self._read_to = 0 if owner.copies(order.key.group_id) else inf
        self._originals: dict[int, tuple[bytes | None, bytes | None]] = {}

    def batch(self, most_bytes: int) -> Steps[tuple[bytes, int] | None]:
        """Return the next batch and the number of its records; None: there are no more. A record
        that is larger than a batch may be is alone in its own.
        """
        letters: list[NewRecord] = []
        size = 0
        while self._ranges:
            dead = self._ranges[0]
            if self._at >= self._read_to:
                yield from self._read(dead.last)
            key, value = self._originals.get(self._at, (None, None))
            size += OVERHEAD_BYTES + len(key or b"") + len(value or b"")
            if letters and size > most_bytes:
                break
            letters.append(self._letter(dead, key, value))
            self._at += 1
            if self._at > dead.last:
                self._ranges.popleft()
                if self._ranges:
                    self._at = self._ranges[0].first
            yield
        return (bytes(build_batch(letters)), len(letters)) if letters else None

    def _letter(self, dead: DeadRange, key: bytes | None, value: bytes | None) -> NewRecord:
        topic = self._owner.context.metadata.image.topics.get(self._key.topic_id)
        headers = (
            ("topic", topic.name if topic is not None else ""),
            ("partition", str(self._key.partition)),
            ("offset", str(self._at)),
            ("group", self._key.group_id),
            ("delivery.count", str(dead.count)),
            ("message", dead.reason),
        )
        named = tuple((f"__dlq.errors.{name}", text.encode()) for name, text in headers)
        return key, value, named, self._owner.context.runtime.clock.wall_ms()

    def _read(self, last: int) -> Steps[None]:
        """Read keys and values from the next offset on, as far as the log still has them."""
        self._originals = {}
        self._read_to = last + 1
        try:
            log = self._owner.find_log(self._key)
            if not log.start_offset <= self._at < log.end_offset:
                return
            spans, _ = log.read(self._at, READ_BYTES, log.end_offset)
            for span in spans:
                data = memoryview(span.file.read(span.position, span.size))
                for header, batch in iterate(data):
                    if not header.attributes & CONTROL:
                        for record in records_of(batch):
                            if self._at <= record.offset <= last:
                                self._originals[record.offset] = (record.key, record.value)
                            yield
                    self._read_to = min(header.last_offset, last) + 1
        except (KafkaError, OSError, ProtocolError) as error:
            self._read_to = last + 1
            self._owner.context.events.warning(
                "share_dead_letters_without_copy",
                group=self._key.group_id,
                partition=self._key.partition,
                error=str(error),
            )


class _Lane:
    """The letters on their way to one partition: one batch at a time."""

    def __init__(self, owner: ShareDeadLetters, place: Place) -> None:
        self._owner = owner
        self.place = place
        self._orders: deque[_Order] = deque()
        self._letters: _Letters  # of the first order
        self._until = 0.0  # of tries of the present batch
        self._pause_s = PAUSE_S

    def add(self, order: _Order) -> None:
        self._orders.append(order)
        if len(self._orders) == 1:
            self._begin()

    def _begin(self) -> None:
        self._letters = _Letters(self._owner, self._orders[0])
        self._next()

    def _next(self) -> None:
        metadata = self._owner.context.metadata
        config = metadata.topic_configs.of(metadata.image, self.place[0])
        most = min(BATCH_BYTES, config.log.max_message_bytes - BATCH_HEADER_BYTES)
        self._owner.long_work.run(
            "dead letters of a share group", self._letters.batch(most), self._on_made
        )

    def _on_made(self, result: tuple[bytes, int] | Exception | None) -> None:
        if isinstance(result, Exception):
            self._end(str(result))
        elif result is None:
            self._end(None)
        else:
            self._until = self._owner.context.runtime.clock.now() + TRIES_S
            self._pause_s = PAUSE_S
            self._write(*result)

    def _write(self, batch: bytes, records: int) -> None:
        """Write a batch, if this broker still runs and the topic may still have it."""
        if self._owner.context.stopped:
            return
        name, index = self.place
        done = partial(self._on_written, batch, records)
        try:
            topic = self._owner.topic(name)
        except KafkaError as error:
            done(error)
            return
        if topic is None or index >= len(topic.partitions):
            done(KafkaError(Code.LEADER_NOT_AVAILABLE, f"{name} is being created"))
            return
        leader = topic.partitions[index].leader
        if leader < 0:
            done(KafkaError(Code.LEADER_NOT_AVAILABLE))
        else:
            self._owner.writer.write(name, index, leader, batch, done)

    def _on_written(self, batch: bytes, records: int, error: KafkaError | None) -> None:
        context = self._owner.context
        if error is None:
            context.metrics.count(LETTERS, records)
            self._next()
            return
        clock = context.runtime.clock
        again_at = clock.now() + self._pause_s
        if error.code in AGAIN and again_at <= self._until:
            self._pause_s *= 2
            clock.call_at(again_at, partial(self._write, batch, records))
        else:
            self._end(str(error))

    def _end(self, error: str | None) -> None:
        """End the first order, and begin the one behind it."""
        order = self._orders.popleft()
        if error is not None:
            self._owner.give_up(order, order.records, error)
        if self._orders:
            self._begin()
        else:
            self._owner.forget(self)
        order.done()
