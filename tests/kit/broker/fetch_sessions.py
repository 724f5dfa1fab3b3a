"""Fetch sessions that grow, and conversations with a busy node."""

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from raftka.broker.fetch.sessions import FetchSession, FetchSessionCache, Reader
from raftka.broker.telemetry.metrics import Metrics
from raftka.broker.work.long_work import drained
from raftka.chaos.simulated.workloads.workload import busy
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.fetch import FETCH, FetchTopic, PartitionData
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.rows import ZERO_UUID
from tests.broker.requests import batch, produce, produced
from tests.broker.stage import Stage, Wire
from tests.kit.broker.fetching import values

WIDE = 200  # partitions: fewer than a session watches from its begin on
MOMENTS, MOMENT_S = 40, 0.0001
VERSION = 12
CONSUMER, FOLLOWER = Reader(-1, -1), Reader(2, 5)


def asking(
    partitions: Iterable[int],
    offset: int = 0,
    topic: str = "t",
    topic_id: bytes = ZERO_UUID,
    leader_epoch: int = -1,
) -> list[FetchTopic]:
    request = FETCH.request.topics
    rows = [
        request.partitions(
            partition=i,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=1 << 20,
        )
        for i in partitions
    ]
    return [request(topic=topic, topic_id=topic_id, partitions=rows)]


class Conversation:
    """One reader and its session."""

    def __init__(self, stage: Stage, version: int = VERSION, topic_id: bytes = ZERO_UUID) -> None:
        self.stage = stage
        self.wire: Wire = stage.wire()
        self.version = version
        self.topic_id = topic_id
        self.id = self.epoch = 0

    def send(
        self,
        partitions: Iterable[int] = (),
        offset: int = 0,
        *,
        forget: Iterable[int] = (),
        wait_ms: int = 0,
        min_bytes: int = 1,
        leader_epoch: int = -1,
    ) -> None:
        topics = (
            asking(partitions, offset, topic_id=self.topic_id, leader_epoch=leader_epoch)
            if partitions
            else []
        )
        gone = (
            [
                FETCH.request.forgotten_topics_data(
                    topic="t", topic_id=self.topic_id, partitions=tuple(forget)
                )
            ]
            if forget
            else []
        )
        row = FETCH.request(
            session_id=self.id,
            session_epoch=self.epoch,
            topics=topics,
            forgotten_topics_data=gone,
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
        )
        self.wire.request(FETCH, row, self.version)
        self.epoch += 1

    def hear(self) -> dict[int, PartitionData]:
        """The partitions of the next answer."""
        answer = self.wire.answer(FETCH, self.version)
        assert answer.error_code == 0
        self.id = answer.session_id
        return {row.partition_index: row for topic in answer.responses for row in topic.partitions}

    def ask(
        self, partitions: Iterable[int] = (), offset: int = 0, **more: Any
    ) -> dict[int, PartitionData]:
        self.send(partitions, offset, **more)
        return self.hear()

    def refused(self, **fields: int) -> tuple[int, int]:
        given: dict[str, Any] = {
            "session_id": self.id,
            "session_epoch": self.epoch,
            "topics": asking([0]),
        } | fields
        row = FETCH.request(**given)
        answer = self.wire.ask(FETCH, row, self.version)
        assert answer.responses == []
        return answer.error_code, answer.session_id


def late_records_missed(stage: Stage, wait_ms: int) -> list[int]:
    """Let records arrive at any moment of the first fetch of a session, on a busy node; return the
    moments whose record is not told.
    """
    stage.create("wide", WIDE)
    topics = asking(range(WIDE), topic="wide")
    missed = []
    for moment in range(MOMENTS):
        with busy():
            reader, writer = Conversation(stage), stage.wire()
            for row in topics[0].partitions:
                row.fetch_offset = stage.partition("wide", row.partition).log.end_offset
            begin = FETCH.request(
                session_id=0, session_epoch=0, topics=topics, max_wait_ms=wait_ms, min_bytes=1
            )
            reader.wire.request(FETCH, begin, VERSION)
            stage.world.run(stage.world.now + moment * MOMENT_S)
            assert produced(writer.ask(PRODUCE, produce("wide", batch(b"late"), 0))).error_code == 0
            reader.epoch = 1
            told = reader.hear().get(0)
        if told is None or not told.records:
            told = reader.ask(wait_ms=1000).get(0)
        if told is None or values(told) != [b"late"]:
            missed.append(moment)
    return missed


class Cache:
    def __init__(self, slots: int) -> None:
        self.now = 0.0
        self.metrics = Metrics()
        self.sessions = FetchSessionCache(slots, Random(1), self.metrics)

    def begin(self, size: int, reader: Reader = CONSUMER) -> FetchSession:
        session = FetchSession(reader, self.now, by_id=False)
        drained(session.want(asking(range(size))))
        self.sessions.admit(session, self.now)
        return session

    def has(self, *sessions: FetchSession) -> list[bool]:
        return [session.id in self.sessions.by_id for session in sessions]


class Growing:
    """A session of one partition, and a request for 40 more that is interrupted after the first
    five of them.
    """

    def __init__(self) -> None:
        self.cache = Cache(2)
        self.sessions = self.cache.sessions
        self.session = self.cache.begin(1)
        self.session.take_dirty()
        self.row = FETCH.request(
            session_id=self.session.id, session_epoch=1, topics=asking(range(1, 41))
        )
        self.steps = self.sessions.for_request(self.row, CONSUMER, 0.0, by_id=False)
        for _ in range(5):
            next(self.steps)

    def refused(self) -> Code:
        with pytest.raises(KafkaError) as refused:
            drained(self.steps)
        return refused.value.code
