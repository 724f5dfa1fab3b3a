"""Counters of a working node: plain numbers, cheap enough for the hot path. Knows no exporter:
`/metrics` reads them (snapshot.py).
"""

from bisect import bisect_left
from collections.abc import Callable

from raftka.limits import Limit

# upper bounds of a histogram's buckets
BOUNDS_S = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
)
FAST_S = BOUNDS_S[0]
# of the answers that a plan gives at once, one in so many is timed: two readings of the clock would
# be a tenth of its cost
SAMPLED = 16


class Latency:
    """A histogram of durations."""

    __slots__ = ("at_once", "fast", "slots", "sum_s")

    def __init__(self) -> None:
        # answered by a plan within the turn; every sixteenth stands for all in the sum
        self.at_once = 0
        self.fast = 0  # the first bucket, without those
        self.slots = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def add(self, took_s: float) -> None:
        self.sum_s += took_s
        if took_s < FAST_S:
            self.fast += 1
        else:
            self.slots[bisect_left(BOUNDS_S, took_s)] += 1

    @property
    def count(self) -> int:
        return self.at_once + self.fast + sum(self.slots)

    @property
    def buckets(self) -> tuple[int, ...]:
        """One number for each of BOUNDS_S, and one for what took longer still."""
        return (self.at_once + self.fast, *self.slots[1:])


class Metrics:
    __slots__ = (
        "_hit",
        "certificates",
        "commits",
        "connections_made",
        "counters",
        "flushes",
        "held",
        "lateness",
        "of_topics",
        "parked_fetches",
        "parked_share_fetches",
        "replication_bytes_in",
        "replication_bytes_out",
        "requests",
        "turns",
    )

    def __init__(self, hit: Callable[[Limit], None] = lambda limit: None) -> None:
        """`hit` reports limits that have no other report."""
        self._hit = hit
        self.counters: dict[str, int] = {}
        # counters by name and topic; only of topics that there are
        self.of_topics: dict[tuple[str, str], int] = {}
        self.connections_made = 0
        # when they end, seconds since the epoch, by listener
        self.certificates: dict[str, int] = {}
        self.parked_fetches = self.parked_share_fetches = 0  # now
        # by kind, from the bytes' arrival to the answer's place among those that leave
        self.requests: dict[str, Latency] = {}
        self.replication_bytes_in = self.replication_bytes_out = 0
        self.flushes = Latency()
        self.turns = Latency()  # of the loop
        self.held = Latency()  # answers that named a suspected broker
        self.lateness = Latency()  # of delayed records, from their time to their append
        self.commits = Latency()  # of metadata entries, while this node is the controller

    def count(self, name: str, by: int = 1) -> None:
        self.counters[name] = self.counters.get(name, 0) + by

    def count_of_topic(self, name: str, topic: str | None) -> None:
        """With None, of a topic that is not here: strangers can name as many as they like, those
        count in the sum alone.
        """
        self.count(name)
        if topic is not None:
            self.of_topics[name, topic] = self.of_topics.get((name, topic), 0) + 1

    def partition_gone(
        self, messages_in: int, bytes_in: int, bytes_out: int, produced: int, fetched: int
    ) -> None:
        """The sums over all topics keep what it had: a counter never goes back."""
        self.count("kafka_server_brokertopicmetrics_messagesin_total", messages_in)
        self.count("kafka_server_brokertopicmetrics_bytesin_total", bytes_in)
        self.count("kafka_server_brokertopicmetrics_bytesout_total", bytes_out)
        self.count("kafka_server_brokertopicmetrics_totalproducerequests_total", produced)
        self.count("kafka_server_brokertopicmetrics_totalfetchrequests_total", fetched)

    def refused(self, limit: Limit) -> None:
        """Count a refusal by a limit; the caller logs it."""
        self.count(limit.metric)

    def hit(self, limit: Limit) -> None:
        """The same, where it can happen a thousand times a second: the log has a line a minute."""
        self.count(limit.metric)
        self._hit(limit)

    def latency(self, name: str) -> Latency:
        """Requests of that name: an API's, and the two sorts of Fetch."""
        known = self.requests.get(name)
        if known is None:
            known = self.requests[name] = Latency()
        return known
