"""Voters that come and go in a whole cluster (KIP-853): it is formed by one voter, and grows under
load; the leader is removed; brokers without a vote follow.
"""

from typing import Any

import pytest

from raftka.broker.controller import controller_host
from raftka.chaos.simulated.cluster import CONTROLLER_PORT, Cluster
from raftka.chaos.simulated.scene import Scene
from raftka.chaos.simulation import PLANS, live
from raftka.client.connection import open_connection
from raftka.limits import QUORUM_VOTERS, Limit
from raftka.metadata.commands import AddVoter
from raftka.metadata.quorum import raft
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code, KafkaError
from tests.kit.broker.controller_security import TLS, sasl
from tests.simulation.voters import (
    add,
    describe,
    directory_of,
    quorum,
    raise_level,
    recover_alone,
    remove,
    voters,
)

OK = (Code.NONE, None)


@pytest.mark.parametrize("seed", range(2))
def test_a_life_with_faults_while_voters_come_and_go(seed: int) -> None:
    life = live(seed, PLANS["voters"])

    assert life.violations == []
    assert sum(" voters_changed " in line for line in life.log) >= 5


def test_one_voter_becomes_three_and_two_and_the_leader_goes() -> None:
    with World(1) as world:
        scene = Scene(world, nodes=3, voters=1, later_voters=(2, 3))
        cluster = scene.cluster
        assert add(scene, 2) == (
            Code.UNSUPPORTED_VERSION,
            "Cluster doesn't support adding voter because the kraft.version feature is 0",
        )
        scene.produce(3)
        raise_level(scene)
        assert add(scene, 2) == OK
        assert add(scene, 3) == OK
        scene.produce(3)
        assert voters(scene) == [1, 2, 3]
        described = describe(scene)
        assert {
            (node.node_id, each.name, each.host, each.port)
            for node in described.nodes
            for each in node.listeners
        } == {(each, "CONTROLLER", f"n{each}", CONTROLLER_PORT) for each in (1, 2, 3)}
        assert {
            each.replica_id: each.replica_directory_id for each in quorum(scene).current_voters
        } == {each: directory_of(cluster, each) for each in (1, 2, 3)}

        assert cluster.controller == 1
        began = world.now
        assert remove(scene, 1) == OK
        assert cluster.settled(lambda: cluster.controller in (2, 3), 5.0)
        assert world.now - began < 0.5
        scene.produce(3)
        assert voters(scene) == [2, 3]
        cluster.kill(1, power_loss=True)
        scene.produce(3)


def whole_quorum(world: World, nodes: int = 5, **settings: str) -> Scene:
    """A cluster whose log has its voters: the first node, while the others follow."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    scene = Scene(world, nodes=nodes, voters=1, later_voters=range(2, nodes + 1), settings=named)
    raise_level(scene)
    scene.cluster.voters_in_log = True
    return scene


def leader_of(cluster: Cluster) -> int:
    assert cluster.settled(lambda: cluster.controller is not None, 5.0)
    assert cluster.controller is not None
    return cluster.controller


def test_one_three_five_three_under_load_with_dying_controllers() -> None:
    with World(2) as world:
        scene = whole_quorum(world)
        cluster = scene.cluster
        for node_id in (2, 3):
            assert add(scene, node_id) == OK
            scene.produce(2)
        leader = leader_of(cluster)
        cluster.kill(leader, power_loss=True)
        scene.produce(2)
        cluster.start(leader)
        for node_id in (4, 5):
            assert add(scene, node_id) == OK
            scene.produce(2)
        assert voters(scene) == [1, 2, 3, 4, 5]
        for _ in range(2):
            assert remove(scene, leader_of(cluster)) == OK
            scene.produce(2)
        assert len(voters(scene)) == 3
        assert cluster.settled(lambda: len(quorum(scene).observers) == 2, 10.0)

        cluster.power_loss()
        for node_id in range(1, 6):
            cluster.start(node_id)
        cluster.wait_ready()
        scene.produce(2)
        scene.wait_whole()
        assert len(voters(scene)) == 3
        scene.assert_nothing_lost()


def test_a_lost_disk_comes_back_as_the_same_voter() -> None:
    """raftka's own: the voter joins with its new directory, and the set then names that one."""
    with World(3) as world:
        scene = whole_quorum(world, 3)
        cluster = scene.cluster
        for node_id in (2, 3):
            assert add(scene, node_id) == OK
        scene.produce(2)
        before = directory_of(cluster, 2)
        cluster.kill(2, power_loss=True)
        cluster.new_disk(2)
        cluster.start(2)
        assert cluster.settled(
            lambda: (
                directory_of(cluster, 2)
                in [each.replica_directory_id for each in quorum(scene).current_voters]
            ),
            20.0,
        )
        assert before != directory_of(cluster, 2)
        cluster.kill(1, power_loss=True)
        scene.produce(2)


