"""One node: puts the parts together, and hands each committed metadata entry to those whom it
concerns. Decides nothing itself.
"""

import sys
from functools import partial
from typing import IO

import trio

from raftka.broker.client_metrics.receiver import ClientMetrics
from raftka.broker.context import BrokerContext
from raftka.broker.controller.broker_lifecycle import BrokerLifecycle
from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.controller.listed_brokers import ListedBrokers
from raftka.broker.controller.metadata_event_log import MetadataEventLog
from raftka.broker.controller.producer_ids import ProducerIds
from raftka.broker.controller.quorum import Quorum
from raftka.broker.controller.starting_topics import StartingTopics
from raftka.broker.controller.suspects import Suspects
from raftka.broker.controller.topic_creation import TopicCreation
from raftka.broker.coordinators.group_service import GroupCoordinatorService
from raftka.broker.coordinators.markers import MarkerWriter
from raftka.broker.coordinators.runtime import CoordinatorRuntime
from raftka.broker.coordinators.share_persister import SharePersister
from raftka.broker.coordinators.share_state_service import ShareStateService
from raftka.broker.coordinators.topics import INTERNAL_TOPICS
from raftka.broker.coordinators.transaction_service import TransactionCoordinatorService
from raftka.broker.delivery.delayed_delivery import DelayedDelivery
from raftka.broker.exporter.pages import metrics_server
from raftka.broker.fetch.sessions import FetchSessionCache
from raftka.broker.handlers import (  # noqa: F401  # nearly every node is asked
    api_versions,
    create_topics,
    fetch,
    find_coordinator,
    init_producer_id,
    produce,
)
from raftka.broker.handlers.services import Services
from raftka.broker.logs.housekeeping import LogHousekeeping
from raftka.broker.network.access.acl_authorizer import AclAuthorizer
from raftka.broker.network.access.tls import watch_certificates
from raftka.broker.network.connection import ServerConnection
from raftka.broker.network.connection_quotas import ConnectionQuotas
from raftka.broker.network.dispatch import Dispatcher
from raftka.broker.network.frame_pool import FramePool
from raftka.broker.network.listening import listen
from raftka.broker.produce.schemas.checks import SchemaChecks
from raftka.broker.produce.schemas.dead_letters import DeadLetters
from raftka.broker.produce.schemas.registry import SchemaRegistry
from raftka.broker.produce.verification import TransactionVerifier
from raftka.broker.refusal import REFUSALS, describe_error
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.share.dead_letters import ShareDeadLetters
from raftka.broker.share.partitions import ShareLeader
from raftka.broker.share.sessions import ShareSessions
from raftka.broker.telemetry.event_log import Events, LimitHits
from raftka.broker.telemetry.metrics import Metrics
from raftka.broker.telemetry.turn_times import TurnTimes
from raftka.broker.work.background_worker import BackgroundWorker
from raftka.http.server import HttpServer
from raftka.log.directory import LogDirectoryError
from raftka.log.manager import LogManager
from raftka.metadata.commands import RegisterBroker
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.configs.starting_topics import parse_starting_topics
from raftka.metadata.extension import Extension
from raftka.metadata.image import BROKER, GROUP, Delta, Endpoint, MetadataImage
from raftka.metadata.quorum.raft_types import Committed, Snapshot
from raftka.metadata.quorum.recovery import NotRecoverable, recoveries
from raftka.metadata.quorum.release_check import check_readable
from raftka.metadata.records import ScramCredentialSet
from raftka.runtime.interfaces import Listener, Runtime
from raftka.versions import own_features

# what a controlled shutdown may take, when a controller is away that has not said goodbye
LEAVE_S = 4.0


