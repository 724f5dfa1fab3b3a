"""Planted in transactions: what is torn, shown too early or never, counted for a fenced producer,
or waits for ever.
"""

from collections import OrderedDict
from dataclasses import replace
from typing import Any

from raftka.broker.coordinators import partition as coordinator_partition
from raftka.broker.coordinators.marker_sender import MarkerSender
from raftka.broker.coordinators.markers import MarkerWriter
from raftka.broker.coordinators.partition import LOADED, CoordinatorPartition
from raftka.broker.produce import verification
from raftka.broker.produce.verification import TransactionVerifier, _Batch
from raftka.coordinator import groups, offsets
from raftka.coordinator.groups import GroupCoordinator
from raftka.coordinator.machine import Outcome, Record
from raftka.coordinator.pending_offsets import PendingOffsets
from raftka.coordinator.transactions import coordinator as transactions
from raftka.coordinator.transactions.coordinator import TransactionCoordinator
from raftka.log.log import Log
from raftka.log.producers import snapshots
from raftka.log.producers.markers import Marker
from raftka.log.producers.state import BATCHES_REMEMBERED, Guard, Producer, ProducerState
from raftka.wire.errors import Code, KafkaError
from tests.mutants.registry import mutant

IN_SMALL_LIVES = ("small replication", "transactions")  # hunts

# the partition's leader: a transaction begins


@mutant(ProducerState, "_check_guard", *IN_SMALL_LIVES)
def guard_is_not_demanded(_: Any) -> Any:
    """T30: a batch begins a transaction that a marker has ended since its coordinator was asked:
    nobody ends it.
    """

    def bug(self: ProducerState, *batch: object) -> None: ...

    return bug


@mutant(TransactionVerifier, "ask")
def coordinator_is_not_asked(_: Any) -> Any:
    """T29: a leader takes every transactional batch for one of a transaction that its coordinator
    knows.
    """

    def bug(self: TransactionVerifier, question: Any, done: Any) -> None:
        for partition, guard, _ in question.partitions.values():
            partition.log.producers.verified(question.producer_id, guard, known=True)
        done({})

    return bug


@mutant(ProducerState, "guard", *IN_SMALL_LIVES)
def zombie_takes_the_guard(_: Any) -> Any:
    """T30: the question of a fenced client takes away the guard of the client that has fenced it
    (once real).
    """

    def bug(
        self: ProducerState, producer_id: int, epoch: int, sequence: int, version: int, now_ms: int
    ) -> Guard:
        guard = self.guards.get(producer_id)
        if guard is None or guard.epoch != epoch or guard.version != version:
            guard = self.guards[producer_id] = Guard(epoch, sequence, version, now_ms)
        guard.lowest_sequence = min(guard.lowest_sequence, sequence)
        return guard

    return bug


@mutant(ProducerState, "_check_guard")
def version_2_begins_anywhere(check: Any) -> Any:
    """T31: a producer without a past begins with any sequence: what was before it is lost without a
    word.
    """

    def bug(
        self: ProducerState, producer: Producer | None, producer_id: int, epoch: int, sequence: int
    ) -> None:
        guard = self.guards.get(producer_id)
        if guard is not None:
            guard.version = 1
        check(self, producer, producer_id, epoch, sequence)

    return bug


@mutant(ProducerState, "admit")
def plain_batches_within_a_transaction(admit: Any) -> Any:
    """T32: a plain batch of a producer that has a transaction open is taken: it is shown, or not,
    with that transaction.
    """

    def bug(
        self: ProducerState,
        producer_id: int,
        epoch: int,
        sequence: int,
        count: int,
        transactional: int = 0,
    ) -> Any:
        producer = self.producers.get(producer_id)
        if transactional or producer is None:
            return admit(self, producer_id, epoch, sequence, count, transactional)
        before, producer.transactional = producer.transactional, 0
        try:
            return admit(self, producer_id, epoch, sequence, count, transactional)
        finally:
            producer.transactional = before

    return bug


@mutant(ProducerState, "must_verify")
def batch_of_a_new_epoch_joins_the_open_transaction(_: Any) -> Any:
    """T28: an open transaction is taken for the one of any epoch of its producer: nobody asks
    whether that of the batch is known.
    """

    def bug(self: ProducerState, producer_id: int, epoch: int) -> bool:
        producer = self.producers.get(producer_id)
        return producer is None or not producer.transactional

    return bug


