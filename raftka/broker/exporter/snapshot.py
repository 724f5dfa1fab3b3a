"""The numbers of a node at one moment, as plain values, gathered on the loop. Their names are
exposition.py's matter.
"""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from raftka.broker.client_metrics.series import ClientNumbers
from raftka.broker.exporter.group_metrics import GroupNumbers
from raftka.broker.exporter.software import ByListener, count_software
from raftka.broker.exporter.transaction_metrics import TransactionNumbers, load_times_of
from raftka.broker.handlers.services import Services
from raftka.broker.telemetry.metrics import Latency

if TYPE_CHECKING:
    from raftka.broker.replica.partition import Partition


class PartitionNumbers(NamedTuple):
    """One replica on this broker; what only its leader knows is None on the others."""

    topic: str
    partition: int
    size_bytes: int
    segments: int
    start_offset: int
    end_offset: int
    high_watermark: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...] | None  # None: others lead it
    min_isr: int
    reassigning: bool
    offline: bool  # its log failed
    messages_in: int
    bytes_in: int
    bytes_out: int
    produced: int
    fetched: int
    awaiting: int  # produces that wait for the high watermark, or for the leader's flush
    producers: int
    pending: int  # delayed records
    producers_forgotten: int  # because there were too many
    guards_dropped: int  # the same
    late_transaction: bool  # one is open for longer than any may be


class LatencyNumbers(NamedTuple):
    buckets: tuple[int, ...]
    sum_s: float


class ShareNumbers(NamedTuple):
    """Members of share groups that fetch here."""

    parked_fetches: int
    sessions: int
    session_partitions: int
    partitions: int  # of share groups, led here


class RaftNumbers(NamedTuple):
    state: str  # of a node that is no voter: observer
    leader: int
    term: int
    voted_for: int
    high_watermark: int
    log_end_offset: int
    waiting: int  # proposals that are not committed
    received_bytes: int
    sent_bytes: int
    received_messages: int
    sent_messages: int


class ClusterNumbers(NamedTuple):
    """As the active controller counts them; on every other node all of them are 0, so that sums
    over nodes are right.
    """

    topics: int = 0
    partitions: int = 0
    offline_partitions: int = 0
    preferred_imbalance: int = 0
    active_brokers: int = 0
    fenced_brokers: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    now_s: float
    wall_ms: int
    node_id: int
    cluster_id: str
    unfenced: bool
    active_controller: bool
    metadata_offset: int
    counters: dict[str, int]
    of_topics: dict[tuple[str, str], int]  # counters by name and topic
    requests: dict[str, LatencyNumbers]
    flushes: LatencyNumbers
    turns: LatencyNumbers
    commits: LatencyNumbers
    held: LatencyNumbers
    lateness: LatencyNumbers
    partitions: list[PartitionNumbers]
    groups: list[GroupNumbers]
    transactions: TransactionNumbers
    group_loads_ms: list[int]  # of each coordinator that serves here
    transaction_loads_ms: list[int]
    share_state_loads_ms: list[int]
    clients: list[ClientNumbers]  # that push their metrics
    client_instances: int
    each_partition: bool  # whether every one is to be shown
    connections: dict[str, int]  # by listener
    software: ByListener  # the same, also by the software of their clients
    connections_made: int
    certificates: dict[str, int]  # when they end, by listener
    parked_fetches: int
    fetch_sessions: int
    session_partitions: int
    shares: ShareNumbers
    max_lag: int  # records that the slowest of our followed partitions is behind
    replication_bytes_in: int
    replication_bytes_out: int
    failed_directories: int
    raft: RaftNumbers
    cluster: ClusterNumbers
    brokers: dict[int, str]  # registered ones, and their addresses; on the active controller alone
    topic_partitions: dict[str, int]  # likewise


