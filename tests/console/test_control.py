"""Control of nodes by the program that started them: over the channel, for processes and for nodes
in one process.
"""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.cluster import processes
from raftka.cluster.processes import Processes
from raftka.console.control.channel import (
    MESSAGE_BYTES,
    ControlRefused,
    Line,
    RemoteControl,
    serve_control,
)
from raftka.console.control.embedded import EmbeddedControl
from raftka.console.control.processes import Mailbox, ProcessesControl
from raftka.json_values import JsonObject
from raftka.testing.cluster import Cluster
from raftka.testing.waits import WAIT_SECONDS, wait_for_truth
from raftka.wire.errors import KafkaError


class Pair:
    """A console's end of a channel to a control."""

    def __init__(self, control: object) -> None:
        self.failures: list[str] = []
        ours, theirs = socket.socketpair()
        serve_control(control, self.failures.append)(theirs)  # type: ignore[arg-type]
        self._sock = ours
        self.remote = RemoteControl(ours)

    def close(self) -> None:
        self._sock.close()


def states(control: RemoteControl) -> dict[int, str]:
    return {each["node"]: each["state"] for each in control.nodes()}


def actions(control: RemoteControl, node: int) -> dict[str, str]:
    (found,) = (each["actions"] for each in control.nodes() if each["node"] == node)
    return found  # type: ignore[no-any-return]


# the channel


class Clumsy:
    def nodes(self) -> list[JsonObject]:
        raise RuntimeError("a bug")

    def act(self, node: int, action: str) -> None:
        raise ControlRefused(f"node {node} cannot {action}")


@pytest.fixture
def pairs() -> Iterator[Callable[[object], Pair]]:
    made: list[Pair] = []

    def make(control: object) -> Pair:
        made.append(Pair(control))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_refusals_and_bugs_come_back_as_texts(pairs: Callable[[object], Pair]) -> None:
    pair = pairs(Clumsy())
    with pytest.raises(ControlRefused, match="node 3 cannot fly"):
        pair.remote.act(3, "fly")
    assert pair.failures == []
    with pytest.raises(ControlRefused, match="it failed: a bug"):
        pair.remote.nodes()
    assert pair.failures == ["nodes failed: RuntimeError a bug"]
    with pytest.raises(ControlRefused, match="there is no __init__"):
        pair.remote._ask("__init__")


def test_end_of_the_launcher_is_a_refusal() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, pytest.raises(ControlRefused, match="has ended"):
        RemoteControl(ours).nodes()


def test_message_without_end_ends_the_channel() -> None:
    ours, theirs = socket.socketpair()
    line = Line(theirs)
    sender = threading.Thread(target=lambda: _flood(ours), daemon=True)
    sender.start()

    assert line.receive() is None
    line.close()
    sender.join()
    ours.close()


def _flood(sock: socket.socket) -> None:
    try:
        sock.sendall(b"x" * 2 * MESSAGE_BYTES)
    except OSError:
        pass


# nodes that are processes


@pytest.fixture(scope="module")
def started() -> Iterator[Processes]:
    with processes.running(3) as cluster:
        yield cluster


class Owner:
    """The thread that owns the nodes, as `raftka cluster start` is one: this test's own."""

    def __init__(self, cluster: Processes, pairs: Callable[[object], Pair]) -> None:
        self.cluster = cluster
        self.mailbox = Mailbox()
        self.pair = pairs(ProcessesControl(cluster, self.mailbox))
        cluster.also(self.mailbox.fileno())

    def carry_out(self, node: int, action: str) -> None:
        """As the console does it, while this thread polls."""
        failure: list[BaseException] = []

        def ask() -> None:
            try:
                self.pair.remote.act(node, action)
            except ControlRefused as error:
                failure.append(error)

        self._while(ask)
        if failure:
            raise failure[0]

    def describe(self) -> dict[int, JsonObject]:
        found: list[JsonObject] = []
        self._while(lambda: found.extend(self.pair.remote.nodes()))
        return {each["node"]: each for each in found}

    def wait_for(self, node: int, state: str) -> None:
        wait_for_truth(lambda: self.describe()[node]["state"] == state, WAIT_SECONDS)

    def _while(self, ask: Callable[[], None]) -> None:
        thread = threading.Thread(target=ask)
        thread.start()
        while thread.is_alive():
            for event in self.cluster.poll(0.01):
                if event.kind == "other":
                    self.mailbox.work_off()
        thread.join()


