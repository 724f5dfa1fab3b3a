"""Transactions in a partition's log: what is open, where readers of committed records stop, which
transactions were aborted.
"""

from random import Random
from typing import Any

import pytest

from raftka.log.log import Log
from raftka.log.producers import snapshots
from raftka.log.producers.markers import Marker, marker_batch, read_marker
from raftka.log.producers.state import ProducerState
from raftka.log.segments.transaction_index import BLOCK, AbortedTransaction, TransactionIndex
from raftka.runtime.interfaces import FileSpan
from raftka.wire.errors import Code, KafkaError
from raftka.wire.records import iterate
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

SMALL: dict[str, Any] = {"segment_bytes": 700, "index_interval_bytes": 1}


def data(producer: int, sequence: int = 0, epoch: int = 0, count: int = 1) -> memoryview:
    return batch(count, producer=producer, sequence=sequence, epoch=epoch, transactional=True)


def aborted(log: Log, offset: int = 0, end: int | None = None) -> list[tuple[int, int, int]]:
    return [entry[:3] for entry in log.aborted.find(offset, log.end_offset if end is None else end)]


def refused(log: Log, records: memoryview) -> Code:
    before = log.end_offset, bytes(records)
    with pytest.raises(KafkaError) as error:
        log.client_batches.append(records, 0, NOW)
    assert (log.end_offset, bytes(records)) == before
    return error.value.code


def test_a_marker_is_stored_as_kafka_stores_it() -> None:
    stored = bytes(marker_batch(Marker(7, 3, 9, commit=True, version=2), 100, 5, NOW))
    assert len(stored) == 78
    assert stored[21:23] == b"\x00\x30"
    assert stored[57:] == bytes.fromhex("00000001 20 00 00 00 08 00000001 0c 000000000009 00")
    assert read_marker(stored) == Marker(7, 3, 9, commit=True, version=0)


def test_a_transaction_begins_only_when_its_coordinator_knows_of_it() -> None:
    log = open_log()
    assert refused(log, data(7)) == Code.INVALID_TXN_STATE
    guard = log.producers.guard(7, 0, 0, 1, NOW)
    assert refused(log, data(7)) == Code.INVALID_TXN_STATE
    log.producers.verified(7, guard, known=True)
    assert append(log, data(7), data(7, 1)) == 2
    assert log.producers.first_unstable(2) == 0


def test_a_marker_between_question_and_batch_takes_the_guard_away() -> None:
    log = open_log()
    guard = log.producers.guard(7, 0, 0, 1, NOW)
    end_transaction(log, 7, commit=False)
    log.producers.verified(7, guard, known=True)
    assert refused(log, data(7)) == Code.INVALID_TXN_STATE


def test_the_marker_of_the_transaction_before_leaves_the_guard_of_version_2() -> None:
    log = open_log()
    in_transaction(log, data(7), version=2)
    guard = log.producers.guard(7, 1, 0, 2, NOW)
    log.producers.verified(7, guard, known=True)
    end_transaction(log, 7, commit=True, epoch=1, version=2)
    assert append(log, data(7, epoch=1)) == 3


def test_the_question_of_a_fenced_client_leaves_the_guard_of_the_one_that_has_fenced_it() -> None:
    log = open_log()
    guard = log.producers.guard(7, 1, 0, 2, NOW)
    zombie = log.producers.guard(7, 0, 5, 2, NOW)
    log.producers.verified(7, guard, known=True)
    log.producers.verified(7, zombie, known=False)
    assert refused(log, data(7, 5)) == Code.INVALID_TXN_STATE
    assert append(log, data(7, epoch=1)) == 1


def test_while_a_transaction_waits_a_later_batch_does_not_come_first() -> None:
    log = open_log()
    log.producers.guard(7, 0, 4, 1, NOW)
    log.producers.verified(7, log.producers.guard(7, 0, 5, 1, NOW), known=True)
    assert refused(log, data(7, 5)) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, data(7, 4), data(7, 5)) == 2


def test_the_first_batch_of_version_2_has_sequence_0() -> None:
    log = open_log()
    log.producers.verified(7, log.producers.guard(7, 0, 3, 2, NOW), known=True)
    assert refused(log, data(7, 3)) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_plain_batches_of_the_producer_wait_for_the_end_of_its_transaction() -> None:
    log = open_log()
    in_transaction(log, data(7))
    assert refused(log, batch(producer=7, sequence=1)) == Code.INVALID_TXN_STATE
    end_transaction(log, 7, commit=True)
    assert append(log, batch(producer=7, sequence=1)) == 3


