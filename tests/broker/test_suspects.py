"""Answers that would name a broker whose connections have just broken wait for the next leader, and
not for long.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from raftka.broker.controller.listed_brokers import LISTED_S
from raftka.broker.controller.suspects import SUSPECTED_S
from raftka.broker.node import Node
from raftka.limits import HELD_ANSWERS
from raftka.wire.messages.cluster import UNREGISTER_BROKER
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR, FindCoordinatorResponse
from raftka.wire.messages.metadata import METADATA, MetadataResponse
from raftka.wire.messages.topic_partitions import DESCRIBE_TOPIC_PARTITIONS
from raftka.wire.schema import Api, Req, Resp
from tests.broker.conftest import Lower
from tests.broker.stage import Stage, Wire

OFFSETS = "__consumer_offsets"
ASKED = METADATA.request(topics=[METADATA.request.topics(name="t")])
FIND = FIND_COORDINATOR.request(key_type=0, coordinator_keys=["g"])
DESCRIBE = DESCRIBE_TOPIC_PARTITIONS.request(
    topics=[DESCRIBE_TOPIC_PARTITIONS.request.topics(name="t")]
)

Named = Callable[[Any], int]


def leader_in(answer: MetadataResponse) -> int:
    return int(answer.topics[0].partitions[0].leader_id)


def coordinator_in(answer: FindCoordinatorResponse) -> int:
    return int(answer.coordinators[0].node_id)


APIS = [
    pytest.param(METADATA, ASKED, leader_in, "t", id="Metadata"),
    pytest.param(FIND_COORDINATOR, FIND, coordinator_in, OFFSETS, id="FindCoordinator"),
    pytest.param(DESCRIBE_TOPIC_PARTITIONS, DESCRIBE, leader_in, "t", id="DescribeTopicPartitions"),
]


def staged(seed: int = 1) -> Stage:
    """Three nodes, one topic, and that of the groups."""
    stage = Stage(3, seed, offsets_topic_num_partitions="1", broker_session_timeout_ms="60000")
    stage.create("t")
    stage.wait(lambda: coordinator_in(stage.wire().ask(FIND_COORDINATOR, FIND)) > 0)
    return stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    with staged() as stage:
        yield stage
        assert not stage.world.failures


def another(stage: Stage, leader: int) -> Node:
    return next(node for node_id, node in stage.nodes.items() if node_id != leader)


def connected(stage: Stage, node: Node) -> Wire:
    wire = stage.wire(node.node_id)
    wire.ask(METADATA, ASKED)
    return wire


def on(node: Node, action: Callable[[], object]) -> None:
    """In a turn of the node's."""
    node.runtime.take(lambda _: action(), None)  # type: ignore[attr-defined]


def break_link(stage: Stage, node: Node, other: int) -> None:
    """The node's connection to that controller breaks, and nothing else."""
    peer = node.quorum.links[other].peer
    assert peer is not None
    on(node, lambda: peer.close("a test"))
    stage.wait(lambda: other in node.suspects.suspected)


def cut_off(stage: Stage, node: Node, other: int) -> None:
    """Suspected, and cannot tell that it lives: from this node alone."""
    stage.world.network.cut(f"n{node.node_id}", f"n{other}", one_way=False)
    break_link(stage, node, other)


@pytest.mark.parametrize(("api", "row", "named", "topic"), APIS)
def test_a_held_answer_names_the_new_leader(
    stage: Stage, api: Api[Req, Resp], row: Req, named: Named, topic: str
) -> None:
    dead = stage.leader(topic)
    node = another(stage, dead)
    wire = connected(stage, node)
    stage.kill(dead)
    stage.wait(lambda: dead in node.suspects.suspected)

    assert named(wire.ask(api, row)) in stage.nodes
    assert node.metrics.held.count == 1
    assert (
        stage.events("suspicion_over", node.node_id)[-1]["reason"] == "the controller has decided"
    )


def test_nothing_is_held_when_nobody_is_suspected(stage: Stage) -> None:
    """Also of a leader that hangs: whether it still leads is for the controller to say."""
    leader = stage.leader("t")
    node = another(stage, leader)
    wire = connected(stage, node)
    stage.world.pause(f"n{leader}")

    wire.request(METADATA, ASKED)
    stage.wait(lambda: bool(wire.frames or node.suspects.holding))
    assert node.suspects.holding == 0
    assert leader_in(wire.answer(METADATA)) == leader


def to_the_controller(node: Node, other: int) -> None:
    peer = node.quorum.links[other].peer
    assert peer is not None
    peer.close("a test")


def from_another_node(node: Node, other: int) -> None:
    next(peer for peer in node.quorum.inbound if peer.node_id == other).close("a test")


def to_the_leader(node: Node, other: int) -> None:
    connection = node.replicas.fetchers.by_leader[other].connection
    assert connection is not None
    connection.close("a test")


def from_a_follower(node: Node, other: int) -> None:
    next(each for each in node.dispatcher.connections if each.follower == other).abort("a test")


@pytest.mark.parametrize(
    "connection", [to_the_controller, from_another_node, to_the_leader, from_a_follower]
)
def test_a_broker_whose_connection_breaks_is_suspected_until_it_answers(
    stage: Stage, connection: Callable[[Node, int], None]
) -> None:
    leader = stage.leader("t")
    node, other = another(stage, leader), leader
    if connection is from_a_follower:
        node, other = stage.nodes[leader], node.node_id
    wire = connected(stage, node)
    stage.wait(lambda: other in node.replicas.fetchers.by_leader or connection is not to_the_leader)
    on(node, lambda: connection(node, other))
    stage.wait(lambda: other in node.suspects.suspected)
    began = stage.world.now

    assert leader_in(wire.ask(METADATA, ASKED)) == leader
    stage.wait(lambda: not node.suspects.suspected)
    assert stage.world.now - began < SUSPECTED_S / 10
    assert stage.events("suspicion_over", node.node_id)[-1]["reason"] == "the broker answered"


