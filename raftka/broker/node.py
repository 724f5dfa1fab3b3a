"""One node: puts the parts together, and hands each committed metadata entry to those whom it concerns. Decides nothing itself."""

import sys
from collections.abc import Callable
from typing import IO

import trio

import raftka.broker.handlers  # noqa: F401  # importing it registers them
from raftka.broker.controller.controller_link import ControllerLink
from raftka.broker.controller.listed_brokers import ListedBrokers
from raftka.broker.controller.producer_ids import ProducerIds
from raftka.broker.controller.quorum import Quorum
from raftka.broker.controller.suspects import Suspects
from raftka.broker.controller.topic_creation import TopicCreation
from raftka.broker.coordinators.group_service import GroupCoordinatorService
from raftka.broker.coordinators.runtime import CoordinatorRuntime
from raftka.broker.exporter.http import HttpServer
from raftka.broker.exporter.pages import pages_of
from raftka.broker.network.background_worker import BackgroundWorker
from raftka.broker.network.connection_quotas import ConnectionQuotas
from raftka.broker.network.dispatch import Dispatcher
from raftka.broker.network.frame_pool import FramePool
from raftka.broker.network.refusal import REFUSALS, CannotListen, told
from raftka.broker.replica.fetch_session_cache import FetchSessionCache
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.telemetry.event_log import BoundedRate, Events, LimitHits
from raftka.broker.telemetry.metadata_event_log import MetadataEventLog
from raftka.broker.telemetry.metrics import Metrics
from raftka.broker.telemetry.turn_times import TurnTimes
from raftka.log.manager import LogManager
from raftka.metadata.configs.describe import BrokerRows, TopicRows
from raftka.metadata.configs.settings import NodeSettings, TopicConfigs
from raftka.metadata.extension import Extension
from raftka.metadata.image import BROKER, GROUP, Delta, Endpoint, MetadataImage, PartitionImage
from raftka.metadata.quorum.raft_types import Committed, Snapshot
from raftka.metadata.quorum.recovery import NotRecoverable, recoveries
from raftka.runtime.interfaces import Connection, Listener, Runtime
from raftka.wire.schema import Row, Struct

LEAVE_S = 4.0  # what a controlled shutdown may take; nobody answers when all stop at once