@pytest.mark.parametrize("version", [1, 2])
def test_sequences_go_on_after_a_marker_of_the_same_epoch_and_begin_again_in_a_new_one(
    version: int,
) -> None:
    log = open_log()
    in_transaction(log, data(7), data(7, 1), version=version)
    end_transaction(log, 7, commit=True, epoch=version - 1, version=version)
    in_transaction(log, data(7, 2 if version == 1 else 0, epoch=version - 1), version=version)
    assert log.end_offset == 4


def test_what_is_stable_ends_before_the_oldest_transaction_whose_marker_is_not_committed() -> None:
    log = open_log()
    in_transaction(log, data(7), data(8), data(9))
    assert log.producers.first_unstable(3) == 0
    end_transaction(log, 8, commit=True)  # at 3
    end_transaction(log, 7, commit=False)  # at 4
    assert [log.producers.first_unstable(mark) for mark in (3, 4, 5)] == [0, 0, 2]
    end_transaction(log, 9, commit=True)
    assert [log.producers.first_unstable(mark) for mark in (5, 6)] == [2, None]


def test_aborted_transactions_are_found_for_a_range_and_never_too_few() -> None:
    log = open_log(**SMALL)
    rows = []
    for at in range(12):
        first = in_transaction(log, data(at), data(20 + at)) - 2
        append(log, batch(5))
        end_transaction(log, 20 + at, commit=True)
        rows.append((at, first, end_transaction(log, at, commit=False) - 1))
    assert len(log.segments) > 3
    assert aborted(log) == rows
    for offset in range(log.end_offset):
        for end in range(offset + 1, log.end_offset + 1):
            needed = [row for row in rows if row[2] >= offset and row[1] < end]
            assert aborted(log, offset, end) == needed


@pytest.mark.parametrize("seed", range(20))
def test_what_is_clear_of_aborted_transactions_stays_so(seed: int) -> None:
    """Whatever ends later, and in whatever segment."""
    log, random = open_log(**SMALL), Random(seed)
    open_since: dict[int, int] = {}
    clear: list[tuple[int, FileSpan, int]] = []

    def some(count: int) -> None:
        for _ in range(count):
            producer = random.randrange(3)
            if producer in open_since and random.random() < 0.7:
                end_transaction(log, producer, commit=random.random() < 0.8)
                del open_since[producer]
            else:
                known = log.producers.producers.get(producer)
                in_transaction(log, data(producer, known.next_sequence if known else 0))
                open_since.setdefault(producer, log.end_offset - 1)

    for _ in range(60):
        some(random.randrange(1, 6))
        stable = min(open_since.values(), default=log.end_offset)
        offset = random.randrange(stable) if stable else 0
        spans, _ = log.read(offset, 1 << 20, stable)
        if spans:
            clear.append((offset, spans[0], log.aborted.free_up_to(offset, spans[0], stable)))
    some(60)

    assert sum(position > span.position for _, span, position in clear) > 5
    for offset, span, position in clear:
        for header, _ in iterate(
            memoryview(
                span.file.read(span.position, max(0, min(position - span.position, span.size)))
            )
        ):
            wrong = [
                each
                for each in log.aborted.find(offset, header.last_offset + 1)
                if each.producer_id == header.producer_id
            ]
            assert all(
                each.last_offset < header.base_offset or each.first_offset > header.last_offset
                for each in wrong
            )


def test_a_transaction_aborted_in_a_later_segment_is_found() -> None:
    log = open_log(**SMALL)
    in_transaction(log, data(7))
    append(log, *(batch(20) for _ in range(9)))
    marker = end_transaction(log, 7, commit=False) - 1
    assert len(log.segments) > 3
    assert aborted(log, 0, 1) == [(7, 0, marker)]


def test_a_search_under_a_long_transaction_looks_at_what_it_finds() -> None:
    index = TransactionIndex()
    for at in range(100 * BLOCK):  # the transaction of offset 0 is open all the while
        index.append(AbortedTransaction(at, 2 * at + 1, 2 * at + 2, 0))
    index.append(AbortedTransaction(-1, 0, 200 * BLOCK + 1, 200 * BLOCK + 2))

    looked: list[int] = []

    class Entries(list[AbortedTransaction]):
        def __getitem__(self, place: Any) -> Any:
            looked.append(len(range(*place.indices(len(self)))) if isinstance(place, slice) else 1)
            return super().__getitem__(place)

    index.entries = Entries(index.entries)
    found: list[AbortedTransaction] = []
    assert index.find(1001, 1005, found)
    assert [each.first_offset for each in found] == [1001, 1003, 0]
    assert sum(looked) < 4 * BLOCK

    index.truncate(1003)
    found.clear()
    assert not index.find(0, 3, found)
    assert [each.first_offset for each in found] == [1]
    assert len(index) == 501


