"""Directed scenarios of transactions, on a log or a group alone: see directed.py."""

from contextlib import suppress
from random import Random

from raftka.coordinator.pending_offsets import PendingOffsets
from raftka.coordinator.records import CommittedOffset
from raftka.coordinator.transactions.commands import EndTransaction
from raftka.log.compaction.transactions import Transactions
from raftka.log.log import Log
from raftka.log.producers.markers import Marker
from raftka.log.segments.transaction_index import AbortedTransaction
from raftka.wire.errors import Code, KafkaError
from raftka.wire.records import BATCH_HEADER
from tests.coordinator.test_transactions import test_a_coordinator_that_nobody_vouches_for_asks_its_replicas_before_it_answers
from tests.log.given import NOW, append, batch, checkpoint, disk, end_transaction, in_transaction, open_log
from tests.mutants.directed import finds

PRODUCER = 7


def _refused(records: memoryview, log: Log) -> Code:
    try:
        append(log, records)
    except KafkaError as error:
        return error.code
    return Code.NONE


@finds
def version_2_begins_anywhere() -> None:
    """A producer of version 2 that a partition does not know begins behind a batch that never came."""
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
    """A marker of coordinator epoch 3 comes after one of epoch 4, while the next transaction of version 1 is open."""
    log = open_log()
    in_transaction(log, batch(producer=PRODUCER, sequence=0, epoch=0, transactional=True))
    end_transaction(log, PRODUCER, commit=True, coordinator_epoch=4)
    in_transaction(log, batch(producer=PRODUCER, sequence=1, epoch=0, transactional=True))
    with suppress(KafkaError):
        log.append_marker(Marker(PRODUCER, 0, 3, commit=False, version=1), 0, NOW)
    assert log.producers.open, "torn: an earlier coordinator has ended the transaction"


@finds
def marker_of_any_epoch() -> None:
    """A marker of version 2 is sent twice, and the second comes when the next transaction of its producer is open."""
    log = open_log()
    in_transaction(log, batch(producer=PRODUCER, sequence=0, epoch=0, transactional=True), version=2)
    end_transaction(log, PRODUCER, commit=True, epoch=1, version=2)
    in_transaction(log, batch(producer=PRODUCER, sequence=0, epoch=1, transactional=True), version=2)
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
    assert again.producers.first_unstable(end - 1) is not None, "last stable offset: it passes an open transaction"


@finds
def aborts_outlive_their_markers() -> None:
    """A follower cuts the marker of an abort off, and its next leader has committed the transaction."""
    log = open_log()
    in_transaction(log, batch(producer=PRODUCER, sequence=0, epoch=0, transactional=True))
    end = end_transaction(log, PRODUCER, commit=False)
    log.truncate_to(end - 1)
    end_transaction(log, PRODUCER, commit=True)
    assert log.aborted(0, end) == [], "lost read: a committed transaction is listed as aborted"


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
    """The index of aborted transactions is lost, made again for a reader, and closed with its segment when the power goes."""
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
    assert log.aborted(0, log.end_offset)
    log.active.seal()
    for seed in range(8):
        again = open_log(files.power_loss(Random(seed)), recovery_point=point)
        assert again.aborted(0, again.end_offset), "a dirty read: nothing says that the records were aborted"


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
    assert again.aborted(0, again.end_offset), "a dirty read: nothing says that the records were aborted"


@finds
def aborts_reach_into_the_dirty_part() -> None:
    """A producer whose transaction was aborted commits a record for a key that was there before, and the log is compacted again."""
    aborted = AbortedTransaction(PRODUCER, 1, 2, 3)
    pass_of_the_dirty_part = Transactions([aborted])
    batch_header = BATCH_HEADER.unpack_from(batch(producer=PRODUCER, sequence=1, epoch=0, transactional=True))
    header = (5, *batch_header[1:])
    assert not pass_of_the_dirty_part.is_aborted(header), "lost: a committed record is taken for an aborted one"


@finds
def a_coordinator_refuses_from_memory() -> None:
    fenced = EndTransaction("x", 1, 1, commit=True)
    test_a_coordinator_that_nobody_vouches_for_asks_its_replicas_before_it_answers(fenced)