@pytest.fixture
def owner(started: Processes, pairs: Callable[[object], Pair]) -> Iterator[Owner]:
    owner = Owner(started, pairs)
    yield owner
    for node_id, node in started.nodes.items():
        if not node.alive:  # the test has failed
            started.start(node_id)
    started._selector.unregister(owner.mailbox.fileno())
    owner.mailbox.close()


def test_process_is_killed_and_started_again(owner: Owner) -> None:
    pid = owner.describe()[2]["pid"]
    assert owner.describe()[2]["actions"] == {
        "kill": f"kill -KILL {pid}",
        "stop": f"kill -TERM {pid}",
        "pause": f"kill -STOP {pid}",
    }
    owner.carry_out(2, "kill")

    dead = owner.describe()[2]
    plan = owner.cluster.nodes[2].plan
    assert (dead["state"], dead["pid"]) == ("stopped", None)
    assert dead["actions"] == {"start": f"raftka broker start {plan.properties_file}"}
    with pytest.raises(ControlRefused, match="node 2 is stopped: start can be done"):
        owner.carry_out(2, "kill")

    owner.carry_out(2, "start")
    owner.wait_for(2, "running")
    assert owner.describe()[2]["pid"] != pid


def test_process_is_paused_and_resumed(owner: Owner) -> None:
    pid = owner.cluster.nodes[3].pid
    owner.carry_out(3, "pause")
    assert owner.describe()[3]["state"] == "paused"
    assert "pause" not in owner.describe()[3]["actions"]
    wait_for_truth(lambda: state_of(pid) == "T", WAIT_SECONDS)

    owner.carry_out(3, "resume")
    assert owner.describe()[3]["state"] == "running"
    wait_for_truth(lambda: state_of(pid) != "T", WAIT_SECONDS)


def test_paused_process_is_stopped_in_order(owner: Owner) -> None:
    owner.carry_out(3, "pause")
    owner.carry_out(3, "stop")
    owner.wait_for(3, "stopped")
    log = owner.cluster.nodes[3].plan.log_file.read_text()
    assert '"event": "stopped"' in log

    owner.carry_out(3, "start")
    owner.wait_for(3, "running")


def test_processes_have_no_faults_and_no_time_line(owner: Owner) -> None:
    remote = owner.pair.remote
    assert remote.faults() == {"kinds": [], "set": []}
    assert remote.events()["is_observed"] is False
    with pytest.raises(ControlRefused, match="have no faults"):
        remote.set_fault({"kind": "delay"})
    with pytest.raises(ControlRefused, match="there is no node 9"):
        owner.carry_out(9, "kill")


def state_of(pid: int) -> str:
    if not os.path.isdir("/proc/self"):
        pytest.skip("there is no /proc here, which has the states of processes")
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


# nodes in one process


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
def control(three: Cluster, pairs: Callable[[object], Pair]) -> RemoteControl:
    cluster = three
    return pairs(
        EmbeddedControl(cluster._embedded, cluster._async, cluster._faults, cluster._timeline)
    ).remote


def test_node_is_killed_started_paused_and_resumed(three: Cluster, control: RemoteControl) -> None:
    assert states(control) == {1: "running", 2: "running", 3: "running"}
    for action, state in (("kill", "stopped"), ("start", None), ("pause", "paused")):
        control.act(2, action)
        if state is None:
            wait_for_truth(lambda: states(control)[2] == "running", WAIT_SECONDS)
        else:
            assert states(control)[2] == state, action
    assert actions(control, 2)["resume"] == "cluster.resume(2)"
    control.act(2, "resume")
    control.act(2, "stop")
    assert states(control)[2] == "stopped"
    with pytest.raises(ControlRefused, match="node 2 is stopped: start can be done"):
        control.act(2, "pause")

    texts = [event["text"] for event in control.events()["events"]]
    ours = [text for text in texts if text.endswith("at the console")]
    assert ours[-5:] == [
        f"node 2: {each} at the console"
        for each in ("killed", "started", "paused", "resumed", "asked to stop")
    ]


