"""Alerts of Prometheus about a cluster: what to look at by night, and what by day. Queries are on
the metrics of docs/metrics.csv; tests let each alert fire.
"""

import json
from collections.abc import Iterator
from typing import NamedTuple

PAGE, TICKET = "critical", "warning"  # severities: wake somebody, or not
PRODUCE_P99 = (
    "histogram_quantile(0.99, sum by (le) "
    '(rate(kafka_network_requestmetrics_totaltimems_bucket{request="Produce"}[5m])))'
)
FLUSH_P99 = (
    "histogram_quantile(0.99, sum by (instance, le) "
    "(rate(kafka_log_logflushstats_logflushrateandtimems_bucket[5m])))"
)


class Alert(NamedTuple):
    """`query`: PromQL; the alert fires when it has had values for `lasts`."""

    name: str
    severity: str
    lasts: str
    query: str
    summary: str
    next_step: str


ALERTS = (
    Alert(
        "RaftkaNodeDown",
        PAGE,
        "1m",
        'up{job="raftka"} == 0',
        "Prometheus cannot reach {{ $labels.instance }}.",
        "raftka cluster describe",
    ),
    Alert(
        "RaftkaNoController",
        PAGE,
        "1m",
        "sum(kafka_controller_kafkacontroller_activecontrollercount) != 1",
        "There is not one active controller: no leader moves and no topic is made.",
        "raftka controllers list",
    ),
    Alert(
        "RaftkaOfflinePartitions",
        PAGE,
        "1m",
        "sum(kafka_controller_kafkacontroller_offlinepartitionscount) > 0",
        "{{ $value }} partitions have no leader.",
        "raftka doctor",
    ),
    Alert(
        "RaftkaUnderMinIsr",
        PAGE,
        "2m",
        "sum by (instance) (kafka_server_replicamanager_underminisrpartitioncount) > 0",
        "{{ $value }} partitions led by {{ $labels.instance }} refuse acks=all.",
        "raftka doctor",
    ),
    Alert(
        "RaftkaUnderReplicated",
        TICKET,
        "10m",
        "sum by (instance) (kafka_server_replicamanager_underreplicatedpartitions) > 0",
        "{{ $value }} partitions led by {{ $labels.instance }} lack replicas in sync.",
        "raftka doctor",
    ),
    Alert(
        "RaftkaFencedBroker",
        TICKET,
        "5m",
        "sum(kafka_controller_kafkacontroller_fencedbrokercount) > 0",
        "{{ $value }} brokers are registered and not alive.",
        "raftka cluster describe",
    ),
    Alert(
        "RaftkaUncleanElection",
        PAGE,
        "0m",
        "sum(increase(kafka_controller_controllerstats_uncleanleaderelections_total[10m])) > 0",
        "A leader from outside the ISR was elected: acknowledged records may be lost.",
        "raftka doctor",
    ),
    Alert(
        "RaftkaLogDirectoryOffline",
        PAGE,
        "0m",
        "kafka_log_logmanager_offlinelogdirectorycount > 0",
        "{{ $labels.instance }} cannot use {{ $value }} log directories.",
        "raftka doctor",
    ),
    Alert(
        "RaftkaControllerChanges",
        TICKET,
        "0m",
        "sum(increase(kafka_controller_kafkacontroller_newactivecontrollerscount[15m])) > 5",
        "The active controller changed {{ $value }} times in 15 minutes.",
        "raftka controllers list",
    ),
    Alert(
        "RaftkaMetadataLag",
        TICKET,
        "2m",
        "max(kafka_server_brokermetadatametrics_last_applied_record_offset) "
        "- min(kafka_server_brokermetadatametrics_last_applied_record_offset) > 1000",
        "A node is {{ $value }} entries of metadata behind.",
        "raftka controllers list",
    ),
    Alert(
        "RaftkaOpenFiles",
        TICKET,
        "5m",
        "process_open_fds / process_max_fds > 0.8",
        "{{ $labels.instance }} has opened {{ $value | humanizePercentage }} of its files.",
        "raftka generate systemd",
    ),
    Alert(
        "RaftkaCertificateExpires",
        TICKET,
        "1h",
        "raftka_certificate_expiry_timestamp_seconds - time() < 1209600",
        "A certificate of {{ $labels.instance }} ends in {{ $value | humanizeDuration }}.",
        "raftka doctor",
    ),
    Alert(
        "RaftkaClockDiffers",
        TICKET,
        "5m",
        "abs(raftka_wall_clock_seconds - timestamp(raftka_wall_clock_seconds)) > 5",
        "The clock of {{ $labels.instance }} is {{ $value }} s from Prometheus's.",
        "raftka doctor",
    ),
    Alert(
        "RaftkaSlowProduce",
        TICKET,
        "10m",
        f"{PRODUCE_P99} > 1000",
        "1 % of Produce requests take more than {{ $value }} ms.",
        "raftka doctor",
    ),
    Alert(
        "RaftkaSlowFlush",
        TICKET,
        "10m",
        f"{FLUSH_P99} > 500",
        "1 % of flushes of {{ $labels.instance }} take over {{ $value }} ms: a slow disk.",
        "raftka doctor",
    ),
    Alert(
        "RaftkaLongTurns",
        TICKET,
        "5m",
        "increase(raftka_long_turns_total[5m]) > 20",
        "The loop of {{ $labels.instance }} was held {{ $value }} times for over 100 ms.",
        "raftka doctor",
    ),
    Alert(
        "RaftkaGroupLag",
        TICKET,
        "15m",
        "sum by (consumergroup, topic) (kafka_consumergroup_lag) > 100000",
        "{{ $value }} records of {{ $labels.topic }} wait for group {{ $labels.consumergroup }}.",
        "raftka groups list",
    ),
    Alert(
        "RaftkaLateTransactions",
        TICKET,
        "5m",
        "sum(kafka_server_replicamanager_partitionswithlatetransactionscount) > 0",
        "{{ $value }} partitions have a transaction open for too long.",
        "raftka transactions find-hanging",
    ),
    Alert(
        "RaftkaThrottling",
        TICKET,
        "10m",
        "rate(raftka_throttle_milliseconds_total[5m]) > 1000",
        "Quotas of {{ $labels.instance }} hold clients for {{ $value }} ms a second.",
        "raftka quotas list",
    ),
    Alert(
        "RaftkaFailedLogins",
        TICKET,
        "0m",
        "increase(raftka_failed_authentications_total[5m]) > 50",
        "{{ $value }} logins at {{ $labels.instance }} failed in 5 minutes.",
        "raftka users list",
    ),
    Alert(
        "RaftkaErrors",
        TICKET,
        "0m",
        "increase(raftka_handler_errors_total[10m]) > 0",
        "A mistake of raftka at {{ $labels.instance }}: its log has a line with the level error.",
        "raftka doctor",
    ),
)


def alert_rules() -> str:
    """Return a file of rules for Prometheus (YAML): texts are JSON strings, which YAML takes."""
    return "\n".join(["groups:", "  - name: raftka", "    rules:", *_rules()]) + "\n"


def _rules() -> Iterator[str]:
    for each in ALERTS:
        yield f"      - alert: {each.name}"
        yield f"        expr: {json.dumps(each.query)}"
        yield f"        for: {each.lasts}"
        yield "        labels:"
        yield f"          severity: {each.severity}"
        yield "        annotations:"
        yield f"          summary: {json.dumps(each.summary)}"
        yield f"          next_step: {json.dumps(each.next_step)}"
