"""The names that the usual dashboards ask for are in /metrics: Strimzi's pages for Kafka and KRaft,
kafka_exporter's, and those for jmx_exporter.

Each name is there after real traffic through three nodes and the death of one, with the value that
this traffic must have given it.
"""

import csv
from collections.abc import Callable
from typing import Any

import pytest

from raftka import limits
from raftka.broker.exporter.pages import MetricsPage
from raftka.broker.exporter.snapshot import Snapshot, take_snapshot
from raftka.broker.telemetry.metric_names import FAMILIES
from raftka.http.messages import Request
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import fetch, produce, produced
from tests.broker.stage import Stage
from tests.kit.broker.busy import DATA, GROUP, RECORDS, ROUNDS, a_group, traffic
from tests.kit.broker.http import PORT, Browser, Samples, scraped
from tests.kit.documents import METRICS


@pytest.fixture(scope="module")
def busy() -> Samples:
    """Three nodes, all well."""
    with Stage(
        nodes=3,
        metrics_port=str(PORT),
        offsets_topic_num_partitions="1",
        group_initial_rebalance_delay_ms="0",
    ) as stage:
        traffic(stage)
        a_group(stage)
        stage.world.run(stage.world.now + 2.0)
        scraped(stage)
        stage.world.run(stage.world.now + 2.0)
        stage.create("later")
        return scraped(stage)


SENT = float(2 * ROUNDS * len(DATA))
MORE: Callable[[float], bool] = lambda value: value > 0  # noqa: E731
ANY: Callable[[float], bool] = lambda value: value >= 0  # noqa: E731

