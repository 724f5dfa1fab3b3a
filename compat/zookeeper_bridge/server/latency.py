"""Latency of writes, as ZooKeeper's monitoring shows it."""


class Latency:
    """Latency of writes, from the request to its result, in ms. Reads have none: they are answered
    in the turn in which they come.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.least = self.most = self._sum = 0.0
        self._count = 0

    def took(self, ms: float) -> None:
        self.least = min(self.least, ms) if self._count else ms
        self.most = max(self.most, ms)
        self._sum += ms
        self._count += 1

    @property
    def average(self) -> float:
        return round(self._sum / max(1, self._count), 4)
