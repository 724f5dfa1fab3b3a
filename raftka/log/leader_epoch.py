"""First offsets of leader epochs (KIP-101, KIP-320), by which replicas are truncated. Knows no log,
no replica.
"""

from bisect import bisect_right

NONE = (-1, -1)


class LeaderEpochs:
    """Epochs and their first offsets, both strictly rising. A log's batches carry the same
    knowledge; this is its index.
    """

    __slots__ = ("dirty", "epochs", "latest", "starts")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self.epochs: list[int] = []
        self.starts: list[int] = []
        self.latest = -1  # the last epoch; -1: none
        self.dirty = False  # the checkpoint file says something else
        for epoch, start in entries or []:
            self.assign(epoch, start)
        self.dirty = False

    def assign(self, epoch: int, start_offset: int) -> None:
        """`epoch` writes from `start_offset` on. Epochs that never wrote a record before it are
        forgotten.
        """
        if epoch <= self.latest:
            return
        self.truncate_from_end(start_offset)
        self.epochs.append(epoch)
        self.starts.append(start_offset)
        self.latest = epoch
        self.dirty = True

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """KIP-320: the largest epoch <= the asked one, and where it ends. (-1, -1): newer than
        anything here, or nothing known.

        An epoch older than the first known one is answered with itself and the first start:
        everything below is common or gone.
        """
        if epoch < 0 or not self.epochs or epoch > self.epochs[-1]:
            return NONE
        if epoch == self.epochs[-1]:
            return epoch, log_end_offset
        following = bisect_right(self.epochs, epoch)
        return (self.epochs[following - 1] if following else epoch), self.starts[following]

    def of_offset(self, offset: int) -> int:
        """The epoch that wrote `offset`, -1 when unknown."""
        slot = bisect_right(self.starts, offset) - 1
        return self.epochs[slot] if slot >= 0 else -1

    def truncate_from_end(self, end_offset: int) -> None:
        """The log ends at `end_offset` now: epochs that began there or later are gone."""
        while self.starts and self.starts[-1] >= end_offset:
            self.starts.pop()
            self.epochs.pop()
            self.latest = self.epochs[-1] if self.epochs else -1
            self.dirty = True

    def truncate_from_start(self, start_offset: int) -> None:
        """The log starts at `start_offset` now: the epoch it lies in begins there."""
        gone = bisect_right(self.starts, start_offset)
        if gone == 0 or self.starts[gone - 1] == start_offset == self.starts[0]:
            return
        del self.epochs[: gone - 1], self.starts[: gone - 1]
        self.starts[0] = start_offset
        self.dirty = True

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self.epochs, self.starts, strict=True))
