"""The short way of a follower's Fetch: in its session it tells of new offsets of some partitions,
and nothing else.

A plan is made after such a request was answered the long way. It reads and writes the bytes itself,
and waits for records (`FollowWait`). Where anything at one of the partitions is not plain, now or
when it has waited, the request goes on the long way (`go_on`): errors, divergences, members that
come back, full answers. Nothing is lost by that: what was noted of a follower's place may be noted
again.
"""

from collections.abc import Callable, Iterable, Sequence

from raftka.broker.context import BrokerContext
from raftka.broker.fetch.sessions import (
    NO_SESSION,
    CachedPartition,
    FetchSession,
    FetchSessionCache,
)
from raftka.broker.network.access.authorizer import THE_CLUSTER
from raftka.broker.network.connection import Parts, ServerConnection, Slot
from raftka.broker.network.plan_layout import HEAD_END
from raftka.broker.network.request import Delayed, Request
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.partition import Partition
from raftka.limits import PARKED_REQUESTS
from raftka.replication.partition import LeaderState
from raftka.runtime.interfaces import FileSpan
from raftka.runtime.memory import NO_BYTES
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.fetch import FETCH, FetchRequest, FetchResponse
from raftka.wire.replica_fetch import (
    EPOCH,
    MOST,
    VERSION,
    Asked,
    Told,
    answer_frame,
    read_topics,
    topics_begin,
)

FOLLOWER = "FetchFollower"  # Kafka's name of these requests in its metrics
MAX_WAIT_MS = 3_600_000

GoOn = Callable[[Request[FetchRequest]], FetchResponse | Delayed]


# The records of one partition that come next for the follower, and their bytes; perhaps none.
Found = tuple[CachedPartition, Partition, Sequence[FileSpan], int]


