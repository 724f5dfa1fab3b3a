"""Idempotent producers: duplicates answered as the first time, gaps and old epochs refused, all of
it remembered by restarts and followers.
"""

from random import Random

import pytest

from raftka.limits import PRODUCERS_OF_PARTITION
from raftka.log.log import Log
from raftka.log.producers.state import SEQUENCES, ProducerState
from raftka.versions import NewerFormat
from raftka.wire.errors import Code, KafkaError
from tests.log.files import MemoryFiles
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
    sync,
)

DAY = 86_400_000


def refused(log: Log, each: memoryview) -> Code:
    with pytest.raises(KafkaError) as refusal:
        log.client_batches.append(each, 0, NOW)
    return refusal.value.code


def six_batches(log: Log) -> None:
    """Sequences 0, 10, ... of producer 7, ten records each, at offsets 0, 10, ..."""
    for sequence in range(0, 60, 10):
        append(log, batch(10, producer=7, sequence=sequence, timestamp=NOW - 1000 + sequence))


def test_a_duplicate_of_one_of_the_last_five_is_answered_as_the_first_time() -> None:
    log = open_log()
    six_batches(log)

    for sequence in range(10, 60, 10):
        again = batch(10, producer=7, sequence=sequence, timestamp=NOW - 1000 + sequence)
        assert log.client_batches.append(again, 0, NOW) == (
            sequence,
            sequence + 10,
            NOW - 1000 + sequence + 9,
            True,
        )

    assert log.end_offset == 60


def test_a_duplicate_is_known_in_the_turn_of_its_first() -> None:
    log = open_log()

    first, again = batch(2, producer=7), batch(2, producer=7)

    assert log.client_batches.append(first, 0, NOW) == (0, 2, -1, False)
    assert log.client_batches.append(again, 0, NOW) == (0, 2, NOW + 1, True)


