"""`raftka bridge`: what its commands print, against three nodes in this process."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from raftka.cli.commands import root
from raftka.testing import Cluster
from zookeeper_bridge.client.blocking import ZooKeeperClient
from zookeeper_bridge.tree.rules import RULES, rule_of
from zookeeper_bridge.tree.watches import EventType


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, bridge=True) as cluster:
        yield cluster


@pytest.fixture
def bridge(cluster: Cluster) -> Any:
    def run(command: str) -> Result:
        where = {
            "RAFTKA_BRIDGE": cluster.zookeeper_connect,
            "RAFTKA_BOOTSTRAP_SERVER": cluster.bootstrap_servers,
        }
        done = CliRunner().invoke(root, ["bridge", *command.split()], env=where)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    return run


@pytest.fixture
def client(cluster: Cluster) -> Iterator[ZooKeeperClient]:
    with ZooKeeperClient(cluster.zookeeper_connect) as client:
        yield client


def rows(done: Result) -> list[dict[str, Any]]:
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_names_and_data(bridge: Any) -> None:
    assert bridge("ls /brokers/ids").stdout.split() == ["1", "2", "3"]
    assert rows(bridge("ls / -o json"))[0] == {"name": "admin"}
    assert "/brokers/ids/3" in bridge("ls -r /brokers").stdout.split()
    assert json.loads(bridge("get /brokers/ids/2").stdout)["version"] == 5
    assert bridge("get /brokers").stdout == ""


def test_stats(bridge: Any, cluster: Cluster) -> None:
    (broker,) = rows(bridge("stat /brokers/ids/2 -o json"))
    assert (broker["owner"], broker["version"]) == ("broker 2", 1)
    mixed = bridge("stat /brokers /nobody")
    assert (mixed.exit_code, mixed.stderr) == (1, "raftka: /nobody: there is no such znode\n")
    assert mixed.stdout.split()[0] == "path"


def test_an_error_is_a_sentence(bridge: Any) -> None:
    for command, text in (
        ("get /nobody", "/nobody: there is no such znode"),
        ("ls /delegation_token", "/delegation_token: not allowed"),
        ("ls nobody", "nobody: not a path"),
        ("ls / --bridge 127.0.0.1:1", "no bridge answers at 127.0.0.1:1"),
        ("ls / --bridge here", "no bridge answers at here"),
        ("explain nobody", "nobody: not a path"),
    ):
        done = bridge(command)
        assert (done.exit_code, done.stderr.startswith(f"raftka: {text}")) == (1, True), done.stderr


def test_events(bridge: Any, client: ZooKeeperClient) -> None:
    heard: list[Result] = []
    listening = threading.Thread(target=lambda: heard.append(bridge("watch /watched -n 3 -o json")))
    listening.start()
    while listening.is_alive():  # it may not listen yet: then nothing of a round is heard
        client.put("/watched", b"x")
        client.put("/watched", b"y")
        client.ask(2, "/watched", -1)  # type: ignore[arg-type]
        listening.join(0.05)
    told = [row["event"] for row in rows(heard[0])]
    assert len(told) == 3
    assert set(told) <= {"created", "changed", "deleted"}
    assert {row["path"] for row in rows(heard[0])} == {"/watched"}


def test_a_watching_command_keeps_its_session(
    cluster: Cluster, client: ZooKeeperClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zookeeper_bridge.client.blocking.PING_S", 0.01)
    with ZooKeeperClient(cluster.zookeeper_connect) as waiting:
        waiting.watch("/waited-for")
        heard: list[tuple[EventType, str]] = []
        listening = threading.Thread(target=lambda: heard.append(waiting.next_event()))
        listening.start()
        before = received(cluster)
        while received(cluster) < before + 30:  # pings, and our own questions
            assert listening.is_alive()
        client.put("/waited-for", b"")
        listening.join(20)
    assert heard == [(EventType.CREATED, "/waited-for")]


def received(cluster: Cluster) -> int:
    host, _, port = cluster.zookeeper_connect.split(",")[0].partition(":")
    with socket.create_connection((host, int(port)), 10.0) as asked:
        asked.sendall(b"srvr")
        said = b"".join(iter(lambda: asked.recv(65536), b""))
    match = re.search(rb"Received: (\d+)", said)
    assert match is not None
    return int(match[1])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.pattern)
def test_each_rule_is_explained(bridge: Any, rule: Any) -> None:
    path = rule.pattern.replace("**", "some/thing").replace("*", "some")
    (told,) = rows(bridge(f"explain {path} -o json"))
    assert told == {
        "path": path,
        "rule": rule.pattern,
        "kind": rule.kind.value,
        "shows": rule.shows,
        "written": rule.written,
    }
    assert bridge(f"explain {path}").stdout.splitlines()[1].split() == ["rule", rule.pattern]


def test_paths_without_a_rule_are_the_clients(bridge: Any) -> None:
    assert rule_of("/kafka-manager/x") is None
    assert rule_of("/consumers/g/ids/c") is None
    assert "Stored" in bridge("explain /burrow").stdout


def test_offsets_go_to_and_fro(bridge: Any, cluster: Cluster, client: ZooKeeperClient) -> None:
    cluster.create_topic("t", partitions=2)
    assert bridge("offsets import g").stderr == "raftka: g has no offsets in /consumers/g/offsets\n"
    for partition, offset in enumerate(("3", "4\n")):
        client.put(f"/consumers/g/offsets/t/{partition}", offset.encode())
    expected = [
        {"group": "g", "topic": "t", "partition": index, "offset": 3 + index} for index in (0, 1)
    ]
    assert rows(bridge("offsets import g --dry-run -o json")) == expected
    assert bridge("offsets export g").stderr == "raftka: g has no offsets in Kafka\n"
    assert rows(bridge("offsets import g -o json")) == expected
    client.put("/consumers/g/offsets/t/0", b"9")
    assert rows(bridge("offsets export g -o json")) == expected
    assert [client.get(f"/consumers/g/offsets/t/{index}")[0] for index in (0, 1)] == [b"3", b"4"]

    client.put("/consumers/g/offsets/t/0", b"three")
    assert bridge("offsets import g").stderr.startswith(
        "raftka: /consumers/g/offsets/t/0 holds 'three'"
    )
    client.put("/consumers/h/offsets/nobody/0", b"1")
    assert "nobody-0" in bridge("offsets import h").stderr


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x02ab", b"\0\0\0\0", b"\xff\xff\xff\xff", b""],
    ids=repr,
)
def test_a_server_that_is_no_zookeeper_is_reported(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"

        done = CliRunner().invoke(root, ["bridge", "ls", "/", "--bridge", address])
        thread.join()

    assert isinstance(done.exception, SystemExit)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"raftka: no bridge answers at {address}: ")
