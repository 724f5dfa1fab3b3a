"""The aborted transactions of one segment, in Kafka's file format: those whose markers lie in it. Readers of what is committed leave them out.

Entries live in memory, in the order of their markers, and are written behind the records, as those of the other indexes.
"""

from bisect import bisect_left
from operator import attrgetter
from struct import Struct
from typing import NamedTuple

ENTRY = Struct(">hqqqq")  # version, and the fields of AbortedTransaction
VERSION = 0


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int  # of the marker
    last_stable_offset: int  # when the marker was written: no transaction that begins before it has its marker behind this one


_last_offset = attrgetter("last_offset")


class TransactionIndex:
    __slots__ = ("entries", "written")

    def __init__(self, data: bytes = b"") -> None:
        """Of the file; what is cut or is no entry is left out, with all behind it."""
        self.entries: list[AbortedTransaction] = []
        for version, *fields in ENTRY.iter_unpack(data[: len(data) - len(data) % ENTRY.size]):
            entry = AbortedTransaction(*fields)
            if version != VERSION or not 0 <= entry.first_offset < entry.last_offset or entry.last_offset <= self.last_offset:
                break
            self.entries.append(entry)
        self.written = len(self.entries)  # entries the file has

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def last_offset(self) -> int:
        """Of the last marker; -1 when there is none."""
        return self.entries[-1].last_offset if self.entries else -1

    def append(self, entry: AbortedTransaction) -> None:
        self.entries.append(entry)

    def place_of(self, offset: int) -> int:
        """Of the first entry whose marker is at `offset` or behind it."""
        return bisect_left(self.entries, offset, key=_last_offset)

    def truncate(self, offset: int) -> None:
        """Forget transactions whose markers are at `offset` or beyond."""
        del self.entries[self.place_of(offset) :]
        self.written = min(self.written, len(self.entries))

    def unwritten(self) -> bytes:
        return self.encoded(self.written)

    def encoded(self, start: int = 0) -> bytes:
        return b"".join([ENTRY.pack(VERSION, *entry) for entry in self.entries[start:]])
