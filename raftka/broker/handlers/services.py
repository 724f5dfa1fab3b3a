"""All parts of a broker. A handler gets those that it names (parts.py)."""

from dataclasses import dataclass

from raftka.broker.client_metrics.receiver import ClientMetrics
from raftka.broker.context import BrokerContext, MetadataCache
from raftka.broker.controller.broker_lifecycle import BrokerLifecycle
from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.controller.listed_brokers import ListedBrokers
from raftka.broker.controller.producer_ids import ProducerIds
from raftka.broker.controller.quorum import Quorum
from raftka.broker.controller.starting_topics import StartingTopics
from raftka.broker.controller.suspects import Suspects
from raftka.broker.controller.topic_creation import TopicCreation
from raftka.broker.coordinators.group_service import GroupCoordinatorService
from raftka.broker.coordinators.markers import MarkerWriter
from raftka.broker.coordinators.share_state_service import ShareStateService
from raftka.broker.coordinators.transaction_service import TransactionCoordinatorService
from raftka.broker.fetch.sessions import FetchSessionCache
from raftka.broker.handlers.parts import (
    AccessParts,
    AppendParts,
    CoordinatorParts,
    DiscoveryParts,
    ReplicaParts,
    ShareParts,
)
from raftka.broker.logs.housekeeping import LogHousekeeping
from raftka.broker.network.access.acl_authorizer import AclAuthorizer
from raftka.broker.network.dispatch import Dispatcher
from raftka.broker.network.frame_pool import FramePool
from raftka.broker.produce.schemas.checks import SchemaChecks
from raftka.broker.produce.verification import TransactionVerifier
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.share.partitions import ShareLeader
from raftka.broker.share.sessions import ShareSessions
from raftka.broker.work.background_worker import BackgroundWorker
from raftka.log.manager import LogManager
from raftka.metadata.extension import Extension


@dataclass(frozen=True, slots=True)
class Services:
    """Parts of a broker, for its other ports too: metrics, registry, bridge."""

    context: BrokerContext
    metadata: MetadataCache
    dispatcher: Dispatcher
    pool: FramePool
    acls: AclAuthorizer | None  # None: every client may do everything
    background: BackgroundWorker
    quorum: Quorum
    controller: ControllerClient
    lifecycle: BrokerLifecycle
    suspects: Suspects
    listed_brokers: ListedBrokers
    producer_ids: ProducerIds
    topic_creation: TopicCreation
    starting_topics: StartingTopics
    fetch_sessions: FetchSessionCache
    logs: LogManager
    replicas: ReplicaManager
    housekeeping: LogHousekeeping
    groups: GroupCoordinatorService
    transactions: TransactionCoordinatorService
    share_states: ShareStateService
    share_leader: ShareLeader
    share_sessions: ShareSessions
    marker_writer: MarkerWriter
    verifier: TransactionVerifier
    schemas: SchemaChecks
    client_metrics: ClientMetrics
    extensions: dict[str, Extension]  # packages on this node, by name

    def parts_of_handlers(self) -> dict[type, object]:
        """Return the parts by the types with which handlers name them."""
        parts = (
            self.metadata,
            self.controller,
            self.client_metrics,
            DiscoveryParts(
                self.metadata,
                self.quorum,
                self.suspects,
                self.listed_brokers,
                self.topic_creation,
            ),
            ReplicaParts(self.replicas, self.logs, self.housekeeping, self.fetch_sessions),
            AppendParts(self.pool, self.background, self.verifier, self.schemas),
            CoordinatorParts(
                self.groups,
                self.transactions,
                self.share_states,
                self.marker_writer,
                self.producer_ids,
                self.verifier,
            ),
            ShareParts(self.share_leader, self.share_sessions),
            AccessParts(self.acls, self.background),
        )
        return {type(each): each for each in parts}
