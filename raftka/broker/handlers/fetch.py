"""Fetch: v4-18; topic ids from v13 on (KIP-516), sessions from v7 on (KIP-227). Consumers and
followers ask alike.

A consumer reads what is committed, a follower what is written; a follower's fetch offset tells what
it has on its disk. With too little to read the request is parked in its session and looks again, at
the end of a turn, where something has changed.

A request of very many partitions reads them in slices (long_work.py). The files of records that it
found in an earlier turn may be gone by now: so it looks for no more when its first slice with
records is over, and reads these again in the turn of its answer.
"""

from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from raftka.broker.fetch import follower_plan as follow
from raftka.broker.fetch.answer import FetchAnswer, answer_bytes, error_row, is_news
from raftka.broker.fetch.consumer_plan import remember
from raftka.broker.fetch.sessions import (
    BEGIN,
    END,
    CachedPartition,
    FetchSession,
    Reader,
)
from raftka.broker.handlers.finding import find
from raftka.broker.handlers.services import Services
from raftka.broker.network.access.authorizer import THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.replica.partition import Partition
from raftka.broker.replica.replica_selector import nearest
from raftka.broker.work.long_work import Steps, drained
from raftka.limits import PARKED_REQUESTS
from raftka.log.log import Log
from raftka.runtime.interfaces import Timer
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.fetch import (
    FETCH,
    READ_COMMITTED,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from raftka.wire.schema import Row

CONSUMER = -1
FAILED = "kafka_server_brokertopicmetrics_failedfetchrequests_total"
# with records, at the most, in an answer that takes several turns: they are read once more in the
# last of them
ROWS_OF_TURN = 256
response = FETCH.response
of_partition = response.responses.partitions


@handles(FETCH, refused=lambda request, code: response(error_code=int(code)))
def fetch(request: Request[FetchRequest], services: Services) -> Steps[FetchResponse | Delayed]:
    run = Fetch(request, services)
    if run.replica >= 0:
        if (
            request.meter is not None
            and run.is_genuine()
            and request.may("CLUSTER_ACTION", THE_CLUSTER)
        ):
            request.meter = None  # no quota of clients holds replication back
        request.dispatcher.kind = services.context.metrics.kind(follow.FOLLOWER)
    yield from run.begin()
    result = yield from run.outcome()
    if run.plain is not None and request.slot is None and request.meter is None:
        remember(request, services.fetch_sessions, run.plain, run.isolated, run.max_bytes)
    if run.replica >= 0 and run.goes_on:
        remember_follower(request, services, run.session)
    return result


def remember_follower(
    request: Request[FetchRequest], services: Services, session: FetchSession
) -> None:
    """Its next requests tell of other offsets, and of nothing else."""

    def go_on(short: Request[FetchRequest]) -> FetchResponse | Delayed:
        run = Fetch(short, services)
        run.has(session, goes_on=True)
        return drained(run.outcome())

    follow.remember(
        request, services.fetch_sessions, services.context, services.replicas, session, go_on
    )


class AbortedUnknown(Exception):
    """Which transactions were aborted is to be looked up first (`AbortedTransactions.load`)."""

    def __init__(self, log: Log) -> None:
        self.log = log


class Fetch:
    """One request: read at once, or parked and read again."""

    __slots__ = (
        "body",
        "broker_epoch",
        "bytes",
        "encoded",
        "full",
        "goes_on",
        "held",
        "hurried",
        "interrupted",
        "isolated",
        "lost",
        "max_bytes",
        "may_pause",
        "min_bytes",
        "pending",
        "plain",
        "reading",
        "replica",
        "request",
        "rows",
        "services",
        "session",
        "settled",
        "slice",
        "stale",
        "timer",
        "watching",
        "woken",
    )

    def __init__(self, request: Request[FetchRequest], services: Services) -> None:
        self.request = request
        self.services = services
        self.body = body = request.body
        state = body.replica_state
        self.replica = state.replica_id if request.version >= 15 else body.replica_id
        self.broker_epoch = state.replica_epoch if request.version >= 15 else -1
        self.isolated = body.isolation_level == READ_COMMITTED
        self.max_bytes: int = min(body.max_bytes, services.metadata.settings["fetch.max.bytes"])
        self.min_bytes: int = body.min_bytes
        if request.meter is not None:
            self.max_bytes, self.min_bytes = request.meter.bound_fetch(
                self.max_bytes, self.min_bytes
            )
        self.pending: Delayed | None = None
        self.timer: Timer | None = None
        self.settled = False  # there is something to tell: enough bytes, an error, a divergence
        # of a consumer of one partition that got records: its next request will look the same
        self.plain: CachedPartition | None = None
        self.bytes = 0
        self.rows: dict[CachedPartition, PartitionData] = {}  # what is to be told
        # errors of a request of very many partitions, whose rows nothing else needs
        self.encoded: FetchAnswer | None = None
        self.held: dict[CachedPartition, None] = {}  # those with records
        self.slice = services.dispatcher.long_work.slices  # in which the records were found
        self.interrupted = False  # it goes on in a later turn than it began
        self.full = False  # no more records are read for this answer
        self.stale = False  # the records were found in an earlier turn
        self.reading = False  # after it was parked
        self.hurried = False  # it is to be answered with what there is
        self.woken = False  # something happened while it was reading
        self.lost = False  # another request of the session came first
        self.may_pause = False
        self.session: FetchSession
        self.goes_on = False
        self.watching = False

    def begin(self) -> Steps[None]:
        """Find the request's session. Raises KafkaError for the answer's top level."""
        services, now = self.services, self.services.context.runtime.clock.now()
        reader = Reader(self.replica, self.broker_epoch)
        session, goes_on = yield from services.fetch_sessions.for_request(
            self.body, reader, now, by_id=self.request.version >= 13
        )
        if reader.follows and self.is_genuine():
            session.heard = now
            self.request.connection.follower = self.replica
        self.has(session, goes_on=goes_on)

    def has(self, session: FetchSession, *, goes_on: bool) -> None:
        self.session, self.goes_on = session, goes_on
        # what happens while it reads
        self.watching = session.lasting or (
            self.body.max_wait_ms > 0 and len(session.partitions) > ROWS_OF_TURN
        )
        if self.watching:
            session.parked = self

    def outcome(self) -> Steps[FetchResponse | Delayed]:
        """Read the partitions that have news, and answer or wait."""
        metrics = self.services.context.metrics
        try:
            yield from self.read_dirty()
            wait_ms = self.body.max_wait_ms
            if wait_ms > 0 and not self.settled:
                if metrics.parked_fetches < PARKED_REQUESTS.value:
                    return self.park(min(wait_ms, follow.MAX_WAIT_MS) / 1000)
                metrics.hit(PARKED_REQUESTS)
            return (yield from self.answer())
        except GeneratorExit:  # the client has gone
            self.abandon()
            self.session.review()  # partitions that were not reached yet have news, too
            raise

    def is_genuine(self) -> bool:
        """Anybody can claim to be a replica, and move the high watermark."""
        registered = self.services.metadata.image.brokers.get(self.replica)
        return registered is not None and registered.epoch == self.broker_epoch

    # reading

    def read_dirty(self) -> Steps[None]:
        """Read where there is news."""
        session = self.session
        self.settled = not session.partitions
        if (
            len(session.partitions) > ROWS_OF_TURN
            and not self._may_last()
            and self.request.meter is None
        ):
            self.encoded = self.encoded or FetchAnswer(self.request, session, told=False)
        self._note_slice()
        for cached in session.take_dirty():
            try:
                self._read_partition(cached, may_pause=True)
            except AbortedUnknown as unknown:
                with suppress(OSError):  # the read finds it again, and has words for it
                    yield from unknown.log.aborted.load(cached.fetch_request.fetch_offset)
                self._read_partition(cached)
            yield
            self._note_slice()
        if self.bytes >= self.min_bytes:
            self.settled = True

    def _note_slice(self) -> None:
        """Another turn may have begun."""
        if (now := self.services.dispatcher.long_work.slices) != self.slice:
            self.slice = now
            self.interrupted = True
            if self.held:
                self.full = self.stale = True

    def _read_partition(self, cached: CachedPartition, *, may_pause: bool = False) -> None:
        """With `may_pause` it raises AbortedUnknown rather than keep the loop from its work."""
        self.may_pause = may_pause
        self.bytes -= cached.size
        cached.size = 0
        fetch_request = cached.fetch_request
        try:
            partition = self._find(cached)
            row = (
                self._consumer_read(partition, cached)
                if self.replica < 0
                else self._follower_read(partition, cached)
            )
        except KafkaError as error:
            self.settled = True
            known = self.services.metadata.image.topic_named(
                cached.topic
            ) or self.services.metadata.image.topics.get(cached.topic_id)
            self.services.context.metrics.count_of_topic(
                FAILED, known.name if known is not None else None
            )
            leads = (
                self.services.metadata.image.partition(cached.topic_id, fetch_request.partition)
                if self.request.version >= 16
                else None
            )
            row = error_row(fetch_request, error, leads)
        else:
            if self.watching:
                partition.watched_by(cached)
        if cached.size:
            self.bytes += cached.size
            self.held[cached] = None
        elif self.held:
            self.held.pop(cached, None)
        if self.encoded is not None and row.error_code:
            self.rows.pop(cached, None)
            self.encoded.add(cached, row)
        elif not self.goes_on or cached.size or is_news(cached, row):
            self.rows[cached] = row
        elif self.rows:
            self.rows.pop(cached, None)

    def _find(self, cached: CachedPartition) -> Partition:
        request, fetch_request = self.request, cached.fetch_request
        if self.replica < 0:
            partition = find(request, self.services, "READ", cached.name, fetch_request.partition)
        elif not request.may("CLUSTER_ACTION", THE_CLUSTER):
            raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
        else:
            name, replicas = cached.name, self.services.replicas
            partition = (
                replicas.find_by_id(name, fetch_request.partition)
                if isinstance(name, bytes)
                else replicas.find(name, fetch_request.partition)
            )
        if cached.partition is not partition:
            cached.leave()
            cached.partition = partition
        partition.check_epoch(fetch_request.current_leader_epoch)
        return partition

    def _consumer_read(self, partition: Partition, cached: CachedPartition) -> PartitionData:
        rack = self.body.rack_id
        leader = partition.leader
        # KIP-392: a follower serves those that the leader may have sent
        if leader is None and (not rack or partition.log.failed is not None):
            partition.leading()
        fetch_request, high_watermark = cached.fetch_request, partition.high_watermark
        if (
            rack
            and leader is not None
            and (preferred := nearest(partition, leader, rack, fetch_request.fetch_offset))
            is not None
        ):
            self.settled = True
            return self._row(
                partition, fetch_request, high_watermark, preferred_read_replica=preferred
            )
        if (
            fetch_request.last_fetched_epoch >= 0
            and (diverging := self._divergence(partition, fetch_request)) is not None
        ):
            return diverging
        return self._read(
            partition,
            cached,
            partition.last_stable_offset if self.isolated else high_watermark,
            high_watermark,
        )

    def _follower_read(self, partition: Partition, cached: CachedPartition) -> PartitionData:
        leader, fetch_request = partition.leading(), cached.fetch_request
        if not self.is_genuine():
            raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER)
        if (
            fetch_request.last_fetched_epoch >= 0
            and (diverging := self._divergence(partition, fetch_request)) is not None
        ):
            # it learns these when it has cut its log: else its session never said them again
            diverging.high_watermark = diverging.last_stable_offset = -1
            return diverging
        before, now = partition.high_watermark, self.services.context.runtime.clock.now()
        throttle = (
            self.services.replicas.throttles.sends(partition)
            if self.replica not in leader.isr
            else None
        )
        if throttle is not None and throttle.free_at > now:
            row = self._row(partition, fetch_request, before)
        else:
            row = self._read(partition, cached, partition.log.end_offset, before)
            if throttle is not None:
                throttle.passed(cached.size, now)
        partition.apply(
            leader.fetched(self.replica, fetch_request.fetch_offset, now, self.broker_epoch)
        )
        partition.start_told(self.replica, fetch_request.log_start_offset)
        if 0 <= fetch_request.log_start_offset < partition.log.start_offset:
            self.settled = True  # somebody may wait for it to follow
        if leader.high_watermark != before:
            row.high_watermark = leader.high_watermark
            row.last_stable_offset = partition.last_stable_offset
        if (
            self.goes_on
            and partition.manager.prefers_racks
            and row.high_watermark > cached.high_watermark
        ):
            self.settled = True  # its consumers wait for that
        if self.replica not in leader.isr:
            self.session.dirty[cached] = None  # each of its fetches may be the one that lets it in
        return row

    def _divergence(
        self, partition: Partition, fetch_request: FetchPartition
    ) -> PartitionData | None:
        """KIP-320: where the reader's log and ours part, if they do."""
        if (
            fetch_request.last_fetched_epoch == partition.log.latest_epoch
            and fetch_request.fetch_offset <= partition.log.end_offset
        ):
            return None
        epoch, end = partition.log.epoch_end(fetch_request.last_fetched_epoch)
        if epoch < 0 or fetch_request.last_fetched_epoch > partition.leader_epoch:
            raise KafkaError(Code.OFFSET_OUT_OF_RANGE)
        if epoch == fetch_request.last_fetched_epoch and end >= fetch_request.fetch_offset:
            return None
        self.settled = True
        return self._row(
            partition,
            fetch_request,
            partition.high_watermark,
            diverging_epoch=of_partition.diverging_epoch(epoch=epoch, end_offset=end),
        )

    def _read(
        self, partition: Partition, cached: CachedPartition, readable: int, high_watermark: int
    ) -> PartitionData:
        log, fetch_request = partition.log, cached.fetch_request
        offset = fetch_request.fetch_offset
        if offset < log.start_offset:
            raise KafkaError(Code.OFFSET_OUT_OF_RANGE)
        if offset >= readable:
            if offset > log.end_offset:
                raise KafkaError(Code.OFFSET_OUT_OF_RANGE)
            return self._row(partition, fetch_request, high_watermark)
        if fetch_request.partition_max_bytes < 0 or self.max_bytes < 0:
            raise KafkaError(Code.UNKNOWN_SERVER_ERROR)  # Kafka's own answer
        if self.isolated and self.may_pause and offset < log.aborted.known_from:
            raise AbortedUnknown(log)
        room = min(fetch_request.partition_max_bytes, self.max_bytes - self.bytes)
        may_read = not self.full and (room > 0 or not self.bytes)
        try:
            read = log.read if self.replica >= 0 else log.read_for_consumer
            spans, size = (
                read(offset, max(room, 0), readable, not self.bytes) if may_read else ((), 0)
            )
            aborted = (
                log.aborted.find(offset, log.bound_of(offset, spans[-1]))
                if spans and self.isolated
                else ()
            )
        except OSError as error:
            self.services.housekeeping.directories.failed(partition.home, error)
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(error)) from error
        cached.size = size
        if not size:
            self.session.dirty[cached] = None  # what did not fit comes with the next answer
            return self._row(partition, fetch_request, high_watermark)
        row = self._row(partition, fetch_request, high_watermark, records=spans)
        if aborted:
            entry = of_partition.aborted_transactions
            row.aborted_transactions = [
                entry(producer_id=each.producer_id, first_offset=each.first_offset)
                for each in aborted
            ]
        return row

    def _row(
        self,
        partition: Partition,
        fetch_request: FetchPartition,
        high_watermark: int,
        records: Any = b"",
        **fields: Any,
    ) -> PartitionData:
        return of_partition(
            partition_index=fetch_request.partition,
            high_watermark=high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.start_offset,
            aborted_transactions=[] if self.isolated else None,
            records=records,
            **fields,
        )

    # answering

    def answer(self) -> Steps[FetchResponse]:
        """With what there is; the session then knows what was told."""
        session, version = self.session, self.request.version
        if (meter := self.request.meter) is not None and not meter.may_send(
            answer_bytes(self.request, self.rows)
        ):
            self.abandon()
            return response(session_id=session.id if session.lasting else 0)
        lasted = session.lasting
        told = lasted or self._admitted()
        if told and not lasted:
            yield from self._watch_all()
        answer = self.encoded or FetchAnswer(self.request, session, told)
        if self.encoded is not None or len(self.rows) > ROWS_OF_TURN:
            for cached in islice(list(self.held), ROWS_OF_TURN, None) if self.stale else ():
                self._read_partition(cached)  # its records come with the next answer
                yield
            for cached in list(self.rows):
                if cached not in self.held:
                    answer.add(cached, self.rows[cached] if told else self.rows.pop(cached))
                yield
            yield from answer.finish_topics(self.held)
        self._note_slice()
        # from here on nothing waits, so that the records are still there when they are sent
        if self.lost:
            self.abandon()
            return response(error_code=int(Code.INVALID_FETCH_SESSION_EPOCH))
        if self.stale:
            self.full = False
            for cached in list(self.held):
                self._read_partition(cached)
        answer.add_rest(self.rows)
        if lasted or self.body.session_epoch == END or version < 7:
            self.plain = self._plain()
        if self.replica >= 0:
            self.services.context.metrics.replication_bytes_out += self.bytes
        self._finish()
        return response(
            session_id=session.id if session.lasting else 0,
            responses=answer.topics(),
            node_endpoints=answer.endpoints(self.services),
        )

    def _admitted(self) -> bool:
        """Whether the request begins a session that lasts."""
        return self._may_last() and self.services.fetch_sessions.admit(
            self.session, self.session.created
        )

    def _may_last(self) -> bool:
        """Return whether its session may outlive the answer."""
        return self.session.lasting or (
            self.body.session_epoch == BEGIN and self.request.version >= 7 and not self.goes_on
        )

    def _plain(self) -> CachedPartition | None:
        if (
            not len(self.session.partitions) == len(self.body.topics) == 1
            or self.replica != CONSUMER
            or not self.bytes
        ):
            return None
        if (
            self.pending is not None
            or len(self.rows) != 1
            or self.body.forgotten_topics_data
            or (self.body.rack_id and self.services.replicas.prefers_racks)
        ):
            return None
        (cached,) = self.rows
        partition, epoch = cached.partition, cached.fetch_request.last_fetched_epoch
        return (
            cached
            if partition is not None
            and partition.leader is not None
            and (epoch < 0 or epoch == partition.leader_epoch)
            else None
        )

    # waiting

    def _watch_all(self) -> Steps[None]:
        """Watch the partitions from now on. An interrupted request looks at all of them again.

        It has missed what happened between its look at a partition and the watch.
        """
        for cached in list(self.session.partitions.values()):
            if cached.partition is not None:
                cached.partition.watched_by(cached)
            yield
        self._note_slice()
        if self.interrupted and not self.watching:
            self.session.review()
        self.watching = True

    def park(self, wait_s: float) -> Delayed:
        session = self.session
        self.pending = Delayed(self.request, self._answer)
        self.services.context.metrics.parked_fetches += 1
        clock = self.services.context.runtime.clock
        self.timer = clock.call_at(clock.now() + wait_s, self._answer)
        session.parked = self
        if not self.watching:
            drained(self._watch_all())
        if self.request.slot is not None and session.dirty:
            self.read_soon()  # something has happened while it was reading
        return self.pending

    def read_soon(self) -> None:
        self.services.replicas.read_soon(self)

    def records_arrived(self) -> None:
        """Something changed at some of the partitions."""
        self._resume(at_once=False)

    def _answer(self) -> None:
        """Time is up, or somebody waits behind: with what there is. Or nobody is there any more."""
        self._resume(at_once=True)

    def _resume(self, *, at_once: bool) -> None:
        """Called by those who wrote, or by a timer: what goes wrong here is not their matter."""
        pending = self.pending
        if pending is None:
            return
        if pending.over:
            self.abandon()
        elif self.reading:
            self.hurried, self.woken = self.hurried or at_once, True
        else:
            self.reading, self.hurried, self.woken = True, at_once, False
            long_work = self.services.dispatcher.long_work
            long_work.run(
                self.request.api.name,
                self._read_again(),
                partial(self._was_read, pending),
                lambda: self.pending is not None,
                spent=self.request.spent,
            )

    def _read_again(self) -> Steps[Row | None]:
        held = bool(self.held)
        yield from self.read_dirty()
        if not self.settled and not self.hurried:
            return None
        self.stale = self.stale or held  # found some time ago
        return (yield from self.answer())

    def _was_read(self, pending: Delayed, row: Row | Exception | None) -> None:
        self.reading = False
        if isinstance(row, Exception):
            self.abandon()
            pending.broken(row)
        elif row is not None:
            pending.complete(row)
        elif self.woken:
            self._resume(at_once=self.hurried)

    def overtaken(self) -> None:
        """Another request of the session came before this one's answer, so it is not known any more
        what the reader knows.
        """
        pending = self.pending
        if pending is None:
            self.lost = True
            return
        self.abandon()
        pending.complete(response(error_code=int(Code.INVALID_FETCH_SESSION_EPOCH)))

    def abandon(self) -> None:
        """Nothing of it was told."""
        self.session.dirty.update(dict.fromkeys(self.rows))
        self._finish()

    def _finish(self) -> None:
        session = self.session
        for cached in self.held:
            cached.size = 0
        if self.pending is not None:
            self.pending = None
            self.services.context.metrics.parked_fetches -= 1
        if session.parked is self:
            session.parked = None
        if not session.lasting and session.parked is None:
            if self.plain is None:
                self.services.fetch_sessions.end(session)
            else:  # a plan is made of its partition, which stays where it was found
                session.partitions, session.dirty = {}, {}
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