def test_an_answer_that_names_several_leaders_waits_for_those_that_are_suspected_alone(
    stage: Stage,
) -> None:
    stage.create("u", 3)
    leader = stage.leader("u")
    node = another(stage, leader)
    wire = connected(stage, node)
    cut_off(stage, node, leader)

    answer = wire.ask(METADATA, METADATA.request(topics=[METADATA.request.topics(name="u")]))

    assert len({each.leader_id for each in answer.topics[0].partitions}) > 1
    assert node.metrics.held.count == 1
    assert node.suspects.holding == 0


def test_a_wrong_suspicion_ends_within_its_bound(stage: Stage) -> None:
    leader = stage.leader("t")
    node = another(stage, leader)
    wire = connected(stage, node)
    cut_off(stage, node, leader)
    began = stage.world.now

    assert leader_in(wire.ask(METADATA, ASKED)) == leader
    assert SUSPECTED_S / 2 < stage.world.now - began < SUSPECTED_S + 0.01
    assert stage.events("suspicion_over", node.node_id)[-1]["reason"] == "time is up"
    began = stage.world.now
    assert leader_in(wire.ask(METADATA, ASKED)) == leader
    assert stage.world.now - began < SUSPECTED_S / 10


def test_a_broken_connection_is_noticed_before_requests_of_the_same_turn(stage: Stage) -> None:
    node = another(stage, stage.leader("t"))
    (other, *_) = node.quorum.links
    peer = node.quorum.links[other].peer
    assert peer is not None
    seen: list[frozenset[int]] = []

    def end() -> None:
        peer.receive(memoryview(b""))
        seen.append(node.suspects.suspected)

    on(node, end)
    stage.wait(lambda: bool(seen))
    assert seen == [frozenset({other})]


def test_a_connection_that_is_closed_while_its_answer_is_held_leaves_nothing(stage: Stage) -> None:
    leader = stage.leader("t")
    node = another(stage, leader)
    wire = connected(stage, node)
    cut_off(stage, node, leader)
    wire.request(METADATA, ASKED)
    stage.wait(lambda: node.suspects.holding == 1)

    (connection,) = [
        each
        for each in node.dispatcher.connections
        if each.slots and each.session.client_id == "test"
    ]
    on(node, lambda: connection.abort("a test"))
    stage.wait(lambda: node.suspects.holding == 0)

    assert wire.frame() is None
    assert leader in node.suspects.suspected
    stage.wait(lambda: not node.suspects.suspected)
    assert node.metrics.held.count == 0


def test_answers_behind_a_held_one_keep_their_order(stage: Stage) -> None:
    leader = stage.leader("t")
    node = another(stage, leader)
    wire = connected(stage, node)
    cut_off(stage, node, leader)
    asked = [wire.request(METADATA, each) for each in (ASKED, METADATA.request(topics=[]), ASKED)]

    assert [int.from_bytes((wire.frame() or b"")[:4]) for _ in asked] == asked


def test_held_answers(stage: Stage, lowered: Lower) -> None:
    lowered(HELD_ANSWERS, 1)
    leader = stage.leader("t")
    node = another(stage, leader)
    first, second = connected(stage, node), connected(stage, node)
    cut_off(stage, node, leader)
    first.request(METADATA, ASKED)
    stage.wait(lambda: node.suspects.holding == 1)

    assert leader_in(second.ask(METADATA, ASKED)) == leader
    assert leader in node.suspects.suspected
    assert stage.counted(HELD_ANSWERS.metric, node.node_id) == 1
    assert leader_in(first.answer(METADATA)) == leader


def listed(wire: Wire) -> set[int]:
    return {broker.node_id for broker in wire.ask(METADATA, ASKED).brokers}


def test_a_broker_that_died_is_listed_for_a_while(stage: Stage) -> None:
    dead = stage.leader("t")
    wire = connected(stage, another(stage, dead))
    stage.kill(dead)

    assert listed(wire) == {1, 2, 3}
    stage.wait(lambda: not another(stage, dead).image.alive(dead))
    assert listed(wire) == {1, 2, 3}
    stage.world.run(stage.world.now + LISTED_S)
    assert listed(wire) == {1, 2, 3} - {dead}


def test_a_broker_that_is_unregistered_is_not_listed(stage: Stage) -> None:
    dead = stage.leader("t")
    node = another(stage, dead)
    wire = connected(stage, node)
    stage.kill(dead)
    stage.wait(lambda: not node.image.alive(dead))
    assert listed(wire) == {1, 2, 3}

    wire.ask(UNREGISTER_BROKER, UNREGISTER_BROKER.request(broker_id=dead))
    stage.wait(lambda: dead not in node.image.brokers)
    assert listed(wire) == {1, 2, 3} - {dead}


def test_a_broker_that_shut_down_under_control_is_not_listed(stage: Stage) -> None:
    leaving = stage.leader("t")
    node = another(stage, leaving)
    wire = connected(stage, node)
    gone = stage.nodes[leaving]
    on(gone, lambda: gone.runtime.spawn(gone.shutdown, "shutdown"))
    stage.wait(lambda: gone.context.stopped and node.image.brokers[leaving].fenced)

    assert listed(wire) == {1, 2, 3} - {leaving}
    assert node.suspects.suspected == frozenset()
