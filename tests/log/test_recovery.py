"""Opening what a crash left: a torn tail at every byte, damage in the middle, indexes and
checkpoints that are gone or lie, the recovery point.
"""

from itertools import product
from random import Random
from typing import Any

import pytest

from raftka.log.config import LogConfig
from raftka.log.log import Log
from raftka.log.recovery import Damaged
from raftka.log.segments.segment import segment_path
from raftka.runtime.simulated.world import World
from raftka.versions import NewerFormat
from tests.log.files import MemoryFiles
from tests.log.given import DIRECTORY, NOW, append, batch, checkpoint, disk, offsets, open_log

SMALL: dict[str, Any] = {"segment_bytes": 1000, "index_interval_bytes": 100}
LAST_BATCH_BYTES = len(batch(2, size=30, producer=5, timestamp=NOW))  # of a log that is `filled`


def filled(files: MemoryFiles, count: int = 40, **config: int) -> Log:
    log = open_log(files, **(SMALL | config))
    for at in range(count):
        append(
            log,
            batch(2, seed=at, size=30, producer=5, sequence=2 * at, timestamp=NOW + at),
            epoch=at // 10,
        )
    return log


def indexes(files: MemoryFiles) -> dict[str, bytes]:
    return {
        name: bytes(inode.data)
        for name, inode in files.names.items()
        if name.endswith(("index", "epoch-checkpoint"))
    }


def file_of(log: Log, slot: int) -> str:
    return log.segments[slot].file.path


def test_a_tail_cut_at_every_byte() -> None:
    files = disk()
    append(open_log(files), batch(2), batch(3))
    path = f"{DIRECTORY}/{0:020d}.log"
    whole = bytes(files.names[path].data)
    first = len(batch(2))

    for size in range(first, len(whole)):
        del files.names[path].data[size:]
        log = open_log(files)
        assert offsets(log) == [(0, 1)], f"cut at {size}"
        assert files.names[path].data == whole[:first]
        assert (log.end_offset, log.flushed_offset) == (2, 2)
        assert (log.cut is None) == (size == first)
        files.names[path].data[:] = whole
    assert offsets(open_log(files)) == [(0, 1), (2, 4)]


def test_a_tail_of_zeros_and_one_of_garbage() -> None:
    for tail in bytes(500), batch(1, seed=9).tobytes()[:-1] + b"\0", b"\xff" * 100:
        files = disk()
        append(open_log(files), batch(2))
        files.names[f"{DIRECTORY}/{0:020d}.log"].data += tail

        log = open_log(files)

        assert offsets(log) == [(0, 1)]
        assert log.cut is not None
        assert (log.cut.offset, log.cut.bytes, log.cut.segments) == (2, len(tail), 0)
        assert append(log, batch(1)) == 3


def test_every_flipped_byte_of_a_middle_batch_ends_the_log_before_it() -> None:
    files = disk()
    append(open_log(files), batch(1), batch(2), batch(1))
    data = files.names[f"{DIRECTORY}/{0:020d}.log"].data
    whole, start = bytes(data), len(batch(1))

    for at in range(start, start + len(batch(2))):
        data[:] = whole
        data[at] ^= 0x10
        log = open_log(files)
        if not start + 12 <= at < start + 16:  # the leader epoch is under no CRC
            assert offsets(log)[0] == (0, 0)
            assert len(offsets(log)) < 3 or at < start + 8, f"byte {at}"
            assert all(first <= last for first, last in offsets(log))


