"""Held batches in one log: which are held, what a scan finds, what consumers read."""

from random import Random
from typing import Any

import pytest

from raftka.log.config import DeliveryRules
from raftka.log.delivery.delivering import HeldReader, make_batch
from raftka.log.delivery.due import HELD_OFFSET
from raftka.log.delivery.held import HeldBatches, Pending
from raftka.log.delivery.scan import HeldScan, Outdated, distance_to
from raftka.log.log import Log
from raftka.log.segments.search import at_once
from raftka.log.validation import RefusedRecords
from raftka.runtime.interfaces import Files
from raftka.wire.errors import Code, KafkaError
from raftka.wire.records import NewRecord, build_batch, iterate, records_of
from tests.log.given import NOW, append, disk, open_log

RULES = DeliveryRules()
AT = "raftka.deliver.at"


def delayed_log(files: Files | None = None, **config: Any) -> Log:
    return open_log(files, delivery=RULES, **config)


def timed(*delays_ms: int | None, **fields: Any) -> memoryview:
    records: list[NewRecord] = [
        (b"k", b"v%d" % at, [] if ms is None else [(AT, b"%d" % (NOW + ms))], NOW)
        for at, ms in enumerate(delays_ms)
    ]
    return memoryview(build_batch(records, **fields))


def scan(log: Log) -> Pending:
    """The pending records that a new leader finds."""
    assert log.held is not None
    log.held.pending = None
    at_once(HeldScan(log).find_pending())
    assert log.held.pending is not None
    return log.held.pending


def deliver(log: Log, now_ms: int, at_most: int = 500) -> list[int]:
    """Deliver what is due by then, in one batch; return the offsets."""
    assert log.held is not None
    pending, reader = log.held.pending, HeldReader()
    assert pending is not None
    found = [reader.read(log, due) for due in pending.take(now_ms, at_most)]
    if not found:
        return []
    for each in found:
        pending.delivered(each.base)
    distance = distance_to(pending.first(log.end_offset), log.end_offset)
    log.append_of_coordinator(make_batch(found, log.config, now_ms, distance), 0)
    log.write_staged()
    return [each.offset for each in found]


def visible(log: Log) -> list[tuple[int, bytes | None]]:
    """(offset, held offset) of each record that a consumer reads up to the log's end."""
    found: list[tuple[int, bytes | None]] = []
    offset, end = log.start_offset, log.visible_end(log.end_offset)
    while offset < end:
        spans, _ = log.read_for_consumer(offset, 1 << 20, end)
        for span in spans:
            for header, batch in iterate(memoryview(span.file.read(span.position, span.size))):
                found += [
                    (record.offset, dict(record.headers).get(HELD_OFFSET))
                    for record in records_of(batch)
                ]
                offset = header.last_offset + 1
    return found


def test_held_batches_are_not_visible() -> None:
    log = delayed_log()
    append(log, timed(None, None), timed(500), timed(500), timed(None), timed(900))
    assert [offset for offset, _ in visible(log)] == [0, 1, 4]
    assert log.visible_end(6) == 5
    assert log.visible_end(4) == 2


def test_a_scan_finds_what_the_leader_knew() -> None:
    files = disk()
    log = delayed_log(files, segment_bytes=600)
    scan(log)
    random = Random(5)
    for _ in range(60):
        append(log, timed(*[random.choice([None, random.randrange(9000)]) for _ in range(3)]))
        deliver(log, NOW + random.randrange(3000), random.randint(1, 4))
    assert log.held is not None
    assert log.held.pending is not None
    known, shown = log.held.pending, visible(log)
    assert len(known) > 20
    found = scan(log)
    assert sorted(found._heap) == sorted(known._heap)
    assert list(found._left.items()) == list(known._left.items())
    log.close(clean=False)
    again = delayed_log(files, segment_bytes=600)
    with pytest.raises(KafkaError) as refused:
        visible(again)
    assert refused.value.code is Code.OFFSET_NOT_AVAILABLE
    assert sorted(scan(again)._heap) == sorted(known._heap)
    at_once(HeldScan(again).find_ranges())
    assert visible(again) == shown


def test_a_scan_begins_at_the_first_pending_record() -> None:
    log = delayed_log(segment_bytes=400)
    scan(log)
    for _ in range(40):
        append(log, timed(100))
        deliver(log, NOW + 200)
    assert log.held is not None
    append(log, timed(5000))
    log.held.known_from = log.end_offset
    scan(log)
    assert log.held.known_from > 60


