"""The console of launchers: where it is printed, what it can do, how it ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from raftka.cluster.ask import ask
from raftka.testing.waits import wait_for_truth
from tests.kit.console import Api

FROM_CHECKOUT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
PATIENCE_SECONDS = 60.0
NODES = 3

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def raftka() -> Iterator[Start]:
    """Starts a command; at the end of the test it is killed, and its nodes with it."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "raftka.cli", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=FROM_CHECKOUT,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def told(stream: IO[str] | None, name: str) -> str:
    """The value of a line `name=value` that is printed."""
    assert stream is not None
    for line in stream:
        if line.startswith(f"{name}="):
            return line.rstrip().removeprefix(f"{name}=")
    raise AssertionError(f"the command has ended without {name}=")


def states(api: Api) -> list[str]:
    return [each["state"] for each in api.get("/api/nodes")["nodes"]]


def nodes_with_metrics(api: Api) -> set[int]:
    """Return the nodes that tell the software of their clients."""
    rows = api.get("/api/clients/software")["software"] or []
    return {node for row in rows for node in row["nodes"]}


def exists(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("in_process", [False, True])
def test_nodes_of_a_cluster_are_killed_and_started_at_its_console(
    raftka: Start, tmp_path: Path, in_process: bool
) -> None:
    more = ["--in-process"] if in_process else []
    cluster = raftka("cluster", "start", "--data", tmp_path, "--base-port", 0, *more)
    api = Api(told(cluster.stdout, "console").rstrip("/"))
    assert api.get("/api/me")["can_control"] is True
    assert states(api) == ["running"] * NODES
    assert bool(api.get("/api/faults")["kinds"]) is in_process

    for node in range(1, NODES + 1):  # also the last: the console is open, and brings them back
        api.post(f"/api/nodes/{node}/kill")
    assert states(api) == ["stopped"] * NODES
    for node in range(1, NODES + 1):
        api.post(f"/api/nodes/{node}/start")
    wait_for_truth(lambda: states(api) == ["running"] * NODES, PATIENCE_SECONDS)
    events = [event["text"] for event in api.get("/api/timeline")["events"]]
    assert "node 3: killed at the console" in events

    cluster.send_signal(signal.SIGTERM)
    assert cluster.wait(PATIENCE_SECONDS) == 0
    with pytest.raises(ConnectionRefusedError):
        api.get("/api/me")


def test_end_of_a_process_is_in_the_time_line(raftka: Start, tmp_path: Path) -> None:
    cluster = raftka("cluster", "start", "--data", tmp_path, "--base-port", 0)
    api = Api(told(cluster.stdout, "console").rstrip("/"))
    pid = api.get("/api/nodes")["nodes"][1]["pid"]
    os.kill(pid, signal.SIGKILL)

    def texts() -> list[str]:
        return [event["text"] for event in api.get("/api/timeline")["events"]]

    wait_for_truth(lambda: "node 2 died of SIGKILL" in texts(), PATIENCE_SECONDS)


def test_launcher_ends_when_no_node_is_left_and_no_browser_was_there(
    raftka: Start, tmp_path: Path
) -> None:
    cluster = raftka("cluster", "start", "--nodes", 1, "--data", tmp_path, "--base-port", 0)
    told(cluster.stdout, "console")
    os.kill(int((tmp_path / "node-1" / "raftka.pid").read_text()), signal.SIGKILL)

    assert cluster.wait(PATIENCE_SECONDS) == 1


@pytest.mark.parametrize(
    "command",
    [
        ("cluster", "start", "--nodes", 1, "--base-port", 0, "--data"),
        ("cluster", "start", "--nodes", 1, "--base-port", 0, "--in-process", "--data"),
        ("broker", "start", "--dev", "--port", 0, "--data"),
    ],
)
def test_there_is_no_console_with_no_console(
    raftka: Start, tmp_path: Path, command: tuple[object, ...]
) -> None:
    cluster = raftka(*command, tmp_path, "--no-console")
    servers = told(cluster.stdout, "bootstrap.servers")
    host, _, port = servers.partition(":")
    assert set(ask((host, int(port))).brokers) == {1}
    cluster.send_signal(signal.SIGTERM)
    out, _ = cluster.communicate(timeout=PATIENCE_SECONDS)
    assert "console" not in out


def test_secured_cluster_names_the_command_in_place_of_a_console(
    raftka: Start, tmp_path: Path
) -> None:
    """Every browser of this machine would have the administrator's rights."""
    pytest.importorskip("cryptography")
    cluster = raftka(
        "cluster", "start", "--nodes", 1, "--secure", "--data", tmp_path, "--base-port", 0
    )
    servers = told(cluster.stdout, "bootstrap.servers")
    assert cluster.stdout is not None
    lines = iter(cluster.stdout)
    for line in lines:
        assert not line.startswith("console=")
        if line.startswith("raftka console "):
            assert f"--bootstrap-server {servers} " in line
            return


def test_node_for_trying_out_has_a_console_in_a_process_that_starts_late(raftka: Start) -> None:
    node = raftka("broker", "start", "--dev", "--port", 0)
    url = told(node.stdout, "console")
    assert children(node.pid) == []
    api = Api(url.rstrip("/"))
    assert api.get("/api/me")["can_control"] is True
    (console,) = children(node.pid)

    (found,) = api.get("/api/nodes")["nodes"]
    assert found["actions"].keys() == {"pause", "cut", "slow"}, "what ends it is Ctrl-C"
    api.post("/api/nodes/1/pause")
    assert states(api) == ["paused"]
    api.post("/api/nodes/1/resume")
    api.post("/api/faults", kind="lose_requests", api="Produce")
    assert [each["text"] for each in api.get("/api/faults")["set"]] == ["lose_requests Produce"]
    events = [event["text"] for event in api.get("/api/timeline")["events"]]
    assert "node 1: paused at the console" in events
    assert "fault set: lose_requests Produce" in events
    wait_for_truth(lambda: nodes_with_metrics(api) == {1}, PATIENCE_SECONDS)

    node.send_signal(signal.SIGTERM)
    assert node.wait(PATIENCE_SECONDS) == 0
    assert not exists(console)


def children(pid: int) -> list[int]:
    folder = Path(f"/proc/{pid}/task")
    if not folder.is_dir():
        pytest.skip("there is no /proc here, which has the children of processes")
    found = [(each / "children").read_text().split() for each in folder.iterdir()]
    return [int(child) for some in found for child in some]


def test_story_of_the_demo_ends_when_a_user_takes_over(raftka: Start) -> None:
    demo = raftka("demo", "--stay")
    api = Api(told(demo.stdout, "console").rstrip("/"))
    api.post("/api/nodes/3/kill")
    assert states(api)[2] == "stopped"
    api.post("/api/nodes/3/start")
    wait_for_truth(lambda: states(api) == ["running"] * NODES, PATIENCE_SECONDS)
    wait_for_truth(lambda: nodes_with_metrics(api) == {1, 2, 3}, PATIENCE_SECONDS)

    demo.send_signal(signal.SIGTERM)
    out, err = demo.communicate(timeout=PATIENCE_SECONDS)
    assert demo.returncode == 0, err
    assert "SIGKILL to node" not in out
    assert "lost                     0" in out
