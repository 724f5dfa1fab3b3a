"""Parts of a broker that handlers take: the parameters of a handler behind the request say which
parts it touches. `MetadataCache` and `ControllerClient` are parts as they are.
"""

from dataclasses import dataclass

from raftka.broker.context import MetadataCache
from raftka.broker.controller.listed_brokers import ListedBrokers
from raftka.broker.controller.producer_ids import ProducerIds
from raftka.broker.controller.quorum import Quorum
from raftka.broker.controller.suspects import Suspects
from raftka.broker.controller.topic_creation import TopicCreation
from raftka.broker.coordinators.group_service import GroupCoordinatorService
from raftka.broker.coordinators.markers import MarkerWriter
from raftka.broker.coordinators.share_state_service import ShareStateService
from raftka.broker.coordinators.transaction_service import TransactionCoordinatorService
from raftka.broker.fetch.sessions import FetchSessionCache
from raftka.broker.logs.housekeeping import LogHousekeeping
from raftka.broker.network.access.acl_authorizer import AclAuthorizer
from raftka.broker.network.frame_pool import FramePool
from raftka.broker.produce.schemas.checks import SchemaChecks
from raftka.broker.produce.verification import TransactionVerifier
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.share.partitions import ShareLeader
from raftka.broker.share.sessions import ShareSessions
from raftka.broker.work.background_worker import BackgroundWorker
from raftka.log.manager import LogManager


@dataclass(frozen=True, slots=True)
class DiscoveryParts:
    """Brokers and topics, as clients find them."""

    metadata: MetadataCache
    quorum: Quorum
    suspects: Suspects
    listed_brokers: ListedBrokers
    topic_creation: TopicCreation

    def controller_for_clients(self) -> int:
        """The broker that clients may send admin requests to: the active controller if it is a
        broker, else any broker, which passes them on.
        """
        image, leader = self.metadata.image, self.quorum.leader
        if leader is not None and image.alive(leader):
            return leader
        return next(iter(image.alive_brokers()), -1)


@dataclass(frozen=True, slots=True)
class ReplicaParts:
    """This broker's replicas, their logs, and the sessions of those that fetch from them."""

    manager: ReplicaManager
    logs: LogManager
    housekeeping: LogHousekeeping
    fetch_sessions: FetchSessionCache


@dataclass(frozen=True, slots=True)
class AppendParts:
    """The needs of batches of clients on their way to a log, besides the replicas."""

    pool: FramePool
    background: BackgroundWorker
    verifier: TransactionVerifier
    schemas: SchemaChecks


@dataclass(frozen=True, slots=True)
class CoordinatorParts:
    """The coordinators of groups, transactions and share partitions, and what transactions
    need.
    """

    groups: GroupCoordinatorService
    transactions: TransactionCoordinatorService
    share_states: ShareStateService
    marker_writer: MarkerWriter
    producer_ids: ProducerIds
    verifier: TransactionVerifier


@dataclass(frozen=True, slots=True)
class ShareParts:
    """The share partitions that this broker leads, and the sessions of their members."""

    leader: ShareLeader
    sessions: ShareSessions


@dataclass(frozen=True, slots=True)
class AccessParts:
    """The rights of clients, and the thread that derives credentials."""

    acls: AclAuthorizer | None  # None: every client may do everything
    background: BackgroundWorker
