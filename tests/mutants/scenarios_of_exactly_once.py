"""Directed scenarios of transactions, on a log or a group alone: see directed.py."""

from contextlib import suppress
from random import Random

from raftka.coordinator.pending_offsets import PendingOffsets
from raftka.coordinator.records import CommittedOffset
from raftka.coordinator.transactions.commands import EndTransaction
from raftka.limits import GUARDS_OF_PARTITION
from raftka.log.compaction.transactions import Transactions
from raftka.log.log import Log
from raftka.log.producers.markers import Marker
from raftka.log.producers.state import ProducerState
from raftka.log.segments.transaction_index import AbortedTransaction
from raftka.wire.errors import Code, KafkaError
from raftka.wire.records import BATCH_HEADER, TRANSACTIONAL
from tests.broker.test_verification import (
    test_an_id_is_asked_once_for_what_is_alike_and_again_for_what_is_not,
    test_the_questions_of_a_turn_go_together,
    test_when_there_is_no_answer_all_hear_it,
)
from tests.coordinator.test_transactions import (
    test_a_coordinator_that_nobody_vouches_for_asks_its_replicas_before_it_answers,
    test_a_late_answer_about_markers_does_not_complete_the_next_transaction_of_its_epoch,
)
from tests.log.given import (
    NOW,
    append,
    batch,
    checkpoint,
    disk,
    end_transaction,
    in_transaction,
    open_log,
)
from tests.mutants.directed import finds

PRODUCER = 7


def _begun(sequence: int = 0, epoch: int = 0) -> memoryview:
    return batch(producer=PRODUCER, sequence=sequence, epoch=epoch, transactional=True)


def _refused(records: memoryview, log: Log) -> Code:
    try:
        append(log, records)
    except KafkaError as error:
        return error.code
    return Code.NONE


@finds
def version_2_begins_anywhere() -> None:
    """A producer of version 2 that a partition does not know begins behind a batch that never
    came.
    """
    log = open_log()
    log.producers.verified(PRODUCER, log.producers.guard(PRODUCER, 0, 3, 2, NOW), known=True)
    code = _refused(batch(producer=PRODUCER, sequence=3, epoch=0, transactional=True), log)
    assert code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER, "there is a gap"


@finds
def plain_batches_within_a_transaction() -> None:
    """A client sends without its transactional id what it has begun with it."""
    log = open_log()
    in_transaction(log, batch(producer=PRODUCER, sequence=0, epoch=0, transactional=True))
    code = _refused(batch(producer=PRODUCER, sequence=1, epoch=0), log)
    assert code is Code.INVALID_TXN_STATE, "a plain batch is part of a transaction"


@finds
def marker_of_a_deposed_coordinator() -> None:
    """A marker of coordinator epoch 3 comes after one of epoch 4, while the next transaction of
    version 1 is open.
    """
    log = open_log()
    in_transaction(log, batch(producer=PRODUCER, sequence=0, epoch=0, transactional=True))
    end_transaction(log, PRODUCER, commit=True, coordinator_epoch=4)
    in_transaction(log, batch(producer=PRODUCER, sequence=1, epoch=0, transactional=True))
    with suppress(KafkaError):
        log.append_marker(Marker(PRODUCER, 0, 3, commit=False, version=1), 0, NOW)
    assert log.producers.open, "torn: an earlier coordinator has ended the transaction"


@finds
def marker_of_any_epoch() -> None:
    """A marker of version 2 is sent twice, and the second comes when the next transaction of its
    producer is open.
    """
    log = open_log()
    in_transaction(
        log, batch(producer=PRODUCER, sequence=0, epoch=0, transactional=True), version=2
    )
    end_transaction(log, PRODUCER, commit=True, epoch=1, version=2)
    in_transaction(
        log, batch(producer=PRODUCER, sequence=0, epoch=1, transactional=True), version=2
    )
    with suppress(KafkaError):
        log.append_marker(Marker(PRODUCER, 1, 0, commit=True, version=2), 0, NOW)
    assert log.producers.open, "torn: a marker of the transaction before has ended it"


