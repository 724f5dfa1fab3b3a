"""From a snapshot to the text that Prometheus reads, by prometheus-client; the thousands of lines
of partitions are our own.

Comes with the first scrape, runs in another thread; touches no services.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.utils import floatToGoString

from raftka import limits
from raftka.broker.client_metrics.series import ClientNumbers
from raftka.broker.exporter.group_metrics import GroupNumbers
from raftka.broker.exporter.snapshot import LatencyNumbers, PartitionNumbers, Snapshot
from raftka.broker.telemetry.metric_names import FAMILIES
from raftka.broker.telemetry.metrics import BOUNDS_S
from raftka.coordinator.transactions.records import State

Labels = dict[str, str]
IO = {"read_bytes": "read", "write_bytes": "write"}  # of /proc/self/io
TOPICS = "kafka_server_brokertopicmetrics_"
REPLICAS = "kafka_server_replicamanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"
RAFT = "kafka_server_raftmetrics_"
CHANNEL = "kafka_server_raftchannelmetrics_"
GROUPS = "kafka_coordinator_group_groupmetadatamanager_"
MARKERS = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"
PURGATORY = "kafka_server_delayedoperationpurgatory_"
# the limits whose counters are the partitions'
FORGOTTEN, DROPPED = limits.PRODUCERS_OF_PARTITION.metric, limits.GUARDS_OF_PARTITION.metric
OF_CLIENT = "A client's metric, as it pushes it (KIP-714)."
COUNTED = (
    "raftka_",
    REPLICAS,
    "kafka_controller_controllerstats_",
    f"{TOPICS}failed",
    f"{TOPICS}totalshare",
    "kafka_server_fetchsessioncache_",
    "kafka_server_addpartitionstotxnmanager_",
)  # what Metrics.count is given
OF_TOPIC: dict[str, Callable[[PartitionNumbers], int]] = {
    "messagesin": lambda p: p.messages_in,
    "bytesin": lambda p: p.bytes_in,
    "bytesout": lambda p: p.bytes_out,
    "totalproducerequests": lambda p: p.produced,
    "totalfetchrequests": lambda p: p.fetched,
}

OF_REPLICA: dict[str, Callable[[PartitionNumbers], int]] = {
    "kafka_log_log_size": lambda p: p.size_bytes,
    "kafka_log_log_numlogsegments": lambda p: p.segments,
    "kafka_log_log_logstartoffset": lambda p: p.start_offset,
    "kafka_log_log_logendoffset": lambda p: p.end_offset,
}
OF_LED = (
    "kafka_cluster_partition_replicascount",
    "kafka_cluster_partition_insyncreplicascount",
    "kafka_cluster_partition_underreplicated",
    "kafka_cluster_partition_underminisr",
    "kafka_cluster_partition_atminisr",
    "kafka_topic_partition_current_offset",
    "kafka_topic_partition_oldest_offset",
    "kafka_topic_partition_leader",
    "kafka_topic_partition_leader_is_preferred",
    "kafka_topic_partition_replicas",
    "kafka_topic_partition_in_sync_replica",
    "kafka_topic_partition_under_replicated_partition",
)


def metric_of(name: str, kind: str, text: str) -> Metric:
    return Metric(name.removesuffix("_total") if kind == "counter" else name, text, kind)


class Page:
    """One page under way: families in the order of the table, samples as they are added."""

    def __init__(self) -> None:
        self.families = {
            name: metric_of(name, kind, text) for name, (kind, text) in FAMILIES.items()
        }
        for limit in vars(limits).values():
            if isinstance(limit, limits.Limit):
                self.families[limit.metric] = metric_of(
                    limit.metric,
                    "counter",
                    f"Times the limit of {limit.value} was hit: {limit.reason}.",
                )

    def collect(self) -> Iterable[Metric]:
        return [family for family in self.families.values() if family.samples]

    def add(self, name: str, value: float, **labels: str) -> None:
        family = self.families.get(name)
        if family is None:
            family = self.families[name] = metric_of(
                name, "counter", "Of a package beside the broker."
            )
        family.add_sample(name, labels, value)

    def histogram(self, name: str, numbers: LatencyNumbers, unit: float, **labels: str) -> None:
        """`unit`: of the metric, in seconds."""
        family, total = self.families[name], 0
        for bound, count in zip((*BOUNDS_S, None), numbers.buckets, strict=True):
            total += count
            family.add_sample(
                f"{name}_bucket",
                {**labels, "le": "+Inf" if bound is None else f"{bound / unit:g}"},
                total,
            )
        family.add_sample(f"{name}_sum", labels, numbers.sum_s / unit)
        family.add_sample(f"{name}_count", labels, total)


class Rates:
    """Rates a second, since the last page."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, float]] = {}

    def of(self, name: str, value: float, base: float) -> float:
        """The growth of `value` for each unit that `base` grew; 0 the first time."""
        value_before, base_before = self._before.get(name, (value, base))
        self._before[name] = (value, base)
        return max(0.0, value - value_before) / (base - base_before) if base > base_before else 0.0


