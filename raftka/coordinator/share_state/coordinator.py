"""The share coordinator of one partition of __share_group_state: the state of share partitions that
their leaders write and read. Knows no log, no message, and no partition but its own.

A write is a record of its own, an update. Snapshots replace the updates before them: after a number
of updates, when a leader epoch or an initialisation changes more than an update has, and from time
to time for a partition that does not change. So the records of the log before the oldest last
snapshot of all partitions are not needed any more.

Memory and time: the batches of a state are in order of offsets, and an update touches those in its
range. A write of many batches is decided in steps and becomes a snapshot.
"""

from collections.abc import Sequence
from itertools import islice
from math import inf

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
from raftka.coordinator.share_state.commands import (
    DeleteState,
    FindPrunable,
    InitializeState,
    ReadState,
    ShareStateSettings,
    SummarizeState,
    WriteState,
)
from raftka.coordinator.share_state.records import (
    SNAPSHOT_KEY,
    UPDATE_KEY,
    Snapshot,
    Update,
    read_key,
    read_snapshot,
    read_update,
    snapshot_record,
    tombstone,
    update_record,
)
from raftka.limits import (
    SHARE_BATCHES_OF_COORDINATOR,
    SHARE_BATCHES_OF_PARTITION,
    SHARE_PARTITIONS_OF_COORDINATOR,
)
from raftka.share.batches import combine, complete_count, cut_below, merge
from raftka.share.state import (
    NO_COUNT,
    NO_START,
    SharePartitionKey,
    ShareState,
    ShareSummary,
)
from raftka.wire.errors import Code, KafkaError, check_limit
from raftka.wire.rows import ZERO_UUID

COLD_IN_A_TICK = 1_000  # states that are written anew
MANY_BATCHES = 500  # of a write: its state is combined in steps, and written as a snapshot
NO_EPOCHS = ShareSummary(0, 0, NO_START, NO_COUNT)  # of a partition that is not initialised
NOTHING = tombstone(SharePartitionKey("", ZERO_UUID, 0))  # no group id is empty

Command = InitializeState | ReadState | WriteState | DeleteState | SummarizeState
# the records of a decision, and its answer
Decided = tuple[tuple[Record, ...], ShareState | ShareSummary | None]


class StoredState:
    """The state of a share partition. `replay` alone changes it."""

    __slots__ = (
        "batches",
        "complete_count",
        "created_ms",
        "leader_epoch",
        "snapshot_epoch",
        "start",
        "state_epoch",
        "updates",
        "written_ms",
    )

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot_epoch = snapshot.snapshot_epoch
        self.state_epoch = snapshot.state_epoch
        self.leader_epoch = snapshot.leader_epoch
        self.start = snapshot.start
        self.complete_count = snapshot.complete_count
        self.created_ms = snapshot.created_ms
        self.written_ms = snapshot.written_ms
        self.batches = list(snapshot.batches)  # as `combine` returns them
        self.updates = 0  # since the snapshot

    def snapshot(self, now_ms: int) -> Snapshot:
        """Return the next snapshot, with this state."""
        return Snapshot(
            self.snapshot_epoch + 1,
            self.state_epoch,
            self.leader_epoch,
            self.start,
            self.complete_count,
            self.created_ms,
            now_ms,
            self.batches,
        )


