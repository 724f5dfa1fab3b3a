"""One coordinator: a state machine on one partition that this broker leads. Its decisions are
replayed at once and appended at the turn's end, all of a turn in one batch; every reply is held
until the records that were replayed before it are committed. Knows no group and no request.

A decision or a replay of many steps goes on over several turns, as long work of the node. Until it
ends, commands, markers and timers of this coordinator wait in line: each is decided in the order in
which it came, on the state that the one before has left.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from math import inf
from typing import Any, Protocol

from raftka.broker.context import BrokerContext
from raftka.broker.coordinators.errors import CoordinatorErrors
from raftka.broker.replica.partition import Partition
from raftka.broker.work.batching import CoordinatorBatching
from raftka.broker.work.long_work import LongWork
from raftka.coordinator.machine import (
    Context,
    Machine,
    Outcome,
    OutcomeOrSteps,
    Record,
    Steps,
    Ticket,
)
from raftka.log.producers.markers import Marker, read_marker
from raftka.runtime.interfaces import Clock, Timer
from raftka.wire.errors import Code, KafkaError, LimitRefused, ProtocolError
from raftka.wire.records import CONTROL, TRANSACTIONAL, build_batch, iterate, records_of


class CoordinatorState(Enum):
    LOADING = auto()  # the log is replayed; commands are refused
    ACTIVE = auto()  # the next command is decided at once
    BUSY = auto()  # a decision is under way, perhaps over several turns; others wait in line
    CLOSED = auto()  # another broker coordinates, or another object here; not used again


LOADING, ACTIVE, BUSY, CLOSED = CoordinatorState
LOADED = (ACTIVE, BUSY)

COORDINATOR_STATES: Mapping[CoordinatorState, frozenset[CoordinatorState]] = {
    LOADING: frozenset({ACTIVE, CLOSED}),
    ACTIVE: frozenset({BUSY, CLOSED}),
    BUSY: frozenset({ACTIVE, CLOSED}),
    CLOSED: frozenset(),
}

SLICE_BYTES = 128 * 1024  # that are read at once
LOADED_AT_ONCE = 64 * 1024  # bytes, with RECORD_WEIGHT for each record: some four milliseconds
RECORD_WEIGHT = 100
AT_ONCE = 200  # records that are replayed in the turn in which they were decided, each some 10 us
PART_BYTES = 128 * 1024  # of a batch, where an outcome is more than one: some three milliseconds
# of several outcomes: what is decided then goes into the next batch, as it takes a microsecond to
# write each
RECORDS_OF_BATCH = 1000
TICK_AGAIN_S = 1.0  # after one whose records were refused
BATCH_OVERHEAD_BYTES = 61
RECORD_OVERHEAD_BYTES = 30  # lengths, deltas, attributes: at most
Reply = tuple[Any, Any]  # a ticket, which is called, and what with


class Runtime(Protocol):
    """The coordinator runtime (runtime.py), as one of its partitions uses it."""

    context: BrokerContext
    clock: Clock
    long_work: LongWork
    errors: CoordinatorErrors
    compression: int
    timeout_s: float

    def turn(self) -> Context: ...

    def touch(self, partition: "CoordinatorPartition") -> None:
        """Append the records that it has decided at the turn's end."""

    def deliver(self, ticket: object, answer: object) -> None: ...

    def reload(self, partition: "CoordinatorPartition") -> None: ...


