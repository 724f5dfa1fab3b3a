"""The node's log directories: whose they are, what lies in them, checkpoints, and a restart after a
clean and an unclean end.
"""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import pytest

from raftka.log.checkpointing import LOOKED_AT_ONCE, Gathered
from raftka.log.checkpoints import decode_offsets
from raftka.log.config import LogConfig
from raftka.log.directory import CHECKPOINTS, LogDirectoryError
from raftka.log.log import Log
from raftka.log.manager import LogManager
from raftka.log.recovery import Damaged
from raftka.runtime.interfaces import File
from tests.log.compacting import clean
from tests.log.files import MemoryFiles, PowerLoss
from tests.log.given import NOW, append, batch
from tests.log.managers import CONFIG, ID, OTHER, manager


def restarted(files: MemoryFiles, before: LogManager) -> LogManager:
    """As after SIGKILL: what was written is there, nothing was said."""
    for home in before.directories:
        home.unlock()
    return manager(files)


def test_a_new_directory_is_this_nodes() -> None:
    files = MemoryFiles()
    logs = manager(files)
    logs.set_cluster_id("MkU3OEVBNTcwNTJENDM2Qg")

    lines = files.read("data/meta.properties").decode().splitlines()
    assert {line.partition("=")[0] for line in lines if "=" in line} == {
        "node.id",
        "directory.id",
        "version",
        "cluster.id",
    }
    assert len(logs.directory_id) == 16

    again = restarted(files, logs)
    assert (again.directory_id, again.cluster_id) == (logs.directory_id, "MkU3OEVBNTcwNTJENDM2Qg")


def test_a_directory_of_another_is_refused() -> None:
    files = MemoryFiles()
    logs = manager(files)

    with pytest.raises(LogDirectoryError, match="in use"):
        manager(files)
    logs.set_cluster_id("a")
    with pytest.raises(LogDirectoryError, match="cluster a"):
        logs.set_cluster_id("b")
    logs.close({})
    with pytest.raises(LogDirectoryError, match="belongs to node 1, this is node 2"):
        manager(files, node=2)
    assert not files.locked


