"""Each query of the dashboard and of the alerts has values on real pages of three nodes, no alert
fires while they are well, and each fires for its cause.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from raftka.broker.node import Node
from raftka.broker.telemetry.metric_names import FAMILIES
from raftka.cli.commands import root
from raftka.cli.generate.alerts import ALERTS, Alert, alert_rules
from raftka.cli.generate.dashboard import ROWS, dashboard
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import produce
from tests.broker.stage import Stage
from tests.kit.broker.busy import DATA, a_group, traffic
from tests.kit.broker.http import PORT, Browser
from tests.kit.promql import Series, evaluate, tokens_of

PAGE = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
QUERIES = [query for row in ROWS.values() for panel in row for query, _ in panel.queries]
BY_NAME = {each.name: each for each in ALERTS}


def scrape(stage: Stage, series: Series) -> float:
    """Return the time of the scrape, by the nodes' clocks."""
    at = next(iter(stage.nodes.values())).context.runtime.clock.wall_ms() / 1000
    for node_id in stage.nodes:
        _, _, body = Browser(stage, node_id).answer_to(PAGE)
        series.scrape(f"node-{node_id}", body.decode(), at)
    return at


@pytest.fixture(scope="module")
def busy() -> tuple[Series, float]:
    """Three nodes that are well, and two scrapes of them with traffic between."""
    with Stage(
        nodes=3,
        metrics_port=str(PORT),
        offsets_topic_num_partitions="1",
        group_initial_rebalance_delay_ms="0",
    ) as stage:
        series = Series()
        traffic(stage)
        scrape(stage, series)
        a_group(stage)
        stage.create("later")
        stage.wire(stage.leader("t")).ask(PRODUCE, produce("t", DATA))
        stage.world.run(stage.world.now + 5.0)
        return series, scrape(stage, series)


def test_metrics_of_all_queries_are_listed() -> None:
    for query in [*QUERIES, *(each.query for each in ALERTS)]:
        tokens = list(tokens_of(query))
        names = {each.text for each in tokens if each.kind == "name" and "_" in each.text}
        for name in names - {"histogram_quantile"}:
            assert name.removesuffix("_bucket") in FAMILIES, query


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_of_the_dashboard_has_values(busy: tuple[Series, float], query: str) -> None:
    assert evaluate(query, *busy)


@pytest.mark.parametrize("alert", ALERTS, ids=[each.name for each in ALERTS])
def test_no_alert_fires_while_all_is_well(busy: tuple[Series, float], alert: Alert) -> None:
    assert evaluate(alert.query, *busy) == {}


# causes


