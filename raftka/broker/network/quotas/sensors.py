"""Recent consumption of each user or client id with a quota. Their number is bounded; those used
longest ago are forgotten first.
"""

from collections import OrderedDict

from raftka.broker.context import BrokerContext
from raftka.broker.network.quotas.precedence import Counted
from raftka.broker.network.quotas.rate import Rate, TokenBucket, Window
from raftka.limits import QUOTA_SENSORS


class Sensors:
    def __init__(self, context: BrokerContext) -> None:
        settings = context.metadata.settings
        self.clock = context.runtime.clock
        self.window = Window(settings["quota.window.num"], settings["quota.window.size.seconds"])
        self._mutation_window = Window(
            settings["controller.quota.window.num"],
            settings["controller.quota.window.size.seconds"],
        )
        self._metrics = context.metrics
        # used longest ago first
        self._sensors: OrderedDict[Counted, Rate | TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sensors)

    def clear(self) -> None:
        self._sensors.clear()

    def rate(self, counted: Counted) -> Rate:
        sensor = self._sensors.get(counted)
        if isinstance(sensor, Rate):
            self._sensors.move_to_end(counted)
            return sensor
        rate = Rate(self.window)
        self._add(counted, rate)
        return rate

    def bucket(self, counted: Counted) -> TokenBucket:
        sensor = self._sensors.get(counted)
        if isinstance(sensor, TokenBucket):
            self._sensors.move_to_end(counted)
            return sensor
        bucket = TokenBucket(self._mutation_window)
        self._add(counted, bucket)
        return bucket

    def _add(self, counted: Counted, sensor: Rate | TokenBucket) -> None:
        """Add a sensor. Drop up to two idle ones, which a new sensor could replace: so they go as
        others come.
        """
        now, sensors = self.clock.now(), self._sensors
        for _ in range(2):
            oldest = next(iter(sensors), None)
            if oldest is None or not sensors[oldest].is_idle(now):
                break
            del sensors[oldest]
        if len(sensors) >= QUOTA_SENSORS.value:
            self._metrics.hit(QUOTA_SENSORS)
            sensors.popitem(last=False)
        sensors[counted] = sensor
