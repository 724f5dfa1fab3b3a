"""Throttled replicas and their rates: settings of the topics and of this broker (KIP-73). Decides
nothing about a fetch.

Only replicas that catch up are throttled and counted: an in-sync replica is needed for the next
acknowledgement.
"""

from collections.abc import Callable, Mapping

from raftka.broker.context import BrokerContext
from raftka.broker.replica.partition import Partition
from raftka.metadata.configs.settings import TopicConfig
from raftka.metadata.configs.topic import FOREVER
from raftka.metadata.image import TOPIC
from raftka.replication.throttle import Throttle

Names = tuple[str, ...]


class Throttled:
    """The partitions that one of the topics' two settings names, each as partition:broker, or all
    of them as *.
    """

    def __init__(self, me: int, read: Callable[[str], Names]) -> None:
        self.me = me
        self.read = read
        # by topic: all that it sets, and the names of this setting
        self._known: dict[str, tuple[Mapping[str, str], Names]] = {}

    def has(self, topic: str, index: int, configs: Mapping[str, str]) -> bool:
        """Return whether the setting names the partition on this broker. `configs`: all that the
        topic sets; the same object as long as nothing changes.
        """
        known = self._known.get(topic)
        if known is None or known[0] is not configs:
            known = self._known[topic] = (configs, self.read(topic))
        return "*" in known[1] or f"{index}:{self.me}" in known[1]


class ReplicationThrottles:
    def __init__(self, context: BrokerContext) -> None:
        self.context = context
        self.clock = context.runtime.clock
        self.sent, self.taken = Throttle(), Throttle()
        self._leaders = Throttled(
            context.node_id,
            lambda topic: self._topic(topic).values["leader.replication.throttled.replicas"],
        )
        self._followers = Throttled(
            context.node_id,
            lambda topic: self._topic(topic).values["follower.replication.throttled.replicas"],
        )

    def sends(self, partition: Partition) -> Throttle | None:
        """Return the throttle of followers that catch up with this leader; None: there is none."""
        return self._of(
            partition,
            self._leaders,
            self.sent,
            self.context.metadata.settings["leader.replication.throttled.rate"],
        )

    def takes(self, partition: Partition) -> Throttle | None:
        """Return the throttle of this follower while it catches up; None: there is none."""
        return self._of(
            partition,
            self._followers,
            self.taken,
            self.context.metadata.settings["follower.replication.throttled.rate"],
        )

    def _of(
        self, partition: Partition, throttled: Throttled, throttle: Throttle, rate: int
    ) -> Throttle | None:
        if rate == FOREVER or not throttled.has(
            partition.topic,
            partition.index,
            self.context.metadata.image.config(TOPIC, partition.topic),
        ):
            return None
        throttle.set_rate(rate, self.clock.now())
        return throttle

    def _topic(self, topic: str) -> TopicConfig:
        return self.context.metadata.topic_configs.of(self.context.metadata.image, topic)