class FollowPlan:
    __slots__ = (
        "before",
        "behind",
        "body",
        "body_at",
        "context",
        "dispatcher",
        "go_on",
        "kind",
        "max_bytes",
        "replicas",
        "session",
        "sessions",
        "topics_at",
        "version",
        "wait_s",
    )
    operation, resource = "CLUSTER_ACTION", THE_CLUSTER

    def __init__(
        self,
        request: Request[FetchRequest],
        sessions: FetchSessionCache,
        context: BrokerContext,
        replicas: ReplicaManager,
        session: FetchSession,
        go_on: GoOn,
    ) -> None:
        self.version = VERSION
        self.dispatcher = request.dispatcher
        self.kind = request.dispatcher.metrics.kind(FOLLOWER)
        self.body = request.body  # its terms are those of all requests of the session
        self.body_at = request.body_position
        self.max_bytes: int = min(self.body.max_bytes, context.metadata.settings["fetch.max.bytes"])
        self.wait_s = min(self.body.max_wait_ms, MAX_WAIT_MS) / 1000
        self.topics_at, self.behind = topics_begin(request.frame, request.body_position)
        self.before = bytes(request.frame[HEAD_END : self.topics_at - EPOCH.size])
        self.session, self.sessions, self.context = session, sessions, context
        self.replicas, self.go_on = replicas, go_on

    def run(self, connection: ServerConnection, frame: memoryview, correlation_id: int) -> bool:
        session, at = self.session, self.topics_at
        if (
            not session.lasting
            or session.parked is not None
            or not self.knows(frame)
            or not self.is_genuine()
        ):
            return False
        asked = read_topics(frame, at, self.behind)
        if (
            asked is None
            or len(asked) + len(session.dirty) > MOST
            or EPOCH.unpack_from(frame, at - EPOCH.size)[0] != session.epoch
        ):
            return False
        partitions = session.partitions
        rows: list[tuple[CachedPartition, Asked]] = []
        for topic_id, each in asked:
            known = partitions.get((topic_id, each.partition))
            if known is None or known.fetch_request.current_leader_epoch != each.leader_epoch:
                return False
            rows.append((known, each))
        for cached, each in rows:
            row = cached.fetch_request
            row.fetch_offset, row.last_fetched_epoch = each.fetch_offset, each.last_fetched_epoch
            row.log_start_offset, row.partition_max_bytes = each.log_start, each.max_bytes
            session.dirty[cached] = None
        session.heard = now = connection.dispatcher.now()
        self.sessions.advance(session, now)
        self._serve(connection, correlation_id)
        return True

    def _serve(self, connection: ServerConnection, correlation_id: int) -> None:
        session, metrics = self.session, self.context.metrics
        looked = session.take_dirty()
        found = self.read(looked)
        if found is not None and (not self.wait_s or self.is_enough(found)):
            connection.answer(self.told(found, correlation_id))
        elif found is not None and metrics.parked_fetches < PARKED_REQUESTS.value:
            FollowWait(self, connection, correlation_id, looked)
        else:
            session.dirty.update(dict.fromkeys(looked))
            request = self.request(connection, correlation_id)
            answer = self.go_on(request)
            if not isinstance(answer, Delayed):
                connection.answer(self.dispatcher.encoded(request, answer))

    def is_enough(self, found: Iterable[Found]) -> bool:
        """Return whether the records have the least size that the follower waits for."""
        size = 0
        for _, _, _, of_one in found:
            size += of_one
        return size >= self.body.min_bytes

    def knows(self, frame: memoryview) -> bool:
        """Return whether the request has the terms of this plan."""
        return frame[HEAD_END : self.topics_at - EPOCH.size] == self.before

    def is_genuine(self) -> bool:
        """Anybody can claim to be a replica, and move the high watermark."""
        replica, broker_epoch = self.session.reader
        registered = self.context.metadata.image.brokers.get(replica)
        return registered is not None and registered.epoch == broker_epoch

    def request(self, connection: ServerConnection, correlation_id: int) -> Request[FetchRequest]:
        """For the long way. The session has what stood in the frame."""
        return Request(
            FETCH,
            VERSION,
            correlation_id,
            self.body,
            connection.session,
            connection,
            self.dispatcher,
            NO_BYTES,
            self.body_at,
        )

    def read(self, looked: Iterable[CachedPartition]) -> list[Found] | None:
        """Note the offset of each that the follower has on its disk, and find the records behind
        it. None: a partition is not plain.
        """
        replica, broker_epoch = self.session.reader
        now, left = self.context.runtime.clock.now(), self.max_bytes
        found: list[Found] = []
        for cached in looked:
            partition, asked = cached.partition, cached.fetch_request
            if (
                partition is None
                or self.replicas.by_id.get((partition.topic_id, asked.partition)) is not partition
            ):
                return None
            leader, log, offset = partition.leader, partition.log, asked.fetch_offset
            if leader is None or not _is_plain(partition, leader, cached, replica):
                return None
            spans, size = NOTHING
            try:
                if offset < log.end_offset:
                    spans, size = log.read(
                        offset,
                        min(asked.partition_max_bytes, left),
                        log.end_offset,
                        min_one=left == self.max_bytes,
                    )
                    if not size:
                        return None  # it does not fit any more
                    left -= size
                effects = leader.fetched(replica, offset, now, broker_epoch)
            except (KafkaError, OSError):
                return None  # the long way finds it again, and has words for it
            if effects:
                partition.apply(effects)
            partition.start_told(replica, asked.log_start_offset)
            partition.idle_followers[cached] = None
            found.append((cached, partition, spans, size))
        return found

    def told(self, found: Iterable[Found], correlation_id: int) -> Parts:
        """The frame of the answer: records, and what else is news. The session knows that it was
        told.
        """
        session = self.session
        topics: dict[bytes, list[Told]] = {}
        for cached, partition, spans, size in found:
            high_watermark, start = partition.high_watermark, partition.log.start_offset
            if not size and high_watermark == cached.high_watermark and start == cached.log_start:
                continue
            told = Told(
                cached.fetch_request.partition,
                high_watermark,
                partition.last_stable_offset,
                start,
                spans,
                size,
            )
            topics.setdefault(cached.topic_id, []).append(told)
            cached.high_watermark, cached.log_start = high_watermark, start
            partition.fetched += 1
            # it is told again, even if nothing happens, until the follower asks for something else
            if size:
                session.to_the_end(cached)
                session.dirty[cached] = None
                self.context.metrics.replication_bytes_out += size
        return answer_frame(correlation_id, session.id if session.lasting else NO_SESSION, topics)


NOTHING: tuple[Sequence[FileSpan], int] = ((), 0)


def _is_plain(
    partition: Partition, leader: LeaderState, cached: CachedPartition, replica: int
) -> bool:
    """Return whether the follower is in the ISR of this leader epoch, and its log is the beginning
    of ours (KIP-320), from the same start on.
    """
    log, asked = partition.log, cached.fetch_request
    return (
        replica in leader.isr
        and asked.current_leader_epoch == partition.image.leader_epoch
        and asked.last_fetched_epoch in (-1, log.latest_epoch)
        and log.start_offset <= asked.fetch_offset <= log.end_offset
        and asked.log_start_offset == log.start_offset
        and asked.partition_max_bytes >= 0
    )