class Node:
    def __init__(self, runtime: Runtime, settings: NodeSettings, log_to: IO[str] | None = sys.stderr) -> None:
        self.runtime = runtime
        self.settings = settings
        self.node_id = settings.node_id
        self.events = Events(log_to, runtime.clock.wall_ms, settings["raftka.log.level"], node=settings.node_id)
        self.metrics = Metrics(LimitHits(self.events, runtime.clock.now))
        self.batch_refused = BoundedRate(self.events, "batch_refused", runtime.clock.now)
        runtime.watch_turns(TurnTimes(self.metrics, self.events))
        self.image = MetadataImage()
        self.topic_configs = TopicConfigs(settings)
        self.topic_rows, self.broker_rows = TopicRows(), BrokerRows()
        self.incarnation_id = runtime.random("ids").randbytes(16)
        self.cluster_id: str | None = None  # as meta.properties has it
        self.dispatcher = Dispatcher(self, self.events, self.metrics)
        self.admission = ConnectionQuotas(self)
        self.beside = BackgroundWorker(runtime.offload, self.metrics)
        self.pool = FramePool(runtime.clock.at_turn_end)
        self.fetch_sessions = FetchSessionCache(settings["max.incremental.fetch.session.cache.slots"], runtime.random("fetch sessions"), self.metrics)
        self.suspects = Suspects(self)
        self.listed_brokers = ListedBrokers(self)
        self.quorum = Quorum(self)
        self.link = ControllerLink(self)
        self.producer_ids = ProducerIds(self)
        self.chronicle = MetadataEventLog(self)
        self.topic_creation = TopicCreation(self)
        self.extensions: dict[str, Extension] = {}  # packages on this node, by name; whoever starts the node puts them here
        self.web: HttpServer | None = None
        self.web_listener: Listener | None = None
        self.stopping = False
        self.stopped = False  # the logs are closed: what is committed from now on is for the next process
        self.replicas: ReplicaManager
        self.groups: GroupCoordinatorService
        self.coordinators: list[CoordinatorRuntime] = []  # told of the metadata behind the replicas
        self.logs: LogManager
        self.listeners: dict[str, Listener] = {}
        self.parked = 0
        self.ready = trio.Event()  # registered, unfenced, serving; a controller that is no broker: in a cluster that is formed
        self._published = False  # the partitions follow the image; not before it has our own registration: what came before is history

    # starting and stopping

    def start(self) -> None:
        """Open the directories, listen, join the quorum. Raises one of REFUSALS; what `told` says of it is in the log."""
        try:
            self._start()
        except REFUSALS as error:
            self.events.error("start_failed", error=told(error, self.settings))
            raise

    def _start(self) -> None:
        for name in self.settings.unused:
            self.events.warning("setting_not_used", name=name)
        files, random = self.runtime.files, self.runtime.random("ids")
        self.logs = LogManager.open(files, self.settings.log_dirs, self.node_id, random, self.runtime.clock.wall_ms())
        self.cluster_id = self.logs.cluster_id
        self.replicas = ReplicaManager(self, self.logs)
        self.groups = GroupCoordinatorService(self)
        for endpoint in self.settings.listeners:
            accept = self.admission.acceptor(endpoint.listener)
            self.listeners[endpoint.listener] = self.listen("listeners", endpoint.host, endpoint.port, accept)
        self._listen_for_scrapes()
        self.quorum.start()
        if self.settings.is_broker:
            self.replicas.start()
            self.link.start()
        ports = {"broker_port": self.broker_port, "controller_port": self.controller_port, "metrics_port": self.metrics_port}
        self.events.info("started", roles=sorted(self.settings.roles), **ports)

    async def shutdown(self) -> None:
        """Controlled: leaderships move first; then everything is written and closed cleanly."""
        self.stopping = True
        self.events.info("stopping")
        if self.settings.is_broker and self.link.broker_epoch >= 0 and len(self.image.brokers) > 1:
            await self.link.leave(LEAVE_S)
        await self.quorum.hand_over()
        for listener in self.listeners.values():
            listener.close()
        if self.web_listener is not None:
            self.web_listener.close()
        self.quorum.stop()
        self.stopped = True
        self.replicas.close()
        self.events.info("stopped")

    @property
    def broker_port(self) -> int | None:
        return next((listener.port for listener in self.listeners.values()), None)

    @property
    def controller_port(self) -> int | None:
        return self.quorum.listener.port if self.quorum.listener is not None else None

    def listen(self, setting: str, host: str, port: int, accept: Callable[[], Connection | None], *, first: bool = False) -> Listener:
        """`setting`: that says so. Raises CannotListen."""
        try:
            return self.runtime.network.listen(host, port, accept, first=first)
        except OSError as error:
            raise CannotListen(error, setting) from None

    @property
    def metrics_port(self) -> int | None:
        return self.web_listener.port if self.web_listener is not None else None

    def _listen_for_scrapes(self) -> None:
        port = self.settings["metrics.port"]
        if port is not None:
            first = next(iter(self.settings.listeners), self.settings.controller_listener)
            self.web = HttpServer(pages_of(self), self.runtime.clock, self.metrics, self.events)
            self.web_listener = self.listen("metrics.port", first.host if first is not None else "", port, self.web.accept)

    def advertised_endpoints(self) -> list[Endpoint]:
        """Port 0 stands for the one that the listener has got."""
        return [
            each._replace(port=each.port or self.listeners[each.listener].port) if each.listener in self.listeners else each
            for each in self.settings.advertised_listeners
        ]

    @property
    def serving(self) -> bool:
        """Whether the image is one of today. From one of before the start a client would be told that its topic is not there, which it believes."""
        return self._published

    # the metadata

    def apply(self, found: list[Committed] | Snapshot) -> None:
        """Committed entries, or a snapshot in place of those that are gone."""
        if isinstance(found, Snapshot):
            before, self.image = self.image, MetadataImage.from_snapshot(found.state)
            if before.cluster_id is not None and recoveries(before) != recoveries(self.image):
                self.runtime.fail(NotRecoverable("the metadata quorum was recovered, and this node knows what that has forgotten: start it again"))
                return
            self._tell(Delta(reloaded=True, cluster_formed=True))
            return
        for entry in found:
            before = self.image
            self.image, delta = before.apply_entry(entry.index, entry.data)
            self.chronicle.tell(before, self.image, delta)
            self._tell(delta)

    def _tell(self, delta: Delta) -> None:
        for each in self.extensions.values():
            each.applied(self.image, delta)
        self._publish(delta)

    def _publish(self, delta: Delta) -> None:
        if self.stopped:
            return
        if delta.reloaded or not delta.configs_changed.isdisjoint({(BROKER, ""), (BROKER, str(self.node_id))}):
            self.settings = self.settings.with_dynamic(self.image)
            self.groups.on_settings(self.settings)
            self.admission.keep_within()
        elif any(kind == GROUP for kind, _ in delta.configs_changed):
            self.groups.on_settings(self.settings)
        if (delta.cluster_formed or delta.reloaded) and self.image.cluster_id is not None and self.cluster_id is None:
            self._formed(self.image.cluster_id)
        if not self.settings.is_broker:
            if self.image.cluster_id is not None:
                self.ready.set()
            return
        if not self._published:
            if self.link.broker_epoch < 0 or self.image.offset < self.link.broker_epoch:
                return
            self._published = True
            delta = Delta(reloaded=True)
        self.replicas.on_image(self.image, delta)
        for each in self.coordinators:
            each.on_image(self.image, delta)
        if delta.brokers_changed or delta.reloaded:
            self.listed_brokers.on_image(self.image, delta)
            self.suspects.on_image(self.image)
            if self.image.alive(self.node_id):
                self.ready.set()
            self.link.beat()

    def caught_up(self) -> None:
        """The registration was answered; the image may have had it already."""
        if not self._published:
            self._publish(Delta())

    def _formed(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.logs.set_cluster_id(cluster_id)
        if self.quorum.core is not None:
            self.quorum.core.identify(cluster_id)

    # what handlers ask

    def controller_for_clients(self) -> int:
        """Whom clients may send admin requests to: the active controller if it is a broker, else any broker, which passes them on."""
        leader = self.quorum.leader
        if leader is not None and self.image.alive(leader):
            return leader
        return next(iter(self.image.alive_brokers()), -1)

    def partition_image(self, topic_id: bytes, partition: int) -> PartitionImage | None:
        return self.image.partition(topic_id, partition)

    def endpoints_of(self, brokers: set[int], listener: str, row: Struct) -> list[Row]:
        rows = []
        for broker_id in sorted(brokers):
            broker = self.image.brokers.get(broker_id)
            endpoint = broker.endpoint(listener) if broker is not None else None
            if broker is not None and endpoint is not None:
                rows.append(row(node_id=broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack))
        return rows