class CoordinatorPartition:
    """One coordinator. A ticket is called once, with the answer to its command or a KafkaError."""

    __slots__ = (
        "_armed",
        "_batching",
        "_deleted",
        "_not_before",
        "_position",
        "_queue",
        "_records",
        "_replies",
        "_runtime",
        "_size_bytes",
        "_slices",
        "_timer",
        "_touched",
        "began_at",
        "committed_offset",
        "epoch",
        "load_ms",
        "machine",
        "partition",
        "replayed",
        "state",
        "waiting",
    )

    def __init__(
        self, runtime: Runtime, partition: Partition, epoch: int, machine: Machine, now: float
    ) -> None:
        self._runtime = runtime
        self.partition = partition
        self.epoch = epoch
        self.machine = machine
        self.state = LOADING
        self.began_at = now
        self.replayed = 0  # records, while loading
        self.load_ms = 0  # the time that loading took
        self.waiting: dict[Ticket, None] = {}  # tickets without a reply yet
        self.committed_offset = 0  # the end of all records that were replayed and appended
        self._position = partition.log.start_offset
        self._deleted: list[tuple[bytes, str]] = []
        self._slices = self._load_in_slices()
        # the decision under way, and those that came meanwhile
        self._queue: deque[Steps[None]] = deque()
        self._records: list[Record] = []  # of this turn
        self._replies: list[Reply] = []
        self._size_bytes = BATCH_OVERHEAD_BYTES
        self._touched = False
        self._batching = CoordinatorBatching()
        self._timer: Timer | None = None
        self._armed = inf
        self._not_before = -inf

    # loading

    def load(self) -> bool:
        """Replay one slice of the log; return whether all of it was replayed before. Raises
        OSError, and KafkaError when the log does not have the slice any more.

        The replay ends at the log's end, not at the high watermark: acknowledged records may lie
        above the high watermark that a new leader knows.
        """
        return next(self._slices, self) is self

    def _load_in_slices(self) -> Steps[None]:
        """Yield after each read, and within it: a batch may be a megabyte."""
        log = self.partition.log
        while self._position < log.end_offset:
            spans, _ = log.read(self._position, SLICE_BYTES, log.end_offset)
            if not spans:
                return
            for span in spans:
                data = memoryview(span.file.read(span.position, span.size))
                for header, batch in iterate(data):
                    self.machine.position = header.base_offset
                    if header.attributes & CONTROL:
                        if (marker := read_marker(batch)) is not None:
                            self.machine.end_transaction(marker.producer_id, commit=marker.commit)
                    else:
                        yield from self._replay_batch(
                            batch, header.producer_id if header.attributes & TRANSACTIONAL else None
                        )
                    self._position = header.last_offset + 1
            yield

    def _replay_batch(self, batch: memoryview, producer_id: int | None) -> Steps[None]:
        """Replay the records of a batch, without those that cannot be read."""
        weight = 0
        try:
            for found in records_of(batch):
                if found.offset >= self._position and found.key is not None:
                    self._replay_loaded(found.offset, Record(found.key, found.value), producer_id)
                    weight += RECORD_WEIGHT + len(found.value or b"")
                    if weight > LOADED_AT_ONCE:
                        weight = 0
                        yield
        except ProtocolError as error:
            self._runtime.errors.record_unreadable(self.partition.name, self._position, error)

    def _replay_loaded(self, offset: int, record: Record, producer_id: int | None) -> None:
        try:
            if producer_id is None:
                self.machine.replay(record)
            else:
                self.machine.replay_pending(producer_id, record)
            self.replayed += 1
        except ValueError as error:
            self._runtime.errors.record_unreadable(self.partition.name, offset, error)

    def serve(self) -> None:
        """Begin to decide commands: the whole log is replayed."""
        self.state = ACTIVE
        self.committed_offset = self.machine.position = self.partition.log.end_offset
        self._begin(self._decide_unasked(self.machine.loaded))
        if self._deleted:
            self._begin(self._decide_unasked(self.machine.on_image, self._deleted))

    # decisions

    def submit(self, command: object, ticket: Ticket) -> None:
        """Decide a command. Raises COORDINATOR_LOAD_IN_PROGRESS; all other errors go to the
        ticket.
        """
        if self.state not in LOADED:
            raise KafkaError(Code.COORDINATOR_LOAD_IN_PROGRESS)
        self.waiting[ticket] = None
        self._begin(self._decide(command, ticket))

    def _decide(self, command: object, ticket: Ticket) -> Steps[None]:
        try:
            found = self.machine.decide(command, ticket, self._runtime.turn())
            outcome = found if isinstance(found, Outcome) else (yield from found)
        except KafkaError as error:
            # no frames: they would be a cycle with the answer
            outcome = Outcome((), ((ticket, error.with_traceback(None)),))
        except Exception as error:
            self._runtime.errors.command_failed(self.partition.name, error)
            outcome = Outcome((), ((ticket, KafkaError(Code.UNKNOWN_SERVER_ERROR)),))
        yield from self._carry_out(outcome)
        if (observer := self._runtime.context.observer) is not None:
            observer.on_decided(self.machine, command)

    def write_marker(self, marker: Marker, done: Callable[[Code], None]) -> None:
        """End a producer's transaction: the marker is appended and takes effect in one step; `done`
        is called, once, when it is committed.
        """
        if self.state not in LOADED:
            done(Code.NOT_LEADER_OR_FOLLOWER)
            return
        self.waiting[ticket := MarkerTicket(done)] = None
        self._begin(self._write_marker(marker, ticket))

    def _write_marker(self, marker: Marker, ticket: Ticket) -> Steps[None]:
        """Append the marker behind all records that were decided before it."""
        self._touch()
        if self._records:
            self._append()
        if self.state is not CLOSED:
            try:
                end = self.partition.append_marker(marker, self._runtime.clock.wall_ms(), self)
            except KafkaError as error:
                self._reply(ticket, error.with_traceback(None))
            else:
                if end >= 0:
                    self.committed_offset = end
                    self.machine.end_transaction(marker.producer_id, commit=marker.commit)
                self._reply(ticket, Code.NONE)
        return
        yield

    def client_gone(self, ticket: Ticket) -> None:
        if ticket in self.waiting:
            del self.waiting[ticket]
            self.machine.client_gone(ticket)

    def on_image(self, deleted: Sequence[tuple[bytes, str]]) -> None:
        if self.state in LOADED:
            self._begin(self._decide_unasked(self.machine.on_image, deleted))
        else:
            self._deleted += deleted

    def _decide_unasked(
        self, decide: Callable[..., OutcomeOrSteps], *arguments: object
    ) -> Steps[None]:
        """Decide on a timer or on metadata: no ticket waits for it."""
        try:
            found = decide(*arguments, self._runtime.turn())
            outcome = found if isinstance(found, Outcome) else (yield from found)
        except Exception as error:
            self._runtime.errors.command_failed(self.partition.name, error)
            self._not_before = self._runtime.clock.now() + TICK_AGAIN_S
            outcome = Outcome()
        yield from self._carry_out(outcome)
        if (observer := self._runtime.context.observer) is not None:
            observer.on_decided(self.machine, None)

    # decisions over several turns

    def _begin(self, steps: Steps[None]) -> None:
        """Take the steps now, or when all decisions that came before are done. Nearly every
        decision is done in its first turn.
        """
        self._queue.append(steps)
        if self.state is not ACTIVE:
            return
        self.state = BUSY
        work = self._empty_queue()
        try:
            next(work)
        except StopIteration:
            if self.state is BUSY:
                self.state = ACTIVE
        except BaseException:
            if self.state is BUSY:
                self.state = ACTIVE
            raise
        else:
            self._runtime.long_work.run(
                f"the coordinator of {self.partition.name}",
                work,
                self._on_queue_empty,
                lambda: self.state is not CLOSED,
            )

    def _empty_queue(self) -> Steps[None]:
        """Take the steps of the first decision, then of all that have come meanwhile, in order."""
        while self._queue:
            yield from self._queue.popleft()
            if self._queue:
                yield

    def _on_queue_empty(self, error: Exception | None) -> None:
        if self.state is BUSY:
            self.state = ACTIVE
        if error is not None:
            self._runtime.errors.command_failed(self.partition.name, error)
            self._runtime.reload(self)
        elif self.state is not CLOSED:
            self._arm()

    # the effects of decisions

    def _touch(self) -> None:
        if not self._touched:
            self._touched = True
            self._runtime.touch(self)

    def _carry_out(self, outcome: Outcome) -> Steps[None]:
        self._touch()
        if outcome.confirm is not None and not self._records:
            outcome.records = (outcome.confirm,)  # one is enough for all reads of a turn
        code = (yield from self._replay(outcome)) if outcome.records else Code.NONE
        if self.state is CLOSED:
            return  # `unload` has answered all tickets
        self._touch()
        if code is Code.NONE:
            for ticket, answer in outcome.replies:
                if isinstance(answer, LimitRefused):
                    self._runtime.context.metrics.hit(answer.limit)
                self._reply(ticket, answer)
        else:
            self._not_before = self._runtime.clock.now() + TICK_AGAIN_S
            if outcome.undo is not None:
                outcome.undo()
            for ticket, _ in outcome.replies:
                self._reply(ticket, shown_as(code))

    def _replay(self, outcome: Outcome) -> Steps[Code]:
        """Replay the records; NONE: they are the machine's state, and the turn's end appends them.
        No record of a part is appended before all of the part is replayed.
        """
        if outcome.producer is not None:
            return self._replay_pending(outcome.records, *outcome.producer)
        most = self.partition.log.config.max_message_bytes
        records = outcome.records
        sizes = [len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES for key, value in records]
        whole = outcome.atomic or sum(sizes) + BATCH_OVERHEAD_BYTES <= most
        for first, last, size in (
            ((0, len(records), sum(sizes)),)
            if whole
            else parts(sizes, min(PART_BYTES, most - BATCH_OVERHEAD_BYTES))
        ):
            if (code := self._refusal()) is not Code.NONE:
                return code
            if size + BATCH_OVERHEAD_BYTES > most:
                return Code.RECORD_LIST_TOO_LARGE
            if self._size_bytes + size > most or len(self._records) >= RECORDS_OF_BATCH:
                self._append()
            if self.state is CLOSED:
                return Code.KAFKA_STORAGE_ERROR
            for number in range(first, last):
                try:
                    self.machine.replay(records[number])
                except Exception as error:  # the machine has less than the log will have
                    self._runtime.errors.command_failed(self.partition.name, error)
                    self._runtime.reload(self)
                    return Code.UNKNOWN_SERVER_ERROR
                if number >= AT_ONCE:
                    yield
            if self.state is CLOSED:
                return Code.KAFKA_STORAGE_ERROR
            self._touch()
            self._size_bytes += size
            self._records += records[first:last]
            if last < len(records):
                yield
        return Code.NONE

    def _replay_pending(self, records: Sequence[Record], producer_id: int, epoch: int) -> Code:
        """Append records of a transaction as a batch of their own, and replay them then: the log
        refuses them if the transaction is over.
        """
        if self._records:
            self._append()
        if (code := self._refusal()) is not Code.NONE:
            return code
        now_ms = self._runtime.clock.wall_ms()
        batch = build_batch(
            [(key, value, (), now_ms) for key, value in records],
            producer_id=producer_id,
            producer_epoch=epoch,
            transactional=True,
        )
        if len(batch) > self.partition.log.config.max_message_bytes:
            return Code.RECORD_LIST_TOO_LARGE
        try:
            self.committed_offset = self.partition.append_of_coordinator(memoryview(batch), self)
        except KafkaError as error:
            return error.code
        for record in records:
            self.machine.replay_pending(producer_id, record)
        return Code.NONE

    def _refusal(self) -> Code:
        """Return the error of an append now; NONE: an append is possible."""
        leader = self.partition.leader
        if self.state is CLOSED:
            return Code.KAFKA_STORAGE_ERROR
        if leader is None:
            return Code.NOT_LEADER_OR_FOLLOWER
        return Code.NOT_ENOUGH_REPLICAS if leader.under_min_isr else Code.NONE

    def _reply(self, ticket: object, answer: object) -> None:
        self.waiting.pop(ticket, None)
        if self._records or self.partition.high_watermark < self.committed_offset:
            self._replies.append((ticket, answer))
        else:
            self._runtime.deliver(ticket, answer)

    # the turn's end

    @property
    def unwritten(self) -> int:
        """Return the number of records that the turn's end would append."""
        return len(self._records)

    def end_turn(self) -> None:
        self._touched = False
        if self.state is CLOSED:
            return
        if self._records:
            if self._batching.is_under_way:
                pass  # `on_committed` appends them
            elif self._batching.waits_for_more(len(self._replies), self._runtime.clock.now()):
                self._runtime.clock.call_at(self._runtime.clock.now(), self._touch)
            else:
                self._append()
        elif self._replies:
            self._hold_replies()
        self._arm()

    def _append(self) -> None:
        """Append the records of this turn so far as one batch."""
        records, self._records = self._records, []
        self._size_bytes = BATCH_OVERHEAD_BYTES
        now_ms = self._runtime.clock.wall_ms()
        batch = build_batch(
            [(key, value, (), now_ms) for key, value in records],
            compression=self._runtime.compression,
        )
        try:
            self.committed_offset = self.partition.append_made(memoryview(batch), now_ms, self)
        except KafkaError as error:
            replies, self._replies = self._replies, []
            for ticket, _ in replies:
                ticket(shown_as(error.code))
            self._runtime.reload(self)
        else:
            self.machine.position = self.committed_offset
            self._hold_replies()

    def _hold_replies(self) -> None:
        """Keep the replies of this turn until the high watermark has passed their records."""
        partition = self.partition
        replies, self._replies = self._replies, []
        if not replies:
            return
        held = _HeldReplies(self, replies)
        self._batching.note_sent()
        if partition.leader is None:
            held.complete(Code.NOT_LEADER_OR_FOLLOWER)
        else:
            partition.wait_for_commit(
                self.committed_offset, self._runtime.clock.now() + self._runtime.timeout_s, held
            )

    def on_committed(self, replies: list[Reply], code: Code) -> None:
        """Deliver held replies; `code`: their records are not committed."""
        for ticket, answer in replies:
            self._runtime.deliver(ticket, answer if code is Code.NONE else shown_as(code))
        self._batching.note_committed(len(replies))
        if self._records and self.state is not CLOSED:
            self._touch()

    def abort(self, reason: str) -> None:
        """Do nothing: appended records could not be written, but the failure of the log fails
        everything that waits for a commit.
        """

    # time

    def _arm(self) -> None:
        if self.state is BUSY:
            return
        when = max(self.machine.deadline(), self._not_before)
        if when < self._armed:
            if self._timer is not None:
                self._timer.cancel()
            self._armed = when
            self._timer = self._runtime.clock.call_at(when, self._tick)

    def _tick(self) -> None:
        self._timer, self._armed = None, inf
        if self.state is not ACTIVE:
            return
        if self.machine.deadline() <= self._runtime.clock.now():
            self._begin(self._decide_unasked(self.machine.tick))
        else:
            self._arm()

    # the end

    def unload(self, code: Code = Code.NOT_COORDINATOR) -> None:
        """Answer all tickets with an error: this broker does not coordinate here any more, or
        loads the log again. Clients then look for the coordinator.
        """
        self.state = CLOSED
        if self._timer is not None:
            self._timer.cancel()
        replies, self._replies = self._replies, []
        waiting, self.waiting = self.waiting, {}
        self._records = []
        self._queue.clear()
        for ticket in (*(ticket for ticket, _ in replies), *waiting):
            ticket(KafkaError(code))