class Node:
    # made by `start`
    logs: LogManager
    replicas: ReplicaManager
    housekeeping: LogHousekeeping
    groups: GroupCoordinatorService
    marker_writer: MarkerWriter
    transactions: TransactionCoordinatorService
    share_states: ShareStateService
    share_persister: SharePersister
    share_leader: ShareLeader
    dead_letters: DeadLetters
    services: Services

    def __init__(
        self,
        runtime: Runtime,
        settings: NodeSettings,
        log_to: IO[str] | None = sys.stderr,
        first_users: tuple[ScramCredentialSet, ...] = (),
    ) -> None:
        """`first_users`: of the cluster, should this node's controller form it."""
        events = Events(
            log_to, runtime.clock.wall_ms, settings["raftka.log.level"], node=settings.node_id
        )
        self.context = context = BrokerContext(
            runtime, settings, events, Metrics(LimitHits(events, runtime.clock.now))
        )
        context.first_users = first_users
        self.runtime, self.events, self.metrics = runtime, events, context.metrics
        self.metadata = context.metadata
        self.node_id = settings.node_id
        runtime.watch_turns(TurnTimes(self.metrics, events))
        self.pool = FramePool(runtime.clock.at_turn_end, runtime.poison)
        self.dispatcher = Dispatcher(context, self.pool)
        self.acls = AclAuthorizer(context) if settings["authorizer.class.name"] else None
        if self.acls is not None:
            self.dispatcher.authorizer = self.acls
        self.quotas = ConnectionQuotas(context, self.dispatcher, self.pool)
        self.background = BackgroundWorker(runtime.offload, self.metrics)
        slots: int = settings["max.incremental.fetch.session.cache.slots"]
        end = partial(self.dispatcher.long_work.run, "ending a fetch session", done=lambda _: None)
        self.fetch_sessions = FetchSessionCache(
            slots,
            runtime.random("fetch sessions"),
            self.metrics,
            lambda session: end(session.end()),
        )
        self.share_sessions = ShareSessions(
            self.metrics, lambda: self.settings["group.share.max.share.sessions"]
        )
        self.client_metrics = ClientMetrics(context)
        self.suspects = Suspects(context, self.dispatcher.long_work)
        self.listed_brokers = ListedBrokers(context)
        # packages on this node, by name; the code that starts the node puts them here
        self.extensions: dict[str, Extension] = {}
        self.controller_dispatcher = self.dispatcher.of_controllers()
        admit = partial(self.quotas.admit, self.controller_dispatcher)
        self.quorum = Quorum(context, self.suspects, self.apply, self.extensions, admit)
        self.controller = ControllerClient(runtime.clock, self.quorum.ask_controller)
        self.lifecycle = BrokerLifecycle(
            context, self.controller, self._registration, self._registered, self._is_cordoned
        )
        self.quorum.departure.on_deserted = self.lifecycle.no_controller_comes
        self.topic_creation = TopicCreation(context, self.controller)
        self.starting_topics = StartingTopics(
            context, self.controller, parse_starting_topics(settings["raftka.topics"])
        )
        self.metadata_events = MetadataEventLog(context, self._is_controller)
        self.web: HttpServer | None = None
        self.web_listener: Listener | None = None
        self.coordinators: list[CoordinatorRuntime] = []  # told of the metadata behind the replicas
        self.listeners: dict[str, Listener] = {}
        # settings that were set at run time, and that this node does not use
        self._unused: frozenset[str] = frozenset()
        # registered, unfenced, serving, with the topics of raftka.topics; a controller that is no
        # broker: in a cluster that is formed
        self.ready = trio.Event()
        self.dispatcher.reports.on_opened = self.quotas.opened
        self.dispatcher.reports.on_closed = self._on_closed
        self.dispatcher.reports.on_broken = self.suspects.broken

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    @property
    def settings(self) -> NodeSettings:
        return self.metadata.settings

    def _is_controller(self) -> bool:
        return self.quorum.host is not None and self.quorum.host.active

    def _on_closed(self, connection: ServerConnection) -> None:
        self.quotas.closed(connection)
        self.client_metrics.on_closed(connection)
        for session in self.share_sessions.ended_by(connection):
            self.dispatcher.long_work.run(
                "ending a share session",
                self.share_leader.release_steps(*session.key, session.partitions),
                lambda _: None,
            )

    # starting and stopping

    def start(self) -> None:
        """Open the directories, listen, join the quorum. Raises one of REFUSALS; `describe_error`
        tells the log what failed.
        """
        try:
            self._start()
        except REFUSALS as error:
            self.events.error("start_failed", error=describe_error(error, self.settings))
            raise

    def _start(self) -> None:
        for name in self.settings.unused:
            self.events.warning("setting_not_used", name=name)
        check_readable(self.runtime.files, self.settings.metadata_directory)
        self.logs = LogManager.open(
            self.runtime.files,
            self.settings.log_dirs,
            self.node_id,
            self.runtime.random("ids"),
            self.runtime.clock.wall_ms(),
        )
        try:
            self._begin()
        except REFUSALS:
            self.logs.close({})  # the next start counts as one after the last shutdown
            raise

    def _begin(self) -> None:
        self.logs.is_cordoned = lambda path: path in self.settings.cordoned_log_dirs
        self._check_cluster(self.logs.cluster_id)
        self.replicas = ReplicaManager(
            self.context, self.logs, self.lifecycle, self.pool, self.suspects.broken
        )
        self.housekeeping = self.replicas.housekeeping = LogHousekeeping(self.replicas)
        self.replicas.delivery = DelayedDelivery(self.replicas, self.dispatcher.long_work)
        self.replicas.failures.directories = self.housekeeping.directories
        self._make_coordinators()
        self.services = self._services()
        parts = self.services.parts_of_handlers()
        self.dispatcher.serve(parts)
        local = ControllerClient(
            self.runtime.clock, self.quorum.ask_this_controller, again=frozenset()
        )
        self.controller_dispatcher.serve(parts | {ControllerClient: local})
        if self.settings.between_brokers.uses_tls:
            watch_certificates(self.context, self.context.outgoing, "outgoing")
        for endpoint in self.settings.listeners:
            accept = self.quotas.acceptor(endpoint)
            self.listeners[endpoint.listener] = listen(
                self.runtime.network, "listeners", endpoint.host, endpoint.port, accept
            )
        self._listen_for_scrapes()
        self.quorum.start(self.logs)
        if self.settings.is_broker:
            self.replicas.start()
            self.lifecycle.start()
        ports = {
            "broker_port": self.broker_port,
            "controller_port": self.controller_port,
            "metrics_port": self.metrics_port,
        }
        self.events.info(
            "started", roles=sorted(self.settings.roles), runtime=self.runtime.kind, **ports
        )

    def _make_coordinators(self) -> None:
        self.share_states = ShareStateService(
            self.context,
            self.replicas,
            self.lifecycle,
            self.topic_creation,
            self.dispatcher.long_work,
        )
        self.share_persister = SharePersister(
            self.context, self.share_states, self.dispatcher.long_work
        )
        self.groups = GroupCoordinatorService(
            self.context,
            self.replicas,
            self.lifecycle,
            self.topic_creation,
            self.dispatcher.long_work,
            self.share_persister,
        )
        self.marker_writer = MarkerWriter(self.context, self.replicas, self.groups)
        self.transactions = TransactionCoordinatorService(
            self.context,
            self.replicas,
            self.lifecycle,
            self.topic_creation,
            self.dispatcher.long_work,
            self.marker_writer,
        )
        self.dead_letters = DeadLetters(self.context, self.replicas, INTERNAL_TOPICS.__contains__)
        self.share_leader = ShareLeader(
            self.context,
            self.replicas,
            self.share_persister,
            self.dispatcher.long_work,
            self.share_sessions.has_group,
            ShareDeadLetters(
                self.context,
                self.replicas,
                self.topic_creation,
                self.dispatcher.long_work,
                self.dead_letters,
            ),
        )
        self.coordinators += [
            self.groups.runtime,
            self.transactions.runtime,
            self.share_states.runtime,
        ]

    def _services(self) -> Services:
        return Services(
            context=self.context,
            metadata=self.metadata,
            dispatcher=self.dispatcher,
            pool=self.pool,
            acls=self.acls,
            background=self.background,
            quorum=self.quorum,
            controller=self.controller,
            lifecycle=self.lifecycle,
            suspects=self.suspects,
            listed_brokers=self.listed_brokers,
            producer_ids=ProducerIds(self.node_id, self.lifecycle),
            topic_creation=self.topic_creation,
            starting_topics=self.starting_topics,
            fetch_sessions=self.fetch_sessions,
            logs=self.logs,
            replicas=self.replicas,
            housekeeping=self.housekeeping,
            groups=self.groups,
            marker_writer=self.marker_writer,
            transactions=self.transactions,
            share_states=self.share_states,
            share_leader=self.share_leader,
            share_sessions=self.share_sessions,
            verifier=TransactionVerifier(
                self.context, self.transactions, self.transactions.channels
            ),
            schemas=SchemaChecks(self.context, SchemaRegistry(self.context), self.dead_letters),
            client_metrics=self.client_metrics,
            extensions=self.extensions,
        )

    async def shutdown(self) -> None:
        """Controlled: leaderships move first; then everything is written and closed cleanly."""
        self.context.stopping = True
        self.events.info("stopping")
        if (
            self.settings.is_broker
            and self.lifecycle.broker_epoch >= 0
            and len(self.image.brokers) > 1
            and not self.quorum.departure.deserted
        ):
            await self.lifecycle.leave(LEAVE_S)
        await self.quorum.departure.hand_over()
        await self.quorum.departure.say_goodbye(self.quorum.inbound)
        for listener in self.listeners.values():
            listener.close()
        if self.web_listener is not None:
            self.web_listener.close()
        self.quorum.stop()
        self.context.stopped = True
        self.groups.close()
        self.transactions.close()
        self.share_persister.close()
        self.dead_letters.close()
        self.replicas.close()
        self.events.info("stopped")

    @property
    def broker_port(self) -> int | None:
        return next((listener.port for listener in self.listeners.values()), None)

    @property
    def controller_port(self) -> int | None:
        return self.quorum.listeners[0].port if self.quorum.listeners else None

    @property
    def metrics_port(self) -> int | None:
        return self.web_listener.port if self.web_listener is not None else None

    def _listen_for_scrapes(self) -> None:
        port = self.settings["metrics.port"]
        if port is not None:
            self.web = metrics_server(self.services)
            self.web_listener = listen(
                self.runtime.network, "metrics.port", self.settings.page_host, port, self.web.accept
            )

    def advertised_endpoints(self) -> list[Endpoint] | None:
        """Return the advertised listeners; port 0 becomes the listener's present port. None: the
        address that the other nodes are to be told is not known yet.
        """
        host = ""
        if any(not each.host for each in self.settings.advertised_listeners):
            host = self._own_host() or ""
            if not host:
                return None
        return [
            each._replace(
                host=each.host or host,
                port=each.port or self.listeners[each.listener].port
                if each.listener in self.listeners
                else each.port,
            )
            for each in self.settings.advertised_listeners
        ]

    def _own_host(self) -> str | None:
        """Return the host that an automatic listener at every address registers: the one that the
        other nodes have for this controller among the voters; of a broker without a vote
        its address on the way to the controllers. None: no controller's name is known yet.
        """
        voters = self.quorum.addresses.voters
        own = next((voter.host for voter in voters if voter.node_id == self.node_id), None)
        if own is not None:
            return own
        links = self.quorum.links.values()
        ways = (self.runtime.network.address_towards(each.host, each.port) for each in links)
        return next((way for way in ways if way), None)

    # the registration

    def _registration(self, tell_held: bool) -> RegisterBroker | None:
        endpoints = self.advertised_endpoints()
        if endpoints is None:
            return None
        first, *more = self.logs.directory_ids
        return RegisterBroker(
            self.node_id,
            self.context.incarnation_id,
            first,
            self.image.cluster_id or self.logs.cluster_id,
            tuple(
                [
                    (each.listener, each.host, each.port, each.security_protocol)
                    for each in endpoints
                ]
            ),
            self.settings.rack,
            tuple(more),
            len(self.logs.offline),
            self.housekeeping.directories.held() if tell_held else None,
            own_features(),
            self.logs.previous_epoch,
            self.settings["raftka.log.flush"] == "fsync",
        )

    def _is_cordoned(self) -> bool:
        return self.settings.cordoned_log_dirs.issuperset([each.path for each in self.logs.usable])

    def _registered(self) -> None:
        """The controller has taken the registration; the image may have had it already."""
        self.housekeeping.directories.report()
        self.replicas.doubtful.report()
        if not self.metadata.published:
            self._publish(Delta())

    # the metadata

    def apply(self, found: list[Committed] | Snapshot) -> None:
        """Committed entries, or a snapshot in place of those that are gone."""
        if isinstance(found, Snapshot):
            before, self.metadata.image = self.image, MetadataImage.from_snapshot(found.state)
            self.logs.raise_level(self.image.level)
            if before.cluster_id is not None and recoveries(before) != recoveries(self.image):
                self.runtime.fail(
                    NotRecoverable(
                        "the metadata quorum was recovered, and this node has metadata entries "
                        "that the recovery lost: start it again"
                    )
                )
                return
            self._publish_to_extensions(Delta(reloaded=True, cluster_formed=True))
            return
        for entry in found:
            before, host = self.metadata.image, self.quorum.host
            replayed = host.take_replayed(entry, before) if host is not None else None
            self.metadata.image, delta = replayed or before.apply_entry(entry.index, entry.data)
            if self.image.level != before.level:
                self.logs.raise_level(self.image.level)
            if not delta.of_extensions_alone:
                self.metadata_events.publish(before, self.image, delta)
                if self.context.observer is not None:
                    self.context.observer.on_metadata(before, self.image, delta)
            self._publish_to_extensions(delta)

    def _publish_to_extensions(self, delta: Delta) -> None:
        for each in self.extensions.values():
            each.applied(self.image, delta)
        self._publish(delta)

    def _rights_changed(self) -> None:
        """Ask again who may read what: parked fetches end, and sessions look at all their
        partitions.
        """
        for connection in tuple(self.dispatcher.connections):
            connection.complete_early()
        self.fetch_sessions.review()

    def _tell_unused(self) -> None:
        """Warn once of each setting that was set at run time with a prefix with which this node
        does not use it.
        """
        unused = frozenset(self.settings.unused_of(self.image))
        for name in sorted(unused - self._unused):
            self.events.warning("setting_not_used", name=name)
        self._unused = unused

    def _publish(self, delta: Delta) -> None:
        if self.context.stopped or (self.metadata.published and delta.of_extensions_alone):
            return
        if self.acls is not None and self.acls.on_image(self.image, delta):
            self._rights_changed()
        if delta.reloaded or delta.quotas_changed:
            self.dispatcher.quotas.on_image(self.image.quotas)
            self.quotas.on_quotas(self.image.quotas)
        if delta.reloaded or not delta.configs_changed.isdisjoint(
            {(BROKER, ""), (BROKER, str(self.node_id))}
        ):
            cordoned = self.settings.cordoned_log_dirs
            self.metadata.settings = self.settings.with_dynamic(self.image)
            if self.settings.cordoned_log_dirs != cordoned:
                self.lifecycle.beat()
            self._tell_unused()
            self.groups.on_settings(self.settings)
            self.transactions.on_settings(self.settings)
            self.quotas.keep_within()
        elif any(kind == GROUP for kind, _ in delta.configs_changed):
            self.groups.on_settings(self.settings)
        if (
            (delta.cluster_formed or delta.reloaded)
            and self.image.cluster_id is not None
            and self.logs.cluster_id is None
        ):
            self._formed(self.image.cluster_id)
        self.client_metrics.on_image(self.image, delta)
        if not self.settings.is_broker:
            if self.image.cluster_id is not None:
                self.ready.set()
            return
        if not self.metadata.published:
            if self.lifecycle.broker_epoch < 0 or self.image.offset < self.lifecycle.broker_epoch:
                return
            self.metadata.published = True
            delta = Delta(reloaded=True)
        self.replicas.on_image(self.image, delta)
        self.share_leader.on_image(self.image, delta)
        for each in self.coordinators:
            each.on_image(self.image, delta)
        self.groups.on_image(self.image, delta)
        self.transactions.on_image(self.image, delta)
        self.share_states.on_image()
        self.share_persister.on_image(self.image, delta)
        if delta.brokers_changed or delta.reloaded:
            self.listed_brokers.on_image(self.image, delta)
            self.dead_letters.on_image(self.image)
            self.suspects.on_image(self.image)
            self.lifecycle.beat()
        if (
            not self.ready.is_set()
            and self.image.alive(self.node_id)
            and self.starting_topics.on_image(self.image)
        ):
            self.ready.set()

    def _check_cluster(self, cluster_id: str | None) -> None:
        """Raise LogDirectoryError when this node was made for another cluster."""
        wanted = self.settings["raftka.cluster.id"]
        if wanted is not None and cluster_id is not None and cluster_id != wanted:
            raise LogDirectoryError(
                f"this node is of cluster {cluster_id}, raftka.cluster.id is {wanted}",
                "change `raftka.cluster.id`, or give the node empty directories in `log.dirs`",
            )

    def _formed(self, cluster_id: str) -> None:
        try:
            self._check_cluster(cluster_id)
        except LogDirectoryError as error:
            self.runtime.fail(error)
            return
        self.logs.set_cluster_id(cluster_id)
        if self.quorum.core is not None:
            self.quorum.core.identify(cluster_id)
