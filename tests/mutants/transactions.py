"""Planted in the transaction coordinator and its sender of markers: transactions that end both
ways, in part, or never, and producers that are fenced by mistake, or not at all.
"""

from dataclasses import replace
from typing import Any

from raftka.broker.coordinators.marker_sender import MarkerSender, _Ending
from raftka.broker.produce.produce import Produce
from raftka.coordinator.transactions import coordinator, records, transaction
from raftka.coordinator.transactions.commands import VERSION_2
from raftka.coordinator.transactions.coordinator import TransactionCoordinator
from raftka.coordinator.transactions.records import NO_EPOCH, NO_PRODUCER_ID, Growing, Transaction
from raftka.coordinator.transactions.transaction import ENDING, MarkersOutstanding
from raftka.wire.errors import Code, KafkaError
from raftka.wire.rows import ZERO_UUID
from tests.mutants.registry import mutant


@mutant(TransactionCoordinator, "_markers")
def markers_leave_before_the_end_is_committed(markers: Any) -> Any:
    """Markers are sent when the end is decided: where its record is lost, the next coordinator ends
    the transaction the other way.
    """

    def bug(self: TransactionCoordinator, transactional_id: str, its: Transaction) -> Any:
        replies = markers(self, transactional_id, its)
        for ticket, answer in replies:
            ticket(answer)
        return replies

    return bug


@mutant(coordinator, "fenced")
def epoch_is_kept_at_a_time_out(fenced: Any) -> Any:
    """A transaction that is aborted because its time is over does not fence its producer, which
    goes on as if it was open.
    """

    def bug(its: Transaction, now_ms: int) -> Transaction:
        after: Transaction = replace(fenced(its, now_ms), epoch=its.epoch)
        return after

    return bug


@mutant(transaction, "_check_producer")
def fenced_producers_wait_for_markers(check: Any) -> Any:
    """That markers are on their way is looked at before the epoch: a producer that is fenced asks
    again, and fences its successor.
    """

    def bug(its: Transaction | None, command: Any) -> Transaction:
        if its is not None and its.state in ENDING:
            raise MarkersOutstanding
        checked: Transaction = check(its, command)
        return checked

    return bug


@mutant(transaction, "_ended_raising")
def the_next_end_is_fenced_by_the_last_one(ended: Any) -> Any:
    """A producer that ends its next transaction before the markers of the last one are written is
    told that another one has fenced it.
    """

    def bug(its: Transaction | None, command: Any, now_ms: int) -> Transaction | None:
        if (
            its is not None
            and its.state in ENDING
            and (command.producer_id, command.epoch) == (its.producer_id, its.epoch)
        ):
            raise KafkaError(Code.PRODUCER_FENCED)
        after: Transaction | None = ended(its, command, now_ms)
        return after

    return bug


@mutant(transaction, "_ended_raising")
def a_fenced_producer_asks_again(ended: Any) -> Any:
    """A producer of the epoch before is told that its transaction was committed, though another
    producer has fenced it, as in Kafka.
    """

    def bug(its: Transaction | None, command: Any, now_ms: int) -> Transaction | None:
        after: Transaction | None = ended(
            None if its is None else replace(its, version=VERSION_2), command, now_ms
        )
        return after

    return bug


@mutant(TransactionCoordinator, "_send_back")
def a_commit_ahead_of_its_batches_is_refused(_: Any) -> Any:
    """A commit that its client sent before the batches, which Java's does now and then, ends the
    producer for good.
    """

    def bug(self: TransactionCoordinator, draft: Any, refusal: KafkaError) -> KafkaError:
        return refusal

    return bug


@mutant(TransactionCoordinator, "_send_back")
def every_commit_of_nothing_is_sent_back(_: Any) -> Any:
    """A client that commits what it has not begun asks for ever, and is never told that it is in
    error.
    """

    def bug(self: TransactionCoordinator, draft: Any, refusal: KafkaError) -> KafkaError:
        return KafkaError(Code.CONCURRENT_TRANSACTIONS)

    return bug


@mutant(transaction, "successor")
def the_next_producer_id_is_a_strangers(_: Any) -> Any:
    """The pair that an end at the last epoch answers is not known before the markers are written:
    its producer is refused for good.
    """
    return transaction.pair_of


@mutant(records, "_value")
def last_epoch_is_not_stored(value: Any) -> Any:
    """A new coordinator does not know the epoch before: a producer whose answer was lost is fenced
    by itself, as in Kafka.
    """

    def bug(its: Transaction) -> bytes:
        stored: bytes = value(replace(its, last_epoch=NO_EPOCH))
        return stored

    return bug


@mutant(records, "_value")
def next_producer_id_is_not_stored(value: Any) -> Any:
    """A fail-over while epochs run out: the new coordinator does not know the producer id that the
    client was given (KAFKA-20310).
    """

    def bug(its: Transaction) -> bytes:
        stored: bytes = value(replace(its, next_producer_id=NO_PRODUCER_ID))
        return stored

    return bug


@mutant(TransactionCoordinator, "_hold")
def nothing_waits_for_markers(_: Any) -> Any:
    """Every transaction that begins right after another hears CONCURRENT_TRANSACTIONS, as in Kafka;
    some clients do not ask again.
    """

    def bug(self: TransactionCoordinator, draft: Any, held: Any) -> None:
        draft.replies.append((held.ticket, KafkaError(Code.CONCURRENT_TRANSACTIONS)))

    return bug


@mutant(Growing, "add")
def topics_of_a_transaction_are_known_by_name_alone(add: Any) -> Any:
    """A topic that was made again under its name gets the marker of a transaction that never wrote
    to it, as in Kafka.
    """

    def bug(self: Growing, name: str, topic_id: bytes, indexes: set[int]) -> None:
        add(self, name, ZERO_UUID, indexes)

    return bug


@mutant(MarkerSender, "_settle")
def a_refused_marker_stops_all_others(settle: Any) -> Any:
    """One partition refuses its marker for ever, and the transaction stays open in all others, as
    in Kafka.
    """

    def bug(self: MarkerSender, ending: Any, place: Any, code: Code) -> None:
        if code is Code.INVALID_PRODUCER_EPOCH:
            self._give_up(ending)
        else:
            settle(self, ending, place, code)

    return bug


@mutant(_Ending, "__init__")
def markers_have_no_version(init: Any) -> Any:
    """Markers of newer transactions are sent as older ones: one that is sent again ends the
    producer's next transaction.
    """

    def bug(self: _Ending, write: Any, of: Any) -> None:
        init(self, write, of)
        self.marker = replace(self.marker, version=0)

    return bug


@mutant(TransactionCoordinator, "_loaded")
def a_new_coordinator_sends_no_markers(loaded: Any) -> Any:
    """A transaction whose end is in the log, but not in its partitions, stays open when its
    coordinator dies.
    """

    def bug(self: TransactionCoordinator, context: Any) -> Any:
        outcome = yield from loaded(self, context)
        outcome.replies = ()
        return outcome

    return bug


class _Forgetful(dict[Any, Any]):
    def __setitem__(self, key: Any, value: Any) -> None: ...


@mutant(Produce, "__init__")
def answers_outlive_a_truncation(init: Any) -> Any:
    """A leader that was truncated while it asked for a transaction refuses the batch for good: the
    guard of its question is gone.
    """

    def bug(self: Produce, *given: Any) -> None:
        init(self, *given)
        self.producers_when_asked = _Forgetful()

    return bug