@mutant(ProducerState, "expire")
def open_transactions_expire(_: Any) -> Any:
    """T51: a producer that is silent for a day is forgotten with its open transaction: no marker
    ends that any more.
    """

    def bug(self: ProducerState, now_ms: int, idle_ms: int) -> None:
        for producer_id, producer in list(self.producers.items()):
            if now_ms - producer.seen_ms >= idle_ms:
                del self.producers[producer_id]

    return bug


@mutant(ProducerState, "end")
def marker_is_no_sign_of_life(end: Any) -> Any:
    """T51, T53: the time of a marker does not count: a producer is described, and forgotten, by its
    last batch (KAFKA-9144).
    """

    def bug(self: ProducerState, marker: Marker, offset: int, timestamp: int, now_ms: int) -> Any:
        producer = self.producers.get(marker.producer_id)
        times = (producer.timestamp, producer.seen_ms) if producer is not None else None
        found = end(self, marker, offset, timestamp, now_ms)
        if producer is not None and times is not None:
            producer.timestamp, producer.seen_ms = times
        return found

    return bug


@mutant(ProducerState, "open_since")
def newest_transaction_says_what_is_late(_: Any) -> Any:
    """T54: a transaction that hangs is not counted as late while others begin in its partition."""

    def bug(self: ProducerState, before_ms: int) -> bool:
        return bool(self.open) and next(reversed(self.open.values())) < before_ms

    return bug


@mutant(ProducerState, "guard")
def guards_have_no_bound(guard: Any) -> Any:
    """GUARDS_OF_PARTITION: clients that ask and never write fill the memory of a partition's
    leader.
    """

    def bug(
        self: ProducerState, producer_id: int, epoch: int, sequence: int, version: int, now_ms: int
    ) -> Guard:
        others = self.guards
        self.guards = OrderedDict(
            {producer_id: self.guards[producer_id]} if producer_id in self.guards else {}
        )
        found: Guard = guard(self, producer_id, epoch, sequence, version, now_ms)
        others.update(self.guards)
        self.guards = others
        return found

    return bug


@mutant(ProducerState, "guard")
def guard_that_is_used_leaves_first(guard: Any) -> Any:
    """GUARDS_OF_PARTITION: whoever asked first leaves, also when it has just asked again, and its
    batch is refused.
    """

    def bug(
        self: ProducerState, producer_id: int, epoch: int, sequence: int, version: int, now_ms: int
    ) -> Guard:
        order = list(self.guards)
        found: Guard = guard(self, producer_id, epoch, sequence, version, now_ms)
        for each in (*order, *(new for new in list(self.guards) if new not in order)):
            if each in self.guards:
                self.guards.move_to_end(each)
        return found

    return bug


# questions to coordinators


@mutant(_Batch, "takes")
def unlike_questions_go_together(_: Any) -> Any:
    """B8: two epochs or versions of an id are asked for at once: the coordinator answers for the
    first, and both get that answer.
    """

    def bug(self: _Batch, question: Any) -> bool:
        return True

    return bug


@mutant(TransactionVerifier, "_on_answer")
def only_the_first_question_is_answered(_: Any) -> Any:
    """B8: of the questions in a request only the first hears what became of it: the batches of the
    others wait for ever.
    """

    def bug(self: TransactionVerifier, batch: _Batch, answer: Any, error: str | None) -> None:
        codes = (
            verification._codes(answer)
            if answer is not None
            else KafkaError(Code.NETWORK_EXCEPTION, error)
        )
        (question, done), *_ = batch.questions
        done(
            self._settle(
                question,
                codes
                if isinstance(codes, KafkaError)
                else codes.get(question.transactional_id, {}),
            )
        )

    return bug


@mutant(TransactionVerifier, "_ask_there")
def each_question_is_a_request(_: Any) -> Any:
    """T29: a thousand transactions that begin in a turn are a thousand requests to their
    coordinator.
    """

    def bug(self: TransactionVerifier, broker: int, question: Any, done: Any) -> None:
        if not self._batches:
            self._context.runtime.clock.at_turn_end(self._end_turn)
        self._batches.setdefault(broker, []).append(_Batch())
        self._batches[broker][-1].add(question, done)

    return bug


# markers