class Exposition:
    def __init__(self) -> None:
        self._rates = Rates()
        self._process = ProcessCollector(registry=None)

    def write(self, snapshot: Snapshot) -> tuple[str, bytes]:
        """Content type and text."""
        page = Page()
        _counters(page, snapshot)
        _topics(page, snapshot)
        _requests(page, snapshot)
        _replicas(page, snapshot)
        _cluster(page, snapshot)
        self._raft(page, snapshot)
        self._process_numbers(page, snapshot)
        _groups(page, snapshot)
        _transactions(page, snapshot)
        _client_metrics(page, snapshot)
        text = generate_latest(page) + _of_clients(snapshot.clients)
        if snapshot.each_partition:
            text += _of_partitions(snapshot.partitions, snapshot.node_id)
            text += _of_offsets(snapshot.groups)
        return CONTENT_TYPE_PLAIN_0_0_4, text

    def _raft(self, page: Page, snapshot: Snapshot) -> None:
        raft, commits = snapshot.raft, snapshot.commits
        page.add(f"{RAFT}current_state", 1, current_state=raft.state)
        page.add(f"{RAFT}current_leader", raft.leader)
        page.add(f"{RAFT}current_epoch", raft.term)
        page.add(f"{RAFT}current_vote", raft.voted_for)
        page.add(f"{RAFT}high_watermark", raft.high_watermark)
        page.add(f"{RAFT}log_end_offset", raft.log_end_offset)
        entries = self._rates.of("entries", raft.log_end_offset, snapshot.now_s)
        page.add(f"{RAFT}append_records_rate", entries if raft.state == "leader" else 0)
        page.add(f"{RAFT}fetch_records_rate", entries if raft.state != "leader" else 0)
        page.add(
            f"{RAFT}commit_latency_avg",
            self._rates.of("commits", commits.sum_s * 1000, sum(commits.buckets)),
        )
        page.add(f"{CHANNEL}incoming_byte_total", raft.received_bytes)
        page.add(f"{CHANNEL}outgoing_byte_total", raft.sent_bytes)
        page.add(f"{CHANNEL}request_total", raft.sent_messages)
        page.add(f"{CHANNEL}response_total", raft.received_messages)
        page.add("raftka_metadata_proposals_waiting", raft.waiting)
        page.histogram("raftka_metadata_commit_seconds", commits, 1.0)
        page.histogram("raftka_held_answers_seconds", snapshot.held, 1.0)

    def _process_numbers(self, page: Page, snapshot: Snapshot) -> None:
        page.add("raftka_wall_clock_seconds", snapshot.wall_ms / 1000)
        used = 0.0
        for family in self._process.collect():
            for sample in family.samples:
                if sample.name in page.families:
                    page.add(sample.name, sample.value)
                if sample.name == "process_cpu_seconds_total":
                    used = sample.value
        idle = min(1.0, max(0.0, 1.0 - self._rates.of("processor", used, snapshot.now_s)))
        page.add(
            "kafka_network_socketserver_networkprocessoravgidle_percent", idle, networkProcessor="0"
        )
        page.add("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", idle)
        for name, value in _disk_bytes():
            page.add(f"kafka_server_kafkaserver_linux_disk_{name}_bytes", value)


