"""Restored directories: the same records at the same offsets, open transactions aborted, numbers
that were given out passed over; the same on every machine.
"""

from random import Random

import pytest

from raftka.backup.catalogue import find
from raftka.backup.create import take
from raftka.backup.errors import BackupError
from raftka.backup.places import Folder
from raftka.backup.restore import Plan, Restored, make_plan, restore
from raftka.backup.state import committed_offsets, transactions_of
from raftka.coordinator.transactions.records import State
from raftka.log.config import LogConfig
from raftka.log.directory import LogDirectoryError, check_readable
from raftka.log.manager import LogManager
from raftka.metadata.image import MetadataImage
from raftka.metadata.quorum.journal import Journal, Standing
from raftka.wire.records import CONTROL
from tests.backup.small import (
    CLUSTER,
    DONE,
    OPEN,
    TOPICS,
    Source,
    batches,
    bytes_of,
    image,
    opened,
    settings_of,
)
from tests.log.files import MemoryFiles
from tests.log.given import NOW

PLACE = "place"


def made() -> tuple[MemoryFiles, Source]:
    files = MemoryFiles()
    source = Source.make(files, 1)
    take(source, source.cut(), Folder(files, PLACE), files, "first")
    return files, source


@pytest.fixture
def backed_up() -> tuple[MemoryFiles, Source]:
    return made()


def restored(files: MemoryFiles, *, nodes: int = 3, topics: tuple[str, ...] = ()) -> Restored:
    place, settings = Folder(files, PLACE), settings_of(nodes)
    plan = make_plan(find(place, None), settings, topics=topics)
    return restore(place, plan, settings, files, Random(1))


def test_every_replica_has_the_same_records(backed_up: tuple[MemoryFiles, Source]) -> None:
    files, source = backed_up
    found = restored(files)

    assert (found.nodes, found.partitions, found.replicas) == (3, 4, 12)
    for (topic, index), log in source.logs.items():
        copies = [opened(files, node, topic, index) for node in (1, 2, 3)]
        assert {bytes_of(copy, log.end_offset) for copy in copies} == {bytes_of(log)}
        assert len({bytes_of(copy) for copy in copies}) == 1
        assert [copy.cut for copy in copies] == [None] * 3


def test_what_was_open_is_aborted_in_all_partitions(backed_up: tuple[MemoryFiles, Source]) -> None:
    files, source = backed_up
    assert restored(files).aborted == 2

    for index in (0, 1):
        before, log = source.logs["orders", index], opened(files, 1, "orders", index)
        assert before.last_stable_offset(before.end_offset) < before.end_offset
        assert log.last_stable_offset(log.end_offset) == log.end_offset == before.end_offset + 1
        (header, _) = batches(log)[-1]
        assert header[5] & CONTROL
        assert header[9] == OPEN
        assert not log.producers.producers[DONE].transactional


def test_the_producer_of_an_open_transaction_is_fenced(
    backed_up: tuple[MemoryFiles, Source],
) -> None:
    files, _ = backed_up
    restored(files)

    found = transactions_of(batches(opened(files, 2, "__transaction_state")))

    its = found["open"]
    assert (its.state, its.epoch) == (State.PREPARE_ABORT, 1)
    assert its.partitions.topics["orders"].indexes == {0, 1}


def test_offsets_of_topics_that_are_gone_are_dropped(
    backed_up: tuple[MemoryFiles, Source],
) -> None:
    files, source = backed_up
    assert restored(files).dropped_offsets == 1

    found = committed_offsets(batches(opened(files, 3, "__consumer_offsets")))

    end = source.logs["orders", 0].end_offset
    assert {key: value.offset for key, value in found.items()} == {("group", "orders", 0): end}


def test_the_metadata_are_the_seeds_of_a_new_cluster(backed_up: tuple[MemoryFiles, Source]) -> None:
    files, _ = backed_up
    restored(files)

    journal = Journal.open(files, settings_of()[0].metadata_directory, 1)
    assert (journal.standing, journal.recovery.voters) == (Standing.SEED, (1, 2, 3))
    new = MetadataImage.from_snapshot(journal.read_snapshot().state)
    assert new.cluster_id == journal.cluster_id != CLUSTER
    assert new.topic_ids == image().topic_ids
    assert new.partition_count == sum(TOPICS.values())
    assert new.next_producer_id > image().next_producer_id
    for topic in new.topics.values():
        for partition in topic.partitions:
            assert sorted(partition.isr) == sorted(partition.replicas) == [1, 2, 3]
            assert (partition.leader, partition.leader_epoch > 1_000) == (-1, True)
    for other in settings_of()[1:]:
        assert not files.exists(other.metadata_directory)