@mutant(ProducerState, "admit_marker", *IN_SMALL_LIVES)
def marker_is_refused_the_second_time(admit: Any) -> Any:
    """B2: a marker of version 2 that is sent again, because its answer was lost, is refused for
    ever: the transaction hangs (KAFKA-19999).
    """

    def bug(self: ProducerState, marker: Marker) -> bool:
        producer = self.producers.get(marker.producer_id)
        if producer is not None and marker.version >= 2 and marker.epoch == producer.epoch:
            raise KafkaError(Code.INVALID_PRODUCER_EPOCH)
        return bool(admit(self, marker))

    return bug


@mutant(MarkerWriter, "write")
def marker_answered_before_commit(write: Any) -> Any:
    """T34: a marker counts as written before it is replicated: with the next leader it is gone, and
    nobody writes it again.
    """

    def bug(self: MarkerWriter, marker: Marker, topic: str, partition: int, done: Any) -> None:
        told: list[Code] = []
        write(self, marker, topic, partition, told.append)
        done(told[0] if told else Code.NONE)

    return bug


@mutant(ProducerState, "admit_marker", *IN_SMALL_LIVES)
def marker_of_any_epoch(_: Any) -> Any:
    """T35: a marker that comes late ends the transaction that its producer has begun since."""

    def bug(self: ProducerState, marker: Marker) -> bool:
        return True

    return bug


@mutant(ProducerState, "admit_marker", *IN_SMALL_LIVES)
def marker_of_a_deposed_coordinator(admit: Any) -> Any:
    """T35: a coordinator that is none any more still ends transactions."""

    def bug(self: ProducerState, marker: Marker) -> bool:
        producer = self.producers.get(marker.producer_id)
        if producer is None:
            return bool(admit(self, marker))
        before, producer.coordinator_epoch = producer.coordinator_epoch, -1
        try:
            return bool(admit(self, marker))
        finally:
            producer.coordinator_epoch = before

    return bug


@mutant(ProducerState, "end", *IN_SMALL_LIVES)
def marker_leaves_the_epoch(end: Any) -> Any:
    """T36: the marker of a transaction does not fence its producer: what comes late of that
    transaction begins another.
    """

    def bug(self: ProducerState, marker: Marker, offset: int, timestamp: int, now_ms: int) -> Any:
        producer = self.producers.get(marker.producer_id)
        before = (
            (producer.epoch, producer.next_sequence, list(producer.batches))
            if producer is not None
            else None
        )
        found = end(self, marker, offset, timestamp, now_ms)
        if producer is not None and before is not None:
            producer.epoch, producer.next_sequence, producer.batches = before
        return found

    return bug


@mutant(Log, "append_as_follower", *IN_SMALL_LIVES)
def follower_passes_over_markers(append: Any) -> Any:
    """T37: a follower does not apply markers: when it leads, all that was ever begun is open."""

    def bug(self: Log, records: memoryview, leader_epoch: int) -> int:
        ends = vars(Log)["_end_transaction"]
        Log._end_transaction = lambda *given: None  # type: ignore[method-assign]
        try:
            return int(append(self, records, leader_epoch))
        finally:
            Log._end_transaction = ends  # type: ignore[method-assign]

    return bug


@mutant(snapshots, "read_marker", *IN_SMALL_LIVES)
def restart_passes_over_markers(_: Any) -> Any:
    """T37: recovery does not apply markers: what has ended since the last snapshot is open again,
    for ever.
    """

    def bug(batch: bytes) -> None: ...

    return bug


# offsets in transactions


@mutant(CoordinatorPartition, "write_marker")
def marker_answered_before_its_offsets_count(write: Any) -> Any:
    """T44: the transaction is complete while its offsets are not committed: the next coordinator of
    the group drops them (KAFKA-17507).
    """

    def bug(self: CoordinatorPartition, marker: Marker, done: Any) -> None:
        if self.state not in LOADED:
            done(Code.NONE)
            return
        done(Code.NONE)
        write(self, marker, lambda code: None)

    return bug


@mutant(GroupCoordinator, "replay_pending")
def pending_offsets_count_at_once(_: Any) -> Any:
    """T45: offsets of a transaction that is aborted are committed: its inputs are never copied."""

    def bug(self: GroupCoordinator, producer_id: int, record: Record) -> None:
        self.replay(record)

    return bug