def _disk_bytes() -> Iterator[tuple[str, int]]:
    try:
        with open("/proc/self/io", encoding="ascii") as file:
            lines = [line.partition(":") for line in file]
    except OSError:
        return
    for name, _, value in lines:
        if name in IO:
            yield IO[name], int(value)


def _counters(page: Page, snapshot: Snapshot) -> None:
    """Counters that are names already; those that nothing has counted yet are 0."""
    elections = snapshot.counters.get("raftka_controller_elections_total", 0)
    page.add(f"{CONTROLLER}newactivecontrollerscount", elections)
    for name, family in page.families.items():
        if (
            family.type == "counter"
            and name.startswith(COUNTED)
            and name not in (FORGOTTEN, DROPPED)
        ):
            page.add(name, snapshot.counters.get(name, 0))
    for (name, topic), count in snapshot.of_topics.items():
        page.add(name, count, topic=topic)
    page.add(f"{TOPICS}replicationbytesin_total", snapshot.replication_bytes_in)
    page.add(f"{TOPICS}replicationbytesout_total", snapshot.replication_bytes_out)
    page.add(
        "kafka_server_socket_server_metrics_connection_creation_total", snapshot.connections_made
    )


def _topics(page: Page, snapshot: Snapshot) -> None:
    topics: dict[str, list[PartitionNumbers]] = {}
    for partition in snapshot.partitions:
        topics.setdefault(partition.topic, []).append(partition)
    for name, of in OF_TOPIC.items():
        family = f"{TOPICS}{name}_total"
        everything = snapshot.counters.get(family, 0)  # of partitions that are not here any more
        for topic, partitions in topics.items():
            value = sum(of(each) for each in partitions)
            everything += value
            page.add(family, value, topic=topic)
        page.add(family, everything)


def _requests(page: Page, snapshot: Snapshot) -> None:
    for name, numbers in snapshot.requests.items():
        request = "FetchConsumer" if name == "Fetch" else name
        page.add(
            "kafka_network_requestmetrics_requests_total", sum(numbers.buckets), request=request
        )
        page.histogram("kafka_network_requestmetrics_totaltimems", numbers, 0.001, request=request)
    for listener, expires_s in snapshot.certificates.items():
        page.add("raftka_certificate_expiry_timestamp_seconds", expires_s, listener=listener)
    for listener, count in snapshot.connections.items():
        page.add(
            "kafka_server_socket_server_metrics_connection_count",
            count,
            listener=listener,
            networkProcessor="0",
        )
    for (listener, name, version), count in snapshot.software.items():
        page.add(
            "kafka_server_socket_server_metrics_connections_software",
            count,
            clientSoftwareName=name,
            clientSoftwareVersion=version,
            listener=listener,
            networkProcessor="0",
        )
    waiting = {
        "Produce": sum(each.awaiting for each in snapshot.partitions),
        "Fetch": snapshot.parked_fetches,
        "ShareFetch": snapshot.shares.parked_fetches,
    }
    for operation, count in waiting.items():
        page.add(f"{PURGATORY}purgatorysize", count, delayedOperation=operation)
        page.add(f"{PURGATORY}numdelayedoperations", count, delayedOperation=operation)
    page.add("kafka_server_fetchsessioncache_numincrementalfetchsessions", snapshot.fetch_sessions)
    page.add(
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
        snapshot.session_partitions,
    )
    page.add("kafka_server_sharesessioncache_sharesessionscount", snapshot.shares.sessions)
    page.add(
        "kafka_server_sharesessioncache_sharepartitionscount", snapshot.shares.session_partitions
    )
    page.add("raftka_share_partitions", snapshot.shares.partitions)


