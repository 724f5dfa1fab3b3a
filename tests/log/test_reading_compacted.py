"""Reads of a log in which a compaction has left batches without records: a batch with records, if
one follows.
"""

import pytest

from raftka.log.config import LogConfig
from raftka.log.log import Log
from raftka.log.segments.scan import READ_BYTES
from raftka.log.segments.segment_list import EMPTY_BYTES, RUNS_KEPT
from raftka.wire.records import BATCH_HEADER_BYTES, iterate
from tests.kit.compacted_logs import A, B, C, at, copied, first, without_records
from tests.log.compacting import DAY, clean, pairs_batch, seal
from tests.log.files import MemoryFiles
from tests.log.given import NOW, append, content, disk, open_log


@pytest.fixture
def files() -> MemoryFiles:
    return disk()


def emptied(files: MemoryFiles, producers: int = 1) -> Log:
    """The first segment has nothing but batches without records: tombstones whose time is over, of
    several producers.
    """
    log = open_log(
        files, cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, segment_bytes=10_000
    )
    for number in range(producers):
        append(log, pairs_batch((b"%d" % number, None), producer=number))
    seal(log)
    for days in 0, 2, 4:
        clean(files, log, NOW + days * DAY)
    append(log, pairs_batch((C, b"1")))
    assert (log.segments[0].base_offset, log.segments[0].size) == (0, 61 * producers)
    return log


@pytest.mark.parametrize("producers", [1, 2, 100])
@pytest.mark.parametrize("max_bytes", [0, 100, 1 << 20])
def test_a_consumer_gets_on_from_a_segment_without_records(
    files: MemoryFiles, producers: int, max_bytes: int
) -> None:
    log = emptied(files, producers)

    assert [
        first(log, offset, max_bytes=max_bytes) for offset in (0, producers - 1, producers)
    ] == [(producers, 1)] * 3


def test_a_follower_gets_every_batch(files: MemoryFiles) -> None:
    log = emptied(files, 3)

    assert [
        header.base_offset
        for header, _ in iterate(memoryview(content(log.read(0, 1 << 20, log.end_offset)[0])))
    ] == [0, 1, 2]


def test_what_is_not_committed_is_not_shown(files: MemoryFiles) -> None:
    log = emptied(files, 3)

    assert first(log, 0, up_to=3) == (0, 0), "it learns where the batches end"


def test_batches_without_records_in_the_active_segment_are_passed_by_too(
    files: MemoryFiles,
) -> None:
    log = emptied(files, 3)
    copy = open_log(cleanup_policy="compact")  # as a follower has them, in segments of its own
    for offset in (0, 3):
        copy.append_as_follower(
            memoryview(bytearray(content(log.read(offset, 1 << 20, log.end_offset)[0]))), 0
        )
    copy.write_staged()

    assert [first(copy, offset) for offset in range(4)] == [(3, 1)] * 4
    assert first(copy, 0, up_to=3) == (0, 0)


def test_batches_without_records_are_passed_by_in_a_topic_that_was_compacted_once(
    files: MemoryFiles,
) -> None:
    log = emptied(files, 3)
    copy = open_log(cleanup_policy="compact")
    copied(copy, memoryview(bytearray(content(log.read(0, 1 << 20, 3)[0]))), at(3))
    copy.configure(LogConfig(cleanup_policy="delete"))

    assert [first(copy, offset) for offset in range(4)] == [(3, 1)] * 4


def test_a_tail_without_records_is_given_as_it_is(files: MemoryFiles) -> None:
    log = open_log(files, cleanup_policy="compact", min_cleanable_dirty_ratio=0.01)
    append(log, pairs_batch((A, None)))
    seal(log)
    for days in 0, 2, 4:
        clean(files, log, NOW + days * DAY)

    assert first(log, 0) == (0, 0)
    append(log, pairs_batch((B, b"1")))
    assert first(log, 0) == (1, 1)


RUN = 4 * EMPTY_BYTES // BATCH_HEADER_BYTES + 5  # takes five reads


@pytest.mark.parametrize("segment_bytes", [1 << 30, 70_000, 61])
def test_a_read_at_a_long_run_without_records_is_short_and_the_next_goes_on(
    segment_bytes: int,
) -> None:
    number = RUN if segment_bytes > 61 else 400
    files = disk()
    log = open_log(files, cleanup_policy="compact", segment_bytes=segment_bytes)
    copied(log, without_records(number), at(number))
    begins, counts = [], []
    for _ in range(10):
        files.reads = 0
        begins.append(first(log, 0))
        counts.append(files.reads)

    assert begins[-1] == (number, 1), (
        "the reader asks for the same offset each time, and gets the record in the end"
    )
    assert begins == sorted(begins)
    assert max(counts) < 5 * EMPTY_BYTES // READ_BYTES
    assert counts[-1] < 5


def test_readers_at_many_runs_without_records_all_get_on() -> None:
    log = open_log(cleanup_policy="compact")
    starts = [place * (RUN + 1) for place in range(RUNS_KEPT)]
    for start in starts:
        copied(log, without_records(RUN, start), at(start + RUN))
    for _ in range(6):
        found = [first(log, start) for start in starts]

    assert found == [(start + RUN, 1) for start in starts]


def test_more_runs_than_are_kept_cost_no_memory() -> None:
    log = open_log(cleanup_policy="compact")
    for start in range(0, 400, 2):
        copied(log, without_records(1, start), at(start + 1))

    assert [first(log, start) for start in range(0, 400, 2)] == [
        (start + 1, 1) for start in range(0, 400, 2)
    ]
    assert len(log.segments.empty_runs) <= RUNS_KEPT


def test_a_run_without_records_is_forgotten_by_a_truncation() -> None:
    log = open_log(cleanup_policy="compact")
    copied(log, without_records(10))
    assert first(log, 0) == (0, 0)
    log.truncate_to(3)
    copied(log, at(3, epoch=1), without_records(6, 4, epoch=1), epoch=1)

    assert first(log, 0) == (3, 1)
