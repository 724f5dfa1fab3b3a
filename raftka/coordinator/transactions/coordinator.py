"""The transaction coordinator of one partition of __transaction_state: finds the transactional id
that a command names, keeps time, and has markers written for transactions that end. The rules of an
id are in transaction.py. Knows no log, no message, and no partition but its own.

Markers leave when the record that decides the end is committed: they are a reply of the same
Outcome. Which partitions have theirs is soft state of the sender; a new coordinator sends all of
them again.

A command that comes while markers are on their way waits for them, at most its `hold_ms`, and is
then decided in the order in which it came; Kafka answers it with CONCURRENT_TRANSACTIONS at once,
which stays the answer when it has waited for too long.

A commit that comes before its transaction has begun is sent back once, by the same error. Java's
client sends such a one now and then, when its network thread stops between two looks at what is to
be sent; it then sends the batches, and the commit behind them. A refusal would end that producer.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf

from raftka.coordinator.consumer.regex import compiled
from raftka.coordinator.machine import (
    Context,
    Machine,
    Outcome,
    OutcomeOrSteps,
    Record,
    Steps,
    Ticket,
    begun,
)
from raftka.coordinator.records import kind
from raftka.coordinator.timers import Timer, Timers
from raftka.coordinator.transactions.commands import (
    AddPartitions,
    DescribedTransaction,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    ListedTransaction,
    ListTransactions,
    MarkersWritten,
    Producer,
    ResumeMarkers,
    TransactionSettings,
    VerifyPartitions,
    WriteMarkers,
)
from raftka.coordinator.transactions.records import (
    NO_TIME,
    NO_TIMEOUT_MS,
    TRANSACTION_KEY,
    Partitions,
    State,
    Transaction,
    read_key,
    read_value,
    tombstone,
    transaction_record,
)
from raftka.coordinator.transactions.transaction import (
    ENDING,
    FOLLOWS,
    OVER,
    MarkersOutstanding,
    NothingToCommit,
    check_pair,
    completed,
    ended,
    fenced,
    missing,
    new_producer,
    next_producer,
    pair_of,
    successor,
    with_partitions,
)
from raftka.limits import (
    HELD_BY_TRANSACTION,
    TRANSACTION_BYTES_OF_COORDINATOR,
    TRANSACTIONAL_IDS_OF_COORDINATOR,
)
from raftka.wire.errors import Code, KafkaError, LimitRefused, check_limit
from raftka.wire.rows import ZERO_UUID

ENDED_IN_A_TICK = 100  # transactions whose time is over
SWEPT_IN_A_TICK = 1_000  # ids
NOTHING = tombstone("")  # no transactional id is empty

# an error: nobody knows whether the end of the transaction is committed
SendMarkers = Callable[[WriteMarkers, KafkaError | None], None]
Holdable = InitProducer | AddPartitions | VerifyPartitions | EndTransaction


class _Held:
    """A command that waits for markers."""

    __slots__ = ("command", "ticket", "timer")

    def __init__(self, command: Holdable, ticket: Ticket) -> None:
        self.command = command
        self.ticket = ticket
        self.timer = Timer(self, _no_ring)


class _Draft:
    """The result of a decision for one id, as it grows: several records where one state follows
    from another.
    """

    __slots__ = ("context", "its", "now_ms", "replies", "steps", "transactional_id")

    def __init__(self, transactional_id: str, its: Transaction | None, context: Context) -> None:
        self.transactional_id = transactional_id
        self.its = its
        self.context = context
        self.now_ms = context.wall_ms
        self.steps: list[tuple[Record, Transaction]] = []
        self.replies: list[tuple[Ticket, object]] = []

    def write(self, after: Transaction) -> None:
        assert (State.EMPTY if self.its is None else self.its.state) in FOLLOWS[after.state], (
            self.its,
            after,
        )
        self.steps.append((transaction_record(self.transactional_id, after), after))
        self.its = after


def _times(its: Transaction) -> tuple[int, int]:
    """They tell a transaction that ends from the others of its epoch."""
    return its.start_ms, its.update_ms


class TransactionCoordinator(Machine):
    def __init__(self, settings: TransactionSettings, send_markers: SendMarkers) -> None:
        """`send_markers` is called when a transaction's end is committed, at every new coordinator
        again, and after ResumeMarkers.
        """
        self.settings = settings
        self.transactions: dict[str, Transaction] = {}
        self._send_markers = send_markers
        self._timers = Timers()
        # of open transactions; one that rings when its transaction is over is passed over
        self._times: dict[str, Timer] = {}
        self._held: dict[str, deque[_Held]] = {}
        self._holds: dict[Ticket, tuple[str, _Held]] = {}
        # by transactional id: the producer whose commit was sent back last
        self._sent_back: dict[str, Producer] = {}
        self._size_bytes = 0  # of the partitions in all transactions
        # what the records of the last decision stand for: they need not be read
        self._decided: deque[tuple[bytes | None, Transaction]] = deque()
        self._sweep_at = inf
        self._sweep: list[str] = []  # the ids that this sweep has not looked at

    def configure(self, settings: TransactionSettings) -> None:
        self.settings = settings

    # the machine

    def decide(self, command: object, ticket: Ticket, context: Context) -> OutcomeOrSteps:
        match command:
            case InitProducer() | AddPartitions() | VerifyPartitions() | EndTransaction():
                return begun(self._asked(command, ticket, context))
            case MarkersWritten():
                return begun(self._markers_written(command, ticket, context))
            case ResumeMarkers():
                its = self.transactions.get(command.transactional_id)
                again = (
                    self._markers(command.transactional_id, its)
                    if its is not None and its.state in ENDING
                    else ()
                )
                return Outcome((), (*again, (ticket, None)))
            case DescribeTransaction():
                return Outcome((), ((ticket, self._describe(command)),))
            case ListTransactions():
                return begun(self._list(command, ticket, context.wall_ms))
        raise TypeError(f"no command of a transaction coordinator: {command!r}")

    def replay(self, record: Record) -> None:
        key, value = record
        if kind(key) != TRANSACTION_KEY:
            return
        transactional_id = read_key(key)
        before = self.transactions.get(transactional_id)
        self._size_bytes -= before.partitions.size_bytes if before is not None else 0
        if value is None:
            self.transactions.pop(transactional_id, None)
            self._sent_back.pop(transactional_id, None)
            if (timer := self._times.pop(transactional_id, None)) is not None:
                self._timers.off(timer)
            return
        if self._decided and self._decided[0][0] is value:
            its = self._decided.popleft()[1]
        else:
            its = read_value(value)
        self.transactions[transactional_id] = its
        self._size_bytes += its.partitions.size_bytes

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Of another log: what is written here is in no transaction itself."""

    def loaded(self, context: Context) -> OutcomeOrSteps:
        """Markers of all transactions that were ending are sent again; open ones have what is left
        of their time, by the wall clock.
        """
        return begun(self._loaded(context))

    def _loaded(self, context: Context) -> Steps[Outcome]:
        self._sweep_at = context.now + self.settings.expiration_interval_ms / 1000
        replies: list[tuple[Ticket, object]] = []
        for transactional_id, its in self.transactions.items():
            yield
            if its.partitions.topics:
                its = self.transactions[transactional_id] = yield from _with_topic_ids(its, context)
            if its.state in ENDING:
                replies += self._markers(transactional_id, its)
            elif its.state is State.ONGOING:
                left_ms = its.start_ms + its.timeout_ms - context.wall_ms
                self._watch(
                    transactional_id, its, context.now + min(max(left_ms, 0), its.timeout_ms) / 1000
                )
        return Outcome((), replies)

    def on_image(self, deleted: Sequence[tuple[bytes, str]], context: Context) -> OutcomeOrSteps:
        """The sender of markers passes over the partitions of a topic that is gone."""
        return Outcome()

    def deadline(self) -> float:
        return min(self._timers.next(), self._sweep_at)

    def tick(self, context: Context) -> OutcomeOrSteps:
        return begun(self._tick(context))

    def client_gone(self, ticket: Ticket) -> None:
        found = self._holds.pop(ticket, None)
        if found is not None:
            self._let_go(*found)

    # what is asked

    def _draft(self, transactional_id: str, context: Context) -> _Draft:
        return _Draft(transactional_id, self.transactions.get(transactional_id), context)

    def _asked(self, command: Holdable, ticket: Ticket, context: Context) -> Steps[Outcome]:
        draft = self._draft(command.transactional_id, context)
        yield from self._decide(draft, command, ticket)
        outcome = self._outcome(draft)
        if draft.replies and not draft.steps and not context.vouched_for:
            # another coordinator may have given the id another epoch, or ended its transaction
            outcome.confirm = NOTHING
        return outcome

    def _decide(
        self, draft: _Draft, command: Holdable, ticket: Ticket, held: _Held | None = None
    ) -> Steps[None]:
        """Reply, or hold the command. `held`: it was, and may be again."""
        try:
            answer = yield from self._answer(draft, command)
        except MarkersOutstanding:
            self._hold(draft, held or _Held(command, ticket))
        except NothingToCommit as refusal:
            draft.replies.append((ticket, self._send_back(draft, refusal.with_traceback(None))))
        except KafkaError as error:
            draft.replies.append((ticket, error.with_traceback(None)))
        else:
            draft.replies.append((ticket, answer))

    def _send_back(self, draft: _Draft, refusal: NothingToCommit) -> KafkaError:
        """Return CONCURRENT_TRANSACTIONS for the producer's first such commit, then the refusal."""
        assert draft.its is not None
        pair = pair_of(draft.its)  # each transaction of version 2 has its own
        if self._sent_back.get(draft.transactional_id) == pair:
            return refusal
        self._sent_back[draft.transactional_id] = pair
        return KafkaError(Code.CONCURRENT_TRANSACTIONS)

    def _answer(self, draft: _Draft, command: Holdable) -> Steps[object]:
        match command:
            case InitProducer():
                return self._init(draft, command)
            case AddPartitions():
                yield from self._add(draft, command)
                return None
            case VerifyPartitions():
                return (yield from missing(draft.its, command))
            case EndTransaction():
                return self._end(draft, command)

    def _init(self, draft: _Draft, command: InitProducer) -> Producer:
        its = draft.its
        if its is None:
            check_limit(TRANSACTIONAL_IDS_OF_COORDINATOR, len(self.transactions) + 1)
            after = new_producer(command, draft.now_ms)
        else:
            if its.state is State.ONGOING:
                check_pair(its, command)
                its = self._abort(draft, its)
            after = next_producer(its, command, draft.now_ms)
        draft.write(after)
        return pair_of(after)

    def _add(self, draft: _Draft, command: AddPartitions) -> Steps[None]:
        before = draft.its
        after = yield from with_partitions(before, command, draft.context.topics, draft.now_ms)
        if after is None or before is None:
            return
        # not those of `before`, which may be a step of this draft
        replaced = self.transactions[command.transactional_id].partitions
        check_limit(
            TRANSACTION_BYTES_OF_COORDINATOR,
            self._size_bytes - replaced.size_bytes + after.partitions.size_bytes,
        )
        draft.write(after)
        if before.state is not State.ONGOING:
            self._watch(
                command.transactional_id, after, draft.context.now + after.timeout_ms / 1000
            )

    def _end(self, draft: _Draft, command: EndTransaction) -> Producer:
        before = draft.its
        after = ended(before, command, draft.now_ms)
        if after is None:
            assert before is not None
            return pair_of(before)
        if command.commit and draft.context.now < self.settings.commits_held_until:
            raise KafkaError(Code.CONCURRENT_TRANSACTIONS)  # clients send it again
        draft.write(after)
        if after.state in ENDING:
            self._end_soon(draft, after)
        return successor(after)

    def _abort(self, draft: _Draft, its: Transaction) -> Transaction:
        """An open transaction of which the client does not know that it ends."""
        after = fenced(its, draft.now_ms)
        draft.write(after)
        return self._end_soon(draft, after)

    def _end_soon(self, draft: _Draft, its: Transaction) -> Transaction:
        """At once where no partition is to be told."""
        if its.partitions.topics:
            draft.replies += self._markers(draft.transactional_id, its)
            return its
        after = completed(its, draft.now_ms)
        draft.write(after)
        return after

    def _markers(self, transactional_id: str, its: Transaction) -> list[tuple[Ticket, object]]:
        commit = its.state is State.PREPARE_COMMIT
        write = WriteMarkers(
            transactional_id,
            its.producer_id,
            its.epoch,
            _times(its),
            commit,
            its.version,
            its.partitions.topics,
        )
        return [(partial(self._send_markers, write), None)]

    def _markers_written(
        self, command: MarkersWritten, ticket: Ticket, context: Context
    ) -> Steps[Outcome]:
        draft = self._draft(command.transactional_id, context)
        its = draft.its
        if its is not None and its.state in ENDING and (*pair_of(its), _times(its)) == command[1:]:
            draft.write(completed(its, draft.now_ms))
            yield from self._decide_held(draft)
        draft.replies.append((ticket, None))
        return self._outcome(draft)

    def _describe(self, command: DescribeTransaction) -> DescribedTransaction:
        its = self.transactions.get(command.transactional_id)
        if its is None:
            raise KafkaError(Code.TRANSACTIONAL_ID_NOT_FOUND)
        return DescribedTransaction(
            its.state,
            its.timeout_ms,
            its.start_ms,
            its.producer_id,
            its.epoch,
            its.partitions.topics,
        )

    def _list(self, command: ListTransactions, ticket: Ticket, now_ms: int) -> Steps[Outcome]:
        matches = compiled(command.pattern) if command.pattern else None
        found = []
        for transactional_id, its in self.transactions.items():
            yield
            if (
                (command.states is None or its.state in command.states)
                and (not command.producer_ids or its.producer_id in command.producer_ids)
                and (
                    command.duration_ms < 0
                    or its.start_ms == NO_TIME
                    or now_ms - its.start_ms > command.duration_ms
                )
                and (matches is None or matches(transactional_id))
            ):
                found.append(ListedTransaction(transactional_id, its.producer_id, its.state))
        return Outcome((), ((ticket, tuple(found)),))

    # commands that wait for markers

    def _hold(self, draft: _Draft, held: _Held) -> None:
        queue = self._held.setdefault(draft.transactional_id, deque())
        if held.timer.due == inf:
            if len(queue) >= HELD_BY_TRANSACTION.value:
                draft.replies.append(
                    (
                        held.ticket,
                        LimitRefused(
                            HELD_BY_TRANSACTION, len(queue) + 1, code=Code.CONCURRENT_TRANSACTIONS
                        ),
                    )
                )
                return
            self._timers.set(held.timer, draft.context.now + held.command.hold_ms / 1000)
            self._holds[held.ticket] = draft.transactional_id, held
        queue.append(held)

    def _decide_held(self, draft: _Draft) -> Steps[None]:
        """First come, first served; what is to wait once more keeps its place and its time."""
        for held in self._held.pop(draft.transactional_id, ()):
            yield
            yield from self._decide(draft, held.command, held.ticket, held)
        waits = {each.ticket for each in self._held.get(draft.transactional_id, ())}
        for ticket, _ in draft.replies:
            found = self._holds.get(ticket)
            if found is not None and ticket not in waits:
                del self._holds[ticket]
                self._timers.off(found[1].timer)

    def _let_go(self, transactional_id: str, held: _Held) -> None:
        self._timers.off(held.timer)
        queue = self._held.get(transactional_id)
        if queue is not None and held in queue:
            queue.remove(held)
            if not queue:
                del self._held[transactional_id]

    # time

    def _watch(self, transactional_id: str, its: Transaction, due: float) -> None:
        timer = self._times.get(transactional_id)
        if timer is None:
            timer = self._times[transactional_id] = Timer(transactional_id, _no_ring)
        if its.timeout_ms < NO_TIMEOUT_MS:
            self._timers.set(timer, due)
        else:
            self._timers.off(timer)

    def _tick(self, context: Context) -> Steps[Outcome]:
        drafts: list[_Draft] = []
        late: list[tuple[Ticket, object]] = []
        rung: list[Timer] = []
        while (
            len(drafts) < ENDED_IN_A_TICK and (timer := self._timers.due(context.now)) is not None
        ):
            yield
            if isinstance(timer.owner, _Held):
                late.append((timer.owner.ticket, KafkaError(Code.CONCURRENT_TRANSACTIONS)))
                self.client_gone(timer.owner.ticket)
                continue
            draft = self._draft(timer.owner, context)
            if draft.its is not None and draft.its.state is State.ONGOING:
                self._abort(draft, draft.its)
                drafts.append(draft)
                rung.append(timer)
        steps = [step for draft in drafts for step in draft.steps]
        replies = [reply for draft in drafts for reply in draft.replies]
        if steps or late or self._sweep_at > context.now:
            outcome = self._outcome_of(steps, [*late, *replies])
            outcome.undo = partial(self._ring_again, rung, context.now)
            return outcome
        return Outcome((yield from self._expired(context)), atomic=False)

    def _ring_again(self, timers: Sequence[Timer], now: float) -> None:
        for timer in timers:
            self._timers.set(timer, now)

    def _expired(self, context: Context) -> Steps[list[Record]]:
        """A part of the sweep: tombstones of ids that have been at rest for long."""
        self._sweep = self._sweep or list(self.transactions)
        before_ms = context.wall_ms - self.settings.expiration_ms
        records = []
        for _ in range(min(SWEPT_IN_A_TICK, len(self._sweep))):
            yield
            transactional_id = self._sweep.pop()
            its = self.transactions.get(transactional_id)
            if its is not None and its.state in OVER and its.update_ms <= before_ms:
                records.append(tombstone(transactional_id))
        if not self._sweep:
            self._sweep_at = context.now + self.settings.expiration_interval_ms / 1000
        return records

    # the outcome

    def _outcome(self, draft: _Draft) -> Outcome:
        return self._outcome_of(draft.steps, draft.replies)

    def _outcome_of(
        self, steps: Sequence[tuple[Record, Transaction]], replies: Sequence[tuple[Ticket, object]]
    ) -> Outcome:
        """Each record leaves an id in a state of its own, so very large ones may come in several
        batches.
        """
        self._decided = deque((record.value, its) for record, its in steps)
        return Outcome([record for record, _ in steps], replies, atomic=len(steps) < 2)


def _no_ring(owner: object) -> None:
    """Do nothing: `tick` decides."""


def _with_topic_ids(its: Transaction, context: Context) -> Steps[Transaction]:
    """The log has names alone: the topics that have them now."""
    known, topics = its.partitions, {}
    for name, each in known.topics.items():
        topics[name] = each._replace(topic_id=context.topics.topic_id(name) or ZERO_UUID)
        yield
    return replace(its, partitions=Partitions(topics, known.count, known.size_bytes))
