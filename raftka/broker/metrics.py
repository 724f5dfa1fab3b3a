"""Plain counters of one node, by name. Knows no exporter: /metrics reads them."""

from raftka.limits import Limit


class Metrics:
    __slots__ = ("counters", "gauges")

    def __init__(self) -> None:
        self.counters: dict[str, int] = {}
        self.gauges: dict[str, float] = {}

    def count(self, name: str, by: int = 1) -> None:
        self.counters[name] = self.counters.get(name, 0) + by

    def refused(self, limit: Limit) -> None:
        """Somebody hit a limit."""
        self.count(limit.metric)