def test_one_machine_after_the_other_is_the_same_as_all_at_once(
    backed_up: tuple[MemoryFiles, Source],
) -> None:
    files, _ = backed_up
    whole = files.power_loss(Random(0))
    place, settings = Folder(files, PLACE), settings_of()
    for each in settings:
        plan = make_plan(find(place, None), [each], brokers=[1, 2, 3])
        restore(place, plan, [each], files, Random(1))
    restored(whole)

    ours, theirs = (
        {
            name: bytes(inode.data)
            for name, inode in each.names.items()
            if name.startswith("new/") and "__raftka_metadata" not in name
        }
        for each in (files, whole)
    )
    assert ours == theirs


def test_a_restore_that_is_whole_is_left_alone(backed_up: tuple[MemoryFiles, Source]) -> None:
    files, _ = backed_up
    restored(files)
    calls = files.calls

    assert restored(files).kept_nodes == 3
    assert files.calls == calls


def test_metadata_with_a_directory_of_their_own(backed_up: tuple[MemoryFiles, Source]) -> None:
    files, _ = backed_up
    place, settings = Folder(files, PLACE), settings_of(apart=True)
    plan = make_plan(find(place, None), settings)
    restore(place, plan, settings, files, Random(1))
    for path in ("new/1-a", "new/1-m"):  # as if the power had gone before the end
        note = files.read(f"{path}/__raftka_restore")
        files.replace(f"{path}/__raftka_restore", note.replace(b"whole", b"partly"))

    assert restore(place, plan, settings, files, Random(1)).kept_nodes == 2

    journal = Journal.open(files, "new/1-m/__raftka_metadata", 1)
    assert journal.standing is Standing.SEED


def test_a_directory_with_other_data_is_refused(backed_up: tuple[MemoryFiles, Source]) -> None:
    files, _ = backed_up
    files.make_directory("new/2-b/t-0")
    files.replace("new/2-b/t-0/x", b"precious")

    with pytest.raises(BackupError, match="new/2-b is not empty"):
        restored(files)

    assert [name for name in files.names if name.startswith("new/")] == ["new/2-b/t-0/x"]


def test_some_topics_alone(backed_up: tuple[MemoryFiles, Source]) -> None:
    files, _ = backed_up
    with pytest.raises(BackupError, match="the backup has no topic unknown"):
        restored(files, topics=("unknown",))

    place, settings = Folder(files, PLACE), settings_of()
    manifest = find(place, None)
    plan = Plan(manifest, "x" * 22, (1, 2, 3), (1, 2, 3), frozenset({"__consumer_offsets"}))
    found = restore(place, plan, settings, files, Random(1))

    assert (found.partitions, found.dropped_offsets) == (1, 2)
    assert committed_offsets(batches(opened(files, 1, "__consumer_offsets"))) == {}


def test_fewer_and_more_brokers(backed_up: tuple[MemoryFiles, Source]) -> None:
    files, _ = backed_up
    fewer, more = files.power_loss(Random(0)), files.power_loss(Random(0))

    assert restored(fewer, nodes=1).replicas == 4
    assert restored(more, nodes=5).replicas == 12


def test_the_logs_open_as_a_node_opens_them(backed_up: tuple[MemoryFiles, Source]) -> None:
    files, source = backed_up
    restored(files)
    settings = settings_of()[1]
    logs = LogManager.open(files, settings.log_dirs, 2, Random(1), NOW)

    assert logs.previous_epoch == 1 + 1_000_000
    assert sorted(logs.lying_here()) == sorted(source.logs)
    for topic, index in source.logs:
        topic_id = image().topic_ids[topic]
        log = logs.get_or_create(topic, index, topic_id, LogConfig(), whole=True)
        assert log.end_offset == logs.high_watermark(topic, index)


def test_a_part_of_a_backup_is_refused_and_the_rest_is_not(
    backed_up: tuple[MemoryFiles, Source],
) -> None:
    files, _ = backed_up
    restored(files)
    path = settings_of()[0].log_dirs[0]
    check_readable(files, path)
    note = files.read(f"{path}/__raftka_restore")
    files.replace(f"{path}/__raftka_restore", note.replace(b"whole", b"partly"))

    with pytest.raises(LogDirectoryError, match="its restore was broken off"):
        check_readable(files, path)