class FollowWait:
    """A Fetch that waits for records of its partitions."""

    __slots__ = ("connection", "correlation_id", "later", "plan", "slot", "timer")

    def __init__(
        self,
        plan: FollowPlan,
        connection: ServerConnection,
        correlation_id: int,
        later: Iterable[CachedPartition],
    ) -> None:
        """`later`: partitions that were looked at, and are looked at again for the answer."""
        clock = plan.context.runtime.clock
        self.plan, self.connection, self.correlation_id = plan, connection, correlation_id
        self.later = dict.fromkeys(later)
        self.slot: Slot | None = connection.slot(self._answer)
        self.timer = clock.call_at(clock.now() + plan.wait_s, self._answer)
        plan.context.metrics.parked_fetches += 1
        plan.session.parked = self

    def read_soon(self) -> None:
        self.plan.replicas.read_soon(self)

    def records_arrived(self) -> None:
        """Something changed at some of the partitions."""
        self._resume(at_once=False)

    def _answer(self) -> None:
        """Time is up, or somebody waits behind: with what there is. Or nobody is there any more."""
        self._resume(at_once=True)

    def overtaken(self) -> None:
        """Another request of the session came first: it is not known any more what the follower
        knows.
        """
        plan = self.plan
        request = plan.request(self.connection, self.correlation_id)
        self._end().complete(
            plan.dispatcher.encoded(
                request, FETCH.response(error_code=int(Code.INVALID_FETCH_SESSION_EPOCH))
            )
        )

    def _resume(self, *, at_once: bool) -> None:
        """Called by those who wrote, or by a timer: what goes wrong here is not their matter."""
        if self.slot is None:
            return
        if self.connection.gone:
            self._end()
            return
        try:
            self._look(at_once=at_once)
        except Exception as error:
            if self.slot is not None:
                plan = self.plan
                self._end().complete(
                    plan.dispatcher.broken(
                        plan.request(self.connection, self.correlation_id), error
                    )
                )

    def _look(self, *, at_once: bool) -> None:
        plan, session = self.plan, self.plan.session
        session.dirty.update(self.later)
        looked = session.take_dirty()
        self.later = dict.fromkeys(looked)
        may = (
            len(looked) <= MOST
            and plan.is_genuine()
            and plan.dispatcher.authorizer.allowed(
                self.connection.session, plan.operation, plan.resource
            )
        )
        found = plan.read(looked) if may else None
        if found is None:
            self._go_the_long_way(at_once=at_once)
        elif at_once or plan.is_enough(found):
            self.later = {}
            parts = plan.told(found, self.correlation_id)
            self._end().complete(parts)

    def _go_the_long_way(self, *, at_once: bool) -> None:
        plan, request = self.plan, self.plan.request(self.connection, self.correlation_id)
        request.slot = slot = self._end(goes_on=True)
        answer = plan.go_on(request)
        if not isinstance(answer, Delayed):
            slot.complete(plan.dispatcher.encoded(request, answer))
        elif at_once and slot.complete_early is not None:
            slot.complete_early()

    def _end(self, *, goes_on: bool = False) -> Slot:
        """End the wait. The session looks again at the partitions of which nothing was told."""
        plan, session, slot = self.plan, self.plan.session, self.slot
        assert slot is not None
        self.slot = None
        self.timer.cancel()
        session.dirty.update(self.later)
        plan.context.metrics.parked_fetches -= 1
        if session.parked is self:
            session.parked = None
            if not session.lasting and not goes_on:
                plan.sessions.end(session)
        return slot


def remember(
    request: Request[FetchRequest],
    sessions: FetchSessionCache,
    context: BrokerContext,
    replicas: ReplicaManager,
    session: FetchSession,
    go_on: GoOn,
) -> None:
    """Called with a request of a follower that went on with its session the long way."""
    connection, body = request.connection, request.body
    if (
        request.version != VERSION
        or request.meter is not None
        or not session.by_id
        or body.isolation_level
        or body.rack_id
    ):
        return
    if replicas.prefers_racks:
        return  # consumers of the follower wait for its high watermark
    known = connection.plans.get(FETCH.key)
    if request.frame and not (
        isinstance(known, FollowPlan) and known.session is session and known.knows(request.frame)
    ):
        connection.plans[FETCH.key] = FollowPlan(
            request, sessions, context, replicas, session, go_on
        )
