"""The parts of a broker that handlers use. The node makes it when it has them all."""

from dataclasses import dataclass

from raftka.broker.context import BrokerContext, MetadataCache
from raftka.broker.controller.broker_lifecycle import BrokerLifecycle
from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.controller.listed_brokers import ListedBrokers
from raftka.broker.controller.producer_ids import ProducerIds
from raftka.broker.controller.quorum import Quorum
from raftka.broker.controller.suspects import Suspects
from raftka.broker.controller.topic_creation import TopicCreation
from raftka.broker.coordinators.group_service import GroupCoordinatorService
from raftka.broker.coordinators.markers import MarkerWriter
from raftka.broker.coordinators.transaction_service import TransactionCoordinatorService
from raftka.broker.fetch.sessions import FetchSessionCache
from raftka.broker.logs.housekeeping import LogHousekeeping
from raftka.broker.network.access.acl_authorizer import AclAuthorizer
from raftka.broker.network.dispatch import Dispatcher
from raftka.broker.network.frame_pool import FramePool
from raftka.broker.produce.schemas.checks import SchemaChecks
from raftka.broker.produce.verification import TransactionVerifier
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.work.background_worker import BackgroundWorker
from raftka.log.manager import LogManager
from raftka.metadata.extension import Extension


@dataclass(frozen=True, slots=True)
class Services:
    context: BrokerContext
    metadata: MetadataCache
    dispatcher: Dispatcher
    pool: FramePool
    acls: AclAuthorizer | None  # None: everybody may do everything
    background: BackgroundWorker
    quorum: Quorum
    controller: ControllerClient
    lifecycle: BrokerLifecycle
    suspects: Suspects
    listed_brokers: ListedBrokers
    producer_ids: ProducerIds
    topic_creation: TopicCreation
    fetch_sessions: FetchSessionCache
    logs: LogManager
    replicas: ReplicaManager
    housekeeping: LogHousekeeping
    groups: GroupCoordinatorService
    transactions: TransactionCoordinatorService
    marker_writer: MarkerWriter
    verifier: TransactionVerifier
    schemas: SchemaChecks
    extensions: dict[str, Extension]  # packages on this node, by name

    def controller_for_clients(self) -> int:
        """The broker that clients may send admin requests to: the active controller if it is a
        broker, else any broker, which passes them on.
        """
        image, leader = self.metadata.image, self.quorum.leader
        if leader is not None and image.alive(leader):
            return leader
        return next(iter(image.alive_brokers()), -1)
