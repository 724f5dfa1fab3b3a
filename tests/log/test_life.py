"""A log over time: when segments roll, when they are deleted, what a full disk does to it."""

import errno
from random import Random
from typing import Any

import pytest

from raftka.log.config import LogConfig
from raftka.log.log import Log
from raftka.wire.errors import Code, KafkaError
from tests.log.given import (
    DIRECTORY,
    NOW,
    append,
    batch,
    content,
    disk,
    end_transaction,
    flush,
    in_transaction,
    offsets,
    open_log,
)

HOUR = 3_600_000
SIZE = len(batch(1, size=100))


def bases(log) -> list[int]:  # type: ignore[no-untyped-def]
    return [segment.base_offset for segment in log.segments]


def test_a_segment_rolls_before_it_would_be_too_large() -> None:
    log = open_log(segment_bytes=2 * SIZE)

    append(log, *(batch(1, size=100) for _ in range(5)))

    assert bases(log) == [0, 2, 4]
    assert offsets(log) == [(at, at) for at in range(5)]


def test_a_roll_does_not_wait_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    files = disk()
    log = open_log(files, segment_bytes=2 * SIZE)
    waited: list[str] = []
    monkeypatch.setattr(files, "replace", lambda path, data: waited.append(path))
    monkeypatch.setattr(files, "sync_directory", waited.append)

    for _ in range(5):
        log.client_batches.append(batch(1, size=100), 0, NOW)

    assert (bases(log), waited) == ([0, 2, 4], [])


def test_a_segment_rolls_by_the_time_of_its_records() -> None:
    log = open_log(segment_ms=1000)

    append(
        log,
        batch(1),
        batch(1, timestamp=NOW + 1000),
        batch(1, timestamp=NOW + 1001),
        batch(1, timestamp=NOW - HOUR),
        batch(1, timestamp=NOW + 1002),
    )

    assert bases(log) == [0, 2]


def test_a_segment_rolls_when_its_index_is_full() -> None:
    log = open_log(segment_index_bytes=12 * 70, index_interval_bytes=1)

    for at in range(300):
        append(log, batch(1, timestamp=NOW + at))

    assert len(log.segments) == 3
    assert all(len(segment.time_index) <= 70 + 64 for segment in log.segments), (
        "it is looked at when entries are written, 64 at a time"
    )


def test_a_segment_rolls_before_offsets_outgrow_its_index() -> None:
    log = open_log(cleanup_policy="compact")
    far = batch(1, base_offset=(1 << 31) + 5, leader_epoch=0)

    append(log, batch(1))
    log.append_as_follower(far, 0)
    log.write_staged()

    assert bases(log) == [0, 1]
    assert log.end_offset == (1 << 31) + 6


def three_hours(**config: int):  # type: ignore[no-untyped-def]
    log = open_log(segment_bytes=2 * SIZE, **config)  # type: ignore[arg-type]
    for hour in range(3):
        append(
            log,
            *(batch(1, size=100, timestamp=NOW + hour * HOUR) for _ in range(2)),
            now=NOW + 3 * HOUR,
            epoch=hour,
        )
    return log


def test_retention_by_time() -> None:
    log = three_hours(retention_ms=HOUR)

    assert log.delete_old_segments(NOW + HOUR, up_to=6) == 0
    assert log.delete_old_segments(NOW + HOUR + 1, up_to=6) == 1
    assert (log.start_offset, bases(log), log.epochs.entries()) == (2, [2, 4], [(1, 2), (2, 4)])
    assert log.delete_old_segments(NOW + 9 * HOUR, up_to=5) == 1, (
        "the last one reaches beyond the high watermark"
    )
    assert log.delete_old_segments(NOW + 9 * HOUR, up_to=6) == 1
    assert (log.start_offset, log.end_offset, bases(log)) == (6, 6, [6])
    assert append(log, batch(1), now=NOW + 9 * HOUR, epoch=3) == 7
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        log.read(5, 100, 7)


def test_a_timestamp_in_the_future_keeps_its_segment_and_those_behind_it() -> None:
    log = open_log(segment_bytes=SIZE, retention_ms=1000)
    append(
        log,
        *(
            batch(1, size=100, timestamp=timestamp)
            for timestamp in (NOW - HOUR, NOW + HOUR, NOW - HOUR)
        ),
    )

    assert log.delete_old_segments(NOW, up_to=3) == 1


def test_retention_by_size() -> None:
    log = three_hours(retention_ms=-1, retention_bytes=3 * SIZE)

    assert log.delete_old_segments(NOW, up_to=6) == 1
    assert log.size_bytes == 4 * SIZE, "a segment goes only when enough is left without it"