def test_each_record_is_delivered_once_in_the_order_of_times() -> None:
    log = delayed_log(compression_type="zstd")
    scan(log)
    append(log, timed(300, 100), timed(100, None, compression=1))
    assert deliver(log, NOW + 50) == [3]
    assert deliver(log, NOW + 100) == [1, 2]
    assert deliver(log, NOW + 1000) == [0]
    assert deliver(log, NOW + 10_000) == []
    assert len(scan(log)) == 0
    assert [held for _, held in visible(log)] == [b"3", b"1", b"2", b"0"]


@pytest.mark.parametrize("codec", range(5))
def test_a_delivery_has_the_codec_with_which_its_records_came(codec: int) -> None:
    log = delayed_log()
    scan(log)
    append(log, timed(100, None, 100, compression=codec))
    assert deliver(log, NOW + 1000) == [1, 0, 2]
    headers = [
        header
        for span in log.read(0, 1 << 20, log.end_offset)[0]
        for header, _ in iterate(memoryview(span.file.read(span.position, span.size)))
    ]
    assert [header.compression for header in headers] == [0, codec]
    assert [held for _, held in visible(log)] == [b"1", b"0", b"2"]


def test_a_cut_delivery_makes_its_records_pending_again() -> None:
    log = delayed_log()
    scan(log)
    append(log, timed(100), timed(None), timed(200))
    deliver(log, NOW + 150)
    assert len(scan(log)) == 1
    log.truncate_to(3)
    assert len(scan(log)) == 2
    assert visible(log) == [(1, None)]
    log.truncate_to(2)
    assert len(scan(log)) == 1
    append(log, timed(None))
    assert visible(log) == [(1, None), (2, None)]


def test_a_scan_ends_when_the_log_is_cut() -> None:
    log = delayed_log()
    append(log, timed(100), timed(100))
    assert log.held is not None
    steps = HeldScan(log).find_pending()
    next(steps)
    log.truncate_to(1)
    with pytest.raises(Outdated):
        at_once(steps)
    assert log.held.pending is None


def test_batches_that_come_during_a_scan_are_pending() -> None:
    log = delayed_log()
    append(log, *[timed(100, 100) for _ in range(40)])
    assert log.held is not None
    for number, _ in enumerate(HeldScan(log).find_pending()):
        if number < 20:
            append(log, timed(100))
    assert log.held.pending is not None
    assert len(log.held.pending) == 100
    assert list(log.held.pending._left) == [*range(0, 80, 2), *range(80, 100)]


def test_a_transaction_cannot_delay() -> None:
    log = delayed_log()
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    with pytest.raises(RefusedRecords, match="transaction cannot be delayed") as refused:
        append(log, timed(100, **fields))
    assert refused.value.code is Code.INVALID_RECORD


def test_a_held_batch_counts_for_no_search_by_time() -> None:
    log = delayed_log()
    append(log, timed(None), timed(100))
    assert log.segments.active.max_timestamp_offset == 0
    follower = open_log(delivery=RULES)
    (span,), size = log.read(0, 1 << 20, log.end_offset)
    follower.append_as_follower(memoryview(bytearray(span.file.read(span.position, size))), 0)
    follower.write_staged()
    assert follower.segments.active.max_timestamp_offset == 0
    assert [offset for offset, _ in visible(follower)] == [0]


def test_ranges_are_prepended_cut_and_forgotten() -> None:
    held, older = HeldBatches(10), HeldBatches(0)
    for start, end in ((10, 12), (12, 14), (20, 22)):
        held.note(start, end)
    for start, end in ((2, 4), (8, 10)):
        older.note(start, end)
    held.prepend(older)
    assert held.visible_run(0, 30) == (0, 2)
    assert held.visible_run(2, 30) == (4, 8)
    assert held.visible_run(9, 30) == (14, 20)
    assert held.visible_run(21, 30) == (22, 30)
    assert [held.visible_end(end) for end in (1, 3, 9, 14, 15, 22, 25)] == [1, 2, 8, 8, 15, 20, 25]
    held.cut(21)
    assert held.visible_run(14, 30) == (14, 20)
    held.forget_before(14)
    assert list(held._starts) == [20]


def test_an_offset_that_is_too_far_back_is_not_said() -> None:
    assert distance_to(5, 5 + (1 << 31) - 1) == (1 << 31) - 1
    assert distance_to(5, 5 + (1 << 31)) == -1
