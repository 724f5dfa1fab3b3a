"""Losses of pysyncobj's persistence, on real files, and the same for ours on a disk that dies at
any call. Each raises Harm if something is lost.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest.mock import patch

from pysyncobj import journal as stock_journal
from pysyncobj.config import SERIALIZER_STATE

from raftka.chaos.small.memory_files import MemoryFiles
from raftka.metadata.quorum.journal import Journal
from raftka.metadata.quorum.journal_format import JournalDamaged
from raftka.metadata.quorum.raft import RaftConfig
from tests.metadata.raft.bench import OurBench, StockBench
from tests.metadata.raft.hazards import harm_if


def alone(directory: Path, *, dump: bool = True) -> StockBench:
    """One pysyncobj node on its files, leading."""
    files = {"journalFile": str(directory / "journal")} | (
        {"fullDumpFile": str(directory / "dump")} if dump else {}
    )
    bench = StockBench(1, **files)
    bench.elect("a")
    return bench


def put(bench: StockBench, *values: str) -> None:
    for value in values:
        bench.propose("a", value)
    for _ in range(3):
        bench.now += 0.25
        bench.tick("a")
    assert bench.applied("a")[-len(values) :] == list(values)


@contextmanager
def counting_syncs() -> Iterator[list[str]]:
    calls: list[str] = []
    with (
        patch.object(os, "fsync", lambda fd: calls.append("fsync")),
        patch.object(os, "fdatasync", lambda fd: calls.append("fdatasync")),
        patch.object(stock_journal.ResizableFile, "flush", lambda self: calls.append("msync")),
    ):
        yield calls


def never_synced_stock(directory: Path) -> None:
    """P1: nothing is ever flushed."""
    with counting_syncs() as calls:
        put(alone(directory), *(f"v{n}" for n in range(100)))
    harm_if(calls == [], "a hundred entries and a vote were acknowledged without one flush")


def never_synced_ours(_: Path) -> None:
    bench = OurBench(1)
    bench.stand("a")
    for n in range(100):
        bench.propose("a", f"v{n}")
        harm_if(
            bench.disks["a"].files["raft/journal"].durable
            != len(bench.disks["a"].files["raft/journal"].data),
            "shown, but not flushed",
        )
        assert bench.applied("a")[-1] == f"v{n}"
    writes = [call for call in bench.disks["a"].calls if call == "append raft/journal"]
    assert len(writes) == bench.disks["a"].calls.count("sync raft/journal") == 100, (
        "one write and one flush a turn"
    )


def crash_during_compaction_stock(directory: Path) -> None:
    """P2: a snapshot newer than the journal's head, and the journal is thrown away, with all that
    came after the snapshot.
    """
    bench = alone(directory)
    put(bench, "before-1", "before-2")
    bench.nodes["a"].forceLogCompaction()
    bench.tick("a")
    # the child has renamed, and lives
    bench.nodes["a"]._SyncObj__serializer.checkSerializing = lambda: (
        SERIALIZER_STATE.SERIALIZING,
        None,
    )
    put(bench, "after-1", "after-2")

    again = alone(directory)
    for _ in range(5):
        again.now += 0.25
        again.tick("a")

    harm_if("after-2" not in again.applied("a"), f"only {again.applied('a')} are left")


def torn_compaction_stock(directory: Path) -> None:
    """P3: the journal is rewritten in place; a crash inside leaves the beginning."""
    path = str(directory / "journal")
    journal = stock_journal.createJournal(path)
    for n in range(1, 101):
        journal.add(b"x", n, 1)
    add, left = journal.add, [3]

    def dies(command: bytes, index: int, term: int) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        add(command, index, term)

    journal.add = dies
    try:
        journal.deleteEntriesTo(50)
    except KeyboardInterrupt:
        pass
    harm_if(
        len(stock_journal.createJournal(path)) < 50, "entries that were not to be deleted are gone"
    )


def crash_at_any_call_ours(_: Path) -> None:
    """P2, P3: the power goes at any call of the disk, snapshots and all; what was handed out is
    there again.
    """
    whole = _work(RememberingFiles())
    for call in range(len(whole.calls)):
        for tear in range(4):
            disk = RememberingFiles()
            disk.fail_at = call
            seen = _work(disk).seen
            disk.fail_at = None
            disk.power_lost(Random(tear))
            left = _restarted(disk)
            harm_if(
                left[: len(seen)] != list(seen),
                f"the power went at call {call}: {seen} were seen, {left} are left",
            )


class RememberingFiles(MemoryFiles):
    seen: tuple[str, ...] = ()  # what was shown before the disk failed


def _work(disk: RememberingFiles) -> RememberingFiles:
    """A voter alone, with a snapshot every few entries."""
    bench = OurBench(1, RaftConfig(retain_entries=1), boot="")
    bench.disks["a"] = disk
    try:
        bench.boot("a")
        bench.stand("a")
        for n in range(8):
            bench.propose("a", f"v{n}")
            disk.seen = tuple(bench.applied("a"))
            if n % 3 == 2:
                bench.compact("a")
    except OSError:
        pass
    return disk


def _restarted(disk: MemoryFiles) -> list[str]:
    bench = OurBench(1, boot="")
    bench.disks["a"] = disk
    bench.boot("a")
    bench.stand("a")
    bench.tick("a")
    return bench.applied("a")


def damaged_memory_stock(directory: Path) -> None:
    """P4: an unreadable file of term and vote means: term 0, nobody."""
    path = str(directory / "journal")
    stock_journal.createJournal(path).setCurrentTerm(7, "b")
    meta = Path(path + ".meta")
    meta.write_bytes(meta.read_bytes()[:-3])
    again = stock_journal.createJournal(path)
    harm_if(
        (again.getCurrentTerm(), again.getVotedForNodeId()) == (0, None),
        "term and vote are forgotten without a word",
    )


def damaged_memory_ours(_: Path) -> None:
    """P4: it does not start. Every byte of what was once safe, one after the other."""
    disk = RememberingFiles()
    _work(disk)
    disk.process_died()
    journal = Journal.open(disk, "raft", 1)
    journal.set_vote(7, 2)
    journal.take_sync()
    journal.synced()
    journal.set_vote(8, None)
    journal.take_sync()
    journal.synced()
    safe = len(disk.files["raft/journal"].data) - 45  # without the last record
    journal.close()
    for path, size in (
        ("raft/journal", safe),
        ("raft/snapshot", len(disk.files["raft/snapshot"].data)),
    ):
        data = disk.files[path].data
        for at in range(size):
            data[at] ^= 0x10
            harm_if(not _refused(disk), f"starts with byte {at} of {path} damaged")
            data[at] ^= 0x10
    assert not _refused(disk)


def _refused(disk: MemoryFiles) -> bool:
    try:
        Journal.open(disk, "raft", 1).close()
    except JournalDamaged:
        return True
    return False


def lost_snapshot_stock(directory: Path) -> None:
    """P5: a journal whose beginning only a snapshot in memory had: after a restart nothing is
    applied any more.
    """
    bench = alone(directory, dump=False)
    put(bench, "v1", "v2", "v3")
    bench.compact("a")
    again = alone(directory, dump=False)
    again.propose("a", "v4")
    for _ in range(5):
        again.now += 0.25
        again.tick("a")
    harm_if("v4" not in again.applied("a"), f"applies {again.applied('a')}")


def lost_snapshot_ours(_: Path) -> None:
    disk = RememberingFiles()
    _work(disk)
    disk.process_died()
    for missing in ("raft/snapshot", "raft/journal"):
        file = disk.files.pop(missing)
        harm_if(not _refused(disk), f"starts without its {missing}")
        disk.files[missing] = file


PAIRS: dict[str, tuple[Callable[[Path], None], Callable[[Path], None]]] = {
    "P1": (never_synced_stock, never_synced_ours),
    "P2": (crash_during_compaction_stock, crash_at_any_call_ours),
    "P3": (torn_compaction_stock, crash_at_any_call_ours),
    "P4": (damaged_memory_stock, damaged_memory_ours),
    "P5": (lost_snapshot_stock, lost_snapshot_ours),
}
