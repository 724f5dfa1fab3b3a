"""What consumers get of a log in which a compaction has left batches without records: a batch with records, if one follows."""

import pytest

from raftka.log.log import Log
from raftka.wire.records import iterate
from tests.log.compacting import DAY, clean, pairs_batch, seal
from tests.log.files import MemoryFiles
from tests.log.given import NOW, append, content, disk, open_log

A, B, C = b"a", b"b", b"c"


@pytest.fixture
def files() -> MemoryFiles:
    return disk()


def first(log: Log, offset: int, up_to: int | None = None, max_bytes: int = 1 << 20) -> tuple[int, int]:
    """Base offset and number of records of the first batch that a consumer gets."""
    spans, size = log.read_for_consumer(offset, max_bytes, log.end_offset if up_to is None else up_to)
    data = content(spans)
    assert len(data) == size
    header = next(header for header, _ in iterate(memoryview(data)))
    return header.base_offset, header.count


def emptied(files: MemoryFiles, producers: int = 1) -> Log:
    """The first segment has nothing but batches without records: tombstones whose time is over, of several producers."""
    log = open_log(files, cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, segment_bytes=10_000)
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
def test_a_consumer_gets_on_from_a_segment_without_records(files: MemoryFiles, producers: int, max_bytes: int) -> None:
    log = emptied(files, producers)

    assert [first(log, offset, max_bytes=max_bytes) for offset in (0, producers - 1, producers)] == [(producers, 1)] * 3


def test_a_follower_gets_every_batch(files: MemoryFiles) -> None:
    log = emptied(files, 3)

    assert [header.base_offset for header, _ in iterate(memoryview(content(log.read(0, 1 << 20, log.end_offset)[0])))] == [0, 1, 2]


def test_what_is_not_committed_is_not_shown(files: MemoryFiles) -> None:
    log = emptied(files, 3)

    assert first(log, 0, up_to=3) == (0, 0), "it learns where the batches end"


def test_batches_without_records_in_the_active_segment_are_passed_by_too(files: MemoryFiles) -> None:
    log = emptied(files, 3)
    copy = open_log(cleanup_policy="compact")  # as a follower has them, in segments of its own
    for at in (0, 3):
        copy.append_as_follower(memoryview(bytearray(content(log.read(at, 1 << 20, log.end_offset)[0]))), 0)
    copy.write_staged()

    assert [first(copy, offset) for offset in range(4)] == [(3, 1)] * 4
    assert first(copy, 0, up_to=3) == (0, 0)


def test_a_tail_without_records_is_given_as_it_is(files: MemoryFiles) -> None:
    log = open_log(files, cleanup_policy="compact", min_cleanable_dirty_ratio=0.01)
    append(log, pairs_batch((A, None)))
    seal(log)
    for days in 0, 2, 4:
        clean(files, log, NOW + days * DAY)

    assert first(log, 0) == (0, 0)
    append(log, pairs_batch((B, b"1")))
    assert first(log, 0) == (1, 1)
