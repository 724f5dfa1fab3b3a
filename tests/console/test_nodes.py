"""The API of nodes, faults and the time line; and the door with the real console behind it."""

import os
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.cluster.secured.keys import ClusterSecurity
from raftka.console import door as door_module
from raftka.console import order
from raftka.console.control.channel import RemoteControl, serve_control
from raftka.console.control.embedded import EmbeddedControl
from raftka.console.timeline import kind_of
from raftka.json_values import JsonObject
from raftka.testing.cluster import Cluster
from raftka.testing.waits import WAIT_SECONDS, wait_for_truth
from tests.kit.console import Api, console_of


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def three(shared: Cluster) -> Iterator[Cluster]:
    """Three nodes, healed after the test."""
    yield shared
    shared.heal()


@pytest.fixture
def control(three: Cluster) -> Iterator[RemoteControl]:
    ours, theirs = socket.socketpair()
    failures: list[str] = []
    serve_control(
        EmbeddedControl(three._embedded, three._async, three._faults, three._timeline),
        failures.append,
    )(theirs)
    with ours:
        yield RemoteControl(ours)
    assert failures == []


@pytest.fixture
def api(three: Cluster, control: RemoteControl) -> Iterator[Api]:
    with console_of(three, control=control) as console:
        yield Api(console.url)


def states(api: Api) -> dict[int, str]:
    return {each["node"]: each["state"] for each in api.get("/api/nodes")["nodes"]}


def texts(api: Api) -> list[str]:
    return [event["text"] for event in api.get("/api/timeline")["events"]]


def test_killed_leader_is_followed_in_the_time_line(three: Cluster, api: Api) -> None:
    topic = three.create_topic(partitions=3, replication_factor=3)
    leader = three.leader(topic)

    def shown() -> JsonObject:
        found = (each for each in api.get("/api/nodes")["nodes"] if each["node"] == leader)
        return next(found)

    wait_for_truth(lambda: shown()["leads"], WAIT_SECONDS)
    node = shown()
    assert node["state"] == "running"
    assert node["actions"]["kill"] == f"cluster.kill({leader})"

    assert api.post(f"/api/nodes/{leader}/kill") == {"node": leader, "action": "kill"}
    assert states(api)[leader] == "stopped"
    wait_for_truth(
        lambda: any(text.startswith(f"{topic}-0: leader {leader} -> ") for text in texts(api)),
        WAIT_SECONDS,
    )
    events = api.get("/api/timeline")["events"]
    assert events == sorted(events, key=lambda event: -event["at_ms"])
    killed = next(i for i, each in enumerate(events) if each["kind"] == "action")
    moved = next(i for i, each in enumerate(events) if each["kind"] == "leader")
    assert moved < killed, "the newest come first"

    api.post(f"/api/nodes/{leader}/start")
    wait_for_truth(lambda: states(api)[leader] == "running", WAIT_SECONDS)


def test_nodes_are_shown_when_no_broker_answers(three: Cluster, api: Api) -> None:
    for node in three.nodes:
        three.kill(node)
    found = api.get("/api/nodes")["nodes"]
    assert [(each["state"], each["leads"]) for each in found] == [("stopped", None)] * 3

    for node in three.nodes:
        api.post(f"/api/nodes/{node}/start")
    wait_for_truth(lambda: set(states(api).values()) == {"running"}, 30)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        ("POST", "/api/nodes/9/kill", None, 409, "there is no node 9"),
        ("POST", "/api/nodes/1/fly", None, 409, "node 1 is running: kill, stop"),
        ("POST", "/api/nodes/1/start", None, 409, "node 1 is running"),
        ("POST", "/api/nodes/one/kill", None, 400, "a whole number, not 'one'"),
        ("POST", "/api/faults", {"kind": "explode"}, 400, "there is no fault 'explode'"),
        ("POST", "/api/faults", {"kind": "delay", "ms": "x"}, 400, "the field ms is a whole"),
        ("DELETE", "/api/faults/x", None, 400, "a whole number, not 'x'"),
    ],
)
def test_what_cannot_be_done_is_refused(
    api: Api, method: str, path: str, body: JsonObject | None, status: int, text: str
) -> None:
    answer = api.ask(method, path, body=body)
    assert answer.status == status, answer.body
    assert text in answer.json["message"]