@finds
def snapshot_hides_what_is_not_replicated() -> None:
    """A leader begins again before its last marker is committed."""
    files = disk()
    log = open_log(files)
    in_transaction(log, batch(producer=PRODUCER, sequence=0, epoch=0, transactional=True))
    end = end_transaction(log, PRODUCER, commit=True)
    log.close(clean=True)
    again = open_log(files, clean=True, recovery_point=end)
    assert again.producers.first_unstable(end - 1) is not None, (
        "last stable offset: it passes an open transaction"
    )


@finds
def aborts_outlive_their_markers() -> None:
    """A follower cuts the marker of an abort off, and its next leader has committed the
    transaction.
    """
    log = open_log()
    in_transaction(log, batch(producer=PRODUCER, sequence=0, epoch=0, transactional=True))
    end = end_transaction(log, PRODUCER, commit=False)
    log.truncate_to(end - 1)
    end_transaction(log, PRODUCER, commit=True)
    assert log.aborted.find(0, end) == [], "lost read: a committed transaction is listed as aborted"


@finds
def pending_offset_overtakes_a_later_commit() -> None:
    """An administrator sets an offset while a transaction has another one pending."""
    pending, key = PendingOffsets(), ("group", "topic", 0)
    pending.add(PRODUCER, key, CommittedOffset(5, -1, "", NOW))
    pending.committed(key)
    assert pending.end(PRODUCER, commit=True) == [], "an offset goes back"


@finds
def zombie_takes_the_guard() -> None:
    """A fenced client begins while the one that has fenced it waits for its coordinator."""
    log = open_log()
    guard = log.producers.guard(PRODUCER, 1, 0, 2, NOW)
    log.producers.guard(PRODUCER, 0, 5, 2, NOW)
    log.producers.verified(PRODUCER, guard, known=True)
    code = _refused(batch(producer=PRODUCER, sequence=0, epoch=1, transactional=True), log)
    assert code is Code.NONE, f"a healthy client is refused with {code.name}"


@finds
def an_index_made_again_is_only_appended_to() -> None:
    """The index of aborted transactions is lost, made again for a reader, and closed with its
    segment when the power goes.
    """
    files = disk()
    log = open_log(files)
    in_transaction(log, batch(producer=PRODUCER, sequence=0, epoch=0, transactional=True))
    end_transaction(log, PRODUCER, commit=False)
    append(log, batch())
    point = checkpoint(log)
    log.close(clean=True)
    for name in [each for each in files.names if each.endswith(".txnindex")]:
        files.remove(name)
    log = open_log(files, clean=True)
    assert log.aborted.find(0, log.end_offset)
    log.segments.active.seal()
    for seed in range(8):
        again = open_log(files.power_loss(Random(seed)), recovery_point=point)
        assert again.aborted.find(0, again.end_offset), (
            "a dirty read: nothing says that the records were aborted"
        )


@finds
def aborts_go_with_the_offset_index() -> None:
    """The index of offsets is lost, and the log is opened again after a crash."""
    files = disk()
    log = open_log(files)
    in_transaction(log, batch(producer=PRODUCER, sequence=0, epoch=0, transactional=True))
    end_transaction(log, PRODUCER, commit=False)
    append(log, batch())
    point = checkpoint(log)
    log.close(clean=False)
    for name in [each for each in files.names if each.endswith(".index")]:
        files.remove(name)
    again = open_log(files, recovery_point=point)
    assert again.aborted.find(0, again.end_offset), (
        "a dirty read: nothing says that the records were aborted"
    )


