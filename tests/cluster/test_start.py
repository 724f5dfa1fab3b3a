"""`raftka cluster start` and `raftka broker start`, from outside: what is printed, which files
there are, how it ends.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from errno import EADDRINUSE
from os import strerror
from pathlib import Path
from typing import IO
from urllib.request import urlopen

import pytest

from raftka.cluster import ports
from raftka.cluster.ask import ask, ask_any
from raftka.cluster.start import start_in_process, start_processes
from raftka.runtime.real.choice import LINUX, PORTABLE, VARIABLE

FROM_CHECKOUT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
PATIENCE_SECONDS = 30.0

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def raftka() -> Iterator[Start]:
    """Starts a command; at the end of the test it is killed with everything it started."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "raftka.cli", *map(str, arguments)]
        process = subprocess.Popen(
            command,
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


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """Nodes are in sessions of their own: whoever still runs is known by its pid file."""
    yield tmp_path
    for file in tmp_path.glob("node-*/raftka.pid"):
        if is_raftka(pid := int(file.read_text())):
            os.kill(pid, signal.SIGKILL)


def is_raftka(pid: int) -> bool:
    try:
        return b"raftka" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline().rstrip()


def is_ok(bridge: tuple[str, int]) -> bool:
    with socket.create_connection(bridge) as asking:
        asking.sendall(b"srvr")
        return asking.recv(100).startswith(b"Zookeeper version")


def addresses(told: str, what: str = "bootstrap.servers") -> list[tuple[str, int]]:
    name, _, servers = told.partition("=")
    assert name == what
    return [
        (server.rpartition(":")[0], int(server.rpartition(":")[2])) for server in servers.split(",")
    ]


def pid_of(data: Path, node_id: int) -> int:
    return int((data / f"node-{node_id}" / "raftka.pid").read_text())


def test_three_processes_from_start_to_sigterm(raftka: Start, data: Path) -> None:
    cluster = raftka(
        "cluster", "start", "--nodes", 3, "--data", data, "--base-port", 0, "--bridge-port", 0
    )
    where = addresses(line(cluster.stdout))

    assert len(where) == 3
    for address in where:
        assert set(ask(address).brokers) == {1, 2, 3}
    name, _, urls = line(cluster.stdout).partition("=")
    assert name == "metrics"
    pages = [urlopen(url).read().decode() for url in urls.split(",")]
    assert (
        sum("kafka_controller_kafkacontroller_activecontrollercount 1.0" in page for page in pages)
        == 1
    )
    assert all("kafka_server_kafkaserver_brokerstate 3.0" in page for page in pages)
    assert [is_ok(bridge) for bridge in addresses(line(cluster.stdout), "zookeeper.connect")] == [
        True
    ] * 3
    for node_id in (1, 2, 3):
        assert {"server.properties", "raftka.pid", "raftka.log", "data"} <= set(
            os.listdir(data / f"node-{node_id}")
        )
    pids = [pid_of(data, node_id) for node_id in (1, 2, 3)]

    cluster.send_signal(signal.SIGTERM)

    assert cluster.wait(PATIENCE_SECONDS) == 0
    assert not any(is_raftka(pid) for pid in pids)
    assert not list(data.glob("node-*/raftka.pid"))


def test_a_dead_node_stays_dead_until_its_own_command_starts_it(raftka: Start, data: Path) -> None:
    cluster = raftka("cluster", "start", "--nodes", 3, "--data", data, "--base-port", 0)
    where = addresses(line(cluster.stdout))
    os.kill(pid_of(data, 2), signal.SIGKILL)

    told = line(cluster.stderr)
    assert "node 2 died of SIGKILL" in told
    command = told.rpartition("raftka ")[2].split()

    again = raftka(*command)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while set(ask_any([where[0], where[2]]).brokers) != {1, 2, 3} or pid_of(data, 2) != again.pid:
        assert time.monotonic() < deadline
    again.send_signal(signal.SIGTERM)

    assert again.wait(PATIENCE_SECONDS) == 0
    assert cluster.poll() is None


@pytest.mark.parametrize("kept", [False, True])
def test_a_node_for_trying_out_needs_no_file(raftka: Start, data: Path, kept: bool) -> None:
    node = raftka("broker", "start", "--dev", "--port", 0, *(["--data", data] if kept else []))
    told = re.match(r"raftka: the data is in (.*), it", line(node.stderr))
    assert told is not None
    folder = Path(told[1])
    (address,) = addresses(line(node.stdout))
    assert set(ask(address).brokers) == {1}
    assert (folder / "node-1" / "data").is_dir()
    node.send_signal(signal.SIGTERM)

    assert node.wait(PATIENCE_SECONDS) == 0
    assert folder.exists() == kept


def made(address: tuple[str, int]) -> dict[str, list[int]]:
    """Replicas of each partition, by topic; every partition has a leader."""
    found = ask(address)
    assert all(each.leader > 0 for each in found.partitions)
    topics = sorted({each.topic for each in found.partitions})
    return {topic: [len(each.replicas) for each in found.of(topic)] for topic in topics}


TOPICS = ("--topics", "orders:3,payments:1:compact")


def test_a_node_for_trying_out_has_the_topics_that_it_was_given(raftka: Start) -> None:
    node = raftka("broker", "start", "--dev", "--port", 0, *TOPICS)
    (address,) = addresses(line(node.stdout))

    assert made(address) == {"orders": [1, 1, 1], "payments": [1]}


def test_the_nodes_of_a_cluster_make_each_topic_once(raftka: Start, data: Path) -> None:
    cluster = raftka("cluster", "start", "--nodes", 3, "--data", data, "--base-port", 0, *TOPICS)
    where = addresses(line(cluster.stdout))

    assert [made(address) for address in where] == [{"orders": [3, 3, 3], "payments": [3]}] * 3


@pytest.mark.parametrize("start", [("broker", "start", "--dev"), ("cluster", "start", "--data")])
def test_a_mistake_in_the_topics_is_told_before_anything_starts(
    raftka: Start, data: Path, start: Sequence[str]
) -> None:
    folder = [data] if start[-1] == "--data" else ["--port", 0]
    refused = raftka(*start, *folder, "--topics", "orders:0")

    assert refused.wait(PATIENCE_SECONDS) == 1
    assert refused.stderr is not None
    told = "Invalid value orders:0 for configuration raftka.topics: 'orders:0': the number of"
    assert told in refused.stderr.read()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "give the node's properties file, --from-env, or --dev"),
        (("file", "--dev"), "--dev is a node without a file: leave out --dev or file"),
    ],
)
def test_a_node_has_a_file_or_is_for_trying_out(
    raftka: Start, arguments: Sequence[str], complaint: str
) -> None:
    node = raftka("broker", "start", *arguments)
    assert node.wait(PATIENCE_SECONDS) == 2
    assert node.stderr is not None
    assert complaint in node.stderr.read()


