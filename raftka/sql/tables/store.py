"""The newest record of each key, in a file of SQLite that has no name: it ends with its process,
and nobody else can open it. Knows no topic.
"""

import sqlite3
import threading
from collections.abc import Iterable
from typing import NamedTuple

PAGE_BYTES = 4096
CACHE_KIB = 32 << 10  # of the file, in memory
FULL = "SQLITE_FULL"
TABLE = """CREATE TABLE records (
    wanted BLOB, key BLOB, partition INTEGER, offset INTEGER, value BLOB, PRIMARY KEY (wanted, key)
)"""
PUT = "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?)"
REMOVE = "DELETE FROM records WHERE wanted = ? AND key = ?"
FIND = "SELECT partition, offset, value, key FROM records WHERE wanted = ?"


class StoreFull(Exception):
    """The file would be larger than it may be, or the disk is full. The store is of no use then."""


class Kept(NamedTuple):
    """A record as the store keeps it. `wanted`: the bytes that a question names it by; several
    keys may have the same.
    """

    wanted: bytes
    key: bytes
    partition: int
    offset: int
    value: bytes | None  # None: its key has no row any more


class Found(NamedTuple):
    partition: int
    offset: int
    value: bytes
    key: bytes


class RecordStore:
    """May be used by several threads."""

    def __init__(self, most_bytes: int) -> None:
        self._lock = threading.Lock()
        # a file without a name: SQLite removes it as soon as it is open
        database = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._database: sqlite3.Connection | None = database
        for setting in (
            f"page_size = {PAGE_BYTES}",
            f"max_page_count = {max(1, most_bytes // PAGE_BYTES)}",
            f"cache_size = -{CACHE_KIB}",
            "synchronous = OFF",
        ):
            database.execute(f"PRAGMA {setting}")
        with self._lock:
            self._write([(TABLE, ())])

    def put(self, records: Iterable[Kept]) -> None:
        """Keep records of a batch, the oldest first. Raise StoreFull."""
        with self._lock:
            self._write(
                (REMOVE, each[:2]) if each.value is None else (PUT, each) for each in records
            )

    def find(self, wanted: bytes) -> list[Found] | None:
        """Return the records that a question names so; None: the store is closed."""
        with self._lock:
            if self._database is None:
                return None
            return [Found(*row) for row in self._database.execute(FIND, (wanted,))]

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _write(self, statements: Iterable[tuple[str, tuple[object, ...]]]) -> None:
        assert self._database is not None, "its writer closes it"
        try:
            self._database.execute("BEGIN")
            for statement, values in statements:
                self._database.execute(statement, values)
            self._database.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != FULL:
                raise
            raise StoreFull from None
