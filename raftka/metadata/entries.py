"""A package's entries as an immutable map: a change makes a new map, at a cost proportional to the
change and not to the map.

Keys are spread over buckets; a change shares all other buckets with the map before.
"""

from collections.abc import Iterator, Mapping
from zlib import crc32

GROUPS, OF_GROUP = 32, 32
# of a million entries a change copies a thousand, and two lists of 32 buckets and groups
BUCKETS = GROUPS * OF_GROUP
Bucket = dict[bytes, bytes]


class Entries(Mapping[bytes, bytes]):
    __slots__ = ("_count", "_groups")

    def __init__(self, entries: Mapping[bytes, bytes] | None = None) -> None:
        # of one empty bucket and group: none is changed in place
        self._groups: list[list[Bucket]] = [[{}] * OF_GROUP] * GROUPS
        self._count = 0
        if entries:
            self._change(entries)

    def changed(self, changes: Mapping[bytes, bytes | None]) -> "Entries":
        """Return a map with these values; the value None removes a key."""
        after = Entries.__new__(Entries)
        after._groups, after._count = self._groups.copy(), self._count
        after._change(changes)
        return after

    def _change(self, changes: Mapping[bytes, bytes | None]) -> None:
        own_groups: dict[int, list[Bucket]] = {}
        own: dict[int, Bucket] = {}
        for key, value in changes.items():
            number = crc32(key) % BUCKETS
            place, at = divmod(number, GROUPS)
            group = own_groups.get(at)
            if group is None:
                group = own_groups[at] = self._groups[at] = self._groups[at].copy()
            bucket = own.get(number)
            if bucket is None:
                bucket = own[number] = group[place] = group[place].copy()
            self._count -= len(bucket)
            if value is None:
                bucket.pop(key, None)
            else:
                bucket[key] = value
            self._count += len(bucket)

    def __getitem__(self, key: bytes) -> bytes:
        number = crc32(key) % BUCKETS
        return self._groups[number % GROUPS][number // GROUPS][key]

    def __iter__(self) -> Iterator[bytes]:
        for place in range(OF_GROUP):
            for group in self._groups:
                yield from group[place]

    def __len__(self) -> int:
        return self._count
