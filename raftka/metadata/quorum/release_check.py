"""The check that a metadata directory holds nothing of a later release. It comes before anything in
the directory is opened for writing, and changes nothing.

A node calls it before it takes its log directories: their partitions too stay as they are. Damage
is passed over here, the code that opens the file reports it.
"""

from raftka.checksum import crc32c
from raftka.log.checkpoints import CheckpointError, decode_lines
from raftka.metadata.image import check_snapshot
from raftka.metadata.quorum.journal_format import (
    SNAPSHOT_HEAD,
    Item,
    JournalDamaged,
    Kind,
    decode_journal,
    decode_snapshot_head,
)
from raftka.metadata.quorum.voter_sets import data_in, take_off
from raftka.metadata.records import FeatureLevelSet, decode_batch
from raftka.runtime.interfaces import Files
from raftka.versions import JOURNAL_ITEMS, STARTS, NewerFormat, check_features

JOURNAL, SNAPSHOT, COUNTER = "journal", "snapshot", "starts"


def check_readable(files: Files, directory: str) -> None:
    """Raise NewerFormat. What is not there, or cannot be read at all, is passed over."""
    for name, check in (
        (SNAPSHOT, _check_snapshot_file),
        (JOURNAL, _check_journal),
        (COUNTER, _check_starts),
    ):
        path = f"{directory}/{name}"
        try:
            if files.exists(path):
                check(files.read(path))
        except NewerFormat as error:
            raise NewerFormat(f"{directory}: {error}") from None
        except (OSError, JournalDamaged, CheckpointError):
            continue


def _check_snapshot_file(data: bytes) -> None:
    head = decode_snapshot_head(data)
    state = data[SNAPSHOT_HEAD : SNAPSHOT_HEAD + head.size_bytes]
    if len(state) == head.size_bytes and crc32c(state) == head.crc:
        check_snapshot(take_off(state)[1])


def _check_journal(data: bytes) -> None:
    """Check all entries that are still in the journal, committed or not: which of them are is not
    known before a leader says so.
    """
    items, _, _ = decode_journal(data)
    entries: dict[int, Item] = {}
    for item in items:
        JOURNAL_ITEMS.check(item.kind, "the metadata journal")
        if item.kind == Kind.ENTRY:
            entries[item.a] = item
        elif item.kind == Kind.CUT:
            entries = {index: each for index, each in entries.items() if index < item.a}
    for item in entries.values():
        if data := data_in(item.data):
            _, records = decode_batch(data)
            for record in records:
                if isinstance(record, FeatureLevelSet):
                    check_features({record.name: record.level}, "the metadata journal")


def _check_starts(data: bytes) -> None:
    decode_lines(data, STARTS)
