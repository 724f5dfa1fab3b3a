"""The journal alone: what it remembers, what it refuses, what it cuts off. P6, a second process on
the same files, among it.
"""

from random import Random

import pytest

from raftka.chaos.small.memory_files import MemoryFiles
from raftka.metadata.quorum.journal import Journal, Standing, WrongDirectory
from raftka.metadata.quorum.journal_format import JournalDamaged, Kind, encode_item, encode_record
from raftka.metadata.quorum.raft_types import Entry, Snapshot
from raftka.versions import NewerFormat


def open_journal(disk: MemoryFiles, node_id: int = 1, cluster_id: str | None = None) -> Journal:
    return Journal.open(disk, "raft", node_id, cluster_id)


def sync(journal: Journal) -> None:
    for file in journal.take_sync():
        file.sync()
    journal.synced()


def filled(disk: MemoryFiles, entries: int = 5) -> Journal:
    """Each entry in a turn of its own."""
    journal = open_journal(disk)
    journal.set_standing(Standing.VOTER)
    journal.set_vote(3, 2)
    for index in range(1, entries + 1):
        journal.append(Entry(b"\0entry %d" % index, index, 3))
        sync(journal)
    return journal


def test_a_journal_reads_back_all_its_state() -> None:
    disk = MemoryFiles()
    journal = filled(disk)
    journal.set_cluster_id("the cluster")
    journal.cut(4)
    journal.append(Entry(b"\0other", 4, 4))
    journal.set_vote(5, None)
    sync(journal)
    journal.close()

    again = open_journal(disk)

    assert (again.term, again.vote, again.standing, again.cluster_id) == (
        5,
        None,
        Standing.VOTER,
        "the cluster",
    )
    assert [(entry.command, entry.index, entry.term) for entry in again.entries[1:]] == [
        (b"\0entry 1", 1, 3),
        (b"\0entry 2", 2, 3),
        (b"\0entry 3", 3, 3),
        (b"\0other", 4, 4),
    ]
    assert not again.unsynced


def test_an_empty_directory_stays_empty_until_something_is_to_be_remembered() -> None:
    disk = MemoryFiles()
    open_journal(disk)

    assert disk.list("raft") == []


def test_staged_bytes_are_dropped_at_close() -> None:
    disk = MemoryFiles()
    journal = filled(disk, 2)
    journal.append(Entry(b"\0staged", 3, 3))
    assert journal.unsynced
    journal.close()

    assert open_journal(disk).last.index == 2


def test_a_torn_last_record_is_cut_off_wherever_it_tears() -> None:
    disk = MemoryFiles()
    filled(disk, 3).close()
    data = bytes(disk.files["raft/journal"].data)
    journal = open_journal(disk)
    journal.append(Entry(b"\0the last one", 4, 3))
    sync(journal)
    whole = bytes(disk.files["raft/journal"].data)

    for size in range(len(data), len(whole)):
        torn = MemoryFiles()
        torn.open("raft/journal", create=True).append([whole[:size]])

        assert open_journal(torn).last.index == 3
        assert torn.read("raft/journal") == data


def test_appending_goes_on_behind_a_cut() -> None:
    for seed in range(200):
        disk, random = MemoryFiles(), Random(seed)
        journal = filled(disk, 2)
        journal.append(Entry(b"\0torn" * 30, 3, 3))
        journal.take_sync()
        disk.power_lost(random)

        journal = open_journal(disk)
        there = journal.last.index
        journal.append(Entry(b"\0next", there + 1, 4))
        sync(journal)
        journal.close()

        assert there in (2, 3)
        assert open_journal(disk).last == Entry(b"\0next", there + 1, 4)


@pytest.mark.parametrize("cut", [0, 1, 20])
def test_the_first_record_was_written_whole(cut: int) -> None:
    disk = MemoryFiles()
    filled(disk, 1).close()
    del disk.files["raft/journal"].data[cut:]

    with pytest.raises(JournalDamaged):
        open_journal(disk)


def test_two_processes_do_not_share_it() -> None:
    disk = MemoryFiles()
    first = open_journal(disk)
    with pytest.raises(BlockingIOError):
        open_journal(disk)
    first.close()

    open_journal(disk)


