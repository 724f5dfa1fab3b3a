"""`advertised.listeners=auto`: a client is told the address at which it reached the node; other
nodes are named as they registered.
"""

from collections.abc import Iterator

import pytest

from raftka.runtime.simulated.network import Endpoint
from raftka.wire.errors import Code
from raftka.wire.messages.cluster import DESCRIBE_CLUSTER
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR, Coordinator
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import batch, fetch, produce
from tests.broker.stage import Stage

REACHED = "reached.example"  # the address at which clients reach a node, as its sockets know it


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr(Endpoint, "own_host", lambda endpoint: REACHED)
    with Stage(3, advertised_listeners="auto") as stage:
        yield stage
        assert not stage.world.failures


def named(stage: Stage, node_id: int) -> dict[int, str]:
    """Hosts of brokers, as Metadata of one node has them."""
    brokers = stage.wire(node_id).ask(METADATA, METADATA.request(topics=())).brokers
    return {broker.node_id: f"{broker.host}:{broker.port}" for broker in brokers}


def test_metadata_names_this_node_as_it_was_reached_and_others_as_they_registered(
    stage: Stage,
) -> None:
    assert named(stage, 1) == {1: f"{REACHED}:9092", 2: "n2:9092", 3: "n3:9092"}
    assert named(stage, 2) == {1: "n1:9092", 2: f"{REACHED}:9092", 3: "n3:9092"}


def test_describe_cluster_and_find_coordinator_say_the_same(stage: Stage) -> None:
    found = stage.wire(2).ask(DESCRIBE_CLUSTER, DESCRIBE_CLUSTER.request(endpoint_type=1)).brokers
    assert {each.broker_id: each.host for each in found} == {1: "n1", 2: REACHED, 3: "n3"}

    wire = stage.wire(2)
    keys = [f"g{number}" for number in range(12)]
    rows: list[Coordinator] = []

    def found_all() -> bool:
        request = FIND_COORDINATOR.request(coordinator_keys=keys, key_type=0)
        rows[:] = wire.ask(FIND_COORDINATOR, request).coordinators
        return all(row.error_code == 0 for row in rows)

    while not found_all():
        stage.world.run(lambda: False, at_most_s=0.1)
    hosts = {(row.node_id, row.host) for row in rows}
    assert hosts <= {(1, "n1"), (2, REACHED), (3, "n3")}
    assert (2, REACHED) in hosts


def test_errors_that_name_a_leader_name_it_alike(stage: Stage) -> None:
    topic_id = stage.create("t", replication_factor=3)
    leader = stage.leader("t")
    follower = next(node_id for node_id in (1, 2, 3) if node_id != leader)
    produced = stage.wire(follower).ask(
        PRODUCE, produce("t", batch(b"x"), topic_id=topic_id), PRODUCE.max_version
    )
    fetched = stage.wire(follower).ask(
        FETCH, fetch("t", topic_id=topic_id, current_leader_epoch=0), FETCH.max_version
    )

    (row,) = produced.responses[0].partition_responses
    assert row.error_code == Code.NOT_LEADER_OR_FOLLOWER
    for endpoints in (produced.node_endpoints, fetched.node_endpoints):
        assert [(each.node_id, each.host) for each in endpoints] == [(leader, f"n{leader}")]


def test_without_it_the_address_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(endpoint: Endpoint) -> str:
        raise AssertionError("a syscall for nothing")

    monkeypatch.setattr(Endpoint, "own_host", fail)
    with Stage() as stage:
        assert named(stage, 1) == {1: "n1:9092"}


def test_one_listener_of_several_may_be_automatic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Endpoint, "own_host", lambda endpoint: REACHED)
    with Stage(
        listeners="PLAINTEXT://:9092,HOST://:9094,CONTROLLER://:9093",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,HOST:PLAINTEXT,CONTROLLER:PLAINTEXT",
        advertised_listeners="PLAINTEXT://auto,HOST://localhost:9094",
    ) as stage:
        assert named(stage, 1) == {1: f"{REACHED}:9092"}
        wire = type(stage.wire())(stage.world, stage.runtime, "n1", 9094)
        (broker,) = wire.ask(METADATA, METADATA.request(topics=())).brokers
        assert (broker.host, broker.port) == ("localhost", 9094)


def test_a_broker_without_a_vote_registers_its_address_on_the_way_to_the_controllers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Stage(1) as stage:
        asked: list[tuple[str, int]] = []

        def towards(network: object, host: str, port: int) -> str | None:
            asked.append((host, port))
            return None if len(asked) < 3 else "n7"  # the name is not known at first

        monkeypatch.setattr("raftka.runtime.simulated.network.NodeNetwork.address_towards", towards)
        node = stage.start(
            7,
            {
                "process.roles": "broker",
                "listeners": "PLAINTEXT://:9092",
                "advertised.listeners": "auto",
            },
        )
        stage.wait(node.ready.is_set)

        registered = stage.nodes[1].image.brokers[7].endpoint("PLAINTEXT")
        assert registered is not None
        assert (registered.host, registered.port) == ("n7", 9092)
        assert asked == [("n1", 9093)] * 3