def test_retention_by_start_offset_also_of_compacted_topics() -> None:
    log = three_hours(retention_ms=-1, cleanup_policy="compact")  # type: ignore[arg-type]
    log.set_start_offset(3)

    assert log.delete_old_segments(NOW, up_to=6) == 1
    assert (bases(log), log.start_offset) == ([2, 4], 3)
    assert log.epochs.entries() == [(1, 3), (2, 4)]


def test_a_deleted_segments_file_can_be_read_by_who_still_has_it() -> None:
    files = disk()
    log = open_log(files, segment_bytes=SIZE, retention_ms=1)
    append(log, batch(1, size=100), batch(1, size=100))
    spans, _ = log.read(0, 1000, 2)

    log.delete_old_segments(NOW + HOUR, up_to=1)

    assert not files.exists(f"{DIRECTORY}/{0:020d}.log")
    assert len(content(spans)) == SIZE


@pytest.mark.parametrize("room", [0, 10, SIZE - 1, SIZE + 20])
def test_a_full_disk_ends_the_log_and_nothing_unwritten_is_claimed(room: int) -> None:
    files = disk()
    log = open_log(files)
    append(log, batch(1, producer=7))
    files.room = room
    for sequence in 1, 2:
        log.client_batches.append(batch(1, size=100, producer=7, sequence=sequence), 0, NOW)

    with pytest.raises(OSError, match="no space") as failure:
        log.write_staged()

    assert failure.value.errno == errno.ENOSPC
    assert log.failed is failure.value
    assert (log.end_offset, log.written_offset, offsets(log)) == (1, 1, [(0, 0)])
    for write in (
        lambda: log.client_batches.append(batch(1), 0, NOW),
        lambda: log.append_as_follower(batch(1, base_offset=1, leader_epoch=0), 0),
    ):
        with pytest.raises(KafkaError) as refusal:
            write()
        assert refusal.value.code is Code.KAFKA_STORAGE_ERROR
    with pytest.raises(OSError, match="no space"):
        log.write_staged()
    assert log.begin_flush() == ([], 1)

    files.room = None
    log.close(clean=False)
    log = open_log(files)
    assert offsets(log) == [(0, 0)]
    assert log.client_batches.append(batch(1, size=100, producer=7, sequence=1), 0, NOW) == (
        1,
        2,
        -1,
        False,
    )


def test_a_disk_that_fills_while_rolling() -> None:
    files = disk()
    log = open_log(files, segment_bytes=2 * SIZE)
    append(log, batch(1, size=100))
    log.client_batches.append(batch(1, size=100), 0, NOW)
    files.room = SIZE + 4  # for the batch that is staged, not for the index

    with pytest.raises(KafkaError) as refusal:
        log.client_batches.append(batch(1, size=100), 0, NOW)

    assert refusal.value.code is Code.KAFKA_STORAGE_ERROR
    assert log.failed
    with pytest.raises(OSError, match="no space"):
        log.write_staged()
    assert (log.end_offset, log.written_offset) == (2, 2), "what was written before the roll stays"
    files.room = None
    log = open_log(files, segment_bytes=2 * SIZE)
    assert append(log, batch(1, size=100)) == 3
    flush(log)
    assert offsets(log) == [(0, 0), (1, 1), (2, 2)]


def test_segments_of_many_partitions_do_not_all_end_at_once() -> None:
    ends = set()
    for partition in range(20):
        files = disk()
        files.make_directory(f"d/t-{partition}")
        log = Log.open(
            files,
            f"d/t-{partition}",
            LogConfig(segment_ms=10_000, segment_jitter_ms=4000),
            NOW,
            clean_shutdown=False,
        )
        at = 0
        while len(log.segments) == 1:
            at += 500
            log.client_batches.append(batch(1, timestamp=NOW + at), 0, NOW + at)
        ends.add(at)

    assert min(ends) >= 6000
    assert max(ends) <= 11_000
    assert len(ends) > 3


@pytest.mark.parametrize(("flush_messages", "waits"), [(1, True), (2, False)])
def test_a_topic_that_flushes_each_message_waits_for_the_disk_also_where_others_do_not(
    flush_messages: int, waits: bool
) -> None:
    log = open_log(flush="os", flush_messages=flush_messages)
    log.client_batches.append(batch(1), 0, NOW)
    log.write_staged()

    assert log.flushed_offset == (0 if waits else 1)


@pytest.mark.parametrize("how", ["gone", "cut"])
def test_a_sealed_segments_index_is_made_anew_and_written(how: str) -> None:
    files = disk()
    config: dict[str, Any] = {"segment_bytes": 20 * SIZE, "index_interval_bytes": 1}
    log = open_log(files, **config)
    append(log, *(batch(1, size=100, timestamp=NOW + at) for at in range(30)))
    log.close(clean=True)
    before = {}
    for suffix in ".index", ".timeindex":
        name = f"{DIRECTORY}/{0:020d}{suffix}"
        before[name] = bytes(files.names[name].data)
        if how == "gone":
            files.remove(name)
        else:
            files.names[name].data[-1] ^= 1
    log = open_log(files, clean=True, recovery_point=30, **config)

    assert log.read(7, 1, 30)[0][0].position == 7 * SIZE
    assert {name: bytes(files.names[name].data) for name in before} == before