def test_a_refused_directory_is_left_free() -> None:
    disk = MemoryFiles()
    filled(disk).close()
    for _ in range(2):
        with pytest.raises(WrongDirectory, match="node 1"):
            open_journal(disk, node_id=2)


def test_another_clusters_directory_is_refused() -> None:
    disk = MemoryFiles()
    journal = filled(disk)
    journal.set_cluster_id("ours")
    sync(journal)
    with pytest.raises(WrongDirectory):
        journal.set_cluster_id("theirs")
    journal.close()

    with pytest.raises(WrongDirectory, match="ours"):
        open_journal(disk, cluster_id="theirs")
    open_journal(disk, cluster_id="ours")


def test_a_newer_versions_journal_is_refused() -> None:
    disk = MemoryFiles()
    record = encode_record(1, [*encode_item(Kind.NODE, 1), *encode_item(99)])  # type: ignore[arg-type]
    disk.replace("raft/journal", b"".join(record))

    with pytest.raises(NewerFormat, match="reads up to version 8"):
        open_journal(disk)


def test_a_snapshot_takes_the_place_of_entries() -> None:
    disk = MemoryFiles()
    journal = filled(disk, 10)
    before = journal.size_bytes
    journal.compact(8, b"state of eight", keep_from=7)
    assert not journal.unsynced
    journal.close()

    again = open_journal(disk)

    assert again.read_snapshot() == Snapshot(8, 3, b"state of eight")
    assert [entry.index for entry in again.entries] == [6, 7, 8, 9, 10]
    assert (again.term_at(6), again.term_at(5), again.term_at(11)) == (3, None, None)
    assert again.size_bytes < before
    assert (again.term, again.vote) == (3, 2)


@pytest.mark.parametrize(
    ("index", "term", "left"),
    [(3, 3, [3, 4, 5]), (3, 4, [3]), (9, 4, [9])],
    ids=["continues", "other history", "beyond the end"],
)
def test_a_leaders_snapshot_keeps_only_what_continues_it(
    index: int, term: int, left: list[int]
) -> None:
    disk = MemoryFiles()
    journal = filled(disk)
    journal.install(Snapshot(index, term, b"state"))
    journal.close()

    again = open_journal(disk)

    assert [entry.index for entry in again.entries] == left
    assert again.base.term == term


@pytest.mark.parametrize(
    ("index", "term", "left"), [(3, 3, [0, 1, 2, 3, 4, 5]), (3, 4, [3]), (9, 4, [9])]
)
def test_a_crash_between_the_files_of_a_leaders_snapshot(
    index: int, term: int, left: list[int]
) -> None:
    disk = MemoryFiles()
    journal = filled(disk)
    disk.fail_at = len(disk.calls) + 1
    with pytest.raises(OSError, match="gone"):
        journal.install(Snapshot(index, term, b"state"))
    disk.fail_at = None
    disk.power_lost(Random(1))

    again = open_journal(disk)

    assert [entry.index for entry in again.entries] == left
    assert again.read_snapshot() == Snapshot(index, term, b"state")
    again.close()
    assert [entry.index for entry in open_journal(disk).entries] == left


def test_an_entry_that_looks_like_a_record_damages_nothing() -> None:
    disk = MemoryFiles()
    journal = filled(disk, 2)
    inside = b"".join(encode_record(2, [b"looks like one"]))
    journal.append(Entry(b"\0" + inside, 3, 3))
    journal.take_sync()
    del disk.files["raft/journal"].data[-1:]
    disk.process_died()

    assert open_journal(disk).last.index == 2


def test_a_journal_knows_its_flushed_index() -> None:
    disk = MemoryFiles()
    journal = filled(disk, 5)
    assert journal.flushed_index == 5
    journal.append(Entry(b"\0six", 6, 3))
    journal.take_sync()
    journal.append(Entry(b"\0seven", 7, 3))
    assert journal.flushed_index == 5
    journal.synced()
    assert journal.flushed_index == 6
    journal.cut(4)
    journal.append(Entry(b"\0four", 4, 4))
    assert journal.flushed_index == 3
    journal.compact(3, b"state", keep_from=3)
    assert journal.flushed_index == 4