def test_damage_in_the_middle_takes_all_segments_behind_it() -> None:
    files = disk()
    log = filled(files)
    damaged = log.segments[1]
    files.names[damaged.file.path].data[-5] ^= 1
    behind = len(log.segments) - 2

    log = open_log(files, **SMALL)

    assert log.cut is not None
    assert log.cut.segments == behind
    assert [segment.base_offset for segment in log.segments] == [0, damaged.base_offset]
    assert (
        log.end_offset
        == damaged.base_offset + 2 * (damaged.size // len(batch(2, size=30, producer=1))) - 2
    )
    assert [f"{DIRECTORY}/{name}" for name in files.list(DIRECTORY) if name.endswith(".log")] == [
        file_of(log, 0),
        file_of(log, 1),
    ]
    assert append(log, batch(2, producer=5, sequence=log.end_offset), epoch=9) == log.cut.offset + 2


def test_below_the_recovery_point_nothing_is_read_again() -> None:
    files = disk()
    log = filled(files)
    point = checkpoint(log)
    append(log, batch(1, seed=99), epoch=4)

    files.reads = 0
    log = open_log(files, recovery_point=point, **SMALL)

    assert log.end_offset == point + 1
    assert files.reads < 75, (
        "about one look at the last segment, where each leader epoch begins, and the batches a "
        "snapshot does not tell"
    )
    assert log.durability.recovery_point == point


def test_what_the_recovery_point_promises_is_kept_although_damage_is_above_it() -> None:
    files = disk()
    log = filled(files, 4, segment_bytes=100_000)
    point = checkpoint(log)
    append(log, batch(1, seed=1), batch(1, seed=2), epoch=4)
    files.names[file_of(log, 0)].data[-1] ^= 1

    log = open_log(files, recovery_point=point, segment_bytes=100_000)

    assert log.end_offset == point + 1


def test_a_segment_that_was_sealed_behind_the_recovery_point_is_found_by_its_last_times() -> None:
    """A checkpoint at its end, then it is sealed, and the power goes: the last entry of its time
    index was in no flush.
    """
    log = open_log(files := disk(), segment_bytes=2000)
    end = 0
    while len(log.segments) == 1:
        point = checkpoint(log)
        end = append(log, batch(5, size=100, timestamp=NOW + 10 * end))
    assert point == log.segments[1].base_offset
    latest = NOW + 10 * (point - 5) + 4  # of the record before it

    for seed in range(20):
        recovered = open_log(
            files.power_loss(Random(seed)), recovery_point=point, segment_bytes=2000
        )
        found = recovered.offset_for_timestamp(latest, end)
        assert found is not None
        assert (found.timestamp, found.offset) == (latest, point - 1)


@pytest.mark.parametrize("flush", ["fsync", "os"])
def test_a_cut_into_a_sealed_segment_leaves_no_time_of_what_is_gone(flush: str) -> None:
    """The sealed segment's time index is on the disk with a time that was cut; the recovery point
    then rises beyond the offset of that time.
    """
    files = disk()
    log = open_log(files, flush=flush, **SMALL)
    append(
        log,
        batch(1, timestamp=NOW),
        batch(1, timestamp=NOW + 900, size=800),
        batch(1, timestamp=NOW + 901),
    )
    checkpoint(log)
    log.truncate_to(1)
    append(log, batch(1, timestamp=NOW + 1), epoch=1)  # too little for another entry of the index
    assert checkpoint(log) == 2

    left = open_log(files, recovery_point=2, flush=flush, **SMALL)

    for found in left.max_timestamp_offset(2), left.offset_for_timestamp(NOW + 1, 2):
        assert found is not None
        assert (found.timestamp, found.offset) == (NOW + 1, 1)


@pytest.mark.parametrize("seed", range(20))
def test_an_index_that_was_made_anew_outlives_a_loss_of_power(seed: int) -> None:
    """Made when somebody first searched the segment, which no flush and no checkpoint looks at any
    more.
    """
    files = disk()
    log = filled(files, **SMALL)
    point = checkpoint(log)
    for name in [name for name in files.names if name.endswith("index")]:
        files.remove(name)
    files.sync_directory(DIRECTORY)
    expected = [max(0, 2 * after - 1) for after in range(40)]
    assert times_of(open_log(files, recovery_point=point, **SMALL)) == expected

    left = open_log(files.power_loss(Random(seed)), recovery_point=point, **SMALL)

    assert times_of(left) == expected


def times_of(log: Log) -> list[int]:
    """Of each millisecond the first offset that is not older."""
    found = [log.offset_for_timestamp(NOW + after, log.end_offset) for after in range(40)]
    return [each.offset for each in found if each is not None]


def test_indexes_are_rebuilt_the_same() -> None:
    files = disk()
    filled(files).close(clean=True)
    before = indexes(files)

    for name in before:
        if name.endswith("index") and not name.endswith("txnindex"):
            files.remove(name)
    open_log(files, **SMALL).close(clean=True)

    assert indexes(files) == before


@pytest.mark.parametrize("how", ["gone", "cut", "zeros", "another's"])
def test_a_trusted_segments_index_is_not_trusted_blindly(how: str) -> None:
    files = disk()
    log = filled(files)
    log.close(clean=True)
    wanted = offsets(open_log(files, clean=True, **SMALL))
    for name in [name for name in files.names if name.endswith(".index")]:
        data = files.names[name].data
        match how:
            case "gone":
                files.remove(name)
            case "cut":
                del data[max(0, len(data) - 3) :]
            case "zeros":
                data[:] = bytes(len(data))
            case "another's":
                data[-4:] = (int.from_bytes(data[-4:], "big") + 40).to_bytes(4, "big")

    log = open_log(files, clean=True, **SMALL)

    assert offsets(log) == wanted
    for offset in range(80):
        assert offsets_at(log, offset) == offset - offset % 2


def offsets_at(log: Log, offset: int) -> int:
    span = log.read(offset, 1, log.end_offset)[0][0]
    return int.from_bytes(span.file.read(span.position, 8), "big")


def test_the_zeros_that_a_running_kafka_reserves_in_its_indexes() -> None:
    files = disk()
    log = filled(files, 8, segment_bytes=100_000)
    log.segments.active.write_index()
    before = indexes(files)
    for name, inode in files.names.items():
        if name.endswith("index"):
            inode.data += bytes(5000)

    log = open_log(files, recovery_point=16, **SMALL | {"segment_bytes": 100_000})
    append(log, *(batch(1, seed=at, size=80) for at in range(3)))
    log.segments.active.write_index()

    for name, data in indexes(files).items():
        if name in before and name.endswith("index"):
            assert data.startswith(before[name])
            assert len(data) < 500


def test_leader_epochs_come_from_the_batches_when_the_checkpoint_is_lost() -> None:
    for clean in True, False:
        files = disk()
        log = filled(files)
        log.close(clean=True)
        assert (
            files.read(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n4\n0 0\n1 20\n2 40\n3 60\n"
        )
        files.remove(f"{DIRECTORY}/leader-epoch-checkpoint")

        log = open_log(files, clean=clean, **SMALL)

        assert log.epochs.entries() == [(0, 0), (1, 20), (2, 40), (3, 60)]


@pytest.mark.parametrize("clean", [False, True])
def test_a_bit_that_flipped_in_the_leader_epochs_is_noticed_by_the_batches(clean: bool) -> None:
    files = disk()
    log = filled(files)
    log.close(clean=True)
    path, true = f"{DIRECTORY}/leader-epoch-checkpoint", log.epochs.entries()
    content = files.read(path)
    for place, bit in product(range(len(content)), range(8)):
        flipped = bytearray(content)
        flipped[place] ^= 1 << bit
        files.replace(path, bytes(flipped))
        if flipped[:1].isdigit() and flipped[:1] != b"0":  # it looks like a later release's
            with pytest.raises(NewerFormat):
                open_log(files, clean=clean, recovery_point=log.end_offset, **SMALL)
            continue

        log = open_log(files, clean=clean, recovery_point=log.end_offset, **SMALL)

        assert log.epochs.entries() == true, bytes(flipped)
        log.close(clean=True)
        assert files.read(path) == content


def test_leader_epochs_of_the_file_above_the_recovery_point_are_not_believed() -> None:
    files = disk()
    log = filled(files)
    point = checkpoint(log)
    files.replace(f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n5\n0 0\n1 20\n2 40\n3 60\n9 80\n")

    log = open_log(files, recovery_point=point, **SMALL)

    assert log.epochs.entries() == [(0, 0), (1, 20), (2, 40), (3, 60)]
    checkpoint(log)
    assert files.read(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n4\n0 0\n1 20\n2 40\n3 60\n"


def test_a_shutdown_that_was_not_clean_although_it_is_said_so() -> None:
    files = disk()
    log = filled(files)
    log.close(clean=True)
    data = files.names[file_of(log, -1)].data
    del data[-7:]

    log = open_log(files, clean=True, **SMALL)

    assert log.end_offset == 78
    assert log.cut is not None
    assert append(log, batch(1), epoch=3) == 79


def test_when_a_clean_shutdown_was_none_all_above_the_recovery_point_is_looked_at() -> None:
    files = disk()
    log = filled(files)
    third = log.segments[2]
    log.close(clean=True)
    del files.names[file_of(log, -1)].data[-7:]
    files.names[third.file.path].data[100] ^= 1

    log = open_log(files, clean=True, recovery_point=third.base_offset, **SMALL)

    assert log.end_offset == third.base_offset


def test_a_hole_between_segments_is_the_end() -> None:
    files = disk()
    log = filled(files)
    first = log.segments[0]
    # the tail never came, the next segment did
    del files.names[first.file.path].data[first.size - len(batch(2, size=30, producer=1)) :]

    log = open_log(files, **SMALL)

    assert len(log.segments) == 1
    assert log.end_offset == log.cut.offset if log.cut else False


@pytest.mark.parametrize("in_the_hole", [False, True])
def test_holes_below_the_recovery_point_are_the_cleaners(in_the_hole: bool) -> None:
    files = disk()
    log = filled(files)
    first, end = log.segments[0], log.end_offset
    point = log.segments[1].base_offset - 1 if in_the_hole else end
    log.close(clean=True)
    del files.names[first.file.path].data[first.size - len(batch(2, size=30, producer=1)) :]

    log = open_log(files, recovery_point=point, **SMALL)

    assert log.end_offset == end
    found = offsets(log)
    assert found[-1] == (end - 2, end - 1)
    assert len(found) == 39


@pytest.mark.parametrize("flush", ["os", "fsync"])
def test_what_a_failed_flush_left_in_memory_is_written_anew(flush: str) -> None:
    """The kernel shows it to the next process, takes it for clean, and would not write it with the
    next flush.
    """
    world = World(1)
    disk = world.disk("a")
    disk.keeps_nothing = True
    files = world.node("a").files
    files.make_directory(DIRECTORY)
    log = open_log(files, segment_bytes=300, flush=flush)
    append(log, batch(2), batch(2))
    point = checkpoint(log)
    for at in range(6):
        log.client_batches.append(batch(2, seed=at), 0, NOW)
    log.write_staged()
    unflushed = {segment.file for segment in log.segments[1:]} | {log.segments.active.file}
    disk.failing_syncs = len(unflushed)
    for file in unflushed:
        with pytest.raises(OSError, match="EIO"):
            file.sync()
    if flush == "os":
        log.abandon()  # with fsync it comes to that in another turn; this process is killed before
    world.kill("a", power_loss=False)

    log = open_log(world.node("a").files, recovery_point=point, segment_bytes=300, flush=flush)
    assert len(log.segments) > 2
    written = offsets(log)
    assert len(written) == 8
    point = checkpoint(log)
    assert point == log.end_offset
    world.kill("a", power_loss=True)

    log = open_log(world.node("a").files, recovery_point=point, segment_bytes=300, flush=flush)
    assert log.cut is None
    assert offsets(log) == written


@pytest.mark.parametrize("extra", [0, 1])
def test_a_flush_that_fails_in_recovery_takes_nothing_below_the_recovery_point(extra: int) -> None:
    """Believed data are not written anew, neither in a segment that ends at the recovery point nor
    in one that goes on behind it.
    """
    world = World(1)
    disk = world.disk("a")
    disk.keeps_nothing = True
    files = world.node("a").files
    files.make_directory(DIRECTORY)
    log = open_log(files, segment_bytes=400)
    append(log, batch(1), batch(1))
    point = checkpoint(log)
    for at in range(extra):
        append(log, batch(1, seed=at))
    log.roll(NOW)
    append(log, batch(1))
    world.kill("a", power_loss=False)
    disk.failing_syncs = 1
    with pytest.raises(OSError, match="EIO"):
        open_log(world.node("a").files, recovery_point=point, segment_bytes=400)
    world.kill("a", power_loss=True)

    left = open_log(world.node("a").files, recovery_point=point, segment_bytes=400)

    assert offsets(left)[:2] == [(0, 0), (1, 1)]


def test_leftovers_are_swept() -> None:
    files = disk()
    filled(files, 2).close(clean=True)
    junk = [
        f"{5:020d}.index",
        f"{5:020d}.timeindex",
        f"{0:020d}.log.deleted",
        f"{7:020d}.log.1234.gone",
        "leader-epoch-checkpoint.tmp",
    ]
    for name in junk:
        files.replace(f"{DIRECTORY}/{name}", b"junk")
    files.replace(f"{DIRECTORY}/partition.metadata", b"kept")

    open_log(files, clean=True)

    assert not set(junk) & set(files.list(DIRECTORY))
    assert "partition.metadata" in files.list(DIRECTORY)


def test_a_start_behind_the_end_begins_anew() -> None:
    files = disk()
    filled(files, 3).close(clean=True)

    log = open_log(files, clean=True, start_offset=1000)

    assert (log.start_offset, log.end_offset, log.segments[0].base_offset) == (1000, 1000, 1000)


def test_an_empty_directory_begins_at_its_start_offset() -> None:
    log = open_log(start_offset=17)

    assert append(log, batch(1)) == 18
    assert offsets(log) == [(17, 17)]


def test_records_that_rotted_are_not_taken_for_a_torn_tail() -> None:
    files = disk()
    log = filled(files, 12)
    path = file_of(log, -1)
    whole = bytes(files.names[path].data)
    size = len(batch(2, seed=11, size=30, producer=5, sequence=22, timestamp=NOW + 11))

    for position in range(0, len(whole) - size, 7):
        if position % size in (*range(8), *range(12, 16)):
            continue  # the checksum says nothing of the base offset and the leader epoch
        files.names[path].data[:] = whole
        files.names[path].data[position] ^= 1
        with pytest.raises(Damaged):
            Log.open(files, DIRECTORY, LogConfig(**SMALL), NOW, clean_shutdown=False, whole=0)
        assert len(files.names[path].data) == len(whole), (
            "nothing may be cut before it is sure that others have it"
        )

    files.names[path].data[:] = whole[:-1]
    assert (
        Log.open(files, DIRECTORY, LogConfig(**SMALL), NOW, clean_shutdown=False, whole=0).cut
        is not None
    )


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("lost", [1, LAST_BATCH_BYTES])
def test_a_log_that_ends_before_what_is_committed_is_damaged_too(lost: int, clean: bool) -> None:
    files = disk()
    end = filled(files, 3).end_offset
    path = f"{DIRECTORY}/{0:020d}.log"
    del files.names[path].data[-lost:]

    with pytest.raises(Damaged):
        Log.open(files, DIRECTORY, LogConfig(), NOW, clean_shutdown=clean, whole=end)
    log = Log.open(files, DIRECTORY, LogConfig(), NOW, clean_shutdown=clean, whole=end - 2)

    assert log.end_offset == end - 2


def test_what_was_removed_behind_an_empty_segment_does_not_come_back() -> None:
    """The records of the first segment never reached the disk, those of the second did. The log
    goes on, and the power goes again.
    """
    files = disk()
    log = open_log(files, **SMALL)
    append(log, *(batch(1, size=800, seed=at) for at in range(2)))
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    files.names[segment_path(DIRECTORY, 0, ".log")].data.clear()

    left = open_log(files, **SMALL)
    assert (left.end_offset, len(left.segments)) == (0, 1)
    assert segment_path(DIRECTORY, 1, ".log") not in files.durable_names
