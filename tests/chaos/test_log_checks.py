"""The checks of logs against a plain scan: a sound log passes, and each thing that is derived from
the batches is missed when it is wrong.
"""

from collections.abc import Callable

import pytest

from raftka.chaos.simulated.checks.logs import wrong_with
from raftka.chaos.simulated.checks.shadows import Shadows, unflushed
from raftka.chaos.simulated.cluster import Cluster
from raftka.log.log import Log
from raftka.log.producers.snapshots import ENTRIES_BACK, rebuild
from raftka.log.producers.state import BATCHES_REMEMBERED
from raftka.log.segments.segment import segment_path
from raftka.runtime.simulated.world import World
from tests.log.files import MemoryFiles
from tests.log.given import DIRECTORY, NOW, append, batch, disk, open_log

TOPIC = "trucks"


@pytest.fixture
def files() -> MemoryFiles:
    return disk()


@pytest.fixture
def log(files: MemoryFiles) -> Log:
    log = open_log(files, segment_bytes=2000, index_interval_bytes=100)
    for number in range(30):
        append(
            log,
            batch(2, producer=7, sequence=2 * number, timestamp=NOW + 10 * number, size=50),
            epoch=number // 10,
        )
    return log


def test_a_sound_log_has_nothing_wrong(log: Log, files: MemoryFiles) -> None:
    assert len(log.segments) > 2
    assert not wrong_with(log, files)


def _offset_index(log: Log) -> None:
    log.segments[0].offset_index.positions[1] += 1


def _time_index(log: Log) -> None:
    log.segments[0].time_index.timestamps[-1] += 5


def _largest_timestamp(log: Log) -> None:
    log.segments.active.max_timestamp -= 1


def _leader_epochs(log: Log) -> None:
    log.epochs.starts[1] += 2


def _sequence(log: Log) -> None:
    log.producers.producers[7].next_sequence += 1


def _batches_of_producer(log: Log) -> None:
    del log.producers.producers[7].batches[0]


def _producer(log: Log) -> None:
    del log.producers.producers[7]


def _end(log: Log) -> None:
    log.end_offset -= 1


def _start(log: Log) -> None:
    log.start_offset = log.end_offset + 1


def _size(log: Log) -> None:
    log.segments.active.size -= 1


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_offset_index, "offset index points"),
        (_time_index, "time index has"),
        (_largest_timestamp, "largest timestamp"),
        (_leader_epochs, "leader epoch"),
        (_sequence, "expects"),
        (_batches_of_producer, "remembers"),
        (_producer, "is forgotten"),
        (_end, "ends at"),
        (_start, "starts at"),
        (_size, "its batches have"),
    ],
)
def test_a_wrong_index_or_snapshot_is_found(
    log: Log, files: MemoryFiles, damage: Callable[[Log], None], said: str
) -> None:
    damage(log)

    assert any(said in each for each in wrong_with(log, files))


@pytest.mark.parametrize("segments", [1, 10, 100])
def test_recovery_may_forget_batches_of_a_producer_that_lie_far_before_the_snapshot_and_no_others(
    files: MemoryFiles, segments: int
) -> None:
    log = open_log(files, index_interval_bytes=100)
    append(
        log,
        *(
            batch(2, producer=7, sequence=2 * number, size=60)
            for number in range(BATCHES_REMEMBERED)
        ),
    )
    whole, counts = log.producers, []
    for number in range(ENTRIES_BACK + 5):
        append(log, batch(1, size=40))
        append(log, batch(1, size=40))
        if number * segments // 100 < (number + 1) * segments // 100:
            log.roll(NOW)
        log.durability.take_snapshot(log.end_offset, log.producers)
        log.producers = rebuild(log.segments, log.durability.snapshots, log.end_offset, NOW)
        known = log.producers.producers[7].batches
        assert not wrong_with(log, files)
        if len(known) > 1:
            log.producers.producers[7].batches = known[1:]
            assert any("remembers" in each for each in wrong_with(log, files))
        counts.append(len(known))
        log.producers = whole

    assert counts == sorted(counts, reverse=True)
    assert (counts[0], counts[-1]) == (BATCHES_REMEMBERED, 1)


def test_a_snapshot_of_another_history_is_found(log: Log, files: MemoryFiles) -> None:
    offset = log.durability.snapshots.offsets[0]
    path = segment_path(DIRECTORY, offset, ".snapshot")
    files.replace(path, log.producers.snapshot())

    assert any(f"the snapshot at {offset} has" in each for each in wrong_with(log, files))


def test_a_bit_that_flipped_is_found(log: Log, files: MemoryFiles) -> None:
    path = segment_path(DIRECTORY, 0, ".log")
    data = bytearray(files.read(path))
    data[70] ^= 1
    files.replace(path, data)
    log.segments[0].file = files.open(path)

    assert any("is damaged" in each for each in wrong_with(log, files))


def test_index_entries_of_lost_records_do_not_come_back_with_a_clean_end(
    files: MemoryFiles,
) -> None:
    log = open_log(files, index_interval_bytes=100)
    for number in range(10):
        append(log, batch(2, timestamp=NOW + 10 * number, size=80))
    log.close(clean=True)
    path = segment_path(DIRECTORY, 0, ".log")
    data = files.read(path)
    # a power loss took the tail of the records, and not that of the time index
    files.replace(path, data[: len(data) // 2])
    index = segment_path(DIRECTORY, 0, ".index")
    files.replace(index, files.read(index)[:8])

    log = open_log(files, recovery_point=10, index_interval_bytes=100)
    assert log.end_offset == 10
    log.close(clean=True)

    assert not wrong_with(
        open_log(files, clean=True, recovery_point=10, index_interval_bytes=100), files
    )


# disks that are copied


def _written(world: World) -> Cluster:
    cluster = Cluster(world, 3)
    cluster.wait_ready()
    client = cluster.client()
    cluster.do(client, lambda: client.create_topic(TOPIC, 1, 3))
    cluster.do(client, lambda: client.produce(TOPIC, 0, [b"a/0/", b"a/1/"], 5, 0))
    assert cluster.settled(
        lambda: all(
            partition.high_watermark == 2 for partition in cluster.partitions(TOPIC, 0).values()
        )
    )
    return cluster


@pytest.mark.parametrize("how", ["kill", "power", "nothing kept"])
def test_a_copied_disk_has_everything_the_log_claims(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftka.chaos.simulated.checks.shadows.HOW", (how,))
    with World(3) as world:
        cluster = _written(world)

        assert not Shadows(cluster).check()


def test_a_claim_of_records_not_on_disk_is_found() -> None:
    with World(3) as world:
        cluster = _written(world)
        partition = cluster.partitions(TOPIC, 0)[1]
        assert unflushed(partition.log, cluster.disk(1)) is None
        partition.log.segments[0].file.write(
            0, cluster.disk(1).file(partition.log.segments[0].file.path).content[:20]
        )

        assert "is not flushed" in (unflushed(partition.log, cluster.disk(1)) or "")


def test_looking_at_disks_changes_no_life() -> None:
    def life(*, looks: bool) -> list[tuple[float, str, int, int, int]]:
        with World(3, keep_trace=100_000) as world:
            cluster = _written(world)
            if looks:
                assert not Shadows(cluster).check()
            world.run(world.now + 2.0)
            return list(world.trace)

    assert life(looks=True) == life(looks=False)