class ShareStateCoordinator(Machine):
    def __init__(self, settings: ShareStateSettings) -> None:
        self.settings = settings
        self.states: dict[SharePartitionKey, StoredState] = {}
        self.batches = 0  # of all states
        self._of_topics: dict[bytes, dict[SharePartitionKey, None]] = {}
        # The offset at which the last snapshot of a state lies, or a lower one; the lowest first.
        self._snapshots_at: dict[SharePartitionKey, int] = {}
        # what the record of the last decision stands for: it need not be read
        self._decided: tuple[bytes | None, Snapshot | Update] | None = None
        self._cold_at = inf
        self._written = False  # by a command, since all cold states were written anew

    # the machine

    def decide(self, command: object, ticket: Ticket, context: Context) -> OutcomeOrSteps:
        if isinstance(command, FindPrunable):
            return Outcome((), ((ticket, self.prunable_below()),))
        if not isinstance(command, Command):
            raise TypeError(f"no command of a share coordinator: {command!r}")
        return begun(self._decide(command, ticket, context))

    def replay(self, record: Record) -> None:
        key, value = record
        what = kind(key)
        if what not in (SNAPSHOT_KEY, UPDATE_KEY):
            return
        where = read_key(key)
        if value is None:
            self._forget(where)
            return
        found: Snapshot | Update
        if self._decided is not None and self._decided[0] is value:
            found = self._decided[1]
        else:
            found = read_snapshot(value) if what == SNAPSHOT_KEY else read_update(value)
        if isinstance(found, Snapshot):
            self._replace(where, found)
        else:
            self._update(where, found)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Of another log: records here are in no transaction."""

    def loaded(self, context: Context) -> OutcomeOrSteps:
        """Topics may have been deleted while no broker led here."""
        self._rearm(context)
        topics = [each for each in self._of_topics if context.topics.topic_name(each) is None]
        return begun(self._without_topics(topics))

    def on_image(self, deleted: Sequence[tuple[bytes, str]], context: Context) -> OutcomeOrSteps:
        return begun(self._without_topics([topic_id for topic_id, _ in deleted]))

    def deadline(self) -> float:
        return self._cold_at

    def tick(self, context: Context) -> OutcomeOrSteps:
        return begun(self._write_cold(context))

    def client_gone(self, ticket: Ticket) -> None:
        """No command waits here."""

    def prunable_below(self) -> int:
        """Return the offset below which no state needs a record of the log. The records of the
        states may be uncommitted: the host holds an answer with it until they are.
        """
        return next(iter(self._snapshots_at.values()), self.position)

    # replay

    def _replace(self, where: SharePartitionKey, snapshot: Snapshot) -> None:
        before = self.states.get(where)
        state = self.states[where] = StoredState(snapshot)
        self.batches += len(state.batches) - (len(before.batches) if before is not None else 0)
        self._of_topics.setdefault(where.topic_id, {})[where] = None
        self._snapshots_at.pop(where, None)
        self._snapshots_at[where] = self.position

    def _update(self, where: SharePartitionKey, update: Update) -> None:
        state = self.states.get(where)
        if state is None or state.snapshot_epoch != update.snapshot_epoch:
            return
        before = len(state.batches)
        state.complete_count = complete_count(
            (state.start, state.complete_count), (update.start, update.complete_count)
        )
        state.start = max(state.start, update.start)
        merge(state.batches, update.batches)
        cut_below(state.batches, state.start)
        state.updates += 1
        self.batches += len(state.batches) - before

    def _forget(self, where: SharePartitionKey) -> None:
        state = self.states.pop(where, None)
        if state is None:
            return
        self.batches -= len(state.batches)
        del self._snapshots_at[where]
        of_topic = self._of_topics[where.topic_id]
        del of_topic[where]
        if not of_topic:
            del self._of_topics[where.topic_id]

    # commands

    def _decide(self, command: Command, ticket: Ticket, context: Context) -> Steps[Outcome]:
        records: tuple[Record, ...] = ()
        answer: ShareState | ShareSummary | KafkaError | None
        try:
            records, answer = yield from self._answer(command, context)
        except KafkaError as error:
            answer = error.with_traceback(None)
        outcome = Outcome(records, ((ticket, answer),))
        if records:
            self._written = True
        elif not context.vouched_for:
            # another coordinator may have changed the state
            outcome.confirm = NOTHING
        return outcome

    def _answer(self, command: Command, context: Context) -> Steps[Decided]:
        if command.key.partition < 0:
            raise KafkaError(Code.INVALID_REQUEST, "The partition id cannot be a negative number.")
        match command:
            case WriteState():
                return (yield from self._write(command, context))
            case ReadState():
                return self._read(command, context)
            case InitializeState():
                return self._initialize(command, context)
            case DeleteState():
                _check_topic(command.key, context)
                known = command.key in self.states
                return ((tombstone(command.key),) if known else ()), None
            case SummarizeState():
                return (), self._summarize(command)

    def _initialize(self, command: InitializeState, context: Context) -> Decided:
        before = self.states.get(command.key)
        if before is not None and command.state_epoch < before.state_epoch:
            raise KafkaError(Code.FENCED_STATE_EPOCH, STATE_EPOCH_FENCED)
        _check_topic(command.key, context)
        if before is None:
            check_limit(SHARE_PARTITIONS_OF_COORDINATOR, len(self.states) + 1)
        snapshot = Snapshot(
            before.snapshot_epoch + 1 if before is not None else 0,
            command.state_epoch,
            0,
            command.start,
            NO_COUNT if command.start == NO_START else 0,
            context.wall_ms,
            context.wall_ms,
            (),
        )
        return (self._recorded(command.key, snapshot),), None

    def _read(self, command: ReadState, context: Context) -> Decided:
        state = self._checked(command, None, "Read", context)
        records: tuple[Record, ...] = ()
        if command.leader_epoch > state.leader_epoch:
            snapshot = state.snapshot(context.wall_ms)._replace(leader_epoch=command.leader_epoch)
            records = (self._recorded(command.key, snapshot),)
        return records, ShareState(
            state.state_epoch,
            command.leader_epoch,
            state.start,
            NO_COUNT,
            tuple(state.batches),
        )

    def _write(self, command: WriteState, context: Context) -> Steps[Decided]:
        state = self._checked(command, command.state_epoch, "Write", context)
        for batch in command.batches:
            if batch.first > batch.last:
                raise KafkaError(
                    Code.INVALID_REQUEST,
                    f"The batch of offsets {batch.first} to {batch.last} has no offset.",
                )
            yield
        batches = yield from combine(command.batches)
        if len(batches) <= MANY_BATCHES and self._takes_update(state, len(batches)):
            update = Update(
                state.snapshot_epoch,
                state.leader_epoch,
                command.start,
                command.complete_count,
                batches,
            )
            record = update_record(command.key, update)
            self._decided = record.value, update
            return (record,), None
        batches = yield from combine([*state.batches, *batches])
        start = max(state.start, command.start)
        cut_below(batches, start)
        check_limit(SHARE_BATCHES_OF_PARTITION, len(batches))
        check_limit(SHARE_BATCHES_OF_COORDINATOR, self.batches - len(state.batches) + len(batches))
        snapshot = state.snapshot(context.wall_ms)._replace(
            start=start,
            complete_count=complete_count(
                (state.start, state.complete_count), (command.start, command.complete_count)
            ),
            batches=batches,
        )
        return (self._recorded(command.key, snapshot),), None

    def _takes_update(self, state: StoredState, batches: int) -> bool:
        """Return whether so many batches more keep within all limits, wherever they lie: each may
        divide a stored one.
        """
        return (
            state.updates < self.settings.updates_of_snapshot
            and len(state.batches) + 2 * batches <= SHARE_BATCHES_OF_PARTITION.value
            and self.batches + 2 * batches <= SHARE_BATCHES_OF_COORDINATOR.value
        )

    def _summarize(self, command: SummarizeState) -> ShareSummary:
        state = self.states.get(command.key)
        if state is None:
            return NO_EPOCHS
        return ShareSummary(
            state.state_epoch, state.leader_epoch, state.start, state.complete_count
        )

    def _checked(
        self,
        command: ReadState | WriteState,
        state_epoch: int | None,
        operation: str,
        context: Context,
    ) -> StoredState:
        """Return the state. Raises KafkaError; the order of the checks is Kafka's."""
        if command.leader_epoch < 0:
            raise KafkaError(Code.INVALID_REQUEST, "The leader epoch cannot be a negative number.")
        if state_epoch is not None and state_epoch < 0:
            raise KafkaError(Code.INVALID_REQUEST, "The state epoch cannot be a negative number.")
        state = self.states.get(command.key)
        if state is None:
            raise KafkaError(
                Code.INVALID_REQUEST,
                f"{operation} operation on uninitialized share partition not allowed.",
            )
        if command.leader_epoch < state.leader_epoch:
            raise KafkaError(Code.FENCED_LEADER_EPOCH, LEADER_EPOCH_FENCED)
        if state_epoch is not None and state_epoch < state.state_epoch:
            raise KafkaError(Code.FENCED_STATE_EPOCH, STATE_EPOCH_FENCED)
        _check_topic(command.key, context)
        return state

    def _recorded(self, where: SharePartitionKey, snapshot: Snapshot) -> Record:
        record = snapshot_record(where, snapshot)
        self._decided = record.value, snapshot
        return record

    # topics and time

    def _without_topics(self, topics: Sequence[bytes]) -> Steps[Outcome]:
        records = []
        for topic_id in topics:
            for where in self._of_topics.get(topic_id, ()):
                records.append(tombstone(where))
                yield
        return Outcome(records, atomic=False)

    def _write_cold(self, context: Context) -> Steps[Outcome]:
        """Write anew the states whose last snapshot is old, some in a tick, the oldest first. When
        all have been written anew in a row, their records keep no other in the log.
        """
        records: list[Record] = []
        before_ms = context.wall_ms - self.settings.cold_interval_ms
        are_all_cold = True
        if self._written:
            for where in islice(self._snapshots_at, COLD_IN_A_TICK):
                state = self.states[where]
                if state.written_ms > before_ms:
                    are_all_cold = False
                    break
                records.append(snapshot_record(where, state.snapshot(context.wall_ms)))
                yield
        if len(records) == COLD_IN_A_TICK:
            return Outcome(records, atomic=False)  # the next tick comes at once
        self._rearm(context)
        if are_all_cold:
            self._written = False
        return Outcome(records, atomic=False, undo=self._write_cold_again)

    def _write_cold_again(self) -> None:
        self._written = True

    def _rearm(self, context: Context) -> None:
        self._cold_at = context.now + self.settings.cold_interval_ms / 1000


STATE_EPOCH_FENCED = "The coordinator rejected the request because the state epoch did not match."
LEADER_EPOCH_FENCED = "The leader epoch in the request is older than the epoch on the broker."


def _check_topic(where: SharePartitionKey, context: Context) -> None:
    """Raise UNKNOWN_TOPIC_OR_PARTITION."""
    name = context.topics.topic_name(where.topic_id)
    if name is None or where.partition >= context.topics.partition_count(name):
        raise KafkaError(
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            "This server does not host this topic-partition.",
        )