def page(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def planted(*pages: str | None) -> Series:
    """Scrapes of one node, a minute apart, the last at 1000 s."""
    series = Series()
    for i, text in enumerate(pages):
        series.scrape("node-1", text, 1000.0 - 60 * (len(pages) - 1 - i))
    return series


def gauge(name: str, value: float) -> Series:
    return planted(page(f"{name} {value}"))


def counter(name: str, before: float, after: float) -> Series:
    return planted(page(f"{name} {before}"), page(f"{name} {after}"))


def histogram(name: str, labels: str) -> Series:
    """A hundred requests of a minute took 2 to 5 s."""
    bounds = {"1000": 0, "2000": 0, "5000": 100, "+Inf": 100}
    row = f"{name}_bucket{{{labels}le="
    return planted(
        page(*(f'{row}"{bound}"}} 0' for bound in bounds)),
        page(*(f'{row}"{bound}"}} {number}' for bound, number in bounds.items())),
    )


KAFKA = "kafka_controller_kafkacontroller_"
CAUSES: dict[str, Callable[[], Series]] = {
    "RaftkaNodeDown": lambda: planted(None),
    "RaftkaNoController": lambda: gauge(f"{KAFKA}activecontrollercount", 0),
    "RaftkaOfflinePartitions": lambda: gauge(f"{KAFKA}offlinepartitionscount", 3),
    "RaftkaUnderMinIsr": lambda: gauge("kafka_server_replicamanager_underminisrpartitioncount", 1),
    "RaftkaUnderReplicated": lambda: gauge(
        "kafka_server_replicamanager_underreplicatedpartitions", 1
    ),
    "RaftkaFencedBroker": lambda: gauge(f"{KAFKA}fencedbrokercount", 1),
    "RaftkaUncleanElection": lambda: counter(
        "kafka_controller_controllerstats_uncleanleaderelections_total", 0, 1
    ),
    "RaftkaLogDirectoryOffline": lambda: gauge("kafka_log_logmanager_offlinelogdirectorycount", 1),
    "RaftkaControllerChanges": lambda: counter(f"{KAFKA}newactivecontrollerscount", 1, 9),
    "RaftkaOpenFiles": lambda: planted(page("process_open_fds 900", "process_max_fds 1000")),
    "RaftkaCertificateExpires": lambda: gauge(
        'raftka_certificate_expiry_timestamp_seconds{listener="SSL"}', 1000 + 86_400
    ),
    "RaftkaClockDiffers": lambda: gauge("raftka_wall_clock_seconds", 990),
    "RaftkaSlowProduce": lambda: histogram(
        "kafka_network_requestmetrics_totaltimems", 'request="Produce",'
    ),
    "RaftkaSlowFlush": lambda: histogram("kafka_log_logflushstats_logflushrateandtimems", ""),
    "RaftkaLongTurns": lambda: counter("raftka_long_turns_total", 0, 30),
    "RaftkaGroupLag": lambda: gauge(
        'kafka_consumergroup_lag{consumergroup="g",topic="t",partition="0"}', 200_000
    ),
    "RaftkaLateTransactions": lambda: gauge(
        "kafka_server_replicamanager_partitionswithlatetransactionscount", 1
    ),
    "RaftkaThrottling": lambda: counter("raftka_throttle_milliseconds_total", 0, 120_000),
    "RaftkaFailedLogins": lambda: counter("raftka_failed_authentications_total", 0, 60),
    "RaftkaErrors": lambda: counter("raftka_handler_errors_total", 0, 1),
}


def behind() -> Series:
    series = Series()
    for node_id, offset in ((1, 5000), (2, 10)):
        name = "kafka_server_brokermetadatametrics_last_applied_record_offset"
        series.scrape(f"node-{node_id}", page(f"{name} {offset}"), 1000.0)
    return series


CAUSES["RaftkaMetadataLag"] = behind


@pytest.mark.parametrize("name", BY_NAME)
def test_an_alert_fires_for_its_cause(name: str) -> None:
    assert evaluate(BY_NAME[name].query, CAUSES[name](), 1000.0)


def leads(node: Node) -> bool:
    """Return whether the node is the active controller."""
    return node.quorum.host is not None and node.quorum.host.active


def test_a_dead_broker_fires_the_alerts_about_it() -> None:
    """Two of three nodes live: partitions with a replica there lack it, and one has no leader."""
    with Stage(nodes=3, metrics_port=str(PORT)) as stage:
        stage.create("t", 1, 3, {"min_insync_replicas": "3"})
        stage.create("alone", partitions=6, replication_factor=1)
        follower = next(each for each, node in stage.nodes.items() if not leads(node))
        stage.kill(follower)
        stage.world.run(stage.world.now + 30.0)
        series = Series()
        now = scrape(stage, series)
        series.scrape(f"node-{follower}", None, now)
    fired = {each.name for each in ALERTS if evaluate(each.query, series, now)}
    assert fired >= {
        "RaftkaNodeDown",
        "RaftkaFencedBroker",
        "RaftkaOfflinePartitions",
        "RaftkaUnderMinIsr",
        "RaftkaUnderReplicated",
    }
    assert "RaftkaNoController" not in fired


# the files


def test_the_rules_are_what_prometheus_reads() -> None:
    (group,) = yaml.safe_load(alert_rules())["groups"]
    assert [each["alert"] for each in group["rules"]] == list(BY_NAME)
    for rule in group["rules"]:
        alert = BY_NAME[rule["alert"]]
        assert (rule["expr"], rule["for"]) == (alert.query, alert.lasts)
        assert rule["annotations"]["summary"] == alert.summary


@pytest.mark.parametrize("alert", ALERTS, ids=[each.name for each in ALERTS])
def test_the_next_step_of_an_alert_is_a_command(alert: Alert) -> None:
    line = [*alert.next_step.split()[1:], "--help"]
    assert CliRunner().invoke(root, line, prog_name="raftka").exit_code == 0


def test_the_dashboard_has_every_panel_in_a_place_of_its_own() -> None:
    done = CliRunner().invoke(root, ["generate", "grafana"])
    shown = json.loads(done.output)
    assert shown == json.loads(json.dumps(dashboard()))
    cells = [
        (x, y)
        for panel in shown["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in shown["panels"]}) == len(shown["panels"])


@pytest.mark.parametrize("options", [(), ("--brokers", "4")])
def test_systemd_takes_the_unit(tmp_path: Path, options: tuple[str, ...]) -> None:
    file = tmp_path / "server.properties"
    done = CliRunner().invoke(root, ["generate", "systemd", str(file), "--user", "root", *options])
    assert done.exit_code == 0
    line = next(each for each in done.output.splitlines() if each.startswith("ExecStart="))
    kind = "host" if options else "broker"
    assert line.split()[1:4] == [kind, "start", str(file)]
    program = line.partition("=")[2].split()[0]
    assert os.path.dirname(program) == os.path.dirname(sys.executable)
    unit = tmp_path / "raftka.service"
    unit.write_text(done.output)
    try:
        verified = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(unit)],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("there is no systemd here")
    assert "raftka.service" not in verified.stderr, verified.stderr
