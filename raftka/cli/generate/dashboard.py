"""A dashboard of Grafana: a cluster from the clients' side to the disks. Queries are on the metrics
of docs/metrics.csv; tests see that each has values.
"""

from collections.abc import Sequence
from typing import NamedTuple

from raftka.cli.generate.alerts import FLUSH_P99, PRODUCE_P99
from raftka.json_values import JsonObject

COLUMNS, WIDTH, HEIGHT = 24, 8, 7  # of Grafana's grid; of a panel
SCHEMA = 39  # of the dashboard's JSON: Grafana 10 and later
SOURCE = {"type": "prometheus", "uid": "${source}"}


class Panel(NamedTuple):
    """`queries`: PromQL, and the name of each of its series in Grafana's form."""

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]


ROWS: dict[str, Sequence[Panel]] = {
    "Health": (
        Panel(
            "Partitions without a leader, below min.insync.replicas, under-replicated",
            "none",
            (
                ("sum(kafka_controller_kafkacontroller_offlinepartitionscount)", "no leader"),
                (
                    "sum(kafka_server_replicamanager_underminisrpartitioncount)",
                    "below min.insync.replicas",
                ),
                (
                    "sum(kafka_server_replicamanager_underreplicatedpartitions)",
                    "under-replicated",
                ),
            ),
        ),
        Panel(
            "Brokers",
            "none",
            (
                ("sum(kafka_controller_kafkacontroller_activebrokercount)", "alive"),
                ("sum(kafka_controller_kafkacontroller_fencedbrokercount)", "fenced"),
                (
                    "sum(kafka_controller_kafkacontroller_activecontrollercount)",
                    "active controllers",
                ),
            ),
        ),
        Panel(
            "Elections and changes of the ISR",
            "none",
            (
                ("sum(increase(raftka_leader_elections_total[5m]))", "leaders"),
                ("sum(increase(kafka_server_replicamanager_isrshrinks_total[5m]))", "shrinks"),
                ("sum(increase(kafka_server_replicamanager_isrexpands_total[5m]))", "expands"),
            ),
        ),
    ),
    "Traffic": (
        Panel(
            "Records in",
            "short",
            (
                (
                    "sum by (topic) (rate(kafka_server_brokertopicmetrics_messagesin_total"
                    '{topic!=""}[5m]))',
                    "{{topic}}",
                ),
            ),
        ),
        Panel(
            "Bytes in and out",
            "Bps",
            (
                (
                    'sum(rate(kafka_server_brokertopicmetrics_bytesin_total{topic=""}[5m]))',
                    "in",
                ),
                (
                    'sum(rate(kafka_server_brokertopicmetrics_bytesout_total{topic=""}[5m]))',
                    "out",
                ),
                (
                    "sum(rate(kafka_server_brokertopicmetrics_replicationbytesin_total[5m]))",
                    "replicated",
                ),
            ),
        ),
        Panel(
            "Requests",
            "reqps",
            (
                (
                    "sum by (request) (rate(kafka_network_requestmetrics_requests_total[5m]))",
                    "{{request}}",
                ),
            ),
        ),
        Panel("Produce, p99", "ms", ((PRODUCE_P99, "p99"),)),
        Panel(
            "Connections",
            "none",
            (
                (
                    "sum by (listener) (kafka_server_socket_server_metrics_connection_count)",
                    "{{listener}}",
                ),
            ),
        ),
        Panel(
            "Software of clients",
            "none",
            (
                (
                    "sum by (clientSoftwareName, clientSoftwareVersion) "
                    "(kafka_server_socket_server_metrics_connections_software)",
                    "{{clientSoftwareName}} {{clientSoftwareVersion}}",
                ),
            ),
        ),
    ),
    "Groups": (
        Panel(
            "Lag",
            "none",
            (
                (
                    "sum by (consumergroup, topic) (kafka_consumergroup_lag)",
                    "{{consumergroup}} {{topic}}",
                ),
            ),
        ),
        Panel(
            "Members",
            "none",
            (("sum by (consumergroup) (kafka_consumergroup_members)", "{{consumergroup}}"),),
        ),
        Panel(
            "Transactional ids",
            "none",
            (("sum by (state) (raftka_transactional_ids)", "{{state}}"),),
        ),
    ),
    "Brokers and disks": (
        Panel("Flushes, p99", "ms", ((FLUSH_P99, "{{instance}}"),)),
        Panel(
            "Bytes of replicas",
            "bytes",
            (("sum by (instance) (kafka_log_log_size)", "{{instance}}"),),
        ),
        Panel(
            "Leaders",
            "none",
            (
                (
                    "sum by (instance) (kafka_server_replicamanager_leadercount)",
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            "Busy part of the core",
            "percentunit",
            (
                (
                    "1 - avg by (instance) "
                    "(kafka_network_socketserver_networkprocessoravgidle_percent)",
                    "{{instance}}",
                ),
            ),
        ),
        Panel("Memory", "bytes", (("process_resident_memory_bytes", "{{instance}}"),)),
        Panel(
            "Open files",
            "percentunit",
            (("process_open_fds / process_max_fds", "{{instance}}"),),
        ),
        Panel(
            "Throttling",
            "ms",
            (
                (
                    "sum by (instance) (rate(raftka_throttle_milliseconds_total[5m]))",
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            "Turns of the loop over 100 ms",
            "none",
            (("increase(raftka_long_turns_total[5m])", "{{instance}}"),),
        ),
        Panel(
            "Metadata entries",
            "none",
            (
                (
                    "kafka_server_brokermetadatametrics_last_applied_record_offset",
                    "{{instance}}",
                ),
            ),
        ),
    ),
}


def dashboard() -> JsonObject:
    """Return the dashboard as Grafana imports it; its data source is a variable."""
    panels: list[JsonObject] = []
    top = 0
    for title, row in ROWS.items():
        panels.append(
            {
                "type": "row",
                "title": title,
                "id": len(panels) + 1,
                "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1},
            }
        )
        top += 1
        for number, panel in enumerate(row):
            across, down = number % (COLUMNS // WIDTH), number // (COLUMNS // WIDTH)
            place = {"x": across * WIDTH, "y": top + down * HEIGHT, "w": WIDTH, "h": HEIGHT}
            panels.append({**_shown(panel), "id": len(panels) + 1, "gridPos": place})
        top += -(-len(row) // (COLUMNS // WIDTH)) * HEIGHT
    return {
        "uid": "raftka",
        "title": "raftka",
        "schemaVersion": SCHEMA,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus"}]},
        "panels": panels,
    }


def _shown(panel: Panel) -> JsonObject:
    return {
        "type": "timeseries",
        "title": panel.title,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": query, "legendFormat": name}
            for i, (query, name) in enumerate(panel.queries)
        ],
    }
