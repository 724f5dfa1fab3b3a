"""Apache Kafka's tool takes a controller's vote, and gives it back (KIP-853)."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftka.cluster.processes import Processes, running
from tests.clients.java import JavaTools, ToolFailed
from tests.clients.workload import wait
from tests.kit.toolchains import Program

TOOL = "kafka-metadata-quorum"
REMOVE = f"{TOOL} remove-controller --controller-id"


@pytest.fixture
def cluster(java_tools: Program) -> Iterator[Processes]:
    with running(nodes=3) as processes:
        yield processes


def voters(kafka: JavaTools) -> dict[int, str]:
    """Directories of the voters, by id."""
    shown = kafka.run(f"{TOOL} describe --status")
    found = re.search(r"^CurrentVoters: +(.*)$", shown, re.MULTILINE)
    assert found is not None
    return {voter["id"]: voter.get("directoryId", "") for voter in json.loads(found[1])}


def test_a_controller_is_removed_and_added(java_tools: Program, cluster: Processes) -> None:
    with JavaTools(java_tools, cluster.bootstrap_servers) as kafka:
        kafka.run("kafka-features upgrade --feature kraft.version=1")
        known = voters(kafka)
        assert set(known) == {1, 2, 3}

        removed = kafka.run(f"{REMOVE} 2 --controller-directory-id {known[2]}")
        assert removed.split() == f"Removed KRaft controller 2 with directory id {known[2]}".split()
        assert set(voters(kafka)) == {1, 3}
        with pytest.raises(ToolFailed, match="VoterNotFoundException"):
            kafka.run(f"{REMOVE} 2 --controller-directory-id {known[2]}")

        file = cluster.nodes[2].plan.properties_file
        added = kafka.run(f"{TOOL} --command-config {file} add-controller")
        assert f"Added controller 2 with directory id {known[2]}" in added
        wait(lambda: voters(kafka) == known)


def test_the_controllers_listener_is_asked(java_tools: Program, cluster: Processes) -> None:
    """The tools find the controller that leads by any of the controllers."""
    servers = ",".join(f"127.0.0.1:{node.plan.controller_port}" for node in cluster.nodes.values())
    with JavaTools(java_tools, servers, "--bootstrap-controller") as kafka:
        shown = kafka.run(f"{TOOL} describe --replication")
        statuses = [line.split()[-1] for line in shown.splitlines()[1:]]
        assert sorted(statuses) == ["Follower", "Follower", "Leader"]

        kafka.run("kafka-features upgrade --feature kraft.version=1")
        known = voters(kafka)
        kafka.run(
            f"{TOOL} remove-controller --controller-id 2 --controller-directory-id {known[2]}"
        )
        assert set(voters(kafka)) == {1, 3}
        file = cluster.nodes[2].plan.properties_file
        with pytest.raises(ToolFailed, match="BROKER_NOT_AVAILABLE"):
            kafka.run(f"{TOOL} --command-config {nowhere(file)} add-controller")
        added = kafka.run(f"{TOOL} --command-config {file} add-controller")
        assert f"Added controller 2 with directory id {known[2]}" in added
        wait(lambda: voters(kafka) == known)

        kafka.run(
            "kafka-configs --alter --entity-type brokers --entity-default --add-config "
            "log.retention.ms=77777"
        )
        described = kafka.run("kafka-configs --describe --entity-type brokers --entity-default")
        assert "log.retention.ms=77777" in described


def nowhere(file: Path) -> Path:
    """Copy the properties, with a port of the controller where nobody listens."""
    text = re.sub(r"(CONTROLLER://[\w.]+):\d+", r"\1:1", file.read_text())
    changed = file.with_name("nowhere.properties")
    changed.write_text(text)
    return changed
