"""One ShareFetch on its way: its acknowledgements, its wait for records, the records that it
acquires.

Acknowledgements are written first. Then the fetch waits until enough bytes can be acquired, or its
time is up; it acquires and reads them in the turn of its answer.
"""

from bisect import bisect_right
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from operator import itemgetter

from raftka.broker.network.request import Delayed, Request
from raftka.broker.share.acknowledge import Acknowledgements, check_request, check_topic
from raftka.broker.share.partitions import LedSharePartition, Place, ShareLeader, State
from raftka.broker.share.sessions import BEGIN, END, ShareSession, ShareSessions
from raftka.broker.work.long_work import Steps
from raftka.limits import PARKED_SHARE_FETCHES
from raftka.log.segments.scan import headers
from raftka.runtime.interfaces import FileSpan, Timer
from raftka.share.partition import Acquired, Batch, Wanted
from raftka.share.state import SharePartitionKey
from raftka.wire.encoder import EncodedRows
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.share_fetch import (
    SHARE_FETCH,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from raftka.wire.records import LOG_OVERHEAD_BYTES
from raftka.wire.schema import Row

FAILED = "kafka_server_brokertopicmetrics_failedsharefetchrequests_total"
MAX_WAIT_MS = 3_600_000
MODES = BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1
# with records, in one answer: they are acquired and read in one turn
PARTITIONS_OF_ANSWER = 64
HEADER_BYTES = 4096  # of one read of batch headers
NAMES_LEADER = int(Code.NOT_LEADER_OR_FOLLOWER)
TRANSACTIONAL, CONTROL = 0x10, 0x20  # attributes of a batch
_base = itemgetter(0)
Aborted = dict[int, list[Batch]]

response = SHARE_FETCH.response
of_topic = response.responses
of_partition = of_topic.partitions


class Progress(Enum):
    BEGUN = auto()  # the handler looks for records
    WRITING = auto()  # its acknowledgements are being written
    PARKED = auto()  # it waits for records, until its time is up
    LOOKING = auto()  # it looks for records again
    WOKEN = auto()  # as LOOKING, and something has changed since
    OVER = auto()  # answered, or abandoned


class Event(Enum):
    WRITE = auto()
    PARK = auto()
    LOOK = auto()  # the writes are done, or its time is up
    CHANGE = auto()  # at one of its share partitions
    END = auto()


TRANSITIONS: Mapping[Progress, Mapping[Event, Progress]] = {
    Progress.BEGUN: {
        Event.WRITE: Progress.WRITING,
        Event.PARK: Progress.PARKED,
        Event.CHANGE: Progress.BEGUN,
        Event.END: Progress.OVER,
    },
    Progress.WRITING: {Event.LOOK: Progress.LOOKING, Event.END: Progress.OVER},
    Progress.PARKED: {
        Event.CHANGE: Progress.LOOKING,
        Event.LOOK: Progress.LOOKING,
        Event.END: Progress.OVER,
    },
    Progress.LOOKING: {
        Event.CHANGE: Progress.WOKEN,
        Event.PARK: Progress.PARKED,
        Event.END: Progress.OVER,
    },
    Progress.WOKEN: {
        Event.CHANGE: Progress.WOKEN,
        Event.LOOK: Progress.LOOKING,
        Event.END: Progress.OVER,
    },
    Progress.OVER: {Event.END: Progress.OVER},
}


class ShareFetch:
    """One request: answered at once, or parked."""

    __slots__ = (
        "_began",
        "_dirty",
        "_epoch",
        "_errors",
        "_is_due",
        "_leader",
        "_loaded",
        "_max_bytes",
        "_min_bytes",
        "_pending",
        "_session",
        "_sessions",
        "_shares",
        "_sizes",
        "_timer",
        "acks",
        "body",
        "key",
        "progress",
        "request",
    )

    def __init__(
        self, request: Request[ShareFetchRequest], leader: ShareLeader, sessions: ShareSessions
    ) -> None:
        """Raises KafkaError for the answer's top level."""
        self.request, self._leader, self._sessions = request, leader, sessions
        self.body = body = request.body
        self.key = check_request(request, leader.context.metadata)
        if body.share_acquire_mode not in MODES:
            raise KafkaError(Code.UNKNOWN_SERVER_ERROR)  # Kafka's own answer
        if body.is_renew_ack and (
            body.max_bytes or body.min_bytes or body.max_records or body.max_wait_ms
        ):
            raise KafkaError(Code.INVALID_REQUEST)
        settings = leader.context.metadata.settings
        self._max_bytes: int = min(body.max_bytes, settings["fetch.max.bytes"])
        self._min_bytes: int = body.min_bytes
        if request.meter is not None:
            self._max_bytes, self._min_bytes = request.meter.bound_fetch(
                self._max_bytes, self._min_bytes
            )
        self.progress = Progress.BEGUN
        self._began = leader.context.runtime.clock.now()
        self.acks = Acknowledgements(request, leader, self.key)
        self._session: ShareSession
        self._epoch = 0  # of the session when the request has gone on with it
        self._is_due = False  # it answers with what there is
        self._pending: Delayed | None = None
        self._timer: Timer | None = None
        self._dirty: dict[Place, None] = {}  # partitions to look at
        self._shares: dict[Place, LedSharePartition] = {}  # those it watches
        self._loaded: set[LedSharePartition] = set()  # those whose state it has asked for
        self._sizes: dict[Place, int] = {}  # bytes that may be acquired
        self._errors: dict[Place, KafkaError] = {}

    # the request

    def run(self) -> Steps[ShareFetchResponse | Delayed]:
        """Raises KafkaError for the answer's top level."""
        body = self.body
        if body.share_session_epoch == END:
            yield from self._close()
        else:
            yield from self._go_on()
            yield from self.acks.begin(body.topics)
        if not self.acks.are_written:
            self._on(Event.WRITE)
            self._pending = Delayed(self.request, self._hurry)
            self.acks.when_written(self._look)
            return self._pending
        try:
            answer = yield from self._look_once()
        except GeneratorExit:  # the client has gone
            self._finish()
            raise
        return answer if answer is not None else self._park()

    def _close(self) -> Steps[None]:
        """Close the session: take the acknowledgements, then release what the member holds."""
        session = self._session = self._sessions.find(self.key, END, self.request.connection)
        self._sessions.close(session)
        yield from self.acks.begin(self.body.topics)
        yield from self.acks.release(session.partitions)

    def _go_on(self) -> Steps[None]:
        """Open a session or go on with one, and note its partitions."""
        body, sessions = self.body, self._sessions
        if body.share_session_epoch == BEGIN:
            for topic in body.topics:
                if any(each.acknowledgement_batches for each in topic.partitions):
                    raise KafkaError(Code.INVALID_REQUEST)
                yield
            session = sessions.open(self.key, self.request.connection)
            self._epoch = session.epoch
        else:
            session = sessions.find(self.key, body.share_session_epoch, self.request.connection)
            sessions.go_on(session)
            self._epoch = session.epoch
        self._session = session
        known = self._leader.context.metadata.image.topics
        yield from session.want(body.topics, known.__contains__)
        yield from session.forget(body.forgotten_topics_data)
        sessions.count(session)
        if self._fetches:
            self._dirty = dict.fromkeys(session.partitions)

    @property
    def _fetches(self) -> bool:
        body = self.body
        return bool(body.max_records > 0 and body.max_bytes and body.max_wait_ms >= 0) and (
            body.share_session_epoch != END and not body.is_renew_ack
        )

    def _on(self, event: Event) -> None:
        self.progress = TRANSITIONS[self.progress][event]

    # looking for records

    def _look_once(self) -> Steps[ShareFetchResponse | None]:
        """Look at the partitions that may have changed; return the answer, None: it waits."""
        while self._dirty:
            place = next(iter(self._dirty))
            del self._dirty[place]
            yield from self._examine(place)
            yield
        if self._fetches and not self._is_enough():
            if self._leader.context.metrics.parked_share_fetches < PARKED_SHARE_FETCHES.value:
                return None
            self._leader.context.metrics.hit(PARKED_SHARE_FETCHES)
        return (yield from self._answer())

    def _is_enough(self) -> bool:
        """Return whether the answer should not wait."""
        return (
            self._is_due
            or not self._is_latest
            or sum(self._sizes.values()) >= self._min_bytes
            or len(self._errors) == len(self._session.partitions)
        )

    @property
    def _is_latest(self) -> bool:
        """Return whether no other request of the session has come."""
        session = self._session
        return self.body.share_session_epoch == END or (
            session.epoch == self._epoch and self._sessions.by_key.get(self.key) is session
        )

    def _examine(self, place: Place) -> Steps[None]:
        """Note how many bytes of a partition may be acquired, or why none."""
        self._sizes.pop(place, None)
        self._errors.pop(place, None)
        try:
            share = self._find(place)
            if share.state is State.ACTIVE:
                size = yield from self._readable(share)
                if size:
                    self._sizes[place] = size
        except KafkaError as error:
            self._errors[place] = error

    def _find(self, place: Place) -> LedSharePartition:
        """Return the share partition, which reads its state if it has none. Raises KafkaError."""
        try:
            check_topic(self.request, self._leader.context.metadata, place)
        except KafkaError as error:
            if error.code is Code.UNKNOWN_TOPIC_ID and self._session.partitions.get(place):
                raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION) from None
            raise
        if self._max_bytes < 0:
            raise KafkaError(Code.UNKNOWN_SERVER_ERROR)  # Kafka's own answer
        share = self._leader.find_or_make(SharePartitionKey(self.key.group_id, *place))
        before = self._shares.get(place)
        if before is not None and before is not share:
            before.leave(self)
        self._shares[place] = share
        if share not in self._loaded:
            self._loaded.add(share)
            self._leader.load(share)
        if share.state is not State.FENCED:
            share.watch(self)
        return share

    def _readable(self, share: LedSharePartition) -> Steps[int]:
        """Return the bytes from the first record that may be acquired on. Raises KafkaError."""
        if not share.has_records():
            return 0
        log, offset = share.partition.log, share.core.next_offset()
        if share.settings.reads_committed and offset < log.aborted.known_from:
            with suppress(OSError):  # the read meets it again, and has a code for it
                yield from log.aborted.load(offset)
        return self._read(share, self._max_bytes, at_least_one=True)[1]

    def _read(
        self, share: LedSharePartition, max_bytes: int, *, at_least_one: bool
    ) -> tuple[list[FileSpan], int]:
        partition = share.partition
        try:
            return partition.log.read_for_consumer(
                share.core.next_offset(), max_bytes, share.readable_end, at_least_one
            )
        except OSError as error:
            self._leader.replicas.housekeeping.directories.failed(partition.home, error)
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(error)) from error

    # the answer

    def _answer(self) -> Steps[ShareFetchResponse]:
        """Answer with what may be acquired now."""
        if not self._is_latest:
            self._finish()
            return self._error(Code.INVALID_SHARE_SESSION_EPOCH)
        ready = self._turn_round(list(self._sizes))
        total = min(sum(self._sizes.values()), max(self._max_bytes, 0))
        if (meter := self.request.meter) is not None and not meter.may_send(total):
            ready = []
        rows = ShareAnswer(self.request, self._leader)
        for place in self._quiet_places(frozenset(ready)):
            rows.add(place, self._row(place))
            yield
        yield from rows.finish_topics({topic_id for topic_id, _ in ready})
        # from here on nothing waits, so that the records are still there when they are sent
        if not self._is_latest:
            self._finish()
            return self._error(Code.INVALID_SHARE_SESSION_EPOCH)
        room = Room(self._max_bytes, self.body.max_records)
        for place in ready:
            row = self._acquire(place, room)
            if row is not None:
                rows.add(place, row)
        self._finish()
        return response(
            acquisition_lock_timeout_ms=self._leader.lock_ms_of(self.key.group_id),
            responses=rows.topics(),
            node_endpoints=rows.endpoints(),
        )

    def _error(self, code: Code) -> ShareFetchResponse:
        lock_ms = self._leader.lock_ms_of(self.key.group_id)
        return response(error_code=int(code), acquisition_lock_timeout_ms=lock_ms)

    def _turn_round(self, ready: list[Place]) -> list[Place]:
        """Return some of the partitions with records: others with each request."""
        if not ready:
            return ready
        first = self._epoch % len(ready)
        return (ready[first:] + ready[:first])[:PARTITIONS_OF_ANSWER]

    def _quiet_places(self, ready: frozenset[Place]) -> list[Place]:
        """Return the partitions whose rows have no records: those of errors and acknowledgements;
        the first answer of a session has all of its partitions.
        """
        is_full = self.body.share_session_epoch == BEGIN and (
            self._fetches or self.body.max_records < 0
        )
        failed = [each for each, share in self._shares.items() if share.state is State.FAILED]
        partitions = self._session.partitions if is_full else ()
        places = dict.fromkeys((*partitions, *self._errors, *failed, *self.acks.results))
        return [each for each in places if each not in ready]

    def _row(self, place: Place) -> PartitionData:
        """Return a row without records."""
        error = self._errors.get(place)
        share = self._shares.get(place)
        if error is None and share is not None and share.state is State.FAILED:
            error = share.error
        row = of_partition(partition_index=place[1], records=b"")
        if error is not None:
            row.error_code = int(error.code)
            self._leader.context.metrics.count(FAILED)
        self._acknowledged(place, row)
        return row

    def _acknowledged(self, place: Place, row: PartitionData) -> None:
        error = self.acks.results.get(place)
        if error is not None:
            row.acknowledge_error_code = int(error.code)
            row.acknowledge_error_message = error.message

    def _acquire(self, place: Place, room: "Room") -> PartitionData | None:
        """Acquire records of a partition; return its row, None if the answer has none for it."""
        try:
            share = self._shares[place]
            found, spans = ((), ()) if not share.is_current else self._acquire_of(share, room)
        except KafkaError as error:
            self._errors[place] = error
            return self._row(place)
        if not found and self.body.share_session_epoch != BEGIN and place not in self.acks.results:
            return None
        row = self._row(place)
        row.records = spans or b""
        acquired = of_partition.acquired_records
        row.acquired_records = [
            acquired(first_offset=first, last_offset=last, delivery_count=count)
            for first, last, count in found
        ]
        return row

    def _acquire_of(
        self, share: LedSharePartition, room: "Room"
    ) -> tuple[Sequence[Acquired], Sequence[FileSpan]]:
        core, rules, partition = share.core, share.rules, share.partition
        if room.records <= 0 or (room.bytes <= 0 and not room.is_fresh):
            return (), ()
        if not share.has_records():
            return (), ()
        offset = core.next_offset()
        spans, size = self._read(share, max(room.bytes, 0), at_least_one=room.is_fresh)
        if not size:
            return (), ()
        reads_committed = share.settings.reads_committed
        if reads_committed and offset < partition.log.aborted.known_from:
            return (), ()  # the next request reads the indexes of aborted transactions first
        needed = max(core.end, offset) + min(room.records, rules.max_locks)
        aborted = self._aborted(share, offset, spans[0]) if reads_committed else {}
        batches = LogBatches(spans[0], needed, aborted)
        wanted = Wanted(
            room.records, self.body.batch_size, self.body.share_acquire_mode == RECORD_LIMIT
        )
        until = self._leader.lock_ends(share.settings)
        found = core.acquire(
            self.key.member_id, wanted, batches.bounds, until, rules, batches.aborted
        )
        self._leader.watch_locks(share)
        if not found:
            return (), ()
        span = batches.span(found[0].first, found[-1].last)
        room.take(span.size, sum(each.last - each.first + 1 for each in found))
        partition.fetched += 1
        partition.bytes_out += span.size
        return found, (span,)

    def _aborted(self, share: LedSharePartition, offset: int, span: FileSpan) -> Aborted:
        """Return where aborted transactions begin and end, by producer id. Raises KafkaError."""
        log, found = share.partition.log, Aborted()
        try:
            for each in log.aborted.find(offset, log.bound_of(offset, span)):
                found.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset))
        except OSError as error:
            self._leader.replicas.housekeeping.directories.failed(share.partition.home, error)
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(error)) from error
        return found

    # waiting

    def _park(self) -> Delayed:
        """Wait for changes until the time is up."""
        self._on(Event.PARK)
        clock = self._leader.context.runtime.clock
        if self._pending is None:
            self._pending = Delayed(self.request, self._hurry)
        if self._timer is None:
            wait_s = min(self.body.max_wait_ms, MAX_WAIT_MS) / 1000
            self._timer = clock.call_at(self._began + wait_s, self._hurry)
        self._session.parked = self
        self._leader.context.metrics.parked_share_fetches += 1
        if self._dirty:
            self._leader.replicas.read_soon(self)
        return self._pending

    def on_change(self, share: LedSharePartition) -> None:
        """Look at a share partition again with the next look."""
        self._dirty[share.place] = None
        if self.progress in (Progress.LOOKING, Progress.WOKEN):
            self._on(Event.CHANGE)

    def records_arrived(self) -> None:
        """Look at the partitions that have changed."""
        if self.progress is Progress.PARKED:
            self._look(Event.CHANGE)

    def overtaken(self) -> None:
        """Answer with an error: another request of the session has come."""
        self._hurry()

    def _hurry(self) -> None:
        """Answer with what there is: the time is up, or a request waits behind this one. Or end it:
        its connection is gone.
        """
        self._is_due = True
        if self._pending is not None and self._pending.over:
            self._finish()
        elif self.progress is Progress.PARKED:
            self._look()

    def _look(self, event: Event = Event.LOOK) -> None:
        """Look again. No error here may reach the caller: a writer, a timer, the end of a write."""
        if self.progress is Progress.OVER:
            return
        self._unpark()
        self._on(event)
        self.request.dispatcher.long_work.run(
            self.request.api.name,
            self._look_once(),
            self._on_looked,
            lambda: self.progress is not Progress.OVER,
            spent=self.request.spent,
        )

    def _unpark(self) -> None:
        if self.progress is Progress.PARKED:
            self._leader.context.metrics.parked_share_fetches -= 1

    def _on_looked(self, row: Row | Exception | None) -> None:
        pending = self._pending
        assert pending is not None
        if isinstance(row, Exception):
            self._finish()
            pending.broken(row)
        elif row is not None:
            pending.complete(row)
        elif pending.over:
            self._finish()
        elif self.progress is Progress.WOKEN:
            self._look()
        else:
            self._park()

    def _finish(self) -> None:
        self._unpark()
        self._on(Event.END)
        for share in tuple(self._shares.values()):
            share.leave(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._session.parked is self:
            self._session.parked = None


class Room:
    """The bytes and records that an answer has left."""

    __slots__ = ("bytes", "is_fresh", "records")

    def __init__(self, max_bytes: int, max_records: int) -> None:
        self.bytes = max_bytes
        self.records = max_records
        self.is_fresh = True  # the answer has no records yet: it may exceed the bytes by a batch

    def take(self, size: int, records: int) -> None:
        self.bytes -= size
        self.records -= records
        self.is_fresh = False


class LogBatches:
    """The batches of a read, by their headers."""

    __slots__ = ("_ends", "_file", "_starts", "aborted", "bounds")

    def __init__(self, found: FileSpan, needed: int, aborted: Aborted) -> None:
        """Look at the batches before the offset `needed`, and at one at least. `aborted`: as
        `ShareFetch._aborted` returns them.
        """
        self.bounds: list[Batch] = []
        self.aborted: list[Batch] = []  # those of aborted transactions
        self._file = found.file
        self._starts: list[int] = []  # positions in the file
        self._ends: list[int] = []
        end = found.position + found.size
        for position, header in headers(found.file, found.position, end, HEADER_BYTES):
            base, length, _, _, _, attributes, delta, _, _, producer_id = header[:10]
            if base >= needed and self.bounds:
                break
            batch = (base, base + delta)
            self.bounds.append(batch)
            self._starts.append(position)
            self._ends.append(position + length + LOG_OVERHEAD_BYTES)
            if attributes & (TRANSACTIONAL | CONTROL) == TRANSACTIONAL and any(
                first <= base <= last for first, last in aborted.get(producer_id, ())
            ):
                self.aborted.append(batch)

    def span(self, first: int, last: int) -> FileSpan:
        """Return where the batches are that have these offsets."""
        low = max(bisect_right(self.bounds, first, key=_base) - 1, 0)
        high = max(bisect_right(self.bounds, last, key=_base) - 1, low)
        start = self._starts[low]
        return FileSpan(self._file, start, self._ends[high] - start)


class ShareAnswer:
    """The rows of an answer, by topic, and the brokers that its errors name."""

    __slots__ = ("_finished", "_leader", "_leaders", "_request", "_rows")

    def __init__(self, request: Request[ShareFetchRequest], leader: ShareLeader) -> None:
        self._request = request
        self._leader = leader
        self._rows: dict[bytes, EncodedRows[PartitionData]] = {}
        self._finished: EncodedRows[ShareFetchableTopicResponse] = request.encoded_rows(of_topic)
        self._leaders: set[int] = set()

    def add(self, place: Place, row: PartitionData) -> None:
        """Add a row. An error that sends the client to the leader names it."""
        if NAMES_LEADER in (row.error_code, row.acknowledge_error_code):
            leads = self._leader.context.metadata.image.partition(*place)
            if leads is not None:
                row.current_leader = of_partition.current_leader(
                    leader_id=leads.leader, leader_epoch=leads.leader_epoch
                )
                self._leaders.add(leads.leader)
        rows = self._rows.get(place[0])
        if rows is None:
            rows = self._rows[place[0]] = self._request.encoded_rows(of_partition)
        rows.add(row)

    def finish_topics(self, but: Container[bytes]) -> Steps[None]:
        """Encode the topics to which no more rows are added."""
        for topic_id in list(self._rows):
            if topic_id not in but:
                self._finish(topic_id)
            yield

    def _finish(self, topic_id: bytes) -> None:
        rows = self._rows.pop(topic_id)
        self._finished.add(of_topic(topic_id=topic_id, partitions=rows))

    def topics(self) -> EncodedRows[ShareFetchableTopicResponse]:
        for topic_id in list(self._rows):
            self._finish(topic_id)
        return self._finished

    def endpoints(self) -> list[NodeEndpoint]:
        """Return the addresses of the leaders that its errors name."""
        session = self._request.session
        return self._leader.context.metadata.endpoints_of(
            self._leaders, session.listener, session.reached_at, response.node_endpoints
        )