@finds
def aborts_reach_into_the_dirty_part() -> None:
    """A producer whose transaction was aborted commits a record for a key that was there before,
    and the log is compacted again.
    """
    aborted = AbortedTransaction(PRODUCER, 1, 2, 3)
    pass_of_the_dirty_part = Transactions([aborted])
    batch_header = BATCH_HEADER.unpack_from(
        batch(producer=PRODUCER, sequence=1, epoch=0, transactional=True)
    )
    header = (5, *batch_header[1:])
    assert not pass_of_the_dirty_part.is_aborted(header), (
        "lost: a committed record is taken for an aborted one"
    )


@finds
def a_coordinator_refuses_from_memory() -> None:
    fenced = EndTransaction("x", 1, 1, commit=True)
    test_a_coordinator_that_nobody_vouches_for_asks_its_replicas_before_it_answers(fenced)


@finds
def batch_of_a_new_epoch_joins_the_open_transaction() -> None:
    """The next client of the id writes before the marker of the one that it has fenced."""
    log = open_log()
    in_transaction(log, _begun())
    assert _refused(_begun(epoch=1), log) is Code.INVALID_TXN_STATE, (
        "torn: it is in the transaction of the client before"
    )


@finds
def open_transactions_expire() -> None:
    log = open_log()
    in_transaction(log, _begun())
    log.producers.expire(NOW + 10**9, 1000)
    end_transaction(log, PRODUCER, commit=True)
    assert not log.producers.open, "hanging: its producer was forgotten"


@finds
def marker_is_no_sign_of_life() -> None:
    log = open_log()
    in_transaction(log, _begun())
    end_transaction(log, PRODUCER, commit=True, now=NOW + 900)
    log.producers.expire(NOW + 1200, 1000)
    assert PRODUCER in log.producers.producers, "a producer is forgotten too early"


@finds
def newest_transaction_says_what_is_late() -> None:
    state = ProducerState()
    for producer_id, begun_ms in ((7, 0), (8, 900)):
        state.record(producer_id, 0, 0, 1, producer_id, begun_ms, begun_ms, TRANSACTIONAL)
    assert state.open_since(500), "a late transaction is not counted"


@finds
def guards_have_no_bound() -> None:
    state = ProducerState()
    for producer_id in range(GUARDS_OF_PARTITION.value + 1):
        state.guard(producer_id, 0, 0, 2, NOW)
    assert len(state.guards) == GUARDS_OF_PARTITION.value, "more guards than there may be"


@finds
def guard_that_is_used_leaves_first() -> None:
    state = ProducerState()
    for producer_id in (*range(3), 0):
        state.guard(producer_id, 0, 0, 2, NOW)
    assert list(state.guards) == [1, 2, 0], "whoever has just asked again is to leave first"


@finds
def unlike_questions_go_together() -> None:
    test_an_id_is_asked_once_for_what_is_alike_and_again_for_what_is_not()


@finds
def only_the_first_question_is_answered() -> None:
    test_when_there_is_no_answer_all_hear_it()


@finds
def each_question_is_a_request() -> None:
    test_the_questions_of_a_turn_go_together()


@finds
def marker_is_refused_the_second_time() -> None:
    """Its answer was lost."""
    log = open_log()
    in_transaction(log, _begun(), version=2)
    for _ in range(2):
        end = end_transaction(log, PRODUCER, commit=True, epoch=1, version=2)
        assert end > 0, "the marker is refused"


@finds
def aborts_behind_the_data_are_left_out() -> None:
    log = open_log()
    in_transaction(log, _begun())
    end_transaction(log, PRODUCER, commit=False)
    assert log.aborted.find(0, 1), "dirty read: an abort is not named"


@finds
def stable_before_the_log() -> None:
    log = open_log()
    in_transaction(log, _begun(), _begun(sequence=1))
    log.set_start_offset(1)
    assert log.last_stable_offset(2) == 1, "last stable offset: it is before the log"


@finds
def a_late_answer_completes_the_next_transaction() -> None:
    test_a_late_answer_about_markers_does_not_complete_the_next_transaction_of_its_epoch()
