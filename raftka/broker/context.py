"""The parts of a broker's state that every part of it may have: node id, runtime, event log, metrics, and the cached metadata.

A part gets the `BrokerContext` and the two or three parts that it works with. None gets the node.
"""

from raftka.broker.telemetry.event_log import BoundedRate, Events
from raftka.broker.telemetry.metrics import Metrics
from raftka.client.connection import Login
from raftka.metadata.configs.describe import BrokerRows, TopicRows
from raftka.metadata.configs.settings import NodeSettings, TopicConfigs
from raftka.metadata.image import MetadataImage
from raftka.runtime.interfaces import SECRETS, Runtime


class MetadataCache:
    """The image of the last committed entry that this node has, and the settings that follow from it."""

    def __init__(self, settings: NodeSettings) -> None:
        self.image = MetadataImage()
        self.settings = settings
        self.published = False  # the partitions follow the image; not before it has this node's own registration: what came before is history
        self.topic_configs = TopicConfigs(settings)
        self.topic_rows, self.broker_rows = TopicRows(), BrokerRows()


class BrokerContext:
    def __init__(self, runtime: Runtime, settings: NodeSettings, events: Events, metrics: Metrics) -> None:
        self.node_id = settings.node_id
        self.incarnation_id = runtime.random("ids").randbytes(16)
        self.runtime = runtime
        self.events = events
        self.metrics = metrics
        self.metadata = MetadataCache(settings)
        self.batch_refused = BoundedRate(events.debug, "batch_refused", runtime.clock.now)
        self._secrets = runtime.random(SECRETS)
        self.stopping = False  # a controlled shutdown has begun
        self.stopped = False  # the logs are closed: what is committed from now on is for the next process

    def login(self) -> Login | None:
        """How this node logs in at other brokers; None where their listener has no SASL."""
        return self.metadata.settings.between_brokers.login(self._secrets)
