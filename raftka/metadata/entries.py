"""A package's entries as an immutable map: a change makes a new map, at a cost proportional to the change and not to the map.

Keys are spread over buckets; those that nothing changes in are shared with the map before. Knows no record.
"""

from collections.abc import Iterator, Mapping
from zlib import crc32

BUCKETS = 1024  # of a million entries a change copies a thousand


class Entries(Mapping[bytes, bytes]):
    __slots__ = ("_buckets", "_count")

    def __init__(self, entries: Mapping[bytes, bytes] | None = None) -> None:
        self._buckets: list[dict[bytes, bytes]] = [{}] * BUCKETS  # the one empty bucket: none is ever changed in place
        self._count = 0
        if entries:
            self._change(entries)

    def changed(self, changes: Mapping[bytes, bytes | None]) -> "Entries":
        """With these values; None: without that key."""
        after = Entries()
        after._buckets, after._count = self._buckets.copy(), self._count
        after._change(changes)
        return after

    def _change(self, changes: Mapping[bytes, bytes | None]) -> None:
        own: dict[int, dict[bytes, bytes]] = {}
        for key, value in changes.items():
            at = crc32(key) % BUCKETS
            bucket = own.get(at)
            if bucket is None:
                bucket = own[at] = self._buckets[at] = self._buckets[at].copy()
            self._count -= len(bucket)
            if value is None:
                bucket.pop(key, None)
            else:
                bucket[key] = value
            self._count += len(bucket)

    def __getitem__(self, key: bytes) -> bytes:
        return self._buckets[crc32(key) % BUCKETS][key]

    def __iter__(self) -> Iterator[bytes]:
        for bucket in self._buckets:
            yield from bucket

    def __len__(self) -> int:
        return self._count
