"""The aborted transactions of one segment, in Kafka's file format: those whose markers lie in it.
Readers of what is committed leave them out.

Entries live in memory, in the order of their markers, and are written behind the records, as those
of the other indexes. They are in blocks, of which the lowest first offset is known: a search passes
over those that end above it, so it costs what it finds, also under a long transaction.
"""

from bisect import bisect_left
from operator import attrgetter
from struct import Struct
from typing import NamedTuple

from raftka.versions import TRANSACTION_INDEX

ENTRY = Struct(">hqqqq")  # version, and the fields of AbortedTransaction
VERSION = 0
BLOCK = 128  # entries


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int  # of the marker
    # when the marker was written: no transaction that begins before it has its marker behind this
    # one
    last_stable_offset: int


_last_offset = attrgetter("last_offset")
_last_stable_offset = attrgetter("last_stable_offset")  # it never goes back


class TransactionIndex:
    __slots__ = ("_lowest", "entries", "written")

    def __init__(self, data: bytes = b"") -> None:
        """Of the file; what is cut or is no entry is left out, with all behind it. Raises
        NewerFormat.
        """
        self.entries: list[AbortedTransaction] = []
        self._lowest: list[int] = []  # first offset of each block
        for version, *fields in ENTRY.iter_unpack(data[: len(data) - len(data) % ENTRY.size]):
            TRANSACTION_INDEX.check(version, "a transaction index")
            entry = AbortedTransaction(*fields)
            if (
                version != VERSION
                or not 0 <= entry.first_offset < entry.last_offset
                or entry.last_offset <= self.last_offset
            ):
                break
            self.append(entry)
        self.written = len(self.entries)  # entries the file has

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def last_offset(self) -> int:
        """Of the last marker; -1 when there is none."""
        return self.entries[-1].last_offset if self.entries else -1

    def append(self, entry: AbortedTransaction) -> None:
        if len(self.entries) % BLOCK == 0:
            self._lowest.append(entry.first_offset)
        elif entry.first_offset < self._lowest[-1]:
            self._lowest[-1] = entry.first_offset
        self.entries.append(entry)

    def place_of(self, offset: int) -> int:
        """Of the first entry whose marker is at `offset` or behind it."""
        return bisect_left(self.entries, offset, key=_last_offset)

    def find(self, offset: int, end: int, found: list[AbortedTransaction]) -> bool:
        """Add those that may have records in [offset, end) to `found`; whether none can have its
        marker behind this segment.
        """
        entries = self.entries
        at = self.place_of(offset) if entries and entries[0].last_offset < offset else 0
        last = bisect_left(entries, end, at, key=_last_stable_offset)
        up_to = min(last + 1, len(entries))
        while at < up_to:
            block = at // BLOCK
            following = min((block + 1) * BLOCK, up_to)
            if self._lowest[block] < end:
                found += [entry for entry in entries[at:following] if entry.first_offset < end]
            at = following
        return last < len(entries)

    def first_aborted(self, offset: int) -> int:
        """No transaction whose marker is at `offset` or behind it, here or in a later segment,
        begins before this offset; -1: none is here.
        """
        place = self.place_of(offset)
        return (
            min(self.entries[place].first_offset, self.entries[place].last_stable_offset)
            if place < len(self.entries)
            else -1
        )

    def truncate(self, offset: int) -> None:
        """Forget transactions whose markers are at `offset` or beyond."""
        place = self.place_of(offset)
        begun = place - place % BLOCK
        again = self.entries[begun:place]
        del self.entries[begun:], self._lowest[begun // BLOCK :]
        for entry in again:
            self.append(entry)
        self.written = min(self.written, len(self.entries))

    def unwritten(self) -> bytes:
        return self.encoded(self.written)

    def encoded(self, start: int = 0) -> bytes:
        return b"".join([ENTRY.pack(VERSION, *entry) for entry in self.entries[start:]])