# Query (what is summed over all nodes; labels as a dashboard gives them), and what it must come to.
DASHBOARDS: dict[tuple[str, tuple[tuple[str, str], ...]], float | Callable[[float], bool]] = {
    # Strimzi: Kafka
    ("kafka_server_replicamanager_leadercount", ()): 4,
    ("kafka_server_replicamanager_partitioncount", ()): 12,
    ("kafka_server_replicamanager_underreplicatedpartitions", ()): 0,
    ("kafka_cluster_partition_atminisr", ()): 0,
    ("kafka_cluster_partition_underminisr", ()): 0,
    ("kafka_controller_kafkacontroller_activecontrollercount", ()): 1,
    ("kafka_controller_kafkacontroller_offlinepartitionscount", ()): 0,
    ("kafka_controller_controllerstats_uncleanleaderelections_total", ()): 0,
    ("kafka_server_brokertopicmetrics_messagesin_total", (("topic", "t"),)): 2 * ROUNDS * RECORDS,
    ("kafka_server_brokertopicmetrics_bytesin_total", (("topic", "t"),)): SENT,
    ("kafka_server_brokertopicmetrics_bytesout_total", (("topic", "t"),)): 3 * SENT,
    ("kafka_server_brokertopicmetrics_totalproducerequests_total", (("topic", "t"),)): 2 * ROUNDS,
    ("kafka_server_brokertopicmetrics_totalfetchrequests_total", (("topic", "t"),)): MORE,
    ("kafka_server_brokertopicmetrics_failedproducerequests_total", (("topic", "t"),)): 2,
    ("kafka_server_brokertopicmetrics_failedfetchrequests_total", (("topic", "t"),)): 2,
    ("kafka_log_log_size", (("topic", "t"), ("partition", "0"))): 3 * SENT / 2,
    ("kafka_server_socket_server_metrics_connection_count", (("listener", "PLAINTEXT"),)): MORE,
    (
        "kafka_server_socket_server_metrics_connections_software",
        (("clientSoftwareName", "raftka"),),
    ): MORE,
    ("kafka_network_socketserver_networkprocessoravgidle_percent", ()): ANY,
    ("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", ()): ANY,
    ("kafka_server_kafkaserver_linux_disk_write_bytes", ()): ANY,
    ("process_open_fds", ()): MORE,
    # Strimzi: KRaft
    ("kafka_server_raftmetrics_current_state", (("current_state", "leader"),)): 1,
    ("kafka_server_raftmetrics_current_state", (("current_state", "follower"),)): 2,
    ("kafka_server_raftmetrics_current_leader", ()): MORE,
    ("kafka_server_raftmetrics_current_epoch", ()): MORE,
    ("kafka_server_raftmetrics_current_vote", ()): MORE,
    ("kafka_server_raftmetrics_high_watermark", ()): MORE,
    ("kafka_server_raftmetrics_log_end_offset", ()): MORE,
    ("kafka_server_raftmetrics_append_records_rate", ()): MORE,
    ("kafka_server_raftmetrics_fetch_records_rate", ()): MORE,
    ("kafka_server_raftmetrics_commit_latency_avg", ()): MORE,
    ("kafka_server_raftchannelmetrics_incoming_byte_total", ()): MORE,
    ("kafka_server_raftchannelmetrics_outgoing_byte_total", ()): MORE,
    ("kafka_server_raftchannelmetrics_request_total", ()): MORE,
    ("kafka_server_raftchannelmetrics_response_total", ()): MORE,
    # kafka_exporter
    ("kafka_brokers", ()): 3,
    ("kafka_broker_info", ()): 3,
    ("kafka_topic_partitions", (("topic", "t"),)): 2,
    ("kafka_topic_partition_current_offset", (("topic", "t"), ("partition", "1"))): ROUNDS
    * RECORDS,
    ("kafka_topic_partition_oldest_offset", (("topic", "t"),)): 0,
    ("kafka_topic_partition_in_sync_replica", (("topic", "t"),)): 6,
    ("kafka_topic_partition_replicas", (("topic", "t"),)): 6,
    ("kafka_topic_partition_leader_is_preferred", (("topic", "t"),)): 2,
    ("kafka_topic_partition_under_replicated_partition", (("topic", "t"),)): 0,
    ("kafka_consumergroup_members", (("consumergroup", GROUP),)): 1,
    (
        "kafka_consumergroup_current_offset",
        (("consumergroup", GROUP), ("topic", "t"), ("partition", "1")),
    ): RECORDS,
    ("kafka_consumergroup_lag", (("consumergroup", GROUP), ("topic", "t"), ("partition", "1"))): (
        ROUNDS - 1
    )
    * RECORDS,
    # the older pages for jmx_exporter
    ("kafka_coordinator_group_groupmetadatamanager_numgroups", ()): 1,
    ("kafka_coordinator_group_groupmetadatamanager_numoffsets", ()): 1,
    ("kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance", ()): 1,
    # the group's records too
    ("kafka_server_brokertopicmetrics_bytesin_total", (("topic", ""),)): lambda value: (
        SENT < value < SENT + 1000
    ),
    ("kafka_server_brokertopicmetrics_replicationbytesin_total", ()): lambda value: (
        2 * SENT < value < 2 * SENT + 2000
    ),
    ("kafka_server_brokertopicmetrics_replicationbytesout_total", ()): MORE,
    ("kafka_network_requestmetrics_requests_total", (("request", "Produce"),)): 2 * ROUNDS + 2,
    ("kafka_network_requestmetrics_requests_total", (("request", "FetchConsumer"),)): 8,
    ("kafka_network_requestmetrics_requests_total", (("request", "FetchFollower"),)): MORE,
    ("kafka_network_requestmetrics_requests_total", (("request", "ListOffsets"),)): MORE,
    ("kafka_network_requestmetrics_totaltimems_count", (("request", "Produce"),)): 2 * ROUNDS + 2,
    ("kafka_network_requestmetrics_totaltimems_sum", (("request", "Produce"),)): MORE,
    ("kafka_network_requestmetrics_totaltimems_bucket", (("request", "Produce"), ("le", "+Inf"))): 2
    * ROUNDS
    + 2,
    (
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        (("delayedOperation", "Fetch"),),
    ): MORE,
    (
        "kafka_server_delayedoperationpurgatory_numdelayedoperations",
        (("delayedOperation", "Produce"),),
    ): 0,
    ("kafka_server_replicamanager_isrshrinks_total", ()): 0,
    ("kafka_server_replicamanager_isrexpands_total", ()): ANY,
    ("kafka_server_replicamanager_failedisrupdates_total", ()): ANY,
    ("kafka_server_replicamanager_offlinereplicacount", ()): 0,
    ("kafka_server_replicamanager_partitionswithlatetransactionscount", ()): 0,
    ("kafka_server_group_coordinator_metrics_partition_load_time_max", ()): ANY,
    ("kafka_server_transaction_coordinator_metrics_partition_load_time_avg", ()): ANY,
    (
        "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize",
        (),
    ): 0,
    (
        "kafka_coordinator_transaction_transactionmarkerchannelmanager_logappendretryqueuesize",
        (),
    ): 0,
    ("kafka_server_addpartitionstotxnmanager_verificationfailurerate_total", ()): 0,
    ("kafka_server_replicafetchermanager_maxlag", (("clientId", "Replica"),)): ANY,
    ("kafka_log_logflushstats_logflushrateandtimems_count", ()): MORE,
    ("kafka_log_log_logendoffset", (("topic", "t"), ("partition", "0"))): 3 * ROUNDS * RECORDS,
    ("kafka_controller_kafkacontroller_globaltopiccount", ()): 3,
    ("kafka_controller_kafkacontroller_globalpartitioncount", ()): 4,
    ("kafka_controller_kafkacontroller_activebrokercount", ()): 3,
    ("kafka_controller_kafkacontroller_fencedbrokercount", ()): 0,
    ("kafka_controller_kafkacontroller_preferredreplicaimbalancecount", ()): 0,
    ("kafka_server_brokermetadatametrics_last_applied_record_offset", ()): MORE,
    ("kafka_server_kafkaserver_brokerstate", ()): 9,
}


