"""docs/three-machines.md on one machine: nodes with the page's file form a cluster, the page's
commands succeed, and they succeed again when a machine is gone.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from raftka.cluster.plan import HOST, NodePlan
from raftka.cluster.ports import HeldPorts
from raftka.cluster.processes import Processes
from raftka.cluster.properties import parse
from tests.docs.shell import Shell
from tests.kit.documents import ROOT

PAGE = (ROOT / "docs" / "three-machines.md").read_text()
MACHINES = ("one", "two", "three")


def section(heading: str, language: str) -> str:
    """Return the first block of a section."""
    text = PAGE[PAGE.index(f"## {heading}\n") :]
    found = re.search(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def plans(folder: Path, ports: HeldPorts) -> list[NodePlan]:
    """The page's file for each machine, with ports and folders of this one."""
    pairs, scraped = ports.triples()
    found = []
    for node_id, (name, (broker, controller)) in enumerate(zip(MACHINES, pairs, strict=True), 1):
        given = parse(section("One file for each machine", "properties"))
        given["node.id"] = str(node_id)
        given["advertised.listeners"] = f"PLAINTEXT://{name}.example.org:9092"
        given["log.dirs"] = str(folder / name / "data")
        given["metrics.port"] = str(scraped[node_id - 1])
        given["listeners"] = (
            given["listeners"].replace("9092", str(broker)).replace("9093", str(controller))
        )
        for key in ("advertised.listeners", "controller.quorum.voters"):
            for machine, (its_broker, its_controller) in zip(MACHINES, pairs, strict=True):
                given[key] = (
                    given[key]
                    .replace(f"{machine}.example.org:9092", f"{HOST}:{its_broker}")
                    .replace(f"{machine}.example.org:9093", f"{HOST}:{its_controller}")
                )
        assert "example.org" not in str(given)
        found.append(
            NodePlan(node_id, folder / name, broker, controller, given, scraped[node_id - 1])
        )
    return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Processes]:
    with HeldPorts(3 * len(MACHINES)) as ports:
        cluster = Processes(plans(tmp_path, ports))
        try:
            cluster.start_all()
            cluster.wait_ready()
            yield cluster
        finally:
            cluster.close()


def commands(cluster: Processes) -> list[str]:
    """Return the lines of "See that it works", with the addresses of this machine."""
    servers = ",".join(f"{name}.example.org:9092" for name in MACHINES)
    metrics_port = next(iter(cluster.nodes.values())).plan.metrics_port
    text = section("See that it works", "sh")
    assert servers in text
    assert "127.0.0.1:9404" in text
    return (
        text.replace(servers, cluster.bootstrap_servers)
        .replace("127.0.0.1:9404", f"127.0.0.1:{metrics_port}")
        .splitlines()
    )


def test_the_commands_succeed_with_all_machines_and_with_two(
    cluster: Processes, tmp_path: Path
) -> None:
    lines = commands(cluster)
    export, health = lines[0], lines[-1]
    assert export.startswith("export ")
    assert health.startswith("curl --fail http://")
    folder = tmp_path / "shell"
    folder.mkdir()
    with Shell(folder, "") as shell:
        printed = shell.script("\n".join(lines[:-1]))
        assert "order-1" in printed

        cluster.kill(3)

        again = [export, *(line for line in lines[2:-1] if "topics create" not in line)]
        assert shell.script("\n".join(again)).count("order-1") == 2
        if shutil.which("curl"):
            shell.script(health)
        with urlopen(health.split()[-1], timeout=10) as answer:
            assert answer.status == 200


def test_all_but_two_lines_of_the_file_are_the_same_on_each_machine() -> None:
    text = section("One file for each machine", "properties")

    assert parse(text)["node.id"] == "1"
    assert "one.example.org:9092" in parse(text)["advertised.listeners"]
    assert [line for line in text.splitlines() if "one." in line and "voters" not in line] == [
        "advertised.listeners=PLAINTEXT://one.example.org:9092"
    ]