def parts(sizes: Sequence[int], most: int) -> Iterator[tuple[int, int, int]]:
    """Divide records of these sizes: yield the first record of a part, the one behind its last, and
    the size of the part.
    """
    first = size = 0
    for number, each in enumerate(sizes):
        if size and size + each > most:
            yield first, number, size
            first, size = number, 0
        size += each
    yield first, len(sizes), size


class _HeldReplies:
    """Replies that wait for the high watermark."""

    __slots__ = ("coordinator", "replies")

    def __init__(self, coordinator: CoordinatorPartition, replies: list[Reply]) -> None:
        self.coordinator = coordinator
        self.replies = replies

    def complete(self, code: Code) -> None:
        self.coordinator.on_committed(self.replies, code)


# the error of an append, and the error that a coordinator answers for it (Kafka's table)
SHOWN_AS = {
    Code.UNKNOWN_TOPIC_OR_PARTITION: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_ENOUGH_REPLICAS: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Code.COORDINATOR_NOT_AVAILABLE,
    Code.REQUEST_TIMED_OUT: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_LEADER_OR_FOLLOWER: Code.NOT_COORDINATOR,
    Code.KAFKA_STORAGE_ERROR: Code.NOT_COORDINATOR,
    Code.INVALID_PRODUCER_EPOCH: Code.INVALID_PRODUCER_EPOCH,
    Code.INVALID_TXN_STATE: Code.INVALID_TXN_STATE,
}

# the error of a coordinator's reply, and the error that the answer to WriteTxnMarkers has for it
AS_MARKER = {
    Code.NOT_COORDINATOR: Code.NOT_LEADER_OR_FOLLOWER,
    Code.COORDINATOR_NOT_AVAILABLE: Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}


def shown_as(code: Code) -> KafkaError:
    return KafkaError(SHOWN_AS.get(code, Code.UNKNOWN_SERVER_ERROR))


class MarkerTicket:
    """Stands for a transaction coordinator that waits for its marker."""

    __slots__ = ("done",)

    def __init__(self, done: Callable[[Code], None]) -> None:
        self.done = done

    def __call__(self, answer: Code | KafkaError) -> None:
        code = answer.code if isinstance(answer, KafkaError) else answer
        self.done(AS_MARKER.get(code, code))
