"""One Fetch on its way: the partitions that it reads, its wait for records, its answer.

With too little to read a Fetch is parked in its session. It reads again, at the end of a turn,
where something has changed, and is answered when it has enough or its time is up.

A request of very many partitions reads them in slices (long_work.py). The files of records that it
found in an earlier turn may be gone by now. So it reads no more records when its first slice with
records is over, and reads these again in the turn of its answer.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import cache, partial
from itertools import islice

from raftka.broker.context import MetadataCache
from raftka.broker.fetch import reading
from raftka.broker.fetch.reading import AbortedUnknown, Divergence
from raftka.broker.fetch.sessions import (
    BEGIN,
    END,
    CachedPartition,
    FetchSession,
    FetchSessionCache,
    Reader,
)
from raftka.broker.network.access.authorizer import THE_CLUSTER
from raftka.broker.network.request import Delayed, Request
from raftka.broker.replica.finding import find
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.partition import Partition
from raftka.broker.replica.replica_selector import nearest
from raftka.broker.work.long_work import Steps, drained
from raftka.limits import PARKED_REQUESTS
from raftka.metadata.image import PartitionImage
from raftka.runtime.interfaces import FileSpan, Timer
from raftka.wire.codec import varint
from raftka.wire.encoder import EncodedRows
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.fetch import (
    FETCH,
    READ_COMMITTED,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)
from raftka.wire.schema import Row

FAILED = "kafka_server_brokertopicmetrics_failedfetchrequests_total"
MAX_WAIT_MS = 3_600_000
# with records, at the most, in an answer that takes several turns: they are read once more in the
# last of them
ROWS_OF_TURN = 256
# errors that name the leader to read from
NAMES_LEADER = frozenset({Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH})

response = FETCH.response
of_topic = response.responses
of_partition = of_topic.partitions


class State(Enum):
    # the handler reads or answers, in one turn or several; changes meanwhile are not noted
    READING = auto()
    WATCHING = auto()  # as READING, and partitions note their changes in the session
    OVERTAKEN = auto()  # another request of the session came first: the answer is an error
    PARKED = auto()  # it waits for records, until its time is up
    READING_AGAIN = auto()  # after it was parked
    WOKEN = auto()  # as READING_AGAIN, and something has changed since: it reads once more
    HURRIED = auto()  # as READING_AGAIN, and the answer is what there is
    OVER = auto()  # answered, or abandoned


class Event(Enum):
    WATCH = auto()  # all partitions note their changes from now on
    OVERTAKE = auto()  # another request of the session has come
    PARK = auto()
    CHANGE = auto()  # something has changed at one of the partitions
    HURRY = auto()  # its time is up, a request waits behind it, or its connection is gone
    TOO_LITTLE = auto()  # everything that had changed is read
    END = auto()  # the answer is complete, or its reader waits no more


TRANSITIONS: Mapping[State, Mapping[Event, State]] = {
    State.READING: {Event.WATCH: State.WATCHING, Event.END: State.OVER},
    State.WATCHING: {
        Event.OVERTAKE: State.OVERTAKEN,
        Event.PARK: State.PARKED,
        Event.END: State.OVER,
    },
    State.OVERTAKEN: {Event.END: State.OVER},
    State.PARKED: {
        Event.CHANGE: State.READING_AGAIN,
        Event.HURRY: State.HURRIED,
        Event.END: State.OVER,
    },
    State.READING_AGAIN: {
        Event.CHANGE: State.WOKEN,
        Event.HURRY: State.HURRIED,
        Event.TOO_LITTLE: State.PARKED,
        Event.END: State.OVER,
    },
    State.WOKEN: {
        Event.CHANGE: State.WOKEN,
        Event.HURRY: State.HURRIED,
        Event.TOO_LITTLE: State.READING_AGAIN,
        Event.END: State.OVER,
    },
    State.HURRIED: {
        Event.CHANGE: State.HURRIED,
        Event.HURRY: State.HURRIED,
        Event.END: State.OVER,
    },
    State.OVER: {Event.END: State.OVER},  # an answer that failed at its very end is abandoned
}


class Records(Enum):
    """The records that a Fetch has found so far."""

    FRESH = auto()  # all in this turn: their files are there
    OLD = auto()  # some in an earlier turn: they are read once more for the answer
    FULL = auto()  # as OLD, and no others are read for this answer


class Fetch:
    """One request: answered at once, or parked and read again."""

    __slots__ = (
        "answer_rows",
        "began",
        "body",
        "bytes",
        "held",
        "incremental",
        "isolated",
        "max_bytes",
        "min_bytes",
        "pending",
        "plain",
        "reader",
        "records",
        "replicas",
        "request",
        "rows",
        "session",
        "sessions",
        "slice",
        "state",
        "timer",
    )

    def __init__(
        self,
        request: Request[FetchRequest],
        sessions: FetchSessionCache,
        replicas: ReplicaManager,
    ) -> None:
        self.request, self.sessions, self.replicas = request, sessions, replicas
        self.body = body = request.body
        replica = body.replica_state
        self.reader = (
            Reader(replica.replica_id, replica.replica_epoch)
            if request.version >= 15
            else Reader(body.replica_id, -1)
        )
        self.isolated = body.isolation_level == READ_COMMITTED
        settings = replicas.context.metadata.settings
        self.max_bytes: int = min(body.max_bytes, settings["fetch.max.bytes"])
        self.min_bytes: int = body.min_bytes
        if request.meter is not None:
            self.max_bytes, self.min_bytes = request.meter.bound_fetch(
                self.max_bytes, self.min_bytes
            )
        self.state = State.READING
        self.session: FetchSession
        self.incremental = False  # it goes on with its session: the answer has changes alone
        self.pending: Delayed | None = None
        self.timer: Timer | None = None
        # of a consumer of one partition that got records: its next request will look the same
        self.plain: CachedPartition | None = None
        self.bytes = 0
        self.rows: dict[CachedPartition, PartitionData] = {}  # for the answer
        self.held: dict[CachedPartition, None] = {}  # those with records
        self.records = Records.FRESH
        # of a request of very many partitions: errors are encoded at once, no other code needs them
        self.answer_rows: FetchAnswer | None = None
        # the slice of long work in which it began, and in which the last records were found
        self.began = self.slice = request.dispatcher.long_work.slices

    def begin(self) -> Steps[None]:
        """Find the request's session. Raises KafkaError for the answer's top level."""
        now, reader = self.replicas.context.runtime.clock.now(), self.reader
        session, incremental = yield from self.sessions.for_request(
            self.body, reader, now, by_id=self.request.version >= 13
        )
        if reader.follows and self.is_registered():
            session.heard = now
            self.request.connection.follower = reader.replica
        self.attach(session, incremental=incremental)

    def attach(self, session: FetchSession, *, incremental: bool) -> None:
        """Serve the request in this session."""
        self.session, self.incremental = session, incremental
        if session.lasting or (
            self.body.max_wait_ms > 0 and len(session.partitions) > ROWS_OF_TURN
        ):
            self._on(Event.WATCH)
            session.parked = self

    def outcome(self) -> Steps[FetchResponse | Delayed]:
        """Read the partitions that have changed, and answer or wait."""
        metrics = self.replicas.context.metrics
        try:
            is_enough = yield from self.read_changed()
            wait_ms = self.body.max_wait_ms
            if wait_ms > 0 and not is_enough and self.state is not State.OVERTAKEN:
                if metrics.parked_fetches < PARKED_REQUESTS.value:
                    return self.park(min(wait_ms, MAX_WAIT_MS) / 1000)
                metrics.hit(PARKED_REQUESTS)
            return (yield from self.answer())
        except GeneratorExit:  # the client has gone
            self.abandon()
            self.session.review()  # partitions that were not read yet have changed, too
            raise

    def is_registered(self) -> bool:
        """Return whether the reader is a replica as the controller knows it."""
        return reading.is_registered(self.replicas.context.metadata.image, self.reader)

    def _on(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state][event]

    # reading

    def read_changed(self) -> Steps[bool]:
        """Read the partitions that have changed. Return whether that is enough for an answer."""
        session = self.session
        is_enough = not session.partitions
        if (
            len(session.partitions) > ROWS_OF_TURN
            and not self._may_last()
            and self.request.meter is None
        ):
            self.answer_rows = self.answer_rows or FetchAnswer(
                self.request, session, remembered=False
            )
        self._note_slice()
        for cached in session.take_dirty():
            try:
                is_urgent = self._read_partition(cached, may_pause=True)
            except AbortedUnknown as unknown:
                with suppress(OSError):  # the read meets it again, and has a code for it
                    yield from unknown.log.aborted.load(cached.fetch_request.fetch_offset)
                is_urgent = self._read_partition(cached)
            is_enough = is_enough or is_urgent
            yield
            self._note_slice()
        return is_enough or self.bytes >= self.min_bytes

    def _note_slice(self) -> None:
        """Note whether another turn has begun."""
        if (now := self.request.dispatcher.long_work.slices) != self.slice:
            self.slice = now
            if self.held:
                self.records = Records.FULL

    def _read_partition(self, cached: CachedPartition, *, may_pause: bool = False) -> bool:
        """Read one partition, and keep its row if it belongs into the answer. Return whether the
        answer should not wait. With `may_pause` it raises AbortedUnknown.
        """
        self.bytes -= cached.size
        cached.size = 0
        try:
            partition = self._find(cached)
            row, is_urgent = (
                self._read_for_follower(partition, cached)
                if self.reader.replica >= 0
                else self._read_for_consumer(partition, cached, may_pause)
            )
        except KafkaError as error:
            row, is_urgent = self._error(cached, error), True
        else:
            if self.state is not State.READING:
                partition.watched_by(cached)
        if cached.size:
            self.bytes += cached.size
            self.held[cached] = None
        elif self.held:
            self.held.pop(cached, None)
        if self.answer_rows is not None and row.error_code:
            self.rows.pop(cached, None)
            self.answer_rows.add(cached, row)
        elif not self.incremental or cached.size or has_changed(cached, row):
            self.rows[cached] = row
        elif self.rows:
            self.rows.pop(cached, None)
        return is_urgent

    def _find(self, cached: CachedPartition) -> Partition:
        request, index, name = self.request, cached.fetch_request.partition, cached.name
        if self.reader.replica < 0:
            partition = find(request, self.replicas, "READ", name, index)
        elif not request.may("CLUSTER_ACTION", THE_CLUSTER):
            raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
        elif isinstance(name, bytes):
            partition = self.replicas.find_by_id(name, index)
        else:
            partition = self.replicas.find(name, index)
        if cached.partition is not partition:
            cached.leave()
            cached.partition = partition
        return partition

    def _read_for_follower(
        self, partition: Partition, cached: CachedPartition
    ) -> tuple[PartitionData, bool]:
        now = self.replicas.context.runtime.clock.now()
        limit, at_least_one = self._room(cached)
        try:
            spans, cached.size, is_urgent, divergence = reading.read_for_follower(
                self.replicas, partition, cached, self.reader, now, limit, at_least_one
            )
        except OSError as error:
            raise self._failed(partition, error) from error
        if divergence is not None:
            row = self._divergence_row(partition, cached, divergence)
            # it learns these when it has cut its log: else its session never told them again
            row.high_watermark = row.last_stable_offset = -1
            return row, True
        high_watermark = partition.high_watermark
        return self._row(partition, cached, high_watermark, records=spans or b""), is_urgent

    def _read_for_consumer(
        self, partition: Partition, cached: CachedPartition, may_pause: bool
    ) -> tuple[PartitionData, bool]:
        rack, leader, asked = self.body.rack_id, partition.leader, cached.fetch_request
        partition.check_epoch(asked.current_leader_epoch)
        # KIP-392: a follower serves those that the leader may have sent
        if leader is None and (not rack or partition.log.failed is not None):
            partition.leading()
        log, offset = partition.log, asked.fetch_offset
        if (
            rack
            and leader is not None
            and (preferred := nearest(partition, leader, rack, offset)) is not None
        ):
            row = self._row(partition, cached, partition.high_watermark)
            row.preferred_read_replica = preferred
            return row, True
        if asked.last_fetched_epoch >= 0:
            divergence = reading.find_divergence(partition, asked)
            if divergence is not None:
                return self._divergence_row(partition, cached, divergence), True
        limit, at_least_one = self._room(cached)
        try:
            spans, size, high_watermark, stable = reading.read_for_consumer(
                partition, offset, limit, self.isolated, at_least_one, may_pause
            )
            aborted = (
                log.aborted.find(offset, log.bound_of(offset, spans[-1]))
                if spans and self.isolated
                else ()
            )
        except OSError as error:
            raise self._failed(partition, error) from error
        cached.size = size
        if not size and offset < (stable if self.isolated else high_watermark):
            self.session.dirty[cached] = None  # what did not fit comes with the next answer
        row = self._row(partition, cached, high_watermark, records=spans or b"")
        row.last_stable_offset = stable
        if aborted:
            entry = of_partition.aborted_transactions
            row.aborted_transactions = [
                entry(producer_id=each.producer_id, first_offset=each.first_offset)
                for each in aborted
            ]
        return row, False

    def _room(self, cached: CachedPartition) -> tuple[int, bool]:
        """Return the bytes that the answer has left for a partition, below 0 if the request has a
        negative limit, and whether a larger batch fits as well.
        """
        largest: int = min(cached.fetch_request.partition_max_bytes, self.max_bytes)
        if self.records is Records.FULL and largest >= 0:
            return 0, False
        return min(largest, max(self.max_bytes - self.bytes, 0)), not self.bytes

    def _failed(self, partition: Partition, error: OSError) -> KafkaError:
        self.replicas.housekeeping.directories.failed(partition.home, error)
        return KafkaError(Code.KAFKA_STORAGE_ERROR, str(error))

    def _row(
        self,
        partition: Partition,
        cached: CachedPartition,
        high_watermark: int,
        records: Sequence[FileSpan] | bytes = b"",
    ) -> PartitionData:
        return of_partition(
            partition_index=cached.fetch_request.partition,
            high_watermark=high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.start_offset,
            aborted_transactions=[] if self.isolated else None,
            records=records,
        )

    def _divergence_row(
        self, partition: Partition, cached: CachedPartition, divergence: Divergence
    ) -> PartitionData:
        row, (epoch, end) = self._row(partition, cached, partition.high_watermark), divergence
        row.diverging_epoch = of_partition.diverging_epoch(epoch=epoch, end_offset=end)
        return row

    def _error(self, cached: CachedPartition, error: KafkaError) -> PartitionData:
        context, asked = self.replicas.context, cached.fetch_request
        image = context.metadata.image
        topic = image.topic_named(cached.topic) or image.topics.get(cached.topic_id)
        context.metrics.count_of_topic(FAILED, topic.name if topic is not None else None)
        leads = (
            image.partition(cached.topic_id, asked.partition)
            if self.request.version >= 16
            else None
        )
        return error_row(asked, error, leads)

    # answering

    def answer(self) -> Steps[FetchResponse]:
        """Answer with what there is. The session remembers what the answer says."""
        session, version = self.session, self.request.version
        if (meter := self.request.meter) is not None and not meter.may_send(
            answer_bytes(self.request, self.rows)
        ):
            self.abandon()
            return response(session_id=session.id if session.lasting else 0)
        lasted = session.lasting
        remembered = lasted or self._admitted()
        if remembered and not lasted:
            yield from self._watch_all()
        answer = self.answer_rows or FetchAnswer(self.request, session, remembered)
        if self.answer_rows is not None or len(self.rows) > ROWS_OF_TURN:
            yield from self._add_rows_in_slices(answer, remembered)
        self._note_slice()
        # from here on nothing waits, so that the records are still there when they are sent
        if self.state is State.OVERTAKEN:
            self.abandon()
            return response(error_code=int(Code.INVALID_FETCH_SESSION_EPOCH))
        if self.records is not Records.FRESH:
            self.records = Records.OLD
            for cached in list(self.held):
                self._read_partition(cached)
        answer.add_rest(self.rows)
        if lasted or self.body.session_epoch == END or version < 7:
            self.plain = self._plain()
        if self.reader.replica >= 0:
            self.replicas.context.metrics.replication_bytes_out += self.bytes
        self._finish()
        return response(
            session_id=session.id if session.lasting else 0,
            responses=answer.topics(),
            node_endpoints=answer.endpoints(self.replicas.context.metadata),
        )

    def _add_rows_in_slices(self, answer: "FetchAnswer", remembered: bool) -> Steps[None]:
        """Add the rows without records; those with records follow in the turn of the answer."""
        is_old = self.records is not Records.FRESH
        for cached in islice(list(self.held), ROWS_OF_TURN, None) if is_old else ():
            self._read_partition(cached)  # its records come with the next answer
            yield
        for cached in list(self.rows):
            if cached not in self.held:
                answer.add(cached, self.rows[cached] if remembered else self.rows.pop(cached))
            yield
        yield from answer.finish_topics(self.held)

    def _admitted(self) -> bool:
        """Begin a session that lasts, if the request asks for one and there is room. Return whether
        it did.
        """
        return self._may_last() and self.sessions.admit(self.session, self.session.created)

    def _may_last(self) -> bool:
        """Return whether its session may outlive the answer."""
        return self.session.lasting or (
            self.body.session_epoch == BEGIN and self.request.version >= 7 and not self.incremental
        )

    def _plain(self) -> CachedPartition | None:
        """Return the partition of a request that a plan can answer next time."""
        if (
            not len(self.session.partitions) == len(self.body.topics) == 1
            or self.reader.replica >= 0
            or not self.bytes
        ):
            return None
        if (
            self.pending is not None
            or len(self.rows) != 1
            or self.body.forgotten_topics_data
            or (self.body.rack_id and self.replicas.prefers_racks)
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
        """Let all partitions note their changes from now on.

        A request that was interrupted has missed what changed between its read of a partition and
        now: its session reads everything again.
        """
        for cached in list(self.session.partitions.values()):
            if cached.partition is not None:
                cached.partition.watched_by(cached)
            yield
        self._note_slice()
        if self.state is State.READING:
            if self.slice != self.began:
                self.session.review()
            self._on(Event.WATCH)

    def park(self, wait_s: float) -> Delayed:
        """Wait for changes, at most `wait_s` seconds."""
        session = self.session
        self.pending = Delayed(self.request, self._hurry)
        self.replicas.context.metrics.parked_fetches += 1
        clock = self.replicas.context.runtime.clock
        self.timer = clock.call_at(clock.now() + wait_s, self._hurry)
        session.parked = self
        if self.state is State.READING:
            drained(self._watch_all())
        self._on(Event.PARK)
        if self.request.slot is not None and session.dirty:
            self.read_soon()  # something has changed while it was reading
        return self.pending

    def read_soon(self) -> None:
        self.replicas.read_soon(self)

    def records_arrived(self) -> None:
        """Read the partitions that have changed."""
        self._resume(Event.CHANGE)

    def _hurry(self) -> None:
        """Answer with what there is: the time is up, or a request waits behind this one. Or end it:
        its connection is gone.
        """
        self._resume(Event.HURRY)

    def _resume(self, event: Event) -> None:
        """Read on. Called by a partition's writer or a timer, which no error here may reach."""
        pending = self.pending
        if pending is None:
            return
        if pending.over:
            self.abandon()
            return
        was_parked = self.state is State.PARKED
        self._on(event)
        if was_parked:
            self._begin_reading(pending)

    def _begin_reading(self, pending: Delayed) -> None:
        self.request.dispatcher.long_work.run(
            self.request.api.name,
            self._read_again(),
            partial(self._on_read, pending),
            lambda: self.pending is not None,
            spent=self.request.spent,
        )

    def _read_again(self) -> Steps[Row | None]:
        """Return the answer; None: there is too little for one."""
        if self.held and self.records is Records.FRESH:
            self.records = Records.OLD
        is_enough = yield from self.read_changed()
        if not is_enough and self.state is not State.HURRIED:
            return None
        return (yield from self.answer())

    def _on_read(self, pending: Delayed, row: Row | Exception | None) -> None:
        if isinstance(row, Exception):
            self.abandon()
            pending.broken(row)
            return
        if row is not None:
            pending.complete(row)
            return
        self._on(Event.TOO_LITTLE)
        if self.state is State.READING_AGAIN:
            if pending.over:
                self.abandon()
            else:
                self._begin_reading(pending)

    def overtaken(self) -> None:
        """Answer with an error: another request of the session came before this one's answer, so
        the session does not know what its reader knows.
        """
        pending = self.pending
        if pending is None:
            self._on(Event.OVERTAKE)
            return
        self.abandon()
        pending.complete(response(error_code=int(Code.INVALID_FETCH_SESSION_EPOCH)))

    def abandon(self) -> None:
        """End it without its answer: the partitions of its rows have to be read again."""
        self.session.dirty.update(dict.fromkeys(self.rows))
        self._finish()

    def _finish(self) -> None:
        self._on(Event.END)
        session = self.session
        for cached in self.held:
            cached.size = 0
        if self.pending is not None:
            self.pending = None
            self.replicas.context.metrics.parked_fetches -= 1
        if session.parked is self:
            session.parked = None
        if not session.lasting and session.parked is None:
            if self.plain is None:
                self.sessions.end(session)
            else:  # a plan is made of its partition, which stays where it was found
                session.partitions, session.dirty = {}, {}
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class FetchAnswer:
    """The rows of an answer, by topic, and the brokers that its errors name."""

    def __init__(
        self, request: Request[FetchRequest], session: FetchSession, remembered: bool
    ) -> None:
        """`remembered`: the session remembers the rows of this answer."""
        self._request = request
        self._session = session
        self._remembered = remembered
        self._rows: dict[str | bytes, tuple[CachedPartition, EncodedRows[PartitionData]]] = {}
        self._added: set[CachedPartition] = set()
        self._finished: EncodedRows[FetchableTopicResponse] | None = None  # topics of a long answer
        self._leaders: set[int] = set()

    def add(self, cached: CachedPartition, row: PartitionData) -> None:
        """Add a row, and let the session remember it."""
        session = self._session
        topic = self._rows.get(cached.name)
        if topic is None:
            topic = self._rows[cached.name] = cached, self._request.encoded_rows(of_partition)
        topic[1].add(row)
        if row.error_code:
            self._leaders.add(row.current_leader.leader_id)
        if (partition := cached.partition) is not None:
            partition.fetched += 1
            if not session.follows:
                partition.bytes_out += cached.size
        if self._remembered:
            self._added.add(cached)
            # records and errors are sent again, even if nothing changes, until the reader asks for
            # other records
            cached.high_watermark, cached.log_start = row.high_watermark, row.log_start_offset
            if cached.size:
                session.to_the_end(cached)
            if cached.size or is_repeated(row):
                session.dirty[cached] = None

    def add_rest(self, rows: Mapping[CachedPartition, PartitionData]) -> None:
        """Add the rows that are not in it yet."""
        for cached, row in rows.items():
            if cached not in self._added:
                self.add(cached, row)

    def finish_topics(self, but: Iterable[CachedPartition]) -> Steps[None]:
        """Encode the topics of a long answer, except those of the partitions `but`, to which rows
        will be added.
        """
        self._finished = self._request.encoded_rows(of_topic)
        names = {cached.name for cached in but}
        for name, (first, rows) in list(self._rows.items()):
            if name not in names:
                del self._rows[name]
                self._finished.add(
                    of_topic(topic=first.topic, topic_id=first.topic_id, partitions=rows)
                )
            yield

    def topics(self) -> Sequence[FetchableTopicResponse] | EncodedRows[FetchableTopicResponse]:
        rest = [
            of_topic(topic=first.topic, topic_id=first.topic_id, partitions=rows)
            for first, rows in self._rows.values()
        ]
        if self._finished is None:
            return rest
        for topic in rest:
            self._finished.add(topic)
        return self._finished

    def endpoints(self, metadata: MetadataCache) -> list[NodeEndpoint]:
        """Return the addresses of the leaders that its errors name (KIP-951)."""
        request = self._request
        if not self._leaders or request.version < 16:
            return []
        session = request.session
        return metadata.endpoints_of(
            self._leaders, session.listener, session.reached_at, response.node_endpoints
        )