def test_all_in_one_process(raftka: Start, data: Path) -> None:
    cluster = raftka(
        "cluster",
        "start",
        "--nodes",
        3,
        "--data",
        data,
        "--base-port",
        0,
        "--in-process",
        "--bridge-port",
        0,
    )
    where = addresses(line(cluster.stdout))
    assert line(cluster.stdout).startswith("metrics=")
    assert all(map(is_ok, addresses(line(cluster.stdout), "zookeeper.connect")))

    assert set(ask(where[0]).brokers) == {1, 2, 3}
    assert {pid_of(data, node_id) for node_id in (1, 2, 3)} == {cluster.pid}

    cluster.send_signal(signal.SIGINT)

    assert cluster.wait(PATIENCE_SECONDS) == 0
    assert not list(data.glob("node-*/raftka.pid"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "default.replication.facto=2"], "default.replication.factor"),
        (["--set", "log.dirs=/x"], "differs from node to node"),
        (["--base-port", "65500"], "ports up to"),
    ],
)
def test_a_wrong_setting_is_reported_once_and_starts_nothing(
    raftka: Start, data: Path, arguments: list[str], said: str
) -> None:
    cluster = raftka("cluster", "start", "--data", data, "--base-port", 0, *arguments)

    out, err = cluster.communicate(timeout=PATIENCE_SECONDS)

    assert (cluster.returncode, out) == (1, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert not list(data.iterdir())


def test_a_broker_without_its_file(raftka: Start, tmp_path: Path) -> None:
    node = raftka("broker", "start", tmp_path / "none.properties")

    _, err = node.communicate(timeout=PATIENCE_SECONDS)

    assert node.returncode == 1
    assert "none.properties" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("kind", [LINUX, PORTABLE])
@pytest.mark.parametrize("nodes", [1, 3])
def test_nodes_end_with_their_launcher(
    raftka: Start, data: Path, nodes: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has an interpreter of its own, three are forked."""
    monkeypatch.setitem(FROM_CHECKOUT, VARIABLE, kind)
    cluster = raftka("cluster", "start", "--nodes", nodes, "--data", data, "--base-port", 0)
    line(cluster.stdout)
    pids = [pid_of(data, node_id) for node_id in range(1, nodes + 1)]

    cluster.kill()

    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(map(is_raftka, pids)):
        assert time.monotonic() < deadline


@pytest.mark.parametrize("start", [start_processes, start_in_process])
@pytest.mark.parametrize(
    ("option", "above", "whose"),
    [
        ("--base-port", 0, "node 1"),
        ("--base-port", 1, "node 2"),
        ("--base-port", 101, "the controller of node 2"),
        ("--base-port", 200, "scrapes of node 1"),
        ("--base-port", 300, "the console"),
        ("--bridge-port", 0, "the bridge of node 1"),
        ("--bridge-port", 1, "the bridge of node 2"),
    ],
)
def test_a_taken_port_is_reported_with_its_option(
    start: Callable[..., int],
    option: str,
    above: int,
    whose: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = 20500
    base, bridge = (port - above, None) if option == "--base-port" else (0, port - above)
    monkeypatch.setattr(ports, "_bound", taken(port))

    assert start(2, tmp_path, base, {}, bridge) == 1

    remedy = f"stop the process that listens there, or give another {option}"
    assert (
        capsys.readouterr().err
        == f"raftka: 127.0.0.1:{port}, for {whose}: Address already in use; {remedy}\n"
    )
    assert not list(tmp_path.glob("node-*/raftka.log"))


def taken(port: int) -> Callable[[int], socket.socket]:
    """All ports are free but this one."""

    def bound(number: int) -> socket.socket:
        if number == port:
            raise OSError(EADDRINUSE, strerror(EADDRINUSE))
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        return sock

    return bound
