"""The short way of a follower's Fetch: successive requests of a session differ in the offsets of
some partitions, and in nothing else.

A plan is made after such a request was answered the long way. It reads and writes the bytes itself,
reads partitions as the long way does (`reading.read_for_follower`), and waits for records
(`FollowWait`). Where one of the partitions has an error or a divergence, or needs an answer at
once, the request goes the long way (`go_on`), and reads its partitions again: to note the place of
a follower twice does no harm.
"""

from collections.abc import Callable, Iterable, Sequence

from raftka.broker.fetch import reading
from raftka.broker.fetch.fetch import MAX_WAIT_MS
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

GoOn = Callable[[Request[FetchRequest]], FetchResponse | Delayed]
# The records of one partition that come next for the follower, and their bytes; perhaps none.
Found = tuple[CachedPartition, Partition, Sequence[FileSpan], int]


class FollowPlan:
    __slots__ = (
        "before",
        "behind",
        "body",
        "body_at",
        "dispatcher",
        "go_on",
        "latency",
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
        replicas: ReplicaManager,
        session: FetchSession,
        go_on: GoOn,
    ) -> None:
        self.version = VERSION
        self.dispatcher = request.dispatcher
        self.latency = request.dispatcher.metrics.latency(FOLLOWER)
        self.body = request.body  # its terms are those of all requests of the session
        self.body_at = request.body_position
        self.max_bytes: int = min(
            self.body.max_bytes, replicas.context.metadata.settings["fetch.max.bytes"]
        )
        self.wait_s = min(self.body.max_wait_ms, MAX_WAIT_MS) / 1000
        self.topics_at, self.behind = topics_begin(request.frame, request.body_position)
        self.before = bytes(request.frame[HEAD_END : self.topics_at - EPOCH.size])
        self.session, self.sessions = session, sessions
        self.replicas, self.go_on = replicas, go_on

    def run(self, connection: ServerConnection, frame: memoryview, correlation_id: int) -> bool:
        session, at = self.session, self.topics_at
        if (
            not session.lasting
            or session.parked is not None
            or not self.matches(frame)
            or not reading.is_registered(self.replicas.context.metadata.image, session.reader)
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
        session, metrics = self.session, self.replicas.context.metrics
        changed = session.take_dirty()
        found = self.read(changed)
        if found is not None and (not self.wait_s or self.is_enough(found)):
            connection.answer(self.answer(found, correlation_id))
        elif found is not None and metrics.parked_fetches < PARKED_REQUESTS.value:
            FollowWait(self, connection, correlation_id, changed)
        else:
            session.dirty.update(dict.fromkeys(changed))
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

    def matches(self, frame: memoryview) -> bool:
        """Return whether the request has the terms of this plan."""
        return frame[HEAD_END : self.topics_at - EPOCH.size] == self.before

    def request(self, connection: ServerConnection, correlation_id: int) -> Request[FetchRequest]:
        """Return a request for the long way. The session has what stood in the frame."""
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

    def read(self, changed: Iterable[CachedPartition]) -> list[Found] | None:
        """Read each partition. None: the request has to go the long way."""
        replicas, reader, largest = self.replicas, self.session.reader, self.max_bytes
        now, left = replicas.context.runtime.clock.now(), largest
        found: list[Found] = []
        for cached in changed:
            partition, asked = cached.partition, cached.fetch_request
            if (
                partition is None
                or replicas.by_id.get((partition.topic_id, asked.partition)) is not partition
            ):
                return None
            limit = asked.partition_max_bytes
            try:
                spans, size, is_urgent, _ = reading.read_for_follower(
                    replicas,
                    partition,
                    cached,
                    reader,
                    now,
                    limit if limit < left else left,
                    left == largest,
                )
            except (KafkaError, OSError):
                return None  # the long way meets it again, and makes the row of the error
            if is_urgent:
                return None
            left = left - size if left > size else 0
            partition.idle_followers[cached] = None
            found.append((cached, partition, spans, size))
        return found

    def answer(self, found: Iterable[Found], correlation_id: int) -> Parts:
        """Return the frame of the answer: records and other changes. The session remembers them."""
        session = self.session
        topics: dict[bytes, list[Told]] = {}
        for cached, partition, spans, size in found:
            high_watermark, start = partition.high_watermark, partition.log.start_offset
            if not size and high_watermark == cached.high_watermark and start == cached.log_start:
                continue
            row = Told(
                cached.fetch_request.partition,
                high_watermark,
                partition.last_stable_offset,
                start,
                spans,
                size,
            )
            topics.setdefault(cached.topic_id, []).append(row)
            cached.high_watermark, cached.log_start = high_watermark, start
            partition.fetched += 1
            # sent again, even if nothing changes, until the follower asks for other records
            if size:
                session.to_the_end(cached)
                session.dirty[cached] = None
                self.replicas.context.metrics.replication_bytes_out += size
        return answer_frame(correlation_id, session.id if session.lasting else NO_SESSION, topics)


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
        """`later`: partitions that were read, and are read again for the answer."""
        context = plan.replicas.context
        clock = context.runtime.clock
        self.plan, self.connection, self.correlation_id = plan, connection, correlation_id
        self.later = dict.fromkeys(later)
        self.slot: Slot | None = connection.slot(self._hurry)
        self.timer = clock.call_at(clock.now() + plan.wait_s, self._hurry)
        context.metrics.parked_fetches += 1
        plan.session.parked = self

    def read_soon(self) -> None:
        self.plan.replicas.read_soon(self)

    def records_arrived(self) -> None:
        """Read the partitions that have changed."""
        self._resume(at_once=False)

    def _hurry(self) -> None:
        """Answer with what there is: the time is up, or a request waits behind this one. Or end it:
        its connection is gone.
        """
        self._resume(at_once=True)

    def overtaken(self) -> None:
        """Answer with an error: another request of the session came first, so the session does not
        know what the follower knows.
        """
        plan = self.plan
        request = plan.request(self.connection, self.correlation_id)
        self._end().complete(
            plan.dispatcher.encoded(
                request, FETCH.response(error_code=int(Code.INVALID_FETCH_SESSION_EPOCH))
            )
        )

    def _resume(self, *, at_once: bool) -> None:
        """Read on. Called by a partition's writer or a timer, which no error here may reach."""
        if self.slot is None:
            return
        if self.connection.gone:
            self._end()
            return
        try:
            self._read_again(at_once=at_once)
        except Exception as error:
            if self.slot is not None:
                plan = self.plan
                self._end().complete(
                    plan.dispatcher.broken(
                        plan.request(self.connection, self.correlation_id), error
                    )
                )

    def _read_again(self, *, at_once: bool) -> None:
        plan, session = self.plan, self.plan.session
        session.dirty.update(self.later)
        changed = session.take_dirty()
        self.later = dict.fromkeys(changed)
        may = len(changed) <= MOST and plan.dispatcher.authorizer.allowed(
            self.connection.session, plan.operation, plan.resource
        )
        found = plan.read(changed) if may else None
        if found is None:
            self._go_the_long_way(at_once=at_once)
        elif at_once or plan.is_enough(found):
            self.later = {}
            parts = plan.answer(found, self.correlation_id)
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
        """End the wait. The session reads the partitions again whose rows were not sent."""
        plan, session, slot = self.plan, self.plan.session, self.slot
        assert slot is not None
        self.slot = None
        self.timer.cancel()
        session.dirty.update(self.later)
        plan.replicas.context.metrics.parked_fetches -= 1
        if session.parked is self:
            session.parked = None
            if not session.lasting and not goes_on:
                plan.sessions.end(session)
        return slot


def remember(
    request: Request[FetchRequest],
    sessions: FetchSessionCache,
    replicas: ReplicaManager,
    session: FetchSession,
    go_on: GoOn,
) -> None:
    """Make a plan from a request that went on with a follower's session the long way."""
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
        isinstance(known, FollowPlan) and known.session is session and known.matches(request.frame)
    ):
        connection.plans[FETCH.key] = FollowPlan(request, sessions, replicas, session, go_on)