def test_entries_tell_where_the_search_may_stop() -> None:
    log = open_log()
    in_transaction(log, data(7), data(8))
    end_transaction(log, 8, commit=False)
    end_transaction(log, 7, commit=False)
    assert [entry.last_stable_offset for entry in log.aborted.find(0, 4)] == [0, 4]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "lost", [(), (".txnindex",), (".txnindex", ".snapshot"), (".index",), (".timeindex",)]
)
def test_a_restart_finds_what_is_open_and_what_was_aborted(
    clean: bool, lost: tuple[str, ...]
) -> None:
    files = disk()
    log = open_log(files, **SMALL)
    for at in range(9):
        in_transaction(log, data(at), data(at, 1))
        append(log, batch(6))
        end_transaction(log, at, commit=at % 2 == 0)
        if at == 5:
            checkpoint(log)
    in_transaction(log, data(10), data(11))
    before = (
        aborted(log),
        list(log.producers.open.items()),
        log.producers.first_unstable(log.end_offset),
    )
    assert len(before[0]) == 4
    point = log.durability.recovery_point
    log.close(clean=clean)
    for name in list(files.names):
        if name.endswith(lost):
            files.remove(name)
    again = open_log(files, clean=clean, recovery_point=point, **SMALL)
    assert (
        aborted(again),
        list(again.producers.open.items()),
        again.producers.first_unstable(again.end_offset),
    ) == before
    again.close(clean=True)
    third = open_log(files, clean=True, **SMALL)
    assert aborted(third) == before[0]


def without_indexes(log: Log) -> Log:
    """The same log, opened again when all files of aborted transactions are lost."""
    files = log._files
    log.close(clean=True)
    for name in list(files.names):  # type: ignore[attr-defined]
        if name.endswith(".txnindex"):
            files.remove(name)
    return open_log(files, clean=True, **SMALL)