def test_fault_is_tried_set_and_removed(three: Cluster, api: Api) -> None:
    topic = three.create_topic()
    wanted = {
        "kind": "fail_next",
        "api": "Metadata",
        "error": "TOPIC_AUTHORIZATION_FAILED",
        "topic": topic,
        "nth": 2,
    }
    command = f"cluster.fail_next('Metadata', 'TOPIC_AUTHORIZATION_FAILED', topic={topic!r}, nth=2)"
    assert api.post("/api/faults", **wanted, try_only=True)["command"] == command
    assert api.get("/api/faults")["set"] == []

    fault = api.post("/api/faults", **wanted)
    assert fault["command"] == command
    (found,) = api.get("/api/faults")["set"]
    assert found["id"] == fault["id"]
    with Client(addresses_of(three.bootstrap_servers), "a-test") as client:
        codes = [client.metadata([topic]).topics[0].error_code for _ in range(3)]
    assert codes == [0, 29, 0]
    assert any(text.startswith("fault hits: fail_next Metadata") for text in texts(api))

    again = api.post("/api/faults", **wanted)
    assert api.ask("DELETE", f"/api/faults/{again['id']}").status == 200
    assert api.get("/api/faults")["set"] == []


def test_read_only_console_breaks_nothing(three: Cluster, control: RemoteControl) -> None:
    with console_of(three, control=control, read_only=True) as console:
        api = Api(console.url)
        assert api.ask("POST", "/api/nodes/1/kill").status == 403
        assert api.ask("POST", "/api/faults", body={"kind": "lose_requests"}).status == 403
        assert api.ask("DELETE", "/api/faults").status == 403
        assert states(api)[1] == "running"


def test_user_who_may_not_alter_the_cluster_breaks_nothing() -> None:
    with Cluster(1, security="SASL_PLAINTEXT") as cluster:
        logins = {name: cluster.client(name).login for name in ("admin", "guest")}
        api = Api(cluster.console_url.rstrip("/"))
        assert api.ask("GET", "/api/nodes").status == 401
        for name, status in (("guest", 403), ("admin", 200)):
            api.post("/api/login", user=name, password=logins[name].security.password)
            assert api.get("/api/me")["user"] == name
            assert api.ask("POST", "/api/nodes/1/pause").status == status, name
            if status == 200:
                assert api.post("/api/nodes/1/resume") == {"node": 1, "action": "resume"}
            api.post("/api/logout")


# without a launcher


def test_console_without_a_launcher_sees_what_clients_can(three: Cluster) -> None:
    topic = three.create_topic(partitions=2, replication_factor=3)
    with console_of(three) as console:
        api = Api(console.url)
        answer = api.ask("GET", "/api/nodes")
        assert answer.status == 404
        assert answer.json["error"] == "NO_CONTROL"
        wait_for_truth(lambda: api.get("/api/timeline")["failure"] is None, WAIT_SECONDS)
        assert texts(api) == []
        leader = three.leader(topic)
        three.kill(leader)

        def seen() -> bool:
            found = texts(api)
            return any(each.startswith(f"{topic}-0: leader {leader} ->") for each in found)

        wait_for_truth(seen, WAIT_SECONDS)
        wait_for_truth(lambda: f"node {leader}: gone" in texts(api), WAIT_SECONDS)
        three.restart(leader)
        wait_for_truth(lambda: f"node {leader}: there" in texts(api), WAIT_SECONDS)