def test_a_directory_that_kafka_made() -> None:
    files = MemoryFiles()
    files.make_directory("data/t-0")
    files.replace(
        "data/meta.properties",
        b"#\n#Sat Nov 21 10:29:03 UTC 2026\nnode.id=1\ndirectory.id=2SR1rQLJvAbjNRmfYv_8ig\n"
        b"version=1\ncluster.id=c\n",
    )
    files.replace("data/t-0/partition.metadata", b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw")
    files.make_directory("data/__cluster_metadata-0")
    files.replace(
        "data/__cluster_metadata-0/partition.metadata",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
    )
    files.replace("data/recovery-point-offset-checkpoint", b"")
    files.replace("data/replication-offset-checkpoint", b"0\n1\nt 0 0\n")
    files.replace("data/cleaner-offset-checkpoint", b"")

    logs = manager(files)
    log = logs.get_or_create("t", 0, ID, CONFIG)

    assert logs.cluster_id == "c"
    assert append(log, batch(2)) == 2
    assert logs.high_watermark("t", 0) == 0
    logs.close({})
    assert files.read("data/recovery-point-offset-checkpoint") == b"0\n1\nt 0 2\n"


def test_a_partition_is_made_found_and_removed() -> None:
    files = MemoryFiles()
    logs = manager(files)

    log = logs.get_or_create("a-b", 3, ID, CONFIG)
    append(log, batch(2))

    assert (
        files.read("data/a-b-3/partition.metadata")
        == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    )
    assert logs.get_or_create("a-b", 3, ID, CONFIG) is log is logs.get("a-b", 3)
    again = restarted(files, logs)
    assert again.get("a-b", 3) is None, "opened when it is asked for"
    assert again.get_or_create("a-b", 3, ID, CONFIG).end_offset == 2
    again.remove([("a-b", 3)])
    assert not files.exists("data/a-b-3")
    assert not [name for name in files.names if "a-b" in name]
    assert again.get("a-b", 3) is None


def test_a_topic_of_the_same_name_is_another() -> None:
    files = MemoryFiles()
    logs = manager(files)
    append(logs.get_or_create("t", 0, ID, CONFIG), batch(5))
    logs.write_checkpoints({("t", 0): 5})
    assert files.read("data/recovery-point-offset-checkpoint") == b"0\n1\nt 0 5\n"
    logs = restarted(files, logs)

    log = logs.get_or_create("t", 0, OTHER, CONFIG)

    assert (log.end_offset, log.durability.recovery_point) == (0, 0)
    assert files.read("data/recovery-point-offset-checkpoint") == b"0\n0\n", (
        "nobody may believe that five offsets of the new one are on disk"
    )
    assert logs.high_watermark("t", 0) == 0


def test_a_rotten_name_costs_no_records() -> None:
    """Others have them: nothing is opened before this replica has left their ISR. Else, and then,
    what lies there is believed.
    """
    files = MemoryFiles()
    logs = manager(files)
    append(logs.get_or_create("t", 0, ID, CONFIG), batch(5))
    logs.write_checkpoints({("t", 0): 5})
    logs.close({("t", 0): 5})
    for rotten in (
        b"",
        b"wersion: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
        b"version: 0\ntopic_id: AAECAwQFBg",
    ):
        files.replace("data/t-0/partition.metadata", rotten)
        logs = restarted(files, logs)

        with pytest.raises(
            Damaged, match=r"data/t-0/partition\.metadata does not name .* 5 records"
        ):
            logs.get_or_create("t", 0, ID, CONFIG, whole=True)
        assert logs.get_or_create("t", 0, ID, CONFIG).end_offset == 5
        assert (
            files.read("data/t-0/partition.metadata")
            == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
        )


def test_a_name_that_was_never_flushed_is_that_of_no_records() -> None:
    files = MemoryFiles()
    logs = manager(files)
    append(logs.get_or_create("t", 0, ID, CONFIG), batch(5))
    files.replace("data/t-0/partition.metadata", b"")
    logs = restarted(files, logs)

    assert logs.get_or_create("t", 0, ID, CONFIG, whole=True).end_offset == 0


def test_half_made_and_half_removed_partitions_are_swept() -> None:
    files = MemoryFiles()
    logs = manager(files)
    files.make_directory("data/t-1")
    files.make_directory("data/t-0.00ff-delete")
    files.replace(
        "data/t-0.00ff-delete/partition.metadata", b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    )
    logs = restarted(files, logs)

    assert "t-0.00ff-delete" not in files.list("data")
    assert logs.get_or_create("t", 1, ID, CONFIG).end_offset == 0


def test_a_clean_end_leaves_kafkas_files_and_a_short_start() -> None:
    files = MemoryFiles()
    logs = manager(files)
    for partition in range(2):
        log = logs.get_or_create("t", partition, ID, CONFIG)
        append(log, *(batch(5, seed=at, size=50) for at in range(10 * partition)))
    logs.get_or_create("t", 1, ID, CONFIG).set_start_offset(3)

    logs.close({("t", 0): 0, ("t", 1): 40}, broker_epoch=11)

    assert files.read("data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":11}'
    assert files.read("data/recovery-point-offset-checkpoint") == b"0\n2\nt 0 0\nt 1 50\n"
    assert files.read("data/replication-offset-checkpoint") == b"0\n2\nt 0 0\nt 1 40\n"
    assert files.read("data/log-start-offset-checkpoint") == b"0\n1\nt 1 3\n"
    logs = manager(files)
    assert not files.exists("data/.kafka_cleanshutdown"), "from now on an end is unclean again"
    log = logs.get_or_create("t", 1, ID, CONFIG)
    assert (log.start_offset, log.end_offset, log.durability.recovery_point, log.cut) == (
        3,
        50,
        50,
        None,
    )
    assert [logs.high_watermark("t", partition) for partition in (0, 1)] == [0, 40]


def test_a_process_that_never_registered_leaves_the_mark_of_the_last_shutdown() -> None:
    files = MemoryFiles()
    manager(files).close({}, broker_epoch=11)
    manager(files).close({})
    logs = manager(files)
    assert logs.previous_epoch == 11

    logs = restarted(files, logs)
    logs.close({})
    assert manager(files).previous_epoch == -1, "the process before was killed"


def test_a_clean_end_speaks_only_for_what_was_open() -> None:
    files = MemoryFiles()
    logs = manager(files)
    append(logs.get_or_create("t", 0, ID, CONFIG), batch(5))
    append(logs.get_or_create("t", 1, ID, CONFIG), batch(5))
    logs = restarted(files, logs)
    logs.get_or_create("t", 0, ID, CONFIG)

    logs.close({})

    assert not files.exists("data/.kafka_cleanshutdown"), "nobody has looked at t-1 since the crash"
    assert manager(files).get_or_create("t", 1, ID, CONFIG).end_offset == 5


def test_a_checkpoint_raises_the_recovery_point_to_what_is_flushed() -> None:
    files = MemoryFiles()
    logs = manager(files)
    log = logs.get_or_create("t", 0, ID, CONFIG)
    append(log, *(batch(5, seed=at, size=50) for at in range(10)))
    log.client_batches.append(batch(1), 0, NOW)
    told: list[OSError | None] = []

    logs.write_checkpoints({("t", 0): 45}, told.append)

    assert told == [None]
    assert files.read("data/recovery-point-offset-checkpoint") == b"0\n1\nt 0 50\n"
    again = restarted(files, logs)
    files.reads = 0
    log = again.get_or_create("t", 0, ID, CONFIG)
    assert (log.durability.recovery_point, log.end_offset, again.high_watermark("t", 0)) == (
        50,
        51,
        45,
    )


def test_a_truncation_below_the_recovery_point_is_written_down_first() -> None:
    files = MemoryFiles()
    logs = manager(files)
    log = logs.get_or_create("t", 0, ID, CONFIG)
    append(log, *(batch(5, seed=at, size=50) for at in range(4)))
    logs.write_checkpoints({})

    log.truncate_to(10)

    assert files.read("data/recovery-point-offset-checkpoint") == b"0\n1\nt 0 10\n"


def test_a_checkpoint_under_way_does_not_undo_a_truncation() -> None:
    files = MemoryFiles()
    logs = manager(files)
    log = logs.get_or_create("t", 0, ID, CONFIG)
    append(log, *(batch(5, seed=at, size=50) for at in range(4)))
    logs.write_checkpoints({})
    append(log, batch(5))
    waiting = []
    files.flush = lambda some, done: waiting.append(done)  # type: ignore[method-assign, assignment]
    logs.write_checkpoints({})
    # indexes and snapshots are on disk; now the checkpoint file under its temporary name
    waiting.pop()(None)

    log.truncate_to(10)
    waiting.pop()(None)

    assert files.read("data/recovery-point-offset-checkpoint") == b"0\n1\nt 0 10\n"


class Steps:
    """Turns of a loop: what is to be done later waits until it is asked for."""

    def __init__(self, logs: LogManager) -> None:
        self.waiting: list[Callable[[], None]] = []
        logs.work_in_turns(self.waiting.append)

    def next(self) -> bool:
        step = self.waiting.pop()
        step()
        return bool(self.waiting)


def test_a_checkpoint_looks_at_some_logs_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    many = 2 * LOOKED_AT_ONCE + 1
    files = MemoryFiles()
    logs = manager(files)
    for index in range(many):
        logs.get_or_create("t", index, ID, CONFIG)
    for index in range(0, many, 100):
        append(logs.get_or_create("t", index, ID, CONFIG), batch(1))
    looked: list[object] = []
    some = Gathered.some

    def due(log: Log) -> bool:
        looked.append(log)
        return log.end_offset > 0

    def gathered(self: Gathered, count: int) -> bool:
        looked.extend([self] * count)
        return some(self, count)

    monkeypatch.setattr(Log, "checkpoint_due", property(due))
    monkeypatch.setattr(Gathered, "some", gathered)
    steps, told = Steps(logs), list[OSError | None]()
    files.flush = lambda some, done: steps.waiting.append(lambda: done(None))  # type: ignore[method-assign, assignment]

    logs.write_checkpoints({("t", index): 1 for index in range(many)}, told.append)
    of_turn = [len(looked)]
    while steps.waiting:
        steps.next()
        of_turn.append(len(looked) - sum(of_turn))

    assert told == [None]
    assert max(of_turn) <= LOOKED_AT_ONCE
    points = decode_offsets(files.read("data/recovery-point-offset-checkpoint"))
    assert (len(points), sum(points.values())) == (many, len(range(0, many, 100)))
    assert decode_offsets(files.read("data/replication-offset-checkpoint")) == {
        ("t", index): 1 for index in range(many)
    }


@pytest.mark.parametrize("steps_before", range(8))
def test_a_checkpoint_in_any_of_its_turns_does_not_undo_a_truncation(steps_before: int) -> None:
    files = MemoryFiles()
    logs = manager(files)
    log = logs.get_or_create("t", 0, ID, CONFIG)
    append(log, *(batch(5, seed=at, size=50) for at in range(4)))
    logs.write_checkpoints({})
    append(log, batch(5))
    steps = Steps(logs)
    logs.write_checkpoints({})
    for _ in range(steps_before):
        if steps.waiting:
            steps.next()

    log.truncate_to(10)
    while steps.waiting:
        steps.next()

    assert files.read("data/recovery-point-offset-checkpoint") == b"0\n1\nt 0 10\n"


@pytest.mark.parametrize("steps_before", range(8))
def test_a_checkpoint_in_any_of_its_turns_says_nothing_of_a_new_partition_of_that_name(
    steps_before: int,
) -> None:
    files = MemoryFiles()
    logs = manager(files)
    append(logs.get_or_create("t", 0, ID, CONFIG), batch(5))
    steps = Steps(logs)
    logs.write_checkpoints({("t", 0): 5})
    for _ in range(steps_before):
        if steps.waiting:
            steps.next()

    logs.remove([("t", 0)])
    logs.get_or_create("t", 0, OTHER, CONFIG)
    while steps.waiting:
        steps.next()

    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        path = f"data/{name}"
        assert not files.exists(path) or set(decode_offsets(files.read(path)).values()) <= {0}, name


def test_a_closed_manager_goes_on_with_no_checkpoint() -> None:
    files = MemoryFiles()
    logs = manager(files)
    append(logs.get_or_create("t", 0, ID, CONFIG), batch(5))
    steps = Steps(logs)
    logs.write_checkpoints({})
    steps.next()
    logs.close({})
    before = dict(files.names)
    while steps.waiting:
        steps.next()

    assert dict(files.names) == before


@pytest.mark.parametrize("ends", ["in time", "with an error", "when its log is gone"])
def test_what_a_checkpoint_has_opened_is_closed_however_it_ends(ends: str) -> None:
    files = MemoryFiles()
    logs = manager(files)
    log = logs.get_or_create("t", 0, ID, CONFIG)
    append(log, *(batch(5, seed=at, size=50) for at in range(20)))
    asked: list[tuple[Sequence[File | str], Callable[[OSError | None], None]]] = []
    files.flush = lambda some, done: asked.append((some, done))  # type: ignore[method-assign, assignment]
    logs.write_checkpoints({})
    (opened, done) = asked.pop()
    active = log.segments.active.index_files or ()
    if ends == "when its log is gone":
        logs.remove([("t", 0)])

    done(OSError(5, "broken") if ends == "with an error" else None)

    left = [each for each in opened if each not in active and not isinstance(each, str)]
    assert [each.path.rpartition(".")[2] for each in left].count("timeindex") > 1
    assert all(each.closed for each in left)  # type: ignore[attr-defined]


def test_new_partitions_go_where_the_fewest_are() -> None:
    files = MemoryFiles()
    logs = manager(files, "a", "b")
    for partition in range(4):
        logs.get_or_create("t", partition, ID, CONFIG)

    assert [
        len([name for name in files.list(path) if name.startswith("t-")]) for path in ("a", "b")
    ] == [2, 2]
    assert len({home.directory_id for home in logs.directories}) == 2


def test_a_deleted_segments_file_is_given_to_who_knows_when_to_close_it() -> None:
    files = MemoryFiles()
    logs = manager(files)
    log = logs.get_or_create("t", 0, ID, LogConfig(segment_bytes=500, retention_ms=1000))
    append(log, *(batch(5, seed=at, size=50) for at in range(4)))
    given: list[tuple[Log, str]] = []
    logs.on_retired = lambda log, file: given.append((log, file.path))

    assert log.delete_old_segments(NOW + 5000, 10) == 2

    assert given == [(log, f"data/t-0/{base:020d}.log") for base in (0, 5)]


def test_how_far_it_is_clean_is_written_down_as_kafka_does() -> None:
    files = MemoryFiles()
    logs = manager(files)
    log, other = (
        logs.get_or_create(
            "t", partition, ID, LogConfig(cleanup_policy="compact", segment_bytes=400)
        )
        for partition in (0, 1)
    )
    append(log, *(batch(2, seed=at, size=50) for at in range(8)))
    append(other, batch(1))
    logs.write_checkpoints({})
    assert clean(files, log) is not None
    assert log.segments.cleaned_offset == 12

    logs.write_checkpoints({})

    assert files.read("data/cleaner-offset-checkpoint") == b"0\n1\nt 0 12\n"
    files = files.power_loss(Random(1))
    log = manager(files).get_or_create(
        "t", 0, ID, LogConfig(cleanup_policy="compact", segment_bytes=400)
    )
    assert log.segments.cleaned_offset == 12


def test_the_recovery_point_counts_when_the_disk_has_it_under_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = MemoryFiles()
    logs = manager(files)
    log = logs.get_or_create("t", 0, ID, CONFIG)
    append(log, batch(3))
    pending: list[Callable[[], None]] = []

    def flush(wanted: Sequence[File | str], done: Callable[[OSError | None], None]) -> None:
        pending.append(partial(MemoryFiles.flush, files, wanted, done))

    monkeypatch.setattr(files, "flush", flush)
    logs.write_checkpoints({})
    seen = []
    while pending:
        seen.append((log.durability.recovery_point, log.durability.settled_point))
        pending.pop(0)()

    assert seen == [(0, 0), (3, 0), (3, 0)], "records, the new file, its name"
    assert log.durability.settled_point == 3
    log.truncate_to(0)
    assert log.durability.settled_point == 0


def test_what_is_cut_is_not_clean_before_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what is written in its place would never be looked at, and a tombstone in it could go
    before what it deletes.
    """
    files = MemoryFiles()
    logs = manager(files)
    log = logs.get_or_create("t", 0, ID, LogConfig(cleanup_policy="compact", segment_bytes=400))
    append(log, *(batch(2, seed=at, size=50) for at in range(8)))
    logs.write_checkpoints({})
    clean(files, log)
    logs.write_checkpoints({})

    def remove(path: str) -> None:
        if path.endswith("log"):
            raise PowerLoss

    monkeypatch.setattr(files, "remove", remove)

    with pytest.raises(PowerLoss):
        log.truncate_to(6)

    assert files.read("data/cleaner-offset-checkpoint") == b"0\n1\nt 0 6\n"
    home = manager(files.power_loss(Random(1))).directories[0]
    assert home.offsets["cleaner-offset-checkpoint"] == {("t", 0): 6}


def test_a_checkpoint_beyond_the_end_of_the_log_is_none() -> None:
    files = MemoryFiles()
    logs = manager(files)
    logs.get_or_create("t", 0, ID, CONFIG)
    files.replace("data/cleaner-offset-checkpoint", b"0\n1\nt 0 14\n")

    assert (
        manager(files.power_loss(Random(1)))
        .get_or_create("t", 0, ID, CONFIG)
        .segments.cleaned_offset
        == 0
    )


def test_a_log_that_failed_keeps_the_directory_from_being_clean() -> None:
    files = MemoryFiles()
    logs = manager(files)
    log = logs.get_or_create("t", 0, ID, CONFIG)
    files.room = 0
    log.client_batches.append(batch(1), 0, NOW)
    with pytest.raises(OSError, match="no space"):
        log.write_staged()
    files.room = None
    logs.write_checkpoints({})

    logs.close({})

    assert not files.exists("data/.kafka_cleanshutdown")


def test_what_is_written_down_of_an_earlier_log_of_the_name_is_forgotten() -> None:
    files = MemoryFiles()
    logs = manager(files)
    home, new, other = logs.directories[0], ("t", 0), ("u", 0)
    for name in CHECKPOINTS:
        home.write(name, {new: 7, other: 8})

    log = logs.get_or_create(*new, ID, CONFIG)

    assert (
        log.start_offset,
        log.durability.recovery_point,
        log.segments.cleaned_offset,
    ) == (
        0,
        0,
        0,
    )
    assert [home.offsets[name] for name in CHECKPOINTS] == [{other: 8}] * len(CHECKPOINTS)
    assert all(b"t 0" not in files.read(f"data/{name}") for name in CHECKPOINTS)