def error_row(
    fetch_request: FetchPartition, error: KafkaError, leads: PartitionImage | None
) -> PartitionData:
    """Return the row of an error. `leads`: the partition's state, if a row may name its leader."""
    absent = error.code in (
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.TOPIC_AUTHORIZATION_FAILED,
    )
    row = of_partition(
        partition_index=fetch_request.partition,
        error_code=int(error.code),
        high_watermark=-1,
        aborted_transactions=[] if absent else None,
        records=b"",
    )
    if error.code in NAMES_LEADER and leads is not None:
        row.current_leader = of_partition.current_leader(
            leader_id=leads.leader, leader_epoch=leads.leader_epoch
        )
    return row


def has_changed(cached: CachedPartition, row: PartitionData) -> bool:
    """Return whether the next answer of a session has this row, which has no records."""
    return bool(
        row.high_watermark != cached.high_watermark
        or row.log_start_offset != cached.log_start
        or is_repeated(row)
    )


def is_repeated(row: PartitionData) -> bool:
    """Return whether each answer of a session has this row: errors, divergences, another replica to
    read from.
    """
    return bool(row.error_code or row.diverging_epoch.epoch >= 0 or row.preferred_read_replica >= 0)


def answer_bytes(
    request: Request[FetchRequest], rows: Mapping[CachedPartition, PartitionData]
) -> int:
    """Return the size of an answer with these rows as a quota counts it: with its size field,
    without its header. Rows of errors count, too.
    """
    version, flexible = request.version, request.version in FETCH.flexible
    size, of_a_topic, of_a_row = _sizes(version, request.body.isolation_level == READ_COMMITTED)
    topics: set[str | bytes] = set()
    for cached in rows:
        if cached.name not in topics:
            topics.add(cached.name)
            size += of_a_topic + (len(cached.topic.encode()) if version < 13 else 0)
        size += of_a_row + cached.size + (len(varint(cached.size + 1)) - 1 if flexible else 0)
    return size


@cache
def _sizes(version: int, isolated: bool) -> tuple[int, int, int]:
    """Return the bytes of an answer without rows, of a topic, of a partition without records."""
    row = of_partition(aborted_transactions=[] if isolated else None, records=b"")
    answers = (
        response(),
        response(responses=[of_topic(partitions=[])]),
        response(responses=[of_topic(partitions=[row])]),
    )
    none, topic, partition = [len(FETCH.encode_response(version, each)) for each in answers]
    return 4 + none, topic - none, partition - topic
