"""`raftka controllers`, and other commands for controllers, at the controllers' own listener."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from raftka.cli.commands import root
from raftka.cluster.processes import Processes, running


@pytest.fixture(scope="module")
def cluster() -> Iterator[Processes]:
    with running(nodes=3) as processes:
        yield processes


def at(cluster: Processes, node_id: int) -> str:
    return f"127.0.0.1:{cluster.nodes[node_id].plan.controller_port}"


def run(line: str, servers: str) -> Any:
    done = CliRunner().invoke(root, f"{line} -o json -b {servers}")
    assert done.exit_code == 0, done.stderr
    return [json.loads(each) for each in done.stdout.splitlines()]


def test_any_controller_leads_to_the_one_that_decides(cluster: Processes) -> None:
    run("features upgrade -f kraft.version=1", at(cluster, 1))
    for node_id in (1, 2, 3):
        shown = run("controllers list", at(cluster, node_id))
        assert sorted(each["role"] for each in shown) == ["leader", "voter", "voter"]
    goes = next(each["node"] for each in shown if each["role"] == "voter")
    for node_id in (1, 2, 3):
        run(f"controllers remove {goes}", at(cluster, node_id))
        run(f"controllers add {goes} --at {at(cluster, goes)}", at(cluster, node_id))


def test_commands_for_brokers_are_refused(cluster: Processes) -> None:
    done = CliRunner().invoke(root, f"topics list -b {at(cluster, 1)}")
    assert done.exit_code == 1
    assert "is a controller's port and has no Metadata. Next step: give a broker's" in done.stderr
