"""Offsets that producers have committed in transactions which are not over (KIP-98): they count when the transaction is committed.

A plain commit of the same partition that comes later in the log wins; a tombstone drops the pending offset too.
"""

from collections.abc import Collection

from raftka.coordinator.records import CommittedOffset

Key = tuple[str, str, int]  # group, topic, partition


class PendingOffsets:
    __slots__ = ("_of_groups", "_of_producers")

    def __init__(self) -> None:
        self._of_producers: dict[int, dict[Key, CommittedOffset | None]] = {}  # None: a later commit has won
        self._of_groups: dict[str, dict[tuple[str, int], set[int]]] = {}  # the producers, by partition

    def add(self, producer_id: int, key: Key, committed: CommittedOffset) -> None:
        self._of_producers.setdefault(producer_id, {})[key] = committed
        group_id, topic, partition = key
        self._of_groups.setdefault(group_id, {}).setdefault((topic, partition), set()).add(producer_id)

    def partitions(self, group_id: str) -> Collection[tuple[str, int]]:
        """Those of the group that have a pending offset of anybody."""
        return self._of_groups.get(group_id, {}).keys()

    def committed(self, key: Key) -> None:
        """Somebody has committed this partition, not in a transaction."""
        for producer_id in self._of_groups.get(key[0], {}).get(key[1:], ()):
            self._of_producers[producer_id][key] = None

    def deleted(self, key: Key) -> None:
        """The partition's offset was deleted."""
        for producer_id in self._remove(key):
            del self._of_producers[producer_id][key]

    def end(self, producer_id: int) -> dict[Key, CommittedOffset | None]:
        """The transaction is over: what the producer had pending, which is so no more."""
        keys = self._of_producers.pop(producer_id, {})
        for key in keys:
            producers = self._of_groups[key[0]][key[1:]]
            producers.discard(producer_id)
            if not producers:
                self._remove(key)
        return keys

    def _remove(self, key: Key) -> set[int]:
        partitions = self._of_groups.get(key[0], {})
        producers = partitions.pop(key[1:], set())
        if not partitions:
            self._of_groups.pop(key[0], None)
        return producers
