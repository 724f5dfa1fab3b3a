"""One request of a client with quotas: what it takes, and how long its client must wait. Knows no
API.
"""

from raftka.broker.network.connection import ServerConnection
from raftka.broker.network.quotas.precedence import Applied, Bound
from raftka.broker.network.quotas.sensors import Sensors
from raftka.broker.telemetry.metrics import Metrics
from raftka.limits import THROTTLE_SECONDS
from raftka.wire.schema import Row

THROTTLE_TIME = "throttle_time_ms"
PERCENT = 100.0  # of the loop's time, in a second


class Meter:
    """Records what the request takes, puts the time to wait into its answer and mutes the
    connection for as long.
    """

    __slots__ = (
        "_began_s",
        "_clock",
        "_connection",
        "_is_judged",
        "_metrics",
        "_mine",
        "_muted_s",
        "_sensors",
        "throttle_s",
    )

    def __init__(
        self,
        sensors: Sensors,
        metrics: Metrics,
        connection: ServerConnection,
        mine: Applied,
        began_s: float,
    ) -> None:
        """Work on the request has begun at `began_s` of the CPU clock."""
        self._sensors = sensors
        self._metrics = metrics
        self._connection = connection
        self._clock = sensors.clock
        self._mine = mine
        self._began_s = began_s  # of work on the request that goes on now; -1: none does
        self._is_judged = False  # against request_percentage
        self._muted_s = 0.0
        self.throttle_s = 0.0

    # the loop's time

    def go_on(self) -> None:
        self._began_s = self._clock.cpu_s()

    def pause(self) -> None:
        """Work on the request has ended for now."""
        self._count_time()
        self._began_s = -1.0

    def spent(self, seconds: float) -> None:
        """CPU time of a slice of work on the request."""
        if (bound := self._mine.request) is not None:
            self._sensors.rate(bound.counted).record(seconds * PERCENT, self._clock.now())

    def _count_time(self) -> None:
        if self._began_s >= 0:
            now_s = self._clock.cpu_s()
            self.spent(now_s - self._began_s)
            self._began_s = now_s

    def _judge_time(self) -> None:
        """At most one sample of the window: what takes the loop's time is asked again soon."""
        if self._is_judged or (bound := self._mine.request) is None:
            return
        self._is_judged = True
        self._count_time()
        delay_s = self._sensors.rate(bound.counted).delay_s(bound.value, self._clock.now())
        self._wait(
            min(delay_s, self._sensors.window.sample_s),
            "raftka_throttled_by_request_percentage_total",
        )

    # records

    def produced(self, frame_bytes: int, acks: int) -> None:
        """The request has records, and is about to be carried out. It counts with all its bytes,
        and its connection is muted at once.
        """
        if (bound := self._mine.produce) is not None and (
            delay_s := self._record(bound, frame_bytes)
        ):
            self._wait(delay_s, "raftka_throttled_by_producer_byte_rate_total")
            self._mute()
        if acks == 0:
            self._mine = self._mine._replace(request=None)  # there is no answer to tell it with

    def bound_fetch(self, max_bytes: int, min_bytes: int) -> tuple[int, int]:
        """Both for records of an answer: no more than may be sent at once after a silence, and no
        wait for more.
        """
        if (bound := self._mine.fetch) is None:
            return max_bytes, min_bytes
        at_most = min(max_bytes, int(bound.value * self._sensors.window.at_once_s))
        return at_most, min(min_bytes, at_most)

    def may_send(self, answer_bytes: int) -> bool:
        """Count the answer to a Fetch. If it is too much now, take that back: then the answer shall
        be empty, and the client asks again later.

        An answer that is larger than all that fits into the window could never go. It goes when
        nothing else was sent in it.
        """
        bound = self._mine.fetch
        delay_s, alone = 0.0, False
        if bound is not None:
            rate = self._sensors.rate(bound.counted)
            alone = (
                rate.used(self._clock.now()) <= 0
                and answer_bytes > bound.value * self._sensors.window.full_s
            )
            delay_s = self._record(bound, answer_bytes)
            self._wait(delay_s, "raftka_throttled_by_consumer_byte_rate_total")
        self._judge_time()
        if not self.throttle_s or (alone and delay_s == self.throttle_s):
            return True
        if bound is not None:
            self._sensors.rate(bound.counted).record(-answer_bytes, self._clock.now())
        return False

    def _record(self, bound: Bound, size_bytes: int) -> float:
        rate, now = self._sensors.rate(bound.counted), self._clock.now()
        rate.record(size_bytes, now)
        return min(rate.delay_s(bound.value, now), THROTTLE_SECONDS.value)

    # topics and partitions

    def may_change(self, partitions: int, *, strictly: bool) -> bool:
        """Count partitions to be created or deleted. `strictly`: not while the bucket is
        overdrawn.
        """
        bound = self._mine.mutations
        if bound is None:
            return True
        bucket, now = self._sensors.bucket(bound.counted), self._clock.now()
        if strictly and (delay_s := bucket.delay_s(bound.value, now)):
            self._wait(
                min(delay_s, THROTTLE_SECONDS.value),
                "raftka_throttled_by_controller_mutation_rate_total",
            )
            return False
        bucket.record(partitions, bound.value, now)
        if not strictly:
            self._wait(
                min(bucket.delay_s(bound.value, now), THROTTLE_SECONDS.value),
                "raftka_throttled_by_controller_mutation_rate_total",
            )
        return True

    def may_create(self, partitions: int) -> bool:
        """Count partitions of a topic that was named and is not there. While the bucket is
        overdrawn it is not created, and nobody waits.
        """
        bound = self._mine.mutations
        if bound is None:
            return True
        bucket, now = self._sensors.bucket(bound.counted), self._clock.now()
        if bucket.delay_s(bound.value, now):
            return False
        bucket.record(partitions, bound.value, now)
        return True

    def not_changed(self, partitions: int) -> None:
        """The controller has refused what `may_change` has counted."""
        if (bound := self._mine.mutations) is not None:
            self._sensors.bucket(bound.counted).record(-partitions, bound.value, self._clock.now())

    # waiting

    def _wait(self, seconds: float, counter: str) -> None:
        if seconds >= 0.0005:  # half a millisecond: Kafka rounds
            self._metrics.count(counter)
            self.throttle_s = max(self.throttle_s, seconds)

    def tell(self, row: Row) -> None:
        """The answer is about to be encoded."""
        self._judge_time()
        if self.throttle_s:
            if THROTTLE_TIME in row.__slots__:
                throttle_ms = round(self.throttle_s * 1000)
                setattr(row, THROTTLE_TIME, throttle_ms)
                self._metrics.count("raftka_throttle_milliseconds_total", throttle_ms)
            self._mute()

    def _mute(self) -> None:
        if self.throttle_s > self._muted_s:
            self._muted_s = self.throttle_s
            self._connection.mute(self._clock.now() + round(self.throttle_s * 1000) / 1000)