@pytest.mark.parametrize(
    "query",
    DASHBOARDS,
    ids=lambda query: query[0] + "".join(f",{name}={value}" for name, value in query[1]),
)
def test_a_dashboard_has_its_answer(
    busy: Samples, query: tuple[str, tuple[tuple[str, str], ...]]
) -> None:
    expected = DASHBOARDS[query]
    found = busy.sum(query[0], **dict(query[1]))

    assert expected(found) if callable(expected) else found == expected, found


def test_every_limit_has_its_counter(busy: Samples) -> None:
    for limit in vars(limits).values():
        if isinstance(limit, limits.Limit):
            assert len(busy.of(limit.metric)) == 3


def test_what_is_shown_is_in_the_table_and_the_table_in_the_document(busy: Samples) -> None:
    suffixes = ("_bucket", "_sum", "_count")
    histograms = {name for name, (kind, _) in FAMILIES.items() if kind == "histogram"}
    limit_counters = {
        limit.metric for limit in vars(limits).values() if isinstance(limit, limits.Limit)
    }
    shown = {
        next((h for h in histograms if each.name in [h + suffix for suffix in suffixes]), each.name)
        for each in busy
    }

    assert shown - limit_counters == FAMILIES.keys() - {
        "raftka_certificate_expiry_timestamp_seconds"
    }, "that one is there with TLS alone"
    with METRICS.open() as lines:
        _, *told = csv.reader(lines)
    assert told == [[name, kind, text] for name, (kind, text) in FAMILIES.items()]


def test_a_histogram_grows_with_its_bounds(busy: Samples) -> None:
    found = {
        each.labels["le"]: each.value
        for each in busy
        if each.name == "kafka_network_requestmetrics_totaltimems_bucket" and each.node == 1
    }

    assert list(found)[:3] == ["0.5", "1", "2.5"]
    assert list(found.values()) == sorted(found.values())


def test_when_a_broker_is_gone() -> None:
    with Stage(nodes=3, metrics_port=str(PORT)) as stage:
        traffic(stage)
        gone = stage.leader("t")
        stage.kill(gone)
        stage.wait(lambda: not any(node.image.alive(gone) for node in stage.nodes.values()))
        stage.world.run(stage.world.now + 1.0)
        samples = scraped(stage)

    assert samples.sum("kafka_server_replicamanager_underreplicatedpartitions") == 2
    assert samples.sum("kafka_server_replicamanager_atminisrpartitioncount") == 2
    assert samples.sum("kafka_server_replicamanager_isrshrinks_total") >= 1
    assert samples.sum("kafka_controller_kafkacontroller_fencedbrokercount") == 1
    assert samples.sum("kafka_controller_kafkacontroller_preferredreplicaimbalancecount") >= 1
    assert samples.sum("raftka_leader_elections_total") >= 1
    assert samples.sum("kafka_controller_kafkacontroller_offlinepartitionscount") == 0