def test_time_line_without_any_broker_says_so(three: Cluster, control: RemoteControl) -> None:
    with console_of(three) as console:
        api = Api(console.url)
        api.get("/api/timeline")
        for node in three.nodes:
            three.kill(node)

        wait_for_truth(lambda: api.get("/api/timeline")["failure"], 3 * WAIT_SECONDS)
    for node in three.nodes:
        control.act(node, "start")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("node 1: killed at the console", "action"),
        ("node 1: paused by the test", "action"),
        ("orders-3: leader 1 -> 2, epoch 4, ISR [1, 2] -> [2]", "leader"),
        ("controller 1 -> 2", "leader"),
        ("orders-3: ISR [1, 2] -> [2]", "isr"),
        ("group 'g': Stable, generation 3, 2 members (JoinGroup, node 1)", "group"),
        ("Produce of orders-0: NOT_LEADER_OR_FOLLOWER to 'app' (node 2)", "error"),
        ("fault set: delay Fetch 5 ms", "fault"),
        ("node 1: fenced", "node"),
        ("topic 'orders' created: 6 partitions", "topic"),
        ("cleaned", "other"),
    ],
)
def test_events_have_kinds(text: str, kind: str) -> None:
    assert kind_of(text) == kind


# behind the door


def test_fixture_opens_a_console_that_controls_its_nodes(three: Cluster) -> None:
    url = three.console_url
    assert url == three.console_url
    api = Api(url.rstrip("/"))
    assert api.get("/api/me")["can_control"] is True
    assert api.ask("GET", "/").body.startswith(b"<!doctype html>")
    api.post("/api/nodes/2/kill")
    assert three.alive == [1, 3]


def test_process_of_the_console_is_the_nodes_own_client() -> None:
    properties = {"console.port": "0", "console.read.only": "true", "console.records": "false"}
    with Cluster(1, properties=properties) as cluster:
        edge = cluster._embedded.nodes[1].edges["console.port"]
        api = Api(f"http://127.0.0.1:{edge.port}")
        me = api.get("/api/me")
        assert (me["read_only"], me["shows_records"], me["can_control"]) == (True, False, False)
        assert api.get("/api/timeline")["events"] == []


def test_console_with_tls(tmp_path: Path) -> None:
    files = ClusterSecurity(tmp_path).issue("console")
    properties = {
        "console.port": "0",
        "console.ssl.certificate.location": str(files.certificate),
        "console.ssl.key.location": str(files.key),
    }
    with Cluster(1, properties=properties) as cluster:
        edge = cluster._embedded.nodes[1].edges["console.port"]
        trusting = ssl.create_default_context(cafile=str(files.authority))
        trusting.check_hostname = False
        api = Api(f"https://127.0.0.1:{edge.port}", trusting)
        assert api.get("/api/me")["login_needed"] is False


def test_console_ends_when_nobody_looks_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "IDLE_S", 1.0)
    with Cluster(1) as cluster:
        api = Api(cluster.console_url.rstrip("/"))
        assert cluster._console is not None
        door = cluster._console._thread.door
        with api.stream("/api/me") as events:  # a page that is open is kept live
            assert events.next() is not None
            first = door.pid
            assert first is not None
            began = time.monotonic()
            wait_for_truth(lambda: time.monotonic() > began + 2.0, WAIT_SECONDS)
            assert door.pid == first
        wait_for_truth(lambda: door.pid is None, 30)

        assert api.get("/api/me")["can_control"] is True
        assert door.pid not in (None, first)


def test_console_that_was_killed_comes_back(
    three: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "REST_S", 0.0)  # it has run for longer
    api = Api(three.console_url.rstrip("/"))
    api.get("/api/me")
    assert three._console is not None
    door = three._console._thread.door
    first = door.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_for_truth(lambda: door.pid is None, WAIT_SECONDS)

    assert api.get("/api/me")["can_control"] is True
    assert door.pid not in (None, first)
