"""Offsets that producers have committed in transactions which are not over (KIP-98): they count
when the transaction is committed.

Of two commits of a partition the later one in the log wins, whichever transaction is over first; a
tombstone drops the pending offset too.
"""

from collections.abc import Collection
from itertools import count
from typing import NamedTuple

from raftka.coordinator.records import CommittedOffset

Key = tuple[str, str, int]  # group, topic, partition


class Pending(NamedTuple):
    order: int  # of its record in the log
    committed: CommittedOffset


class PendingOffsets:
    __slots__ = ("_of_groups", "_of_producers", "_order")

    def __init__(self) -> None:
        self._order = count()
        # None: a later commit has won
        self._of_producers: dict[int, dict[Key, Pending | None]] = {}
        # the producers, by partition
        self._of_groups: dict[str, dict[tuple[str, int], set[int]]] = {}

    def add(self, producer_id: int, key: Key, committed: CommittedOffset) -> None:
        self._of_producers.setdefault(producer_id, {})[key] = Pending(next(self._order), committed)
        group_id, topic, partition = key
        self._of_groups.setdefault(group_id, {}).setdefault((topic, partition), set()).add(
            producer_id
        )

    def partitions(self, group_id: str) -> Collection[tuple[str, int]]:
        """Return the group's partitions that have a pending offset of any producer."""
        return self._of_groups.get(group_id, {}).keys()

    def committed(self, key: Key) -> None:
        """Drop a partition's pending offsets: a later commit without a transaction has won."""
        for producer_id in self._of_groups.get(key[0], {}).get(key[1:], ()):
            self._of_producers[producer_id][key] = None

    def deleted(self, key: Key) -> None:
        """Forget the pending offsets of a partition: its offset was deleted."""
        for producer_id in self._remove(key):
            del self._of_producers[producer_id][key]

    def end(self, producer_id: int, *, commit: bool) -> list[tuple[Key, CommittedOffset]]:
        """End a producer's transaction, and forget its pending offsets. Return the offsets that
        count from now on.
        """
        found = []
        for key, pending in self._of_producers.pop(producer_id, {}).items():
            producers = self._of_groups[key[0]][key[1:]]
            producers.discard(producer_id)
            if commit and pending is not None:
                found.append((key, pending.committed))
                self._overtake(producers, key, pending.order)
            if not producers:
                self._remove(key)
        return found

    def _overtake(self, producers: set[int], key: Key, order: int) -> None:
        for producer_id in producers:
            other = self._of_producers[producer_id][key]
            if other is not None and other.order < order:
                self._of_producers[producer_id][key] = None

    def _remove(self, key: Key) -> set[int]:
        partitions = self._of_groups.get(key[0], {})
        producers = partitions.pop(key[1:], set())
        if not partitions:
            self._of_groups.pop(key[0], None)
        return producers
