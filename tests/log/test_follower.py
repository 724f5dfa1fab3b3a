"""Batches that a follower's log takes, leader epochs (KIP-101, KIP-320), truncation, and starts
that lie inside a batch.
"""

from struct import pack_into

import pytest

from raftka.log.leader_epoch import LeaderEpochs
from raftka.log.log import Log
from raftka.wire.errors import Code, KafkaError
from tests.log.given import (
    DIRECTORY,
    NOW,
    append,
    batch,
    checkpoint,
    content,
    disk,
    flush,
    offsets,
    open_log,
    read_all,
)


def fetched(log: Log, offset: int = 0) -> memoryview:
    return memoryview(
        bytearray(
            b"".join(
                content(log.read(each, 1, log.end_offset)[0])
                for each, _ in offsets(log)
                if each >= offset
            )
        )
    )


def leader() -> Log:
    log = open_log()
    for epoch in 1, 1, 3, 4:
        append(log, batch(2, seed=epoch), epoch=epoch)
    return log


def refusal_of(log: Log, records: memoryview, epoch: int = 9) -> Code:
    with pytest.raises(KafkaError) as refusal:
        log.append_as_follower(records, epoch)
    return refusal.value.code


def test_a_follower_has_the_leaders_bytes_and_epochs() -> None:
    log, follower = leader(), open_log(segment_bytes=250)

    assert follower.append_as_follower(fetched(log), 4) == 8
    follower.write_staged()

    assert bytes(fetched(follower)) == bytes(fetched(log))
    assert follower.epochs.entries() == log.epochs.entries() == [(1, 0), (3, 4), (4, 6)]
    assert len(follower.segments) == 2