def test_a_controller_joins_by_itself() -> None:
    with World(4) as world:
        scene = whole_quorum(world, 3, controller_quorum_auto_join_enable="true")
        assert scene.cluster.settled(lambda: voters(scene) == [1, 2, 3], 20.0)
        scene.produce(2)


@pytest.mark.parametrize("security", [TLS, sasl("SCRAM-SHA-512")], ids=["TLS", "SASL"])
def test_a_voter_comes_where_controllers_have_security(security: dict[str, str]) -> None:
    """The leader asks the end point as a client with its own certificate or login."""
    with World(9) as world:
        scene = whole_quorum(world, 3, **security)
        assert add(scene, 2) == OK
        assert add(scene, 3, port=CONTROLLER_PORT + 1) == (
            Code.REQUEST_TIMED_OUT,
            "Aborted add voter operation for since API_VERSIONS returned an error "
            "BROKER_NOT_AVAILABLE",
        )


def test_one_end_point_is_tried_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []

    def opened(*given: Any, **named: Any) -> Any:
        assert all(each.close_reason is not None for each in tried), "another one is still asked"
        tried.append(open_connection(*given, **named))
        return tried[-1]

    with World(10) as world:
        scene = whole_quorum(world, 3)
        leader = scene.cluster.nodes[1].quorum.host
        assert leader is not None
        answers: list[KafkaError | None] = []

        def ask(_: object) -> None:
            for node_id in (2, 3):
                at = (("CONTROLLER", "n9", CONTROLLER_PORT),)
                command = AddVoter(None, node_id, directory_of(scene.cluster, node_id), at)
                leader.submit(command, lambda error, _: answers.append(error))

        monkeypatch.setattr(controller_host, "open_connection", opened)
        process = world.machine("n1").node
        assert process is not None
        process.take(ask, None)
        assert scene.cluster.settled(lambda: len(answers) == 2, 20.0)
        assert [error.code for error in answers if error] == [Code.REQUEST_TIMED_OUT] * 2
        assert 1 <= len(tried) <= 2


def test_a_broker_finds_the_voters_that_came_later() -> None:
    """It knows one address, and that node goes for good."""
    with World(5) as world:
        scene = Scene(
            world, nodes=5, voters=1, later_voters=(2, 3, 4), settings={}, replication_factor=3
        )
        cluster = scene.cluster
        raise_level(scene)
        for node_id in (2, 3, 4):
            assert add(scene, node_id) == OK
        assert remove(scene, 1) == OK
        assert cluster.settled(lambda: cluster.controller in (2, 3, 4), 5.0)
        cluster.kill(1, power_loss=True)
        scene.produce(2)
        world.run(world.now + 5.0)
        assert cluster.settled(
            lambda: cluster.nodes[5].image.offset == cluster.newest.image.offset, 5.0
        )
        assert cluster.nodes[5].image.alive(5)


def test_wrong_changes_are_refused_in_kafkas_words() -> None:
    with World(6) as world:
        scene = whole_quorum(world, 3)
        cluster = scene.cluster
        wrong = bytes(15) + b"\x05"
        code, message = add(scene, 1)
        assert code is Code.DUPLICATE_VOTER
        assert message is not None
        assert message.startswith("The voter id for ReplicaKey(id=1, directoryId=")
        assert add(scene, 2, bytes(16)) == (
            Code.INVALID_REQUEST,
            "Add voter request didn't include a valid voter",
        )
        assert add(scene, 2, wrong) == (
            Code.REQUEST_TIMED_OUT,
            "Aborted add voter operation for ReplicaKey(id=2, directoryId=AAAAAAAAAAAAAAAAAAAABQ) "
            "since it is lagging behind",
        )
        assert remove(scene, 9, wrong)[0] is Code.VOTER_NOT_FOUND
        assert remove(scene, 1, wrong)[0] is Code.VOTER_NOT_FOUND
        assert remove(scene, 1)[0] is Code.VOTER_NOT_FOUND, "the last voter stays"
        assert remove(scene, 2, bytes(16)) == (
            Code.INVALID_REQUEST,
            "Remove voter request didn't include a valid voter",
        )
        assert add(scene, 2) == OK
        cluster.kill(2, power_loss=True)
        world.run(world.now + 1.2)
        assert voters_of_core(cluster) == [1, 2]


