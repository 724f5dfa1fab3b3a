"""The parts of a broker's state that every part of it may have: node id, runtime, event log,
metrics, and the cached metadata.

A part gets the `BrokerContext` and the two or three parts that it works with. None gets the node.
"""

from collections.abc import Callable
from typing import Protocol

from raftka.broker.telemetry.event_log import BoundedRate, Events
from raftka.broker.telemetry.metrics import Metrics
from raftka.client.connection import Secured
from raftka.coordinator.machine import Machine
from raftka.metadata.configs.describe import BrokerRows, TopicRows
from raftka.metadata.configs.settings import NodeSettings, TopicConfigs
from raftka.metadata.image import BrokerImage, Delta, Endpoint, MetadataImage
from raftka.metadata.records import ScramCredentialSet
from raftka.runtime.interfaces import SECRETS, Connection, Runtime
from raftka.security.client_security import Outside
from raftka.security.tls_connection import Side, TlsConnection
from raftka.security.tls_context import StoreFiles, TlsContexts, client_context
from raftka.wire.encoder import EncodedRows
from raftka.wire.schema import AnyApi, Element, Row


class Observer(Protocol):
    """Sees what a node does, for the time line of a test (raftka/testing/timeline/). It is called
    in the node's turns: it must not wait, change anything or raise. Nodes have none by default.
    """

    def on_metadata(self, before: MetadataImage, after: MetadataImage, delta: Delta) -> None:
        """See a committed entry of the metadata log."""

    def on_decided(self, machine: Machine, command: object) -> None:
        """See a coordinator after a decision was carried out; no command: on a timer."""

    def on_rows(self, rows: EncodedRows[Element], row: type[Element]) -> None:
        """See a long array of an answer before its first row is added."""

    def on_answer(self, api: AnyApi, row: Row, client: str | None, peer: str) -> None:
        """See an answer before it is encoded."""


class MetadataCache:
    """The image of the last committed entry that this node has, and the settings that follow from
    it.
    """

    def __init__(self, settings: NodeSettings) -> None:
        self.image = MetadataImage()
        self.settings = settings
        # the partitions follow the image; not before it has this node's own registration: what came
        # before is history
        self.published = False
        self.topic_configs = TopicConfigs(settings)
        self.topic_rows, self.broker_rows = TopicRows(), BrokerRows()

    def endpoint_of(self, broker: BrokerImage, listener: str, reached_at: str) -> Endpoint | None:
        """Return the broker's address for a client of that listener. `reached_at`: the address at
        which the client has reached this node, where advertised.listeners leaves it to that, else
        empty. Other brokers are named as they registered.
        """
        endpoint = broker.endpoint(listener)
        if reached_at and endpoint is not None and broker.broker_id == self.settings.node_id:
            return endpoint._replace(host=reached_at)
        return endpoint

    def endpoints_of(
        self, brokers: set[int], listener: str, reached_at: str, row: type[Element]
    ) -> list[Element]:
        """Return a row of that class for each of the brokers that has an endpoint at the
        listener.
        """
        rows = []
        for broker_id in sorted(brokers):
            broker = self.image.brokers.get(broker_id)
            endpoint = (
                self.endpoint_of(broker, listener, reached_at) if broker is not None else None
            )
            if broker is not None and endpoint is not None:
                rows.append(
                    row(node_id=broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
                )
        return rows


class BrokerContext:
    def __init__(
        self, runtime: Runtime, settings: NodeSettings, events: Events, metrics: Metrics
    ) -> None:
        self.node_id = settings.node_id
        # of the cluster, should this node's controller form it
        self.first_users: tuple[ScramCredentialSet, ...] = ()
        self.kraft_version = 0  # of the cluster, should this node's controller form it
        self.incarnation_id = runtime.random("ids").randbytes(16)
        self.runtime = runtime
        self.events = events
        self.metrics = metrics
        self.metadata = MetadataCache(settings)
        self.batch_refused = BoundedRate(events.debug, "batch_refused", runtime.clock.now)
        self._secrets = runtime.random(SECRETS)
        self.store_files = StoreFiles(runtime.files.read, runtime.lend)
        self.outgoing = TlsContexts(
            lambda: self.metadata.settings.between_brokers.tls,
            client_context,
            self.store_files,
            runtime.clock.now,
        )
        self.observer: Observer | None = None
        self.stopping = False  # a controlled shutdown has begun
        # the logs are closed: what is committed from now on is for the next process
        self.stopped = False

    def secured(self) -> Secured:
        """TLS and the login of this node's connections to other brokers."""
        own = self.metadata.settings.between_brokers
        login = own.login(
            self._secrets, Outside(self.runtime.files.read, self.runtime.clock.wall_ms)
        )
        return Secured(login, self._wrap if own.uses_tls else None, self.runtime.offload.run)

    def later(self, action: Callable[[], None]) -> None:
        """Run it in a turn of its own."""
        self.runtime.clock.call_at(self.runtime.clock.now(), action)

    def _wrap(self, connection: Connection, host: str) -> TlsConnection:
        return TlsConnection(connection, self.outgoing.current(), Side(host), self.later)