def reaches(cluster: Cluster, node: int) -> bool:
    address = cluster.bootstrap_servers.split(",")[node - 1]
    with Client(addresses_of(address), "a-test") as client:
        try:
            client.refresh([], answer_s=5)
        except (OSError, KafkaError):
            return False
    return True


def test_node_is_cut_off_from_clients_and_joined(three: Cluster, control: RemoteControl) -> None:
    assert reaches(three, 3)
    control.act(3, "cut")
    assert not reaches(three, 3)
    assert reaches(three, 1)
    assert "join" in actions(control, 3)
    assert "cut" not in actions(control, 3)

    control.act(3, "join")
    assert reaches(three, 3)


def test_node_is_slowed_and_hastened(three: Cluster, control: RemoteControl) -> None:
    control.act(2, "slow")
    assert actions(control, 2)["hasten"] == "slow.remove()"
    (fault,) = control.faults()["set"]
    assert fault["command"] == "slow = cluster.delay(None, 200, nodes=[2])"
    assert reaches(three, 2)
    assert control.faults()["set"][0]["hits"] > 0
    control.act(2, "hasten")
    assert control.faults()["set"] == []
    assert "slow" in actions(control, 2)


def test_fault_hits_what_it_was_set_for(three: Cluster, control: RemoteControl) -> None:
    topic = three.create_topic()
    wanted = {
        "kind": "fail_next",
        "api": "Metadata",
        "error": "TOPIC_AUTHORIZATION_FAILED",
        "topic": topic,
        "times": 2,
    }
    fault = control.set_fault(wanted)
    assert fault["command"] == (
        f"cluster.fail_next('Metadata', 'TOPIC_AUTHORIZATION_FAILED', topic={topic!r}, times=2)"
    )
    assert control.faults()["set"] == [{**fault, "hits": 0, "left": 2}]
    with Client(addresses_of(three.bootstrap_servers), "a-test") as client:
        (found,) = client.metadata([topic]).topics
        assert found.error_code == 29
    assert control.faults()["set"] == [{**fault, "hits": 1, "left": 1}]

    control.remove_faults([fault["id"]])
    assert control.faults()["set"] == []
    with Client(addresses_of(three.bootstrap_servers), "a-test") as client:
        (found,) = client.metadata([topic]).topics
        assert found.error_code == 0


def test_faults_are_removed_together(control: RemoteControl) -> None:
    one = control.set_fault({"kind": "delay", "ms": 5, "api": "Fetch", "nodes": [1]})
    two = control.set_fault({"kind": "lose_answers", "api": "Produce", "nth": 3})
    assert one["left"] is None
    assert (one["command"], two["command"]) == (
        "cluster.delay('Fetch', 5, nodes=[1])",
        "cluster.lose_answers('Produce', nth=3)",
    )
    assert [each["id"] for each in control.faults()["set"]] == [one["id"], two["id"]]
    control.remove_faults(None)
    assert control.faults()["set"] == []


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"kind": "explode"}, "there is no fault 'explode': fail_next, delay"),
        ({"kind": "fail_next", "api": "Fetch"}, "fail_next needs error"),
        ({"kind": "delay", "ms": "many"}, "ms='many': a whole number"),
        ({"kind": "delay", "ms": 10**9}, "ms=1e\\+09: 0 to 600000"),
        ({"kind": "delay", "ms": 1, "error": "NONE"}, "delay takes no error"),
        ({"kind": "lose_requests", "api": "Nonsense"}, "no API 'Nonsense'"),
        ({"kind": "lose_requests", "api": "Fetch", "group": "g"}, "name no group"),
        ({"kind": "lose_requests", "nodes": [7]}, "there are \\[1, 2, 3\\]"),
    ],
)
def test_fault_that_cannot_be_is_refused(
    control: RemoteControl, wanted: JsonObject, text: str
) -> None:
    with pytest.raises(ControlRefused, match=text):
        control.set_fault(wanted)