@mutant(coordinator_partition, "read_marker")
def coordinator_loads_without_markers(_: Any) -> Any:
    """T44: the next coordinator of a group does not see which transactions have ended: their
    offsets stay pending, or are those of before.
    """

    def bug(batch: bytes) -> None: ...

    return bug


@mutant(PendingOffsets, "committed")
def pending_offset_overtakes_a_later_commit(_: Any) -> Any:
    """T45: a transaction that ends late takes the place of an offset that was committed after
    it.
    """

    def bug(self: PendingOffsets, key: Any) -> None: ...

    return bug


@mutant(offsets, "check_transactional_commit")
def transactional_commit_of_any_generation(_: Any) -> Any:
    """T46: a member that is none any more commits offsets of partitions that another one copies."""

    def bug(*given: Any) -> None: ...

    return bug


@mutant(groups, "fetch")
def unstable_offsets_are_told(fetch: Any) -> Any:
    """T47: a client that wants a stable offset is told the one of before, while a transaction is
    about to change it.
    """

    def bug(group: Any, command: Any, ticket: Any, context: Any, pending: Any) -> Any:
        return fetch(group, command, ticket, context, ())

    return bug


# the coordinator of transactions


@mutant(TransactionCoordinator, "_asked")
def a_coordinator_refuses_from_memory(asked: Any) -> Any:
    """A coordinator that has not heard that another has taken its place refuses the epoch that the
    other has given out (once real).
    """

    def bug(self: TransactionCoordinator, command: Any, ticket: Any, context: Any) -> Any:
        return asked(self, command, ticket, replace(context, vouched_for=True))

    return bug


@mutant(transactions, "_times")
def a_late_answer_completes_the_next_transaction(_: Any) -> Any:
    """The transactions of one epoch are taken for one another: an abort that no marker tells of,
    and readers see it (once real).
    """

    def bug(its: Any) -> tuple[int, int]:
        return 0, 0

    return bug


@mutant(transactions, "fenced")
def epoch_stays_when_time_is_over(fenced: Any) -> Any:
    """A transaction that was aborted because its time was over does not fence its client, which
    goes on with the rest of it.
    """

    def bug(its: Any, now_ms: int) -> Any:
        return replace(fenced(its, now_ms), epoch=its.epoch)

    return bug


@mutant(transactions, "next_producer")
def epoch_stays_with_the_next_client(following: Any) -> Any:
    """Zombie: a client that takes over a transactional id gets the epoch of the one before, which
    is not fenced.
    """

    def bug(its: Any, command: Any, now_ms: int) -> Any:
        after = following(its, command, now_ms)
        return replace(after, epoch=its.epoch) if its.epoch >= 0 else after

    return bug


@mutant(TransactionCoordinator, "loaded")
def markers_are_not_sent_again(loaded: Any) -> Any:
    """A coordinator that takes over does not end the transactions that were ending: they hang."""

    def bug(self: TransactionCoordinator, context: Any) -> Outcome:
        loaded(self, context)
        return Outcome()

    return bug


@mutant(TransactionCoordinator, "_watch")
def time_is_never_over(_: Any) -> Any:
    """A transaction whose client has ended without a word stays open, and its readers wait."""

    def bug(self: TransactionCoordinator, *given: object) -> None: ...

    return bug


@mutant(MarkerSender, "_park")
def refused_marker_ends_the_sending(_: Any) -> Any:
    """A marker that is refused for a while is never sent again: its transaction hangs (B1)."""

    def bug(self: MarkerSender, ending: Any, place: Any) -> None:
        self._give_up(ending)

    return bug


@mutant(ProducerState, "remember_older")
def time_of_a_marker_hides_older_batches(_: Any) -> Any:
    """After a restart only the last batch of a producer is known, when a marker lies behind it
    (once real).
    """

    def bug(self: ProducerState, batches: Any) -> None:
        history: dict[int, Producer] = {}
        for producer_id, epoch, sequence, count, base_offset, timestamp in batches:
            known = self.producers.get(producer_id)
            if known is not None and known.epoch == epoch:
                history.setdefault(producer_id, Producer(epoch, known.seen_ms)).add(
                    sequence, count, base_offset, timestamp
                )
        for producer_id, older in history.items():
            known = self.producers[producer_id]
            if known.batches and known.batches[0] in older.batches:
                known.batches[:1] = older.batches[: older.batches.index(known.batches[0]) + 1]
                del known.batches[:-BATCHES_REMEMBERED]

    return bug
