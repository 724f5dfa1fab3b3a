"""Our journal keeps what pysyncobj's files lose; each of its guards is missed when it is taken
out.
"""

import logging
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pysyncobj import journal as stock_journal

from raftka.metadata.quorum import journal as journal_module
from raftka.metadata.quorum import journal_format
from raftka.metadata.quorum.journal import Journal
from raftka.metadata.quorum.journal_format import JournalDamaged
from tests.metadata.raft import hazards_of_disks as hazards
from tests.metadata.raft.bench import Harm


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """pysyncobj says much, and leaves its files open."""
    logging.getLogger("pysyncobj").setLevel(logging.CRITICAL + 1)
    opened, open_file = [], stock_journal.ResizableFile.__init__

    def remembered(self: Any, *arguments: Any, **options: Any) -> None:
        opened.append(self)
        open_file(self, *arguments, **options)

    monkeypatch.setattr(stock_journal.ResizableFile, "__init__", remembered)
    yield
    for file in opened:
        file._destroy()


@pytest.mark.parametrize("name", hazards.PAIRS)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_stock_loses_it(name: str, tmp_path: Path) -> None:
    with pytest.raises(Harm):
        hazards.PAIRS[name][0](tmp_path)


@pytest.mark.parametrize("name", hazards.PAIRS)
def test_ours_keeps_it(name: str, tmp_path: Path) -> None:
    hazards.PAIRS[name][1](tmp_path)


def journal_before_snapshot(self: Journal, index: int, state: bytes, keep_from: int) -> None:
    term = self.term_at(index)
    assert term is not None
    drop = keep_from - 1 - self.base.index
    self.entries[: drop + 1] = [self.entries[drop]]
    self._rewrite()
    self._replace_snapshot(index, term, state)


def rewritten_in_place(self: Journal) -> None:
    if self._file is not None:
        self.files.open(self._path).truncate(0)
    ORIGINAL_REWRITE(self)


def unchecked(view: memoryview, position: int, number: int | None = None) -> int | None:
    if position + journal_format.RECORD_HEAD > len(view):
        return None
    return (
        position
        + journal_format.RECORD_HEAD
        + int(journal_format.RECORD.unpack_from(view, position)[2])
    )


def shown_at_once(self: Journal) -> list[Any]:
    ORIGINAL_TAKE(self)
    return []


ORIGINAL_REWRITE, ORIGINAL_TAKE = Journal._rewrite, Journal.take_sync

MUTANTS: dict[str, tuple[Any, str, Any, Callable[[Path], None]]] = {
    "the flush": (Journal, "take_sync", shown_at_once, hazards.never_synced_ours),
    "the snapshot first": (
        Journal,
        "compact",
        journal_before_snapshot,
        hazards.crash_at_any_call_ours,
    ),
    "replaced, not rewritten": (
        Journal,
        "_rewrite",
        rewritten_in_place,
        hazards.crash_at_any_call_ours,
    ),
    "checksums of records": (journal_format, "_record_end", unchecked, hazards.damaged_memory_ours),
    "a later record tells damage": (
        journal_format,
        "_find",
        lambda data, what, start: iter(()),
        hazards.damaged_memory_ours,
    ),
    "the snapshot is checked": (
        Journal,
        "_load_snapshot",
        lambda self: self._open_snapshot(),
        hazards.damaged_memory_ours,
    ),
    "the snapshot is missed": (
        journal_module,
        "JournalDamaged",
        EOFError,
        hazards.lost_snapshot_ours,
    ),
}


@pytest.mark.parametrize("guard", MUTANTS)
def test_a_guard_taken_out_is_noticed(
    guard: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    where, name, replacement, notices = MUTANTS[guard]
    notices(tmp_path)

    monkeypatch.setattr(where, name, replacement)

    # harm, or a crash on the way to it
    with pytest.raises((AssertionError, JournalDamaged, LookupError, struct.error, EOFError)):
        notices(tmp_path)