def test_deleted_topics_stay_in_the_sum_and_leave_the_page() -> None:
    with Stage(metrics_port=str(PORT)) as stage:
        stage.create("t")
        assert produced(stage.wire().ask(PRODUCE, produce("t", DATA))).error_code == 0
        stage.delete("t")
        stage.wait(lambda: not stage.nodes[1].replicas.partitions)
        samples = scraped(stage)

    assert samples.of("kafka_server_brokertopicmetrics_bytesin_total", topic="t") == []
    assert samples.of("kafka_server_brokertopicmetrics_bytesin_total", topic="") == [len(DATA)]
    assert samples.of("kafka_log_log_size", topic="t") == []


def test_strangers_make_no_series() -> None:
    with Stage(metrics_port=str(PORT)) as stage:
        wire = stage.wire()
        for i in range(50):
            wire.ask(PRODUCE, produce(f"no-such-{i}", DATA))
            wire.ask(FETCH, fetch(f"no-such-{i}"))
        assert stage.nodes[1].metrics.of_topics == {}
        samples = scraped(stage)

    assert samples.of("kafka_server_brokertopicmetrics_failedproducerequests_total") == [50]
    assert samples.of("kafka_server_brokertopicmetrics_failedfetchrequests_total") == [50]


def test_partitions_can_be_left_out() -> None:
    with Stage(metrics_port=str(PORT), metrics_partitions="false") as stage:
        stage.create("t", partitions=3)
        samples = scraped(stage)

    assert not [each for each in samples if "partition" in each.labels]
    assert samples.of("kafka_server_replicamanager_partitioncount") == [3]


def test_requests_meanwhile_get_the_same_page(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Snapshot] = []
    monkeypatch.setattr(
        "raftka.broker.exporter.pages.take_snapshot",
        lambda *given: taken.append(take_snapshot(*given)) or taken[-1],  # type: ignore[func-returns-value]
    )
    with Stage() as stage:
        page, pages = MetricsPage(stage.nodes[1].services), list[bytes]()
        request = Request("GET", "/metrics", {}, is_old=False)

        def ask() -> None:
            for _ in range(3):
                page(request, lambda response: pages.append(response.body))

        stage.world.at(stage.world.now, ask)
        stage.wait(lambda: len(pages) == 3)

        assert pages[0] is pages[1] is pages[2]
        assert len(taken) == 1


def test_a_page_that_can_not_be_written_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with Stage(metrics_port=str(PORT)) as stage:
        monkeypatch.setattr(MetricsPage, "_write", lambda self, snapshot: 1 / 0)
        status, _, _ = Browser(stage).answer_to(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")

        assert status == 503
        assert "ZeroDivisionError" in stage.events("metrics_failed")[0]["error"]


def test_thousands_of_partitions_are_looked_at_some_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftka.broker.exporter.pages.PARTITIONS_A_TURN", 2)
    with Stage(metrics_port=str(PORT)) as stage:
        stage.create("t", partitions=7)
        samples = scraped(stage)

    assert len(samples.of("kafka_log_log_size", topic="t", partition="6")) == 1
    assert len([each for each in samples if each.name == "kafka_log_log_size"]) == 7


def test_a_mistake_in_gathering_harms_the_page_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftka.broker.exporter.pages.PARTITIONS_A_TURN", 2)
    with Stage(metrics_port=str(PORT)) as stage:
        stage.create("t", partitions=3)
        partition = stage.partition("t", 2)
        monkeypatch.setattr(
            "raftka.broker.exporter.pages.numbers_of", lambda each, _: 1 / (each is not partition)
        )
        status, _, _ = Browser(stage).answer_to(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")

        assert status == 503
        assert not stage.world.failures
        assert stage.create("u")


def test_when_a_log_can_not_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    with Stage(nodes=3, metrics_port=str(PORT)) as stage:
        stage.create("t", replication_factor=3)
        full = stage.leader("t")
        log = stage.partition("t").log
        write = type(log).write_staged

        def fails(self: Any) -> None:
            if self is log and self.failed is None:
                error = OSError("no space left")
                self._fail(error)
                raise error
            write(self)

        monkeypatch.setattr(type(log), "write_staged", fails)
        stage.wire(full).request(PRODUCE, produce("t", DATA))
        stage.wait(lambda: stage.leader("t") not in (full, -1))
        samples = scraped(stage)

    assert samples.sum("kafka_log_logmanager_offlinelogdirectorycount") == 1
    assert samples.sum("kafka_server_replicamanager_offlinereplicacount") == 1
    assert samples.sum("raftka_log_failures_total") == 1