def test_a_cut_batch_at_the_end_is_left_out() -> None:
    records, follower = fetched(leader()), open_log()

    assert follower.append_as_follower(records[:-1], 4) == 6
    assert follower.append_as_follower(records[len(records) // 4 * 3 :][:60], 4) == 6
    follower.write_staged()
    assert offsets(follower) == [(0, 1), (2, 3), (4, 5)]


def test_batches_of_an_epoch_above_the_leaders_are_left_out() -> None:
    follower = open_log()

    assert follower.append_as_follower(fetched(leader()), 3) == 6


def test_damage_and_disorder_are_refused() -> None:
    records = fetched(leader())
    size = len(records) // 4
    damaged = memoryview(bytearray(records))
    damaged[size + 70] ^= 1
    older = memoryview(bytearray(records))
    pack_into(">i", older, 3 * size + 12, 2)

    follower = open_log()
    assert refusal_of(follower, damaged) is Code.CORRUPT_MESSAGE
    assert follower.end_offset == 2, "what was sound before it stays"
    assert refusal_of(follower, memoryview(bytearray(records))) is Code.INVALID_RECORD, (
        "offsets it has"
    )
    assert refusal_of(follower, memoryview(bytearray(bytes(61)))) is Code.CORRUPT_MESSAGE
    assert refusal_of(follower, older[size:]) is Code.INVALID_RECORD, "an epoch of the past"
    assert follower.end_offset == 6


# the second may have been compacted before
@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_a_leaders_log_may_have_gaps(policy: str) -> None:
    records = fetched(leader())
    follower = open_log(cleanup_policy=policy)

    follower.append_as_follower(records[len(records) // 2 :], 4)
    follower.write_staged()

    assert offsets(follower) == [(4, 5), (6, 7)]


def test_a_leaders_start_inside_a_batch() -> None:
    follower = open_log(start_offset=3)

    follower.append_as_follower(fetched(leader(), 2), 4)
    follower.write_staged()

    assert (follower.start_offset, follower.end_offset) == (3, 8)
    assert offsets(follower)[0] == (2, 3)


def test_where_epochs_end() -> None:
    log = leader()

    assert [log.epoch_end(epoch) for epoch in (-1, 0, 1, 2, 3, 4, 5)] == [
        (-1, -1),
        (0, 0),
        (1, 4),
        (1, 4),
        (3, 6),
        (4, 8),
        (-1, -1),
    ]
    assert [log.epoch_of(offset) for offset in (0, 3, 4, 7)] == [1, 1, 3, 4]
    assert open_log().epoch_end(0) == (-1, -1)
    assert open_log().latest_epoch == -1


def test_an_epoch_is_there_before_its_first_record_and_goes_with_the_next() -> None:
    log = leader()

    log.assign_epoch(6)
    assert (log.latest_epoch, log.epoch_end(4), log.epoch_end(6)) == (6, (4, 8), (6, 8))
    log.assign_epoch(7)
    append(log, batch(1), epoch=7)

    assert log.epochs.entries() == [(1, 0), (3, 4), (4, 6), (7, 8)]
    log.assign_epoch(5)
    assert log.latest_epoch == 7, "never back"


def test_starts_and_ends_of_epochs() -> None:
    epochs = LeaderEpochs([(1, 10), (3, 20), (4, 30)])
    assert not epochs.dirty

    epochs.truncate_from_start(25)
    assert epochs.entries() == [(3, 25), (4, 30)]
    epochs.truncate_from_end(30)
    assert epochs.entries() == [(3, 25)]
    epochs.truncate_from_start(90)
    assert epochs.entries() == [(3, 90)]
    assert epochs.dirty


@pytest.mark.parametrize("segment", [150, 300, 1 << 20])
@pytest.mark.parametrize("restart", [False, True])
def test_truncation(segment: int, restart: bool) -> None:
    for to in range(0, 9, 2):
        files = disk()
        log = open_log(files, segment_bytes=segment, index_interval_bytes=1)
        log.append_as_follower(fetched(leader()), 4)
        log.write_staged()
        flush(log)

        assert log.truncate_to(to) == to
        if restart:
            log = open_log(files, segment_bytes=segment, index_interval_bytes=1)

        assert offsets(log) == [(at, at + 1) for at in range(0, to, 2)]
        assert (log.end_offset, log.flushed_offset) == (to, to)
        assert log.epochs.entries() == [
            entry for entry in [(1, 0), (3, 4), (4, 6)] if entry[1] < to
        ]
        append(log, batch(3), epoch=8)
        assert offsets(log)[-1] == (to, to + 2)
        assert read_all(log)[-1].leader_epoch == log.latest_epoch == 8


def test_a_truncation_inside_a_batch_takes_all_of_it() -> None:
    log = leader()

    assert log.truncate_to(5) == 4
    assert log.end_offset == 4


def test_an_epoch_that_was_cut_may_write_again() -> None:
    for epoch in 3, 4:
        follower = open_log()
        follower.append_as_follower(fetched(leader()), 4)
        follower.truncate_to(4)

        follower.append_as_follower(batch(1, base_offset=4, leader_epoch=epoch), 4)

        assert follower.epochs.entries() == [(1, 0), (epoch, 4)]


def test_a_truncation_beyond_the_end_takes_only_epochs_without_records() -> None:
    log = leader()
    log.assign_epoch(9)

    assert log.truncate_to(8) == 8
    assert log.latest_epoch == 4


def test_what_a_truncation_cuts_is_not_claimed_by_a_flush_or_checkpoint_under_way() -> None:
    log = leader()
    told: list[int] = []
    log.durability.on_recovery_point_lowered = lambda: told.append(log.durability.recovery_point)
    checkpoint(log)
    log.client_batches.append(batch(4), 4, NOW)
    log.write_staged()
    _, offset = log.begin_flush()
    _, settle = log.begin_checkpoint()

    log.truncate_to(6)
    append_only(log, batch(9))
    log.flushed(offset)
    settle(True)

    assert told == [6]
    assert (log.flushed_offset, log.durability.recovery_point) == (6, 6)
    flush(log)
    assert log.flushed_offset == 15


def test_a_checkpoint_does_not_promise_what_was_written_over_meanwhile() -> None:
    log = leader()
    _, settle = log.begin_checkpoint()

    log.truncate_to(2)
    append(log, batch(20), epoch=5)

    settle(True)

    assert log.durability.recovery_point == 0, (
        "the indexes that were flushed are those of the old tail"
    )


def append_only(log: Log, each: memoryview) -> None:
    log.client_batches.append(each, 5, NOW)
    log.write_staged()


@pytest.mark.parametrize(("to", "end"), [(6, 6), (5, 4)])
def test_the_recovery_point_is_lowered_before_anything_is_cut(to: int, end: int) -> None:
    log = leader()
    checkpoint(log)
    told: list[tuple[int, int]] = []
    log.durability.on_recovery_point_lowered = lambda: told.append(
        (log.durability.recovery_point, log.segments.active.file.size())
    )
    size = log.size_bytes

    log.truncate_to(to)

    assert told == [(end, size)]


def test_the_recovery_point_does_not_stay_in_a_gap_that_is_the_end() -> None:
    records = fetched(leader())
    size = len(records) // 4
    follower = open_log(cleanup_policy="compact")
    for part in records[:size], records[3 * size :]:
        follower.append_as_follower(part, 4)
    follower.write_staged()
    flush(follower)
    assert checkpoint(follower) == 8

    assert follower.truncate_to(5) == 2
    assert follower.durability.recovery_point == 2


def test_a_flush_under_way_says_nothing_of_a_log_that_began_anew() -> None:
    log = leader()
    append_only(log, batch(2))
    _, offset = log.begin_flush()

    log.truncate_fully_and_start_at(5)
    append_only(log, batch(20))
    log.flushed(offset)

    assert log.flushed_offset == 5


def test_index_files_follow_a_truncation() -> None:
    files = disk()
    log = open_log(files, index_interval_bytes=1)
    append(log, *(batch(2, seed=at, timestamp=NOW + at) for at in range(8)))
    log.segments.active.write_index()

    log.truncate_to(6)
    append(log, *(batch(3, seed=at, timestamp=NOW + 9 * at) for at in range(4)))
    log.segments.active.write_index()

    index = files.read(f"{DIRECTORY}/{0:020d}.index")
    assert (
        [int.from_bytes(index[at : at + 4], "big") for at in range(0, len(index), 8)]
        == list(log.segments.active.offset_index.offsets)
        == [3, 5, 8, 11, 14, 17]
    )
    assert len(files.read(f"{DIRECTORY}/{0:020d}.timeindex")) == 12 * len(
        log.segments.active.time_index
    )


def test_flushes_that_overtake_each_other() -> None:
    log = open_log()
    append_only(log, batch(1))
    _, first = log.begin_flush()
    append_only(log, batch(1))
    _, second = log.begin_flush()

    log.flushed(second)
    assert log.flushed_offset == 0, "the file may have been dirty in the first alone"
    log.flushed(first)
    assert log.flushed_offset == 2


def test_a_flush_knows_nothing_of_what_came_after_it_began() -> None:
    log = open_log()
    append_only(log, batch(1))
    files, offset = log.begin_flush()
    append_only(log, batch(1))
    log.client_batches.append(batch(1), 5, NOW)

    log.flushed(offset)

    assert (files, log.flushed_offset, log.written_offset, log.end_offset) == (
        [log.segments.active.file, log.directory],
        1,
        2,
        3,
    )
    assert log.begin_flush()[1] == 2


def test_a_rolled_segment_is_flushed_too() -> None:
    log = open_log(segment_bytes=200)
    for seed in range(3):
        append_only(log, batch(1, size=100, seed=seed))

    files, offset = log.begin_flush()

    assert [file for file in files if not isinstance(file, str)] == [
        segment.file for segment in log.segments
    ]
    assert (files[3:], offset) == ([log.directory], 3)


def test_without_fsync_the_page_cache_will_do() -> None:
    log = open_log(flush="os")
    append_only(log, batch(1))

    assert log.flushed_offset == 1
    assert log.begin_flush() == ([], 1)
    assert log.segments.active.file in log.begin_checkpoint()[0]
