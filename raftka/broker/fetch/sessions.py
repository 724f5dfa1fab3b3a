"""Fetch sessions (KIP-227): the partitions that a reader wants, what it knows of each, and which of
them have changed since.

A partition that was read stays *idle* until something changes in it. Then it is *dirty*, and the
next read visits dirty ones alone: a session of thousands of partitions costs what changes in it. A
Fetch without a session has one that ends with its answer. Reads no log.
"""

from collections.abc import Callable, Sequence
from math import inf
from operator import attrgetter
from random import Random
from typing import NamedTuple

from raftka.broker.replica.partition import Partition, Waiting
from raftka.broker.telemetry.metrics import Metrics
from raftka.broker.work.long_work import Steps, drained
from raftka.limits import SESSION_PARTITIONS
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

BEGIN, END = 0, -1  # epochs of full fetches: one that would like a session, one without
LAST_EPOCH = 0x7FFFFFFF
# a session that is younger than that, or was used within it, is not taken from its reader; Kafka's
# constant
SAFE_S = 120.0
NO_SESSION = 0

TURN = attrgetter("turn")

Name = str | bytes  # of a topic: its id from v13 on
Key = tuple[Name, int]


class Reader(NamedTuple):
    """The sender of a Fetch: a broker that follows and its epoch, or a consumer."""

    replica: int  # below 0: a consumer
    broker_epoch: int

    @property
    def follows(self) -> bool:
        return self.replica >= 0


class CachedPartition:
    """One partition that a reader wants."""

    __slots__ = (
        "fetch_request",
        "high_watermark",
        "log_start",
        "partition",
        "session",
        "size",
        "topic",
        "topic_id",
        "turn",
    )

    def __init__(
        self, session: "FetchSession", topic: FetchTopic, fetch_request: FetchPartition, turn: int
    ) -> None:
        self.session = session
        self.topic = topic.topic
        self.topic_id = topic.topic_id
        self.fetch_request = fetch_request  # the partition's row of the last request that named it
        self.turn = turn  # the lowest is read first
        self.partition: Partition | None = None  # where it was found last, and stands idle
        self.size = 0  # bytes of records that the last read found
        self.high_watermark = self.log_start = -1  # as the last answer said

    @property
    def name(self) -> Name:
        return self.topic_id if self.session.by_id else self.topic

    @property
    def follower(self) -> tuple[int, float] | None:
        """Broker id of the reader and the time of its last request; None: a consumer."""
        session = self.session
        return (session.reader.replica, session.heard) if session.follows else None

    def changed(self, *, wake: bool) -> None:
        """Note that its partition has changed. `wake`: a parked fetch waits for such changes."""
        session = self.session
        session.dirty[self] = None
        if wake and session.parked is not None:
            session.parked.read_soon()

    def leave(self) -> None:
        """Note no more changes of the partition."""
        if self.partition is not None:
            self.partition.idle_consumers.pop(self, None)
            self.partition.idle_followers.pop(self, None)
            self.partition = None


class FetchSession:
    __slots__ = (
        "by_id",
        "counted",
        "created",
        "dirty",
        "epoch",
        "follows",
        "heard",
        "id",
        "lasting",
        "parked",
        "partitions",
        "reader",
        "turns",
        "used",
    )

    def __init__(self, reader: Reader, now: float, *, by_id: bool) -> None:
        self.id = NO_SESSION
        self.epoch = 1  # of the next request
        self.reader = reader
        self.follows = reader.replica >= 0  # also of each reader that goes on with it
        self.by_id = by_id
        self.created = self.used = now
        self.heard = -inf  # when the follower last asked
        self.lasting = False  # it outlives its answer
        self.partitions: dict[Key, CachedPartition] = {}
        self.dirty: dict[CachedPartition, None] = {}
        self.parked: Waiting | None = None
        self.turns = 0
        self.counted = 0  # partitions, by the cache

    def want(self, topics: Sequence[FetchTopic]) -> Steps[None]:
        """Add partitions at the end, and take the new rows of those that are there. A partition
        that is named twice has its last row.

        Between its steps another request may take the dirty partitions, or review the session.
        """
        by_id = self.by_id
        for topic in topics:
            name = topic.topic_id if by_id else topic.topic
            for fetch_request in topic.partitions:
                cached = self.partitions.get((name, fetch_request.partition))
                if cached is None:
                    self.turns += 1
                    cached = self.partitions[name, fetch_request.partition] = CachedPartition(
                        self, topic, fetch_request, self.turns
                    )
                else:
                    if (
                        fetch_request.current_leader_epoch
                        != cached.fetch_request.current_leader_epoch
                    ):
                        # a reader that began anew may not have got the answer before
                        cached.high_watermark = cached.log_start = -1
                    cached.fetch_request = fetch_request
                self.dirty[cached] = None
                yield
            yield

    def remove(self, topics: Sequence[ForgottenTopic]) -> Steps[None]:
        """Remove the partitions that the reader wants no more."""
        for topic in topics:
            name = topic.topic_id if self.by_id else topic.topic
            for index in topic.partitions:
                cached = self.partitions.pop((name, index), None)
                if cached is not None:
                    cached.leave()
                    self.dirty.pop(cached, None)
                yield
            yield

    def take_dirty(self) -> list[CachedPartition]:
        """Return the partitions that have changed, in the order in which they are read. They count
        as idle from now on.
        """
        dirty, self.dirty = self.dirty, {}
        return list(dirty) if len(dirty) < 2 else sorted(dirty, key=TURN)

    def to_the_end(self, cached: CachedPartition) -> None:
        """Read it after all others from now on: when answers are full, each has its turn."""
        self.turns += 1
        cached.turn = self.turns

    def review(self) -> None:
        """Let the next read visit all partitions."""
        self.dirty = dict.fromkeys(self.partitions.values())

    def end(self) -> Steps[None]:
        """Take it apart: no request goes on with it. Its partitions refer to it, and it to them, so
        that they would stay until all garbage is collected.
        """
        partitions, self.partitions = self.partitions, {}
        while partitions:
            partitions.popitem()[1].leave()
            yield
        self.dirty = {}