def _replicas(page: Page, snapshot: Snapshot) -> None:
    partitions = snapshot.partitions
    led = [(each, len(each.isr)) for each in partitions if each.isr is not None]
    page.add(f"{REPLICAS}partitioncount", len(partitions))
    page.add(f"{REPLICAS}leadercount", len(led))
    page.add(
        f"{REPLICAS}underreplicatedpartitions",
        sum(in_sync < len(each.replicas) for each, in_sync in led),
    )
    page.add(
        f"{REPLICAS}underminisrpartitioncount", sum(in_sync < each.min_isr for each, in_sync in led)
    )
    page.add(
        f"{REPLICAS}atminisrpartitioncount", sum(in_sync == each.min_isr for each, in_sync in led)
    )
    page.add(f"{REPLICAS}reassigningpartitions", sum(each.reassigning for each, _ in led))
    page.add(
        f"{REPLICAS}partitionswithlatetransactionscount",
        sum(each.late_transaction for each, _ in led),
    )
    page.add(f"{REPLICAS}offlinereplicacount", sum(each.offline for each in partitions))
    page.add("kafka_server_replicafetchermanager_maxlag", snapshot.max_lag, clientId="Replica")
    page.histogram("kafka_log_logflushstats_logflushrateandtimems", snapshot.flushes, 0.001)
    page.histogram("raftka_turntimems", snapshot.turns, 0.001)
    page.add("kafka_log_logmanager_offlinelogdirectorycount", snapshot.failed_directories)
    page.add("raftka_delayed_records_pending", sum(each.pending for each in partitions))
    page.histogram("raftka_delayed_lateness_seconds", snapshot.lateness, 1.0)
    page.add("raftka_producers", sum(each.producers for each in partitions))
    page.add(FORGOTTEN, sum(each.producers_forgotten for each in partitions))
    page.add(DROPPED, sum(each.guards_dropped for each in partitions))


def _of_partitions(partitions: list[PartitionNumbers], me: int) -> bytes:
    """Written by hand, a line 20 times faster than by the library: legal names of topics need no
    escapes.
    """
    lines: dict[str, list[str]] = {name: [] for name in (*OF_REPLICA, *OF_LED)}
    for p in partitions:
        where = f'{{partition="{p.partition}",topic="{p.topic}"}}'
        for name, of in OF_REPLICA.items():
            lines[name].append(f"{name}{where} {of(p)}\n")
        if p.isr is not None:
            in_sync, replicas = len(p.isr), len(p.replicas)
            under = int(in_sync < replicas)
            led = (replicas, in_sync, under, int(in_sync < p.min_isr), int(in_sync == p.min_isr))
            shown = (
                p.high_watermark,
                p.start_offset,
                me,
                int(p.replicas[0] == me),
                replicas,
                in_sync,
                under,
            )
            for name, value in zip(OF_LED, (*led, *shown), strict=True):
                lines[name].append(f"{name}{where} {value}\n")
    return _page(lines)


def _page(lines: dict[str, list[str]]) -> bytes:
    heads = {
        name: f"# HELP {name} {FAMILIES[name][1]}\n# TYPE {name} {FAMILIES[name][0]}\n"
        for name, found in lines.items()
        if found
    }
    return "".join([text for name, head in heads.items() for text in (head, *lines[name])]).encode()


def _groups(page: Page, snapshot: Snapshot) -> None:
    states = Counter(group.state for group in snapshot.groups)
    page.add(f"{GROUPS}numgroups", len(snapshot.groups))
    page.add(f"{GROUPS}numoffsets", sum(len(group.offsets) for group in snapshot.groups))
    for state in ("PreparingRebalance", "CompletingRebalance", "Stable", "Empty"):
        page.add(f"{GROUPS}numgroups{state.lower()}", states[state])
    for group in snapshot.groups:
        page.add("kafka_consumergroup_members", group.members, consumergroup=group.group_id)


