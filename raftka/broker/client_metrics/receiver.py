"""The broker's receiver of clients' metrics (KIP-714): instances by Kafka's rules, the series that
/metrics shows, and the export.
"""

from collections.abc import Iterable
from math import inf
from uuid import UUID

from raftka.broker.client_metrics.export import OtlpExport
from raftka.broker.client_metrics.instances import Fields, Instance, Instances
from raftka.broker.client_metrics.otlp import Point
from raftka.broker.client_metrics.series import ClientSeries
from raftka.broker.client_metrics.subscriptions import subscriptions_of
from raftka.broker.context import BrokerContext
from raftka.broker.network.connection import ServerConnection
from raftka.broker.network.session import Session
from raftka.broker.work.long_work import Steps
from raftka.limits import CLIENT_METRICS_LABEL_BYTES, Limit
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.image import CLIENT_METRICS, Delta, MetadataImage
from raftka.runtime.interfaces import Timer
from raftka.wire.errors import Code, check_limit

RARELY_S = 1.0  # between two looks at clients that may have expired


def receives_client_metrics(settings: NodeSettings) -> bool:
    """Return whether this node has a use for clients' metrics: a page that shows them, or a
    collector. Without one it does not announce the APIs, as Kafka does without a reporter.
    """
    return (
        settings["metrics.port"] is not None
        or settings["raftka.telemetry.otlp.endpoint"] is not None
    )


def fields_of(session: Session, instance_id: bytes) -> Fields:
    """Return the fields that `match` knows. Raises INVALID_REQUEST for a client id that is too long
    for the labels of a series.
    """
    check_limit(CLIENT_METRICS_LABEL_BYTES, len(session.client_id or ""), code=Code.INVALID_REQUEST)
    host, _, port = session.peer.rpartition(":")
    return {
        "client_instance_id": str(UUID(bytes=instance_id)),
        "client_id": session.client_id,
        "client_software_name": session.software[0],
        "client_software_version": session.software[1],
        "client_source_address": host.strip("[]"),
        "client_source_port": port,
    }


class ClientMetrics:
    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._clock = context.runtime.clock
        metrics = context.metrics
        self.instances = Instances(context.runtime.random("client instances"), metrics.hit)
        self.series = ClientSeries(metrics.hit)
        url: str | None = context.metadata.settings["raftka.telemetry.otlp.endpoint"]
        self.export = OtlpExport(context, url) if url is not None else None
        self._timer: Timer | None = None

    def now(self) -> float:
        """Return the seconds of the node's clock."""
        return self._clock.now()

    def count(self, name: str) -> None:
        """Count under the name of a metric."""
        self._context.metrics.count(name)

    def hit(self, limit: Limit) -> None:
        """Count that a limit was hit."""
        self._context.metrics.hit(limit)

    def on_image(self, image: MetadataImage, delta: Delta) -> None:
        """Take the subscriptions of the image if they may have changed."""
        if delta.reloaded or any(kind == CLIENT_METRICS for kind, _ in delta.configs_changed):
            self.instances.subscribe(subscriptions_of(image, self._on_fault))

    def on_closed(self, connection: ServerConnection) -> None:
        """Forget the client of a connection. Its series stay until they expire: its last push is
        worth a scrape.
        """
        self.instances.close(connection)

    def take(self, instance: Instance, data: bytes, points: Iterable[Point]) -> Steps[None]:
        """Keep the numbers of a push for the page, and give the push to the collector."""
        if self.export is not None:
            yield from self.export.offer(data, instance.fields)
        yield from self.series.take(
            instance.instance_id, instance.fields, points, self.now(), instance.silent_s
        )

    def watch_expiry(self) -> None:
        """Set the timer for the client that expires next, if there is one and no timer is set."""
        first = min(self.instances.next_expiry(), self.series.next_expiry())
        if self._timer is None and first < inf:
            at = max(first, self._clock.now() + RARELY_S)
            self._timer = self._clock.call_at(at, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._clock.now()
        self.instances.expire(now)
        self.series.expire(now)
        self.watch_expiry()

    def _on_fault(self, name: str, reason: str) -> None:
        self._context.events.warning("client_metrics_not_matched", subscription=name, error=reason)