@pytest.mark.parametrize(
    ("count", "sequence"),
    [(10, 0), (10, 70), (10, 61), (3, 50), (11, 50), (20, 40), (10, 55)],
    ids=[
        "older than five",
        "a gap of ten",
        "a gap of one",
        "fewer records",
        "more records",
        "two as one",
        "other boundaries",
    ],
)
def test_everything_else_is_out_of_order(count: int, sequence: int) -> None:
    log = open_log()
    six_batches(log)

    assert (
        refused(log, batch(count, producer=7, sequence=sequence))
        is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    assert log.end_offset == 60


def test_an_unknown_producer_begins_anywhere() -> None:
    log = open_log()

    append(
        log,
        batch(2, producer=7, sequence=1234, epoch=3),
        batch(1, producer=7, sequence=1236, epoch=3),
    )

    assert log.end_offset == 3


def test_epochs() -> None:
    log = open_log()
    append(log, batch(2, producer=7, epoch=1))

    assert refused(log, batch(1, producer=7, epoch=0, sequence=2)) is Code.INVALID_PRODUCER_EPOCH
    assert refused(log, batch(2, producer=7, epoch=0, sequence=0)) is Code.INVALID_PRODUCER_EPOCH, (
        "no duplicate: another epoch"
    )
    assert (
        refused(log, batch(1, producer=7, epoch=2, sequence=2)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    append(log, batch(1, producer=7, epoch=2, sequence=0))
    assert refused(log, batch(2, producer=7, epoch=1, sequence=0)) is Code.INVALID_PRODUCER_EPOCH


def test_a_duplicate_is_one_of_its_own_epoch() -> None:
    log = open_log()
    append(
        log,
        batch(2, producer=7, epoch=1),
        batch(3, producer=7, epoch=1, sequence=2),
        batch(2, producer=7, epoch=2),
    )

    assert log.client_batches.append(batch(2, producer=7, epoch=2), 0, NOW)[::3] == (5, True)


def test_sequences_wrap() -> None:
    log = open_log()
    last = SEQUENCES - 3

    append(log, batch(5, producer=7, sequence=last), batch(2, producer=7, sequence=2))

    assert log.client_batches.append(batch(5, producer=7, sequence=last), 0, NOW)[3], (
        "the batch that wraps is remembered"
    )
    assert log.end_offset == 7


@pytest.mark.parametrize("how", ["leads on", "clean", "killed", "follower"])
@pytest.mark.parametrize(
    "count", [3, 4, 5], ids=["ends at the last", "ends at the first", "wraps inside"]
)
def test_the_sequence_after_the_last_is_0(count: int, how: str) -> None:
    files = disk()
    log = open_log(files)
    first = batch(count, producer=7, sequence=SEQUENCES - 3)
    append(log, first)
    checkpoint(log)
    if how == "follower":
        log = open_log()
        log.append_as_follower(first, 0)
        log.write_staged()
    elif how != "leads on":
        log = reopened(log, files, how)
    following = (SEQUENCES - 3 + count) % SEQUENCES

    assert (
        refused(log, batch(1, producer=7, sequence=following + 1))
        is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    assert log.client_batches.append(batch(count, producer=7, sequence=SEQUENCES - 3), 0, NOW)[
        ::3
    ] == (
        0,
        True,
    )
    append(log, batch(2, producer=7, sequence=following))
    assert log.end_offset == count + 2


def test_producers_do_not_disturb_each_other() -> None:
    log = open_log()

    append(
        log,
        batch(1, producer=7),
        batch(1),
        batch(2, producer=8),
        batch(1, producer=7, sequence=1),
        batch(1, producer=8, sequence=2),
    )

    assert log.end_offset == 6


def reopened(log: Log, files: MemoryFiles, how: str) -> Log:
    match how:
        case "clean":
            log.close(clean=True)
            return open_log(files, clean=True)
        case "killed":
            return open_log(files)
        case "killed after a checkpoint":
            return open_log(files, recovery_point=checkpoint(log))
        case "a follower":
            follower = open_log()
            follower.append_as_follower(
                memoryview(bytearray(content(log.read(0, 1 << 20, log.end_offset)[0]))), 0
            )
            return follower
    raise ValueError(how)


@pytest.mark.parametrize("how", ["clean", "killed", "killed after a checkpoint", "a follower"])
def test_all_five_survive(how: str) -> None:
    files = disk()
    log = open_log(files, index_interval_bytes=1)
    six_batches(log)
    append(log, *(batch(1, seed=n) for n in range(3)))

    log = reopened(log, files, how)

    for sequence in range(10, 60, 10):
        assert log.client_batches.append(batch(10, producer=7, sequence=sequence), 0, NOW)[::3] == (
            sequence,
            True,
        )
    assert refused(log, batch(10, producer=7, sequence=0)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, batch(10, producer=7, sequence=70)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.client_batches.append(batch(10, producer=7, sequence=60), 0, NOW)[3] is False


def test_state_survives_rolls_and_a_restart_reads_only_what_is_behind_the_last_snapshot() -> None:
    files = disk()
    log = open_log(files, segment_bytes=400)
    for sequence in range(40):
        append(log, batch(1, producer=7, sequence=sequence))
    log.close(clean=True)

    files.reads = 0
    log = open_log(files, clean=True, segment_bytes=400)

    assert files.reads < 50, "one look at each segment's end, none at each batch"
    assert log.client_batches.append(batch(1, producer=7, sequence=39), 0, NOW) == (
        39,
        40,
        NOW,
        True,
    )
    append(log, batch(1, producer=7, sequence=40))


def test_a_truncation_takes_back_what_a_producer_wrote() -> None:
    log = open_log(segment_bytes=600)
    six_batches(log)
    assert len(log.segments) > 2

    log.truncate_to(30)

    assert refused(log, batch(10, producer=7, sequence=60)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.client_batches.append(batch(10, producer=7, sequence=20), 0, NOW)[::3] == (20, True)
    assert log.client_batches.append(batch(10, producer=7, sequence=30), 0, NOW) == (
        30,
        40,
        -1,
        False,
    )


def test_a_truncation_to_nothing_forgets_all() -> None:
    log = open_log()
    six_batches(log)

    log.truncate_fully_and_start_at(100)
    append(log, batch(1, producer=7, sequence=3))

    assert offsets(log) == [(100, 100)]


def test_a_damaged_snapshot_costs_only_time() -> None:
    files = disk()
    log = open_log(files, segment_bytes=400)
    for sequence in range(20):
        append(log, batch(1, producer=7, sequence=sequence))
    log.close(clean=True)
    for name in files.names:
        if name.endswith(".snapshot"):
            files.names[name].data[-1] ^= 1

    log = open_log(files, clean=True, segment_bytes=400)

    assert log.client_batches.append(batch(1, producer=7, sequence=15), 0, NOW)[::3] == (15, True)
    assert refused(log, batch(1, producer=7, sequence=22)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_retention_deleted_beyond_the_recovery_point_is_still_remembered() -> None:
    files = disk()
    log = open_log(files, segment_bytes=400, retention_ms=-1)
    for sequence in range(20):
        append(log, batch(1, producer=7, sequence=sequence))
    log.roll(NOW)
    log.set_start_offset(20)
    assert log.delete_old_segments(NOW, up_to=20) == 0
    assert log.retention_waits, "the snapshot of the roll may be in the page cache only"
    checkpoint(log)
    log.delete_old_segments(NOW, up_to=20)
    assert len(log.segments) == 1

    log.close(clean=False)
    log = open_log(files, segment_bytes=400, start_offset=20)

    assert log.client_batches.append(batch(1, producer=7, sequence=19), 0, NOW)[::3] == (19, True)

    log.close(clean=False)
    files.names[f"{DIRECTORY}/{20:020d}.snapshot"].data[-1] ^= 1
    log = open_log(files, segment_bytes=400, start_offset=20)

    assert log.client_batches.append(batch(1, producer=7, sequence=20), 0, NOW)[::3] == (
        20,
        False,
    ), "an older snapshot would refuse what is next"


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("during", [False, True])
def test_a_kill_then_a_loss_of_power_forget_no_producer(during: bool, seed: int) -> None:
    """The roll writes the snapshot of a checkpoint again, behind it or while its files are flushed.
    The process that follows finds it in memory alone, and retention leaves nothing else.
    """
    files = disk()
    log = open_log(files, segment_bytes=400, retention_ms=-1)
    for sequence in range(20):
        append(log, batch(1, producer=7, sequence=sequence))
    flush(log)
    flushing, settle = log.begin_checkpoint()
    sync(log, flushing)
    if during:
        log.roll(NOW)
    sync(log, settle(True))
    if not during:
        log.roll(NOW)

    log = open_log(files, segment_bytes=400, retention_ms=-1, recovery_point=20)  # it was killed
    log.set_start_offset(20)
    log.delete_old_segments(NOW, up_to=20)
    assert log.start_offset == log.segments[0].base_offset == 20
    log = open_log(files.power_loss(Random(seed)), segment_bytes=400, start_offset=20)

    assert log.client_batches.append(batch(1, producer=7, sequence=19), 0, NOW)[::3] == (19, True)


def test_a_silent_producer_is_forgotten() -> None:
    log = open_log(producer_id_expiration_ms=DAY)
    append(log, batch(1, producer=7, timestamp=5), batch(1, producer=8, timestamp=5))
    append(log, batch(1, producer=8, sequence=1), now=NOW + DAY // 2)

    log.delete_old_segments(NOW + DAY - 1, up_to=0)
    assert refused(log, batch(1, producer=7, sequence=9)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER, (
        "the records' own time says nothing of its silence"
    )
    log.delete_old_segments(NOW + DAY, up_to=0)

    append(log, batch(1, producer=7, sequence=9))
    assert refused(log, batch(1, producer=8, sequence=9)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_remembered_producers_are_bounded_and_the_longest_silent_leave_first() -> None:
    state, limit = ProducerState(), PRODUCERS_OF_PARTITION.value
    for producer in range(limit):
        state.record(producer, 0, 0, 1, producer, NOW, NOW)
    state.record(0, 0, 1, 1, limit, NOW, NOW)

    state.record(limit, 0, 0, 1, limit + 1, NOW, NOW)

    assert len(state.producers) <= limit
    assert {0, limit} <= set(state.producers)
    assert 1 not in state.producers


def test_the_snapshot_is_kafkas() -> None:
    state = ProducerState()
    state.record(0, 0, 39950, 50, 39950, 0x1A1FDA76A06, NOW)

    assert state.snapshot().hex() == (
        "000173bc2dee000000010000000000000000000000009c3f0000000000009c3f00000031000001a1fda76a06ffffffffffffffffffffffff"
    )


def test_a_snapshot_keeps_the_coordinator_epoch_of_each_producer() -> None:
    state = ProducerState()
    for producer_id, coordinator_epoch in ((1, 4), (2, 7), (3, -1)):
        state.record(producer_id, 0, 0, 1, producer_id, NOW, NOW)
        state.producers[producer_id].coordinator_epoch = coordinator_epoch

    read = ProducerState.from_snapshot(state.snapshot(), NOW)

    assert read is not None
    assert [producer.coordinator_epoch for producer in read.producers.values()] == [4, 7, -1]


VERSION_BYTES = 2  # at the front of a snapshot


def test_a_cut_or_changed_snapshot_is_none() -> None:
    state = ProducerState()
    state.record(5, 1, 0, 3, 0, NOW, NOW)
    whole = state.snapshot()

    assert ProducerState.from_snapshot(whole, NOW) is not None
    for size in range(len(whole)):
        assert ProducerState.from_snapshot(whole[:size], NOW) is None
    for at in range(len(whole)):
        changed = whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :]
        if at < VERSION_BYTES:  # it may be of a later release
            with pytest.raises(NewerFormat):
                ProducerState.from_snapshot(changed, NOW)
        else:
            assert ProducerState.from_snapshot(changed, NOW) is None


def test_what_was_not_written_was_not_remembered() -> None:
    files = disk()
    log = open_log(files)
    append(log, batch(1, producer=7))
    log.client_batches.append(batch(1, producer=7, sequence=1), 0, NOW)

    log = open_log(files)

    assert log.client_batches.append(batch(1, producer=7, sequence=1), 0, NOW) == (1, 2, -1, False)
    log.write_staged()
    flush(log)