class FetchSessionCache:
    """The sessions of a node. Finds the session of a request, and removes one when there are too
    many.
    """

    def __init__(
        self,
        slots: int,
        random: Random,
        metrics: Metrics,
        end: Callable[[FetchSession], None] = lambda session: drained(session.end()),
    ) -> None:
        """`end` is called with sessions that are closed: to run their `end`."""
        self.end = end
        self.slots = slots
        self.metrics = metrics
        self.by_id: dict[int, FetchSession] = {}  # the one that was used longest ago first
        self.partitions = 0
        self._random = random

    def for_request(
        self, body: FetchRequest, reader: Reader, now: float, *, by_id: bool
    ) -> Steps[tuple[FetchSession, bool]]:
        """Return the request's session, and True if it is one that the request goes on with. Raises
        KafkaError for the answer's top level.
        """
        if body.session_epoch in (BEGIN, END):
            known = self.by_id.get(body.session_id)
            if known is not None:
                self.close(known)
        else:
            session = self._known(body, reader, by_id=by_id)
            yield from self._update(session, body)
            if session.partitions:
                self._continue_with(session, reader, now)
                return session, True
            self.close(session)
        session = FetchSession(reader, now, by_id=by_id)
        try:
            yield from session.want(body.topics)
        except GeneratorExit:
            self.end(session)  # the client has gone
            raise
        return session, False

    def _known(self, body: FetchRequest, reader: Reader, *, by_id: bool) -> FetchSession:
        session = self.by_id.get(body.session_id)
        # a consumer does not read with the rights of a follower
        if session is None or session.follows != reader.follows:
            raise KafkaError(Code.FETCH_SESSION_ID_NOT_FOUND)
        self._check(session, body)
        if session.by_id != by_id:
            raise KafkaError(Code.FETCH_SESSION_TOPIC_ID_ERROR)
        return session

    @staticmethod
    def _check(session: FetchSession, body: FetchRequest) -> None:
        """Raise KafkaError if the session is closed, or another request has gone on with it."""
        if not session.lasting:
            raise KafkaError(Code.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != body.session_epoch:
            raise KafkaError(Code.INVALID_FETCH_SESSION_EPOCH)

    def _update(self, session: FetchSession, body: FetchRequest) -> Steps[None]:
        before = len(session.partitions)
        try:
            yield from session.want(body.topics)
            yield from session.remove(body.forgotten_topics_data)
        finally:  # also when the client has gone
            if session.lasting:
                self._count(session)
        self._check(session, body)
        if self.partitions > SESSION_PARTITIONS.value and len(session.partitions) > before:
            self.metrics.refused(SESSION_PARTITIONS)
            self.close(session)
            raise KafkaError(Code.FETCH_SESSION_ID_NOT_FOUND)  # and its reader fetches without one

    def _count(self, session: FetchSession) -> None:
        """Count its partitions, whose number has changed."""
        self.partitions += len(session.partitions) - session.counted
        session.counted = len(session.partitions)

    def _continue_with(self, session: FetchSession, reader: Reader, now: float) -> None:
        self.advance(session, now)
        if session.reader != reader:
            session.reader = reader
            session.review()
        if session.parked is not None:
            session.parked.overtaken()

    def advance(self, session: FetchSession, now: float) -> None:
        session.epoch = session.epoch + 1 if session.epoch < LAST_EPOCH else 1
        session.used = now
        self.by_id[session.id] = self.by_id.pop(session.id)

    def admit(self, session: FetchSession, now: float) -> bool:
        """Give it an id, if there is a slot, or a session can be closed for it: one long unused, or
        of less worth (those of followers and large ones count more).
        """
        size = len(session.partitions)
        if self.partitions + size > SESSION_PARTITIONS.value:
            self.metrics.refused(SESSION_PARTITIONS)
            return False
        if len(self.by_id) >= self.slots and not self._evict(session.follows, size, now):
            return False
        while session.id in self.by_id or session.id == NO_SESSION:
            session.id = self._random.randint(1, LAST_EPOCH)
        session.created = session.used = now
        session.lasting = True
        self.by_id[session.id] = session
        self._count(session)
        return True

    def _evict(self, of_follower: bool, size: int, now: float) -> bool:
        oldest = next(iter(self.by_id.values()), None)
        if oldest is None:
            return False
        if now - oldest.used <= SAFE_S:
            evictable = [
                s
                for s in self.by_id.values()
                if s.used - s.created > SAFE_S or (of_follower and not s.follows)
            ]
            oldest = min(evictable, key=_worth, default=None)
            if oldest is None or (of_follower, size) <= _worth(oldest):
                return False
        self.metrics.count("kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total")
        self.close(oldest)
        return True

    def review(self) -> None:
        """Let the next read of each session visit all its partitions."""
        for session in self.by_id.values():
            session.review()

    def close(self, session: FetchSession) -> None:
        """Close it. A fetch that is parked in it is still answered."""
        del self.by_id[session.id]
        self.partitions -= session.counted
        session.lasting, session.counted = False, 0
        if session.parked is None:
            self.end(session)


def _worth(session: FetchSession) -> tuple[bool, int]:
    return session.follows, len(session.partitions)
