"""Reading: whole batches, bounds in bytes and offsets, batches hit in the middle, over segments;
and finding records by time.
"""

import pytest

from raftka.log.log import Log
from raftka.wire.errors import Code, KafkaError
from raftka.wire.records import iterate
from tests.log.files import MemoryFiles
from tests.log.given import NOW, append, batch, content, disk, offsets, open_log

SIZES = (1, 3, 2, 5, 1, 4)  # records of the batches


def filled(files: MemoryFiles | None = None, **config: int) -> Log:
    log = open_log(files, **config)  # type: ignore[arg-type]
    append(log, *(batch(count, seed=at, timestamp=NOW + 10 * at) for at, count in enumerate(SIZES)))
    return log


def first_and_next(
    log: Log, offset: int, max_bytes: int = 1 << 20, up_to: int = 16, min_one: bool = True
) -> tuple[int, int] | None:
    spans, size = log.read(offset, max_bytes, up_to, min_one)
    data = content(spans)
    assert len(data) == size
    headers = [header for header, _ in iterate(memoryview(data))]
    assert sum(header.size_bytes for header in headers) == size, "whole batches"
    return (headers[0].base_offset, headers[-1].last_offset + 1) if headers else None


@pytest.mark.parametrize("interval", [1, 100, 4096])
@pytest.mark.parametrize("segment", [250, 1 << 20])
def test_a_read_begins_with_the_batch_that_holds_the_offset(interval: int, segment: int) -> None:
    log = filled(index_interval_bytes=interval, segment_bytes=segment)

    starts = [first_and_next(log, offset, max_bytes=1) for offset in range(16)]

    assert starts == [
        (0, 1),
        *[(1, 4)] * 3,
        *[(4, 6)] * 2,
        *[(6, 11)] * 5,
        (11, 12),
        *[(12, 16)] * 4,
    ]


def test_bounds() -> None:
    log = filled()
    size = [len(batch(count, seed=at, timestamp=NOW + 10 * at)) for at, count in enumerate(SIZES)]

    assert first_and_next(log, 0) == (0, 16)
    assert first_and_next(log, 0, max_bytes=size[0] + size[1]) == (0, 4)
    assert first_and_next(log, 0, max_bytes=size[0] + size[1] - 1) == (0, 1)
    assert first_and_next(log, 1, max_bytes=0) == (1, 4)
    assert first_and_next(log, 1, max_bytes=size[1] - 1, min_one=False) is None
    assert first_and_next(log, 1, max_bytes=size[1], min_one=False) == (1, 4)


def test_nothing_at_or_beyond_the_bound_is_shown() -> None:
    log = filled()

    assert first_and_next(log, 0, up_to=11) == (0, 11)
    assert first_and_next(log, 0, up_to=10) == (0, 6), "a batch that reaches the bound is behind it"
    assert first_and_next(log, 6, up_to=6) is None
    assert first_and_next(log, 9, up_to=6) is None
    assert first_and_next(log, 16) is None


def test_outside() -> None:
    log = filled()
    log.set_start_offset(4)

    for offset in 3, 17, -1:
        with pytest.raises(KafkaError) as refusal:
            log.read(offset, 100, 16)
        assert refusal.value.code is Code.OFFSET_OUT_OF_RANGE


def test_a_reader_in_sequence_searches_nothing() -> None:
    files = disk()
    log = filled(files)
    first_and_next(log, 0, max_bytes=1)
    files.reads = 0

    log.read(16, 100, 16)
    at = 16
    for _ in range(20):
        end = append(log, batch(2))
        log.read(at, 1 << 20, end)
        at = end

    assert files.reads == 0


def test_what_is_staged_is_written_when_a_read_wants_it() -> None:
    files = disk()
    log = filled(files)
    log.client_batches.append(batch(2), 0, NOW)
    appends = files.appends

    assert first_and_next(log, 0, up_to=16) == (0, 16)
    assert files.appends == appends
    assert first_and_next(log, 16, up_to=18) == (16, 18)
    assert log.written_offset == 18


def test_all_that_a_turn_stages_is_one_write() -> None:
    files = disk()
    log = open_log(files)

    for _ in range(50):
        log.client_batches.append(batch(1), 0, NOW)
    log.write_staged()

    assert files.appends == 1
    assert len(offsets(log)) == 50


# by time


def times(*timestamps: int, **config: int) -> Log:
    """Batches of two records, the second a millisecond younger."""
    log = open_log(**config)  # type: ignore[arg-type]
    append(
        log, *(batch(2, seed=at, timestamp=timestamp) for at, timestamp in enumerate(timestamps))
    )
    return log


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"segment_bytes": 250},
        {"index_interval_bytes": 1},
        {"index_interval_bytes": 1, "segment_bytes": 500},
    ],
)
def test_the_first_record_that_is_not_older(config: dict[str, int]) -> None:
    log = times(NOW, NOW + 100, NOW + 50, NOW + 100, NOW + 300, **config)

    found = [
        log.offset_for_timestamp(NOW + ms, 10) for ms in (-5, 0, 1, 2, 60, 100, 101, 102, 301, 302)
    ]

    assert [(at.timestamp - NOW, at.offset) if at else None for at in found] == [
        *[(0, 0), (0, 0), (1, 1), (100, 2), (100, 2), (100, 2), (101, 3), (300, 8), (301, 9)],
        None,
    ]


def test_a_search_by_time_keeps_to_its_bounds() -> None:
    log = times(NOW, NOW + 100, NOW + 200)
    log.set_start_offset(3)

    assert log.offset_for_timestamp(NOW, 6) == (NOW + 101, 3, 0)
    assert log.offset_for_timestamp(NOW + 200, 4) is None
    assert log.offset_for_timestamp(NOW + 200, 5) == (NOW + 200, 4, 0)


def test_the_largest_timestamp_is_its_first_record() -> None:
    log = times(NOW, NOW + 300, NOW + 50, NOW + 300, segment_bytes=250)

    assert log.max_timestamp_offset(8) == (NOW + 301, 3, 0)
    assert log.max_timestamp_offset(3) is None
    assert open_log().max_timestamp_offset(0) is None
    assert times(-1).max_timestamp_offset(2) == (0, 1, 0)


def test_by_time_in_compressed_batches_and_with_log_append_time() -> None:
    log = open_log()
    append(log, batch(5, compression=3, timestamp=NOW + 10))
    assert log.offset_for_timestamp(NOW + 12, 5) == (NOW + 12, 2, 0)

    log = open_log(message_timestamp_type="LogAppendTime")
    append(log, batch(5), now=NOW)
    assert log.offset_for_timestamp(NOW - 1, 5) == (NOW, 0, 0)


def test_a_search_by_time_after_a_truncation_finds_what_was_appended_in_place_of_the_cut() -> None:
    files = disk()
    log = open_log(files, index_interval_bytes=0)
    append(
        log,
        *[batch(timestamp=NOW + at) for at in range(3)],
        *[batch(timestamp=NOW + 1000 + at) for at in range(10)],
    )

    log.truncate_to(3)
    append(log, *[batch(timestamp=NOW + 2000 + at) for at in range(10)])

    for again in (False, True):
        if again:
            log.close(clean=True)
            log = open_log(files, clean=True, index_interval_bytes=0)
        found = log.offset_for_timestamp(NOW + 2000, 13)
        assert found is not None
        assert found[1] == 3
