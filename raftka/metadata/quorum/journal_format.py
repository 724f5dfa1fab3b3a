"""The journal's bytes: records with checksums, the items inside them, the head of a snapshot. Knows
no file and no quorum.

A record is all that one turn changed: written by one append and flushed before the next one is
written. So only the last record of a file can be torn. Bytes that are no record, with a later
record behind them, are damage to what was once safe.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct, error
from typing import NamedTuple

from raftka.checksum import crc32c
from raftka.metadata.quorum.voter_sets import SET_BEFORE_STATE
from raftka.runtime.interfaces import Buffer
from raftka.versions import METADATA_JOURNAL, SNAPSHOT_FILE, Format

RECORD_MAGIC = b"\xabRJ1"
SNAPSHOT_MAGIC = b"\xabRS1"
WITH_VOTERS = b"\xabRS2"  # the voters stand before the state
# magic, number (1, 2, 3 ... in each file), size of the body, CRC32C of the body; then CRC32C of
# these
RECORD = Struct("<4sQII")
# magic, index, term, size of the state, CRC32C of the state; then CRC32C of these
SNAPSHOT = Struct("<4sQQQI")
CHECK = Struct("<I")
ITEM = Struct("<BQQI")  # kind, two numbers, size of what follows
RECORD_HEAD = RECORD.size + CHECK.size
SNAPSHOT_HEAD = SNAPSHOT.size + CHECK.size


class JournalDamaged(Exception):
    """Durable bytes are no longer readable: the node must not start, an operator decides."""


class Kind(IntEnum):
    ENTRY = 1  # index, term, command
    CUT = 2  # first index that is no longer valid
    VOTE = 3  # term, who got the vote + 1 (0: nobody)
    STANDING = 4  # a Standing
    CLUSTER = 5  # the cluster id as text
    BASE = 6  # index and term of the last entry that is not in the file any more
    NODE = 7  # whose directory this is
    RECOVERED = 8  # a Recovery's number; its voters as text


class Item(NamedTuple):
    kind: int
    a: int
    b: int
    data: bytes


@dataclass(frozen=True, slots=True)
class SnapshotHead:
    index: int
    term: int
    size_bytes: int
    crc: int


def encode_item(kind: Kind, a: int = 0, b: int = 0, data: bytes = b"") -> list[bytes]:
    head = ITEM.pack(kind, a, b, len(data))
    return [head, data] if data else [head]


def encode_record(number: int, body: Sequence[Buffer]) -> list[Buffer]:
    crc, size = 0, 0
    for piece in body:
        crc, size = crc32c(piece, crc), size + len(piece)
    head = RECORD.pack(RECORD_MAGIC, number, size, crc)
    return [head + CHECK.pack(crc32c(head)), *body]


def decode_journal(data: bytes) -> tuple[list[Item], int, int]:
    """All items, how many records hold them, and where the last good record ends. Raises
    JournalDamaged, NewerFormat.
    """
    items: list[Item] = []
    view, position, number = memoryview(data), 0, 0
    while (end := _record_end(view, position, number + 1)) is not None:
        items += _items(view[position + RECORD_HEAD : end])
        position, number = end, number + 1
    _check_newer(data[position : position + RECORD_HEAD], RECORD, METADATA_JOURNAL)
    if number == 0:
        raise JournalDamaged(
            "the journal's first record is damaged: it was written atomically, so it was whole once"
        )
    for later in _find(data, RECORD_MAGIC, position + 1):
        if _record_end(view, later) is not None and RECORD.unpack_from(view, later)[1] > number + 1:
            raise JournalDamaged(
                f"the journal is damaged at byte {position}: a whole record follows at byte {later}"
            )
    return items, number, position


def _check_newer(head: bytes, layout: Struct, of: Format) -> None:
    """Raise NewerFormat where a later release has written a record or a snapshot. It has another
    digit in its magic; the size of the head and its checksum stay where they are for all releases.
    """
    of_ours = RECORD_MAGIC if of is METADATA_JOURNAL else SNAPSHOT_MAGIC
    if len(head) == layout.size + CHECK.size and head[:3] == of_ours[:3] and head[3:4].isdigit():
        (check,) = CHECK.unpack_from(head, layout.size)
        if crc32c(head[: layout.size]) == check:
            of.check(int(head[3:4]), of.place)


def _record_end(view: memoryview, position: int, number: int | None = None) -> int | None:
    """Return the end of the record that begins at `position`; None if there is no whole record of
    that number.
    """
    try:
        magic, found, size, crc = RECORD.unpack_from(view, position)
        (check,) = CHECK.unpack_from(view, position + RECORD.size)
    except error:
        return None
    if (
        magic != RECORD_MAGIC
        or crc32c(view[position : position + RECORD.size]) != check
        or number not in (None, found)
    ):
        return None
    begin = position + RECORD_HEAD
    body = view[begin : begin + size]
    return begin + size if len(body) == size and crc32c(body) == crc else None


def _items(body: memoryview) -> Iterator[Item]:
    position = 0
    while position < len(body):
        kind, a, b, size = ITEM.unpack_from(body, position)
        position += ITEM.size
        yield Item(kind, a, b, bytes(body[position : position + size]))
        position += size


def _find(data: bytes, what: bytes, start: int) -> Iterator[int]:
    while (start := data.find(what, start)) >= 0:
        yield start
        start += 1


def encode_snapshot(index: int, term: int, state: bytes) -> bytes:
    magic = WITH_VOTERS if state[:1] == SET_BEFORE_STATE else SNAPSHOT_MAGIC
    head = SNAPSHOT.pack(magic, index, term, len(state), crc32c(state))
    return b"".join([head, CHECK.pack(crc32c(head)), state])


def decode_snapshot_head(data: bytes) -> SnapshotHead:
    """Raises JournalDamaged, NewerFormat."""
    _check_newer(data[:SNAPSHOT_HEAD], SNAPSHOT, SNAPSHOT_FILE)
    try:
        magic, index, term, size, crc = SNAPSHOT.unpack_from(data)
        (check,) = CHECK.unpack_from(data, SNAPSHOT.size)
    except error:
        raise JournalDamaged("the snapshot is cut short") from None
    if magic not in (SNAPSHOT_MAGIC, WITH_VOTERS) or crc32c(data[: SNAPSHOT.size]) != check:
        raise JournalDamaged("the snapshot's head is damaged")
    return SnapshotHead(index, term, size, crc)


def flatten(items: Iterable[Sequence[bytes]]) -> list[Buffer]:
    return [piece for item in items for piece in item]
