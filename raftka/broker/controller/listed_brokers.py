"""The brokers that Metadata lists: those that are not fenced, and for LISTED_S those whose fencing
this node has just seen.

librdkafka forgets a broker that is not listed any more, and for a second also the partitions that
move away from it. So a broker that died stays listed for a while beside the new leaders. A broker
that ended in order led no partition any more, and is not listed when it is gone.
"""

from raftka.broker.context import BrokerContext
from raftka.metadata.image import BrokerImage, Delta, MetadataImage

LISTED_S = 5.0


class ListedBrokers:
    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._now = context.runtime.clock.now
        self._unfenced: dict[int, int] = {}  # epochs of registrations, by broker
        # epoch of a registration that was fenced, and how long the broker stays listed
        self._until: dict[int, tuple[int, float]] = {}

    def on_image(self, image: MetadataImage, delta: Delta) -> None:
        for broker_id in (
            tuple(image.brokers.keys() | self._unfenced.keys())
            if delta.reloaded
            else delta.brokers_changed
        ):
            broker = image.brokers.get(broker_id)
            epoch = self._unfenced.pop(broker_id, None)
            if broker is not None and not broker.fenced:
                self._unfenced[broker_id] = broker.epoch
            elif broker is not None and broker.epoch == epoch and not broker.shutting_down:
                self._until[broker_id] = epoch, self._now() + LISTED_S
            if broker is None or not broker.fenced:
                self._until.pop(broker_id, None)

    def of(self, image: MetadataImage) -> list[BrokerImage]:
        return [
            broker for broker in image.brokers.values() if not broker.fenced or self._died(broker)
        ]

    def _died(self, broker: BrokerImage) -> bool:
        epoch, until = self._until.get(broker.broker_id, (-1, 0.0))
        return broker.epoch == epoch and self._now() < until