def voters_of_core(cluster: Cluster) -> list[int]:
    core = cluster.nodes[1].quorum.core
    assert core is not None
    return list(core.voters)


def test_a_recovered_quorum_has_configured_voters_again() -> None:
    """Two of three controllers are lost for good. The one that is left begins anew, alone, at
    kraft.version 0; the level can be raised again.
    """
    with World(8) as world:
        scene = whole_quorum(world, 3)
        cluster = scene.cluster
        for node_id in (2, 3):
            assert add(scene, node_id) == OK
        scene.produce(2)
        cluster.power_loss()
        recover_alone(cluster, 1)
        cluster.voters_in_log = False
        for node_id in (2, 3):
            cluster.new_disk(node_id)
        for node_id in (1, 2, 3):
            cluster.start(node_id)
        cluster.wait_ready()
        assert voters(scene) == [1]
        assert "kraft.version" not in cluster.newest.image.features
        raise_level(scene)
        assert add(scene, 2) == OK


def test_the_number_of_voters_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    few = Limit(QUORUM_VOTERS.name, 2, QUORUM_VOTERS.reason)
    monkeypatch.setattr(raft, "QUORUM_VOTERS", few)
    with World(9) as world:
        scene = whole_quorum(world, 3)
        assert add(scene, 2) == OK
        code, message = add(scene, 3)
        assert code is Code.POLICY_VIOLATION
        assert message is not None
        assert "3 asked, 2 allowed" in message
        assert scene.cluster.nodes[1].metrics.counters[QUORUM_VOTERS.metric] == 1


def test_nodes_connect_once_to_each_voter_of_the_log() -> None:
    """A node that was started anew knows the voters from its log, and has an address beside."""
    with World(10) as world:
        scene = whole_quorum(world, 3)
        cluster = scene.cluster
        for node_id in (2, 3):
            assert add(scene, node_id) == OK
        cluster.power_loss()
        for node_id in (1, 2, 3):
            cluster.start(node_id)
        cluster.wait_ready()
        before = len(cluster.log.saying("controller_connection_lost"))
        world.run(world.now + 8.0)
        assert len(cluster.log.saying("controller_connection_lost")) == before
        assert cluster.log.saying("controller_refused") == []
        assert [len(cluster.nodes[each].quorum.inbound) for each in (1, 2, 3)] == [2, 2, 2]


def test_a_node_that_finds_no_cluster_forms_none_and_says_so() -> None:
    with World(11) as world:
        cluster = Cluster(world, 2, 1, later_voters=(2,), start=(2,))
        world.run(world.now + 11.0)
        assert len(cluster.log.saying("no_cluster_found")) == 1
        assert cluster.nodes[2].image.cluster_id is None
        cluster.start(1)
        cluster.wait_ready()


@pytest.mark.parametrize("back_after_s", [2.6, 2.7, 2.8, 2.9, 2.95])
def test_a_voter_that_was_removed_while_it_was_down_follows(back_after_s: float) -> None:
    """It connects to the others while they still look for it as for a voter, each after a pause of
    its own: one connection more is not made when they stop.
    """
    with World(4) as world:
        scene = whole_quorum(world, 3)
        cluster = scene.cluster
        assert [add(scene, node_id) for node_id in (2, 3)] == [OK, OK]
        directory = directory_of(cluster, 3)
        cluster.kill(3, power_loss=True)
        assert remove(scene, 3, directory) == OK
        world.run(world.now + back_after_s)
        cluster.start(3)
        scene.produce(1)
        assert cluster.settled(lambda: len(quorum(scene).observers) == 1, 10.0)
        cluster.wait_ready()