def many_aborts(count: int) -> Log:
    log = open_log(**SMALL)
    for at in range(count):
        in_transaction(log, data(at % 7, at // 7))
        end_transaction(log, at % 7, commit=at % 3 == 0)
    return log


def test_lost_indexes_are_made_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "BATCHES_AT_ONCE", 2)
    log = many_aborts(40)
    before = aborted(log)
    again = without_indexes(log)
    assert again.segments.active.base_offset < again.aborted.known_from
    newest = list(again.aborted.load(again.segments.active.base_offset))
    assert again.segments.active.base_offset == again.aborted.known_from
    assert again.aborted.known_from > 0
    one, other = again.aborted.load(0), again.aborted.load(0)
    pieces = sum(1 for _ in zip(one, other, strict=False))
    assert 2 * pieces + len(newest) > 40  # two batches each
    assert again.aborted.known_from == 0
    assert aborted(again) == before


@pytest.mark.parametrize("what", ["grows", "is cut", "is sealed"])
def test_what_happens_to_the_log_meanwhile_is_in_the_index(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "BATCHES_AT_ONCE", 1)
    log = without_indexes(many_aborts(40))
    finding = log.aborted.load(0)
    for _ in range(3):
        next(finding)
    if what == "is cut":
        log.truncate_to(log.segments.active.base_offset + 1)
    for at in range(9 if what == "is sealed" else 2):
        in_transaction(log, data(50 + at))
        end_transaction(log, 50 + at, commit=False)
        next(finding)
    for _ in finding:
        pass
    found = aborted(log)
    assert len(found) > 20
    assert found == aborted(without_indexes(log))


@pytest.mark.parametrize("seed", range(8))
def test_an_index_that_was_made_again_outlives_a_loss_of_power(seed: int) -> None:
    """The records are below the recovery point: they are not walked again."""
    log = open_log()
    in_transaction(log, data(7))
    end_transaction(log, 7, commit=False)
    append(log, batch())
    point = checkpoint(log)
    log = without_indexes(log)
    before = aborted(log)
    log.segments.active.seal()  # the power goes before its files are flushed
    again = open_log(log._files.power_loss(Random(seed)), recovery_point=point)  # type: ignore[attr-defined]
    assert aborted(again) == before == [(7, 0, 1)]


def test_a_checkpoint_knows_of_aborts_before_there_is_any_other_index_entry() -> None:
    files = disk()
    log = open_log(files)
    for at in range(2):
        in_transaction(log, data(7, at))
        end_transaction(log, 7, commit=False)
        append(log, batch(size=5000 * (1 - at)), batch())
        checkpoint(log)
    log.close(clean=False)
    again = open_log(files, recovery_point=log.durability.recovery_point)
    assert aborted(again) == [(7, 0, 1), (7, 4, 5)]


def test_a_truncation_takes_back_markers_and_opens_their_transactions_again() -> None:
    log = open_log(**SMALL)
    in_transaction(log, data(7))
    append(log, *(batch(20) for _ in range(6)))
    end_transaction(log, 7, commit=False)
    in_transaction(log, data(8))
    end = end_transaction(log, 8, commit=False)
    log.truncate_to(end - 1)
    assert aborted(log) == [(7, 0, end - 3)]
    assert log.producers.first_unstable(log.end_offset) == end - 2
    log.truncate_to(end - 3)
    assert aborted(log) == []
    assert (list(log.producers.open), log.producers.producers[7].transaction_start) == ([0], 0)


def test_followers_know_the_same() -> None:
    leader, follower = open_log(), open_log()
    in_transaction(leader, data(7), data(8))
    end_transaction(leader, 7, commit=False, coordinator_epoch=4)
    for span in leader.read(0, 1 << 20, leader.end_offset)[0]:
        follower.append_as_follower(memoryview(span.file.read(span.position, span.size)), 0)
    follower.write_staged()
    assert aborted(follower) == aborted(leader) == [(7, 0, 2)]
    assert follower.producers.open == leader.producers.open
    assert follower.producers.producers[7].coordinator_epoch == 4


def test_markers_of_a_coordinator_of_the_past_are_refused() -> None:
    log = open_log()
    in_transaction(log, data(7))
    end_transaction(log, 7, commit=True, coordinator_epoch=5)
    in_transaction(log, data(7, 1))
    with pytest.raises(KafkaError) as error:
        end_transaction(log, 7, commit=False, coordinator_epoch=4)
    assert error.value.code == Code.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_of_an_earlier_epoch_has_nothing_to_end() -> None:
    log = open_log()
    append(log, batch(producer=7, epoch=9))
    assert end_transaction(log, 7, commit=True, epoch=3) == -1
    assert log.end_offset == 1


def test_a_marker_of_version_2_does_not_end_the_next_transaction() -> None:
    log = open_log()
    in_transaction(log, data(7), version=2)
    end_transaction(log, 7, commit=True, epoch=1, version=2)
    assert end_transaction(log, 7, commit=True, epoch=1, version=2) == 3, (
        "sent once more, nothing is open: it may be written again"
    )
    in_transaction(log, data(7, epoch=1), version=2)
    with pytest.raises(KafkaError) as error:
        end_transaction(log, 7, commit=True, epoch=1, version=2)
    assert error.value.code == Code.INVALID_PRODUCER_EPOCH


def test_producers_within_a_transaction_are_never_forgotten() -> None:
    log = open_log()
    in_transaction(log, data(7))
    append(log, batch(producer=8))
    log.producers.expire(NOW + 10**9, 1000)
    assert list(log.producers.producers) == [7]


def test_older_batches_are_remembered_after_a_marker_with_a_later_time() -> None:
    files = disk()
    log = open_log(files, index_interval_bytes=1)
    in_transaction(log, data(7), data(7, 1), data(7, 2))
    end_transaction(log, 7, commit=True, now=NOW + 1000)
    before = [each[:3] for each in log.producers.producers[7].batches]
    point = log.durability.recovery_point
    log.close(clean=True)
    again = open_log(
        files, clean=True, recovery_point=max(point, log.end_offset), index_interval_bytes=1
    )
    assert [each[:3] for each in again.producers.producers[7].batches] == before
    assert len(before) == 3


def test_what_a_snapshot_does_not_tell_of_markers_keeps_readers_waiting() -> None:
    files = disk()
    log = open_log(files)
    in_transaction(log, data(7))
    end = end_transaction(log, 7, commit=True)
    assert (log.producers.first_unstable(1), log.producers.first_unstable(end)) == (0, None)
    log.close(clean=True)
    again = open_log(files, clean=True, recovery_point=end)
    assert again.producers.first_unstable(1) is not None, "the marker is not committed"
    assert again.producers.first_unstable(end) is None


def test_snapshots_keep_producers_of_which_only_a_marker_is_left() -> None:
    log = open_log()
    in_transaction(log, data(7), version=2)
    end_transaction(log, 7, commit=True, epoch=1, coordinator_epoch=6, version=2)
    restored = ProducerState.from_snapshot(log.producers.snapshot(), NOW)
    assert restored is not None
    producer = restored.producers[7]
    assert (
        producer.epoch,
        producer.batches,
        producer.next_sequence,
        producer.coordinator_epoch,
        producer.timestamp,
    ) == (1, [], 0, 6, NOW)