def take_snapshot(
    services: Services,
    partitions: list[PartitionNumbers],
    groups: list[GroupNumbers],
    transactions: TransactionNumbers,
    clients: list[ClientNumbers],
) -> Snapshot:
    """All but the services: looked at a moment ago."""
    metrics, host, image = services.context.metrics, services.quorum.host, services.metadata.image
    leads = host is not None and host.active
    sessions = [each.session for each in services.dispatcher.connections]
    return Snapshot(
        now_s=services.context.runtime.clock.now(),
        wall_ms=services.context.runtime.clock.wall_ms(),
        node_id=services.context.node_id,
        cluster_id=image.cluster_id or "",
        unfenced=image.alive(services.context.node_id),
        active_controller=leads,
        metadata_offset=image.offset,
        counters=dict(metrics.counters),
        of_topics={
            key: count for key, count in metrics.of_topics.items() if key[1] in image.topic_ids
        },
        requests={name: _numbers_of(each) for name, each in metrics.requests.items()},
        flushes=_numbers_of(metrics.flushes),
        turns=_numbers_of(metrics.turns),
        commits=_numbers_of(metrics.commits),
        held=_numbers_of(metrics.held),
        lateness=_numbers_of(metrics.lateness),
        partitions=partitions,
        groups=groups,
        transactions=transactions,
        group_loads_ms=load_times_of(services.groups.runtime),
        transaction_loads_ms=load_times_of(services.transactions.runtime),
        share_state_loads_ms=load_times_of(services.share_states.runtime),
        clients=clients,
        client_instances=len(services.client_metrics.instances),
        each_partition=services.metadata.settings["metrics.partitions"],
        connections=dict(Counter(each.listener for each in sessions)),
        software=count_software(sessions, metrics.hit),
        connections_made=metrics.connections_made,
        certificates=dict(metrics.certificates),
        parked_fetches=metrics.parked_fetches,
        fetch_sessions=len(services.fetch_sessions.by_id),
        session_partitions=services.fetch_sessions.partitions,
        shares=_shares(services),
        max_lag=services.replicas.fetchers.max_lag(),
        replication_bytes_in=metrics.replication_bytes_in,
        replication_bytes_out=metrics.replication_bytes_out,
        failed_directories=len(
            services.logs.offline.keys()
            | {
                partition.home.path
                for partition in services.replicas.partitions.values()
                if partition.log.failed is not None
            }
        ),
        raft=_raft(services),
        cluster=_cluster(services) if leads else ClusterNumbers(),
        brokers={each.broker_id: _address(each.endpoints) for each in image.brokers.values()}
        if leads
        else {},
        topic_partitions={each.name: len(each.partitions) for each in image.topics.values()}
        if leads
        else {},
    )


def _numbers_of(latency: Latency) -> LatencyNumbers:
    return LatencyNumbers(latency.buckets, latency.sum_s)


def _shares(services: Services) -> ShareNumbers:
    sessions = services.share_sessions
    return ShareNumbers(
        services.context.metrics.parked_share_fetches,
        len(sessions.by_key),
        sessions.partitions,
        services.share_leader.count,
    )


def numbers_of(partition: "Partition", late_before_ms: int) -> PartitionNumbers:
    """A transaction that was open before `late_before_ms` is late."""
    log, leader, image = partition.log, partition.leader, partition.image
    return PartitionNumbers(
        topic=partition.topic,
        partition=partition.index,
        size_bytes=log.size_bytes,
        segments=len(log.segments),
        start_offset=log.start_offset,
        end_offset=log.end_offset,
        high_watermark=partition.high_watermark,
        leader_epoch=image.leader_epoch,
        replicas=image.replicas,
        isr=leader.isr if leader is not None else None,
        min_isr=leader.min_isr if leader is not None else 0,
        reassigning=bool(image.adding or image.removing),
        offline=log.failed is not None,
        messages_in=partition.messages_in,
        bytes_in=partition.bytes_in,
        bytes_out=partition.bytes_out,
        produced=partition.produced,
        fetched=partition.fetched,
        awaiting=len(partition.delayed_by_commit) + len(partition.delayed_by_flush),
        producers=len(log.producers.producers),
        pending=0 if log.held is None or log.held.pending is None else len(log.held.pending),
        producers_forgotten=log.producers.forgotten,
        guards_dropped=log.producers.guards_dropped,
        late_transaction=log.producers.open_since(late_before_ms),
    )


def _raft(services: Services) -> RaftNumbers:
    core, traffic = services.quorum.core, services.quorum.traffic
    leader = services.quorum.leader
    numbers = (
        traffic.received_bytes,
        traffic.sent_bytes,
        traffic.received_messages,
        traffic.sent_messages,
    )
    if core is None:
        return RaftNumbers(
            "observer",
            -1 if leader is None else leader,
            services.quorum.term,
            -1,
            services.metadata.image.offset,
            services.metadata.image.offset,
            0,
            *numbers,
        )
    vote = core.journal.vote
    return RaftNumbers(
        core.state,
        -1 if leader is None else leader,
        core.term,
        -1 if vote is None else vote,
        core.commit_index,
        core.last_index,
        core.last_index - core.commit_index,
        *numbers,
    )


def _cluster(services: Services) -> ClusterNumbers:
    image = services.metadata.image
    offline = imbalance = 0
    for topic in image.topics.values():
        for partition in topic.partitions:
            if partition.leader < 0:
                offline += 1
            elif partition.leader != partition.replicas[0]:
                imbalance += 1
    fenced = sum(each.fenced for each in image.brokers.values())
    return ClusterNumbers(
        len(image.topics),
        image.partition_count,
        offline,
        imbalance,
        len(image.brokers) - fenced,
        fenced,
    )


def _address(endpoints: object) -> str:
    return next((f"{each.host}:{each.port}" for each in endpoints), "")  # type: ignore[attr-defined]