def test_no_flipped_bit_of_a_time_index_makes_retention_delete_what_is_young() -> None:
    files = disk()
    config: dict[str, Any] = {
        "segment_bytes": 20 * SIZE,
        "index_interval_bytes": 1,
        "retention_ms": 1000,
    }
    log = open_log(files, **config)
    append(log, *(batch(1, size=100, timestamp=NOW + at) for at in range(30)))
    log.close(clean=True)
    name = f"{DIRECTORY}/{0:020d}.timeindex"
    whole = bytes(files.names[name].data)

    for bit in range(8 * len(whole)):
        files.names[name].data[:] = whole
        files.names[name].data[bit // 8] ^= 1 << bit % 8
        log = open_log(files, clean=True, recovery_point=30, **config)
        assert log.segments[0].largest_timestamp == NOW + 19, f"bit {bit}"
        assert log.delete_old_segments(NOW + 1000, 30) == 0, f"lost: bit {bit}"
        log.close(clean=True)


def test_what_is_written_while_a_late_flush_is_under_way_is_still_to_be_flushed() -> None:
    log = open_log(flush="os")
    append(log, batch(5))
    files, settle = log.begin_late_flush()
    assert [log.segments.active.file, DIRECTORY] == files
    assert log.segments.active.file in log.begin_checkpoint()[0], (
        "what is under way is not on disk, and a recovery point must not say so"
    )

    append(log, batch(5))
    files, settle = log.begin_late_flush()
    append(log, batch(5))
    settle()
    assert log.unflushed
    files, settle = log.begin_late_flush()
    assert files == [log.segments.active.file]
    settle()
    assert not log.unflushed


def test_a_segment_that_begins_while_a_late_flush_is_under_way_needs_its_name_flushed() -> None:
    log = open_log(flush="os")
    append(log, batch(5))
    _, settle = log.begin_late_flush()
    log.roll(NOW)
    append(log, batch(5))
    settle()

    files, _ = log.begin_late_flush()
    assert log.segments.active.file in files
    assert DIRECTORY in files


def test_a_late_flush_says_nothing_of_a_log_that_was_cut_meanwhile() -> None:
    log = open_log(flush="os")
    append(log, batch(5), batch(5))
    _, settle = log.begin_late_flush()
    log.truncate_to(5)
    settle()

    assert log.unflushed


def test_room_is_reserved_for_a_segment_and_what_is_not_used_is_given_back() -> None:
    files = disk()
    log = open_log(files, preallocate=True, segment_bytes=5000)
    first = files.names[log.segments.active.file.path]
    assert first.reserved == 5000
    append(log, batch(5))
    size = len(first.data)

    log.roll(NOW)
    assert (first.reserved, len(first.data)) == (0, size)
    second = files.names[log.segments.active.file.path]
    assert second.reserved == 5000
    log.client_batches.append(batch(5), 0, NOW)
    log.close(clean=True)
    assert second.reserved == 0
    log = open_log(files, clean=True, preallocate=True, recovery_point=10)
    assert (log.end_offset, second.reserved) == (10, 0), "the last segment goes on as it is"


def test_an_empty_log_gives_back_what_it_reserved() -> None:
    files = disk()
    log = open_log(files, preallocate=True)
    inode = files.names[log.segments.active.file.path]
    assert inode.reserved

    log.close(clean=True)

    assert not inode.reserved


def test_nothing_is_reserved_unless_it_is_asked_for() -> None:
    files = disk()
    log = open_log(files)
    log.roll(NOW)

    assert not any(inode.reserved for inode in files.names.values())


@pytest.mark.parametrize("way", ["fsync", "os"])
def test_all_is_on_disk_when_a_log_is_closed_during_a_checkpoint(way: str) -> None:
    """The flushes of that checkpoint may come too late: indexes and names are believed after a
    clean end.
    """
    files = disk()
    log = open_log(files, segment_bytes=400, flush=way)
    in_transaction(log, batch(producer=1, sequence=0, transactional=True, size=100))
    end_transaction(log, 1, commit=False)
    append(log, *(batch(size=150, seed=seed) for seed in range(4)))
    told = log.aborted.find(0, log.end_offset)
    assert len(log.segments) > 1
    assert told
    log.begin_checkpoint()

    log.close(clean=True)

    for seed in range(30):
        found = open_log(files.power_loss(Random(seed)), clean=True, recovery_point=log.end_offset)
        assert found.end_offset == log.end_offset
        assert found.aborted.find(0, found.end_offset) == told
