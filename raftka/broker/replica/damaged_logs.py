"""Logs that have lost records from the disk while other replicas have them: they are not opened
before this broker has left their ISRs.

Until then the broker is fenced, so that it does not lead with an incomplete log; then each log is
opened, and fetches the lost records from its leader.
"""

from raftka.broker.context import BrokerContext
from raftka.broker.controller.broker_lifecycle import BrokerLifecycle
from raftka.log.recovery import Damaged
from raftka.metadata.commands import ReplicasLost, by_topic
from raftka.metadata.image import TopicImage
from raftka.wire.errors import Code, KafkaError

RETRY_S = 1.0
REASON = "logs have lost records that were on disk"


class DamagedLogs:
    def __init__(self, context: BrokerContext, lifecycle: BrokerLifecycle) -> None:
        self.context = context
        self.lifecycle = lifecycle
        self._doubtful: dict[tuple[bytes, int], None] = {}  # topic id, partition
        self._reporting = False

    def add(self, topic: TopicImage, index: int, damage: Damaged) -> None:
        key = topic.topic_id, index
        if key not in self._doubtful:
            self._doubtful[key] = None
            self.context.events.error(
                "log_damaged",
                partition=f"{topic.name}-{index}",
                error=str(damage),
                until="it has left the ISR",
            )
            self.context.metrics.count("raftka_log_failures_total")
            self.lifecycle.withdraw(REASON)
            self.report()

    def discard(self, topic_id: bytes, index: int) -> None:
        """Forget the log: it is open, or another broker's."""
        if (topic_id, index) in self._doubtful:
            del self._doubtful[topic_id, index]
            if not self._doubtful:
                self.lifecycle.come_back(REASON)

    def discard_topic(self, topic_id: bytes) -> None:
        for _, index in [key for key in self._doubtful if key[0] == topic_id]:
            self.discard(topic_id, index)

    def report(self) -> None:
        """Report the logs to the controller; called again after a registration, because earlier
        reports were of another broker epoch.
        """
        if self._doubtful and not self._reporting:
            self._reporting = True
            self.context.runtime.clock.at_turn_end(self._send_report)

    def _send_report(self) -> None:
        self._reporting = False
        lifecycle = self.lifecycle
        if self._doubtful and lifecycle.broker_epoch >= 0:
            lifecycle.controller.call(
                ReplicasLost(
                    self.context.node_id, lifecycle.broker_epoch, by_topic(self._doubtful)
                ),
                self._reported,
            )

    def _reported(self, error: KafkaError | None, _: object) -> None:
        # after these two the broker registers again, and `report` is called then
        if error is not None and error.code not in (
            Code.STALE_BROKER_EPOCH,
            Code.BROKER_ID_NOT_REGISTERED,
        ):
            clock = self.context.runtime.clock
            clock.call_at(clock.now() + RETRY_S, self.report)
