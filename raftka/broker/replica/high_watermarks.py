"""The high watermarks of a node's partitions, as a checkpoint reads them."""

from collections.abc import Iterator, Mapping

from raftka.broker.replica.partition import Partition


class HighWatermarks(Mapping[tuple[str, int], int]):
    """The present high watermarks, by topic and partition."""

    def __init__(self, partitions: Mapping[tuple[str, int], Partition]) -> None:
        self._partitions = partitions

    def __getitem__(self, key: tuple[str, int]) -> int:
        return self._partitions[key].high_watermark

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)