def _transactions(page: Page, snapshot: Snapshot) -> None:
    numbers = snapshot.transactions
    for state in State:
        page.add("raftka_transactional_ids", numbers.ids[state], state=state.shown)
    page.add("raftka_transaction_markers_queued", numbers.markers_queued)
    page.add(f"{MARKERS}unknowndestinationqueuesize", numbers.markers_parked)
    page.add(f"{MARKERS}logappendretryqueuesize", numbers.completing)
    for kind, loads_ms in (
        ("group", snapshot.group_loads_ms),
        ("transaction", snapshot.transaction_loads_ms),
        ("share", snapshot.share_state_loads_ms),
    ):
        page.add(
            f"kafka_server_{kind}_coordinator_metrics_partition_load_time_max",
            max(loads_ms, default=0),
        )
        page.add(
            f"kafka_server_{kind}_coordinator_metrics_partition_load_time_avg",
            sum(loads_ms) / max(1, len(loads_ms)),
        )


def _of_offsets(groups: list[GroupNumbers]) -> bytes:
    """By hand like the partitions'; a group's name may be anything."""
    lines: dict[str, list[str]] = {
        "kafka_consumergroup_current_offset": [],
        "kafka_consumergroup_lag": [],
    }
    offsets, lags = lines.values()
    for group in groups:
        name = group.group_id.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        for topic, partition, offset, lag in group.offsets:
            where = f'{{consumergroup="{name}",partition="{partition}",topic="{topic}"}}'
            offsets.append(f"kafka_consumergroup_current_offset{where} {offset}\n")
            if lag is not None:
                lags.append(f"kafka_consumergroup_lag{where} {lag}\n")
    return _page(lines)


def _client_metrics(page: Page, snapshot: Snapshot) -> None:
    page.add("kafka_server_client_metrics_instance_count", snapshot.client_instances)
    page.add("raftka_client_metrics_series", sum(len(each.series) for each in snapshot.clients))


def _of_clients(clients: list[ClientNumbers]) -> bytes:
    """By hand like the partitions'. The clients have chosen these names; the labels of a client
    come first, and an attribute of the same name does not count.
    """
    lines: dict[str, list[str]] = {}
    for client in clients:
        for name, labels, value in client.series:
            where = f"{client.labels},{labels}" if labels else client.labels
            text = floatToGoString(value)  # type: ignore[no-untyped-call]
            lines.setdefault(name, []).append(f"{name}{{{where}}} {text}\n")
    parts = []
    for name, found in lines.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        parts += [f"# HELP {name} {OF_CLIENT}\n# TYPE {name} {kind}\n", *found]
    return "".join(parts).encode()


def _cluster(page: Page, snapshot: Snapshot) -> None:
    cluster = snapshot.cluster
    page.add(f"{CONTROLLER}activecontrollercount", snapshot.active_controller)
    page.add(f"{CONTROLLER}activebrokercount", cluster.active_brokers)
    page.add(f"{CONTROLLER}fencedbrokercount", cluster.fenced_brokers)
    page.add(f"{CONTROLLER}globaltopiccount", cluster.topics)
    page.add(f"{CONTROLLER}globalpartitioncount", cluster.partitions)
    page.add(f"{CONTROLLER}offlinepartitionscount", cluster.offline_partitions)
    page.add(f"{CONTROLLER}preferredreplicaimbalancecount", cluster.preferred_imbalance)
    page.add(
        "kafka_server_brokermetadatametrics_last_applied_record_offset", snapshot.metadata_offset
    )
    page.add("kafka_server_kafkaserver_brokerstate", 3 if snapshot.unfenced else 1)
    page.add("kafka_brokers", cluster.active_brokers)
    for broker_id, address in snapshot.brokers.items():
        page.add("kafka_broker_info", 1, id=str(broker_id), address=address)
    for topic, partitions in snapshot.topic_partitions.items():
        page.add("kafka_topic_partitions", partitions, topic=topic)
