"""The cut of a running cluster: asks its brokers, in the order that raftka/backup/__init__.py gives
reasons for. Copies nothing.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from raftka.backup.errors import BackupError
from raftka.client.blocking.client import Client, Patience
from raftka.client.blocking.connection import ClientError, Unsupported
from raftka.metadata.image import MetadataImage, TopicImage
from raftka.wire.errors import Code, KafkaError, name_of_code
from raftka.wire.messages.backup import (
    BACKUP_CUT,
    BACKUP_DROP,
    BACKUP_HOLD,
    BACKUP_METADATA,
    BACKUP_READ,
    BackupCutPartitionResult,
    BackupHoldResponse,
)
from raftka.wire.schema import Api, Req, Resp, Row

FIRST = ("__consumer_offsets", "__transaction_state", "__share_group_state")
LAST = ("_schemas",)
TRIES = 3  # of the whole cut
KEEP_S = 30.0  # brokers forget a backup that they have not heard of for three minutes
HOLD_MS, RENEWED_S = 8_000, 2.0  # a hold ends by itself, and is renewed so often
PARTITIONS_OF_REQUEST = 500
WAIT_S = 30.0  # for commits that were decided, and for high watermarks
OTHERS = "no raftka, or one of an earlier release, which makes no backups: upgrade all brokers"
PASSING = frozenset({Code.OFFSET_NOT_AVAILABLE, Code.COORDINATOR_LOAD_IN_PROGRESS})

Key = tuple[str, int]  # topic, partition
Alive = Mapping[int, int]  # epochs of the brokers that are alive, by id


class Interrupted(BackupError):
    """The cluster has changed while it was cut. It can be cut again."""


@dataclass(frozen=True, slots=True)
class CutSegment:
    base_offset: int
    size: int
    broker: int
    path: str  # on the broker's machine


@dataclass(frozen=True, slots=True)
class CutPartition:
    topic: str
    topic_id: bytes
    index: int
    leader_epoch: int
    start_offset: int
    end_offset: int
    segments: tuple[CutSegment, ...]


@dataclass(slots=True)
class Cut:
    begun_ms: int
    cut_ms: int = 0
    held_ms: int = 0
    image: MetadataImage = field(default_factory=MetadataImage)
    image_bytes: bytes = b""
    partitions: list[CutPartition] = field(default_factory=list)


class Cutter:
    """Cuts one cluster for one backup. The client is connected to it."""

    def __init__(self, client: Client, backup_id: str) -> None:
        self._client = client
        self.backup_id = backup_id
        self._brokers: set[int] = set()  # that have been asked for anything
        self._kept_at = time.monotonic()
        self._holding: Alive = {}
        self._held_at = 0.0

    def cut(self) -> Cut:
        """Raises BackupError, ClientError, KafkaError, OSError. The brokers keep the files until
        `drop`.
        """
        begun_ms = time.time_ns() // 1_000_000
        for attempt in range(1, TRIES + 1):
            try:
                return self._cut_once(Cut(begun_ms))
            except Interrupted:
                if attempt == TRIES:
                    raise
            finally:
                self._release()
        raise AssertionError

    def keep(self) -> None:
        """Tell the brokers now and then that the backup goes on."""
        if time.monotonic() > self._kept_at + KEEP_S:
            self._kept_at = time.monotonic()
            self._release()

    def read(self, segment: CutSegment, position: int, size: int) -> bytes:
        """Read a part of a segment from its broker. Raises KafkaError, ClientError."""
        row = BACKUP_READ.request(
            backup_id=self.backup_id, path=segment.path, position=position, max_bytes=size
        )
        return bytes(self._ask(segment.broker, BACKUP_READ, row).data)

    def drop(self) -> None:
        """Let the brokers remove the files. One that is away removes them by itself, later."""
        self._tell(BACKUP_DROP, BACKUP_DROP.request(backup_id=self.backup_id))

    def _cut_once(self, cut: Cut) -> Cut:
        before, _ = self._metadata()
        alive, began = alive_in(before), time.monotonic()
        self._hold(alive)
        cut.partitions = self._cut_topics(before, FIRST.__contains__)
        cut.image, cut.image_bytes = self._metadata()
        rest = lambda name: name not in FIRST and name not in LAST  # noqa: E731
        cut.partitions += self._cut_topics(cut.image, rest)
        cut.partitions += self._cut_topics(cut.image, LAST.__contains__)
        after, _ = self._metadata()
        if alive_in(after) != alive:
            raise Interrupted("brokers came or went while the cluster was cut: try again")
        if not all(row.held for row in self._ask_hold(alive, 0)):
            raise Interrupted("a broker did not hold commits all the time: try again")
        cut.held_ms = int((time.monotonic() - began) * 1000)
        cut.cut_ms = time.time_ns() // 1_000_000
        return cut

    # commits

    def _hold(self, alive: Alive) -> None:
        """Hold commits at all brokers, and wait for those that were decided before. Raises
        Interrupted, BackupError.
        """
        patience = Patience(WAIT_S, "commits that were decided", BackupError)
        rows = self._ask_hold(alive, HOLD_MS)
        while pending := sum(row.pending for row in rows):
            patience.wait(f"{pending} transactions wait for their markers")
            rows = self._ask_hold(alive, HOLD_MS)
            if not all(row.held for row in rows):
                raise Interrupted("a broker did not hold commits all the time: try again")

    def _hold_on(self) -> None:
        """Renew the hold: many partitions, or one that waits, take longer. Raises Interrupted."""
        if time.monotonic() > self._held_at + RENEWED_S and not all(
            row.held for row in self._ask_hold(self._holding, HOLD_MS)
        ):
            raise Interrupted("a broker did not hold commits all the time: try again")

    def _ask_hold(self, alive: Alive, hold_ms: int) -> list[BackupHoldResponse]:
        self._holding, self._held_at = alive, time.monotonic()
        row = BACKUP_HOLD.request(backup_id=self.backup_id, hold_ms=hold_ms)
        return [self._ask(broker, BACKUP_HOLD, row) for broker in sorted(alive)]

    def _release(self) -> None:
        self._tell(BACKUP_HOLD, BACKUP_HOLD.request(backup_id=self.backup_id, hold_ms=0))

    def _tell(self, api: Api[Req, Resp], row: Req) -> None:
        """Tell all brokers that have been asked; one that fails ends its part by itself, later."""
        for broker in sorted(self._brokers):
            if (address := self._client.brokers.get(broker)) is not None:
                with suppress(OSError, ClientError):
                    self._client.ask_at(address, api, row)

    # metadata and logs

    def _metadata(self) -> tuple[MetadataImage, bytes]:
        row = BACKUP_METADATA.request()
        try:
            answer = self._client.ask(BACKUP_METADATA, row, passing=PASSING.__contains__)
        except Unsupported as error:
            raise BackupError(f"the cluster is {OTHERS}") from error
        check(answer)
        data = bytes(answer.image)
        self._client.refresh([])
        return MetadataImage.from_snapshot(data), data

    def _cut_topics(
        self, image: MetadataImage, wanted: Callable[[str], bool]
    ) -> list[CutPartition]:
        """Cut all partitions of these topics. Those of topics that are deleted meanwhile are left
        out. Raises BackupError.
        """
        topics = [topic for topic in image.topics.values() if wanted(topic.name)]
        # -1: at or above the end that the log has when its leader is asked first
        left = {(topic.name, index): -1 for topic in topics for index in range(size_of(topic))}
        leaders: dict[Key, int] = {}
        found: dict[Key, CutPartition] = {}
        ids = {topic.name: topic.topic_id for topic in topics}
        patience, why = Patience(WAIT_S, "the cut of partitions", BackupError), ""
        while True:
            self._hold_on()
            for key in left:
                leader = leader_in(image, ids[key[0]], key[1])
                if leaders.setdefault(key, leader) != leader:
                    # an end that the last leader had may have gone with it
                    leaders[key], left[key] = leader, -1
            for key, row in self._ask_cuts(left, leaders):
                if row.error_code == Code.NONE:
                    del left[key]
                    found[key] = made(key, ids[key[0]], leaders[key], row)
                else:
                    left[key] = row.at_least if row.error_code == Code.OFFSET_NOT_AVAILABLE else -1
                    why = f"{key[0]}-{key[1]}: {name_of_code(row.error_code)}"
            if not left:
                return [found[key] for key in sorted(found)]
            patience.wait(why or f"{next(iter(left))[0]} has a partition without a leader")
            image, _ = self._metadata()
            left = {key: least for key, least in left.items() if ids[key[0]] in image.topics}

    def _ask_cuts(
        self, left: Mapping[Key, int], leaders: Mapping[Key, int]
    ) -> list[tuple[Key, BackupCutPartitionResult]]:
        topic_row = BACKUP_CUT.request.topics
        requests: dict[tuple[int, int], dict[str, list[int]]] = defaultdict(
            lambda: defaultdict(list)
        )
        counts: Counter[int] = Counter()
        for key in left:
            broker = leaders[key]
            if broker >= 0:
                requests[broker, counts[broker] // PARTITIONS_OF_REQUEST][key[0]].append(key[1])
                counts[broker] += 1
        rows = []
        for (broker, _), topics in requests.items():
            self._hold_on()
            asked = [
                topic_row(
                    name=name,
                    partitions=[
                        topic_row.partitions(index=index, at_least=left[name, index])
                        for index in indexes
                    ],
                )
                for name, indexes in topics.items()
            ]
            row = BACKUP_CUT.request(backup_id=self.backup_id, topics=asked)
            answer = self._ask(broker, BACKUP_CUT, row)
            rows += [
                ((topic.name, each.index), each)
                for topic in answer.topics
                for each in topic.partitions
            ]
        return rows

    def _ask(self, broker: int, api: Api[Req, Resp], row: Req) -> Resp:
        self._brokers.add(broker)
        try:
            answer = self._client.ask_broker(broker, api, row, passing=PASSING.__contains__)
        except Unsupported as error:
            raise BackupError(f"broker {broker} is {OTHERS}") from error
        check(answer)
        return answer


def check(answer: Row) -> None:
    """Raise KafkaError for an answer to one of our APIs that has an error as a whole."""
    code, message = getattr(answer, "error_code"), getattr(answer, "error_message")  # noqa: B009
    if code != Code.NONE:
        raise KafkaError(Code(code), message or "")


def alive_in(image: MetadataImage) -> Alive:
    return {broker: image.brokers[broker].epoch for broker in image.alive_brokers()}


def size_of(topic: TopicImage) -> int:
    return len(topic.partitions)


def leader_in(image: MetadataImage, topic_id: bytes, index: int) -> int:
    partition = image.partition(topic_id, index)
    return -1 if partition is None else partition.leader


def made(key: Key, topic_id: bytes, broker: int, row: BackupCutPartitionResult) -> CutPartition:
    return CutPartition(
        *key[:1],
        topic_id,
        key[1],
        row.leader_epoch,
        row.start_offset,
        row.end_offset,
        tuple(CutSegment(each.base_offset, each.size, broker, each.path) for each in row.segments),
    )
