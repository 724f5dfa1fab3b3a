"""The formation of a cluster, and disks that are lost or belong to another node: no acknowledged
record may go with one disk.
"""

import pytest

from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.scene import TOPIC, Scene
from raftka.log.directory import LogDirectoryError
from raftka.metadata.quorum.journal import Standing
from raftka.runtime.simulated.world import World


def cluster_ids(cluster: Cluster) -> set[str | None]:
    return {node.image.cluster_id for node in cluster.living.values()}


def standing(cluster: Cluster, node_id: int) -> Standing:
    core = cluster.nodes[node_id].quorum.core
    assert core is not None
    return core.journal.standing


# formation


def test_a_cluster_is_formed_when_the_last_voter_has_reported_an_empty_directory() -> None:
    with World(1) as world:
        cluster = Cluster(world, start=(1, 3))
        world.run(10.0)
        assert cluster_ids(cluster) == {None}
        assert cluster.controller is None

        cluster.start(2)
        cluster.wait_ready(5.0)
        assert len(cluster_ids(cluster)) == 1
        assert None not in cluster_ids(cluster)


@pytest.mark.parametrize("seed", range(12))
def test_a_formation_that_is_interrupted_makes_one_cluster(seed: int) -> None:
    with World(seed) as world:
        chance = world.random("test")
        cluster = Cluster(world)
        for _ in range(4):
            world.run(world.now + chance.uniform(0.0, 0.1))
            victim = chance.randint(1, 3)
            cluster.kill(victim, power_loss=True)
            world.run(world.now + chance.uniform(0.0, 0.1))
            cluster.start(victim)
        cluster.wait_ready()
        assert len(cluster_ids(cluster)) == 1
        assert cluster.refused == {}


# lost disks of voters


def test_without_the_only_voter_that_has_the_newest_entry_nobody_leads() -> None:
    """One voter is behind, one has lost its disk: together they are a majority that knows less than
    was confirmed.
    """
    with World(3) as world:
        scene = Scene(world)
        cluster = scene.cluster
        leader = cluster.controller
        assert leader is not None
        behind, empty = (node_id for node_id in cluster.nodes if node_id != leader)
        cluster.kill(behind, power_loss=False)
        cluster.do(scene.client, lambda: scene.client.create_topic("newest", 1, 1))
        for node_id in (leader, empty):
            cluster.kill(node_id, power_loss=False)
        cluster.new_disk(empty)
        cluster.start(empty)
        cluster.start(behind)
        world.run(world.now + 20.0)
        assert cluster.controller is None
        assert standing(cluster, empty) is Standing.JOINING

        cluster.start(leader)
        cluster.wait_ready()
        assert all(node.image.topic_named("newest") for node in cluster.living.values())


def test_a_voter_with_a_new_disk_counts_again_when_it_has_been_brought_up_to_date() -> None:
    with World(4) as world:
        scene = Scene(world)
        cluster = scene.cluster
        scene.produce(3)
        lost = scene.followers[0]
        cluster.kill(lost, power_loss=True)
        cluster.new_disk(lost)
        cluster.start(lost)
        cluster.wait_ready()
        assert standing(cluster, lost) is Standing.VOTER
        scene.wait_whole()

        cluster.kill(scene.other_than(lost, scene.leader), power_loss=True)
        cluster.do(scene.client, lambda: scene.client.create_topic("needs_both", 1, 1))
        scene.produce(3)
        assert scene.read() == scene.acknowledged[0]


def test_the_leader_dies_while_it_brings_a_new_disk_up_to_date() -> None:
    """The third voter has everything that was confirmed, so it leads; the new disk has joined by
    then or joins then.
    """
    with World(5) as world:
        scene = Scene(world, settings={"metadata.log.max.record.bytes.between.snapshots": "500"})
        cluster = scene.cluster
        for number in range(10):
            cluster.do(
                scene.client,
                lambda number=number: scene.client.create_topic(f"topic{number}", 1, 3),  # type: ignore[misc]
            )
        leader = cluster.controller
        assert leader is not None
        lost, third = (node_id for node_id in cluster.nodes if node_id != leader)
        cluster.kill(lost, power_loss=True)
        cluster.new_disk(lost)
        cluster.start(lost)
        assert world.run(
            lambda: (
                cluster.nodes[lost].quorum.core is not None
                and standing(cluster, lost) is Standing.JOINING
            ),
            at_most_s=5.0,
        )
        cluster.kill(leader, power_loss=True)
        world.run(world.now + 5.0)
        cluster.start(leader)
        cluster.wait_ready()
        scene.produce(3)
        assert all(
            node.image.topic_named(f"topic{number}")
            for node in cluster.living.values()
            for number in range(10)
        )
        assert third in cluster.living


# lost disks of brokers


def test_a_broker_with_a_new_disk_leaves_the_isr_and_comes_back_with_a_copy() -> None:
    with World(6) as world:
        scene = Scene(world)
        scene.produce(5)
        victim = scene.leader
        scene.cluster.kill(victim, power_loss=False)
        scene.cluster.new_disk(victim)
        scene.cluster.start(victim)
        assert world.run(lambda: victim not in scene.isr, at_most_s=5.0), (
            "its epoch in the ISR counted for a disk that is gone"
        )
        scene.produce(5)
        scene.wait_whole()
        scene.assert_nothing_lost()


@pytest.mark.parametrize("fast", [True, False])
def test_the_disk_of_the_only_replica_is_lost(fast: bool) -> None:
    """Also when it is back before anybody has noticed: an empty log must not pass for the whole
    one.
    """
    with World(7) as world:
        scene = Scene(world, replication_factor=1, configs={"min.insync.replicas": "1"})
        scene.produce(3)
        victim = scene.leader
        scene.cluster.kill(victim, power_loss=fast)  # with a power loss nothing is closed
        scene.cluster.new_disk(victim)
        if not fast:
            world.run(world.now + 3.0)
        scene.cluster.start(victim)
        scene.cluster.wait_ready()
        world.run(world.now + 5.0)
        assert scene.cluster.leader_of(TOPIC, 0) is None
        assert scene.isr == set()


def test_with_unclean_election_another_replica_goes_on_without_what_was_lost() -> None:
    configs = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    with World(8) as world:
        scene = Scene(world, replication_factor=2, configs=configs)
        scene.produce(3)
        scene.wait_whole()
        leader, (behind,) = scene.leader, scene.followers
        scene.cluster.kill(behind, power_loss=False)
        scene.produce(3)
        assert scene.isr == {leader}
        scene.cluster.kill(leader, power_loss=False)
        scene.cluster.new_disk(leader)
        scene.cluster.start(behind)
        scene.cluster.start(leader)
        scene.cluster.wait_ready()
        scene.wait_whole()
        assert scene.read() == scene.acknowledged[0][:9]


def test_without_it_the_partition_waits_for_the_disk_that_has_everything() -> None:
    with World(8) as world:
        scene = Scene(world, replication_factor=2, configs={"min.insync.replicas": "1"})
        scene.produce(3)
        scene.wait_whole()
        leader, (behind,) = scene.leader, scene.followers
        scene.cluster.kill(behind, power_loss=False)
        scene.produce(3)
        scene.cluster.kill(leader, power_loss=False)
        scene.cluster.start(behind)
        world.run(world.now + 5.0)
        assert scene.cluster.leader_of(TOPIC, 0) is None
        scene.cluster.start(leader)
        scene.wait_whole()
        scene.assert_nothing_lost()


# another's directory


def test_a_directory_of_another_node_is_refused() -> None:
    with World(9) as world:
        cluster = Cluster(world)
        cluster.wait_ready()
        for node_id in (2, 3):
            cluster.kill(node_id, power_loss=False)
        world.machine("n2").disk = world.machine("n3").disk
        cluster.start(2)
        world.run(world.now + 0.1)
        assert isinstance(cluster.refused[2], LogDirectoryError)
        assert str(cluster.refused[2]) == "/data belongs to node 3, this is node 2"


def test_two_nodes_on_one_directory() -> None:
    with World(10) as world:
        cluster = Cluster(world)
        cluster.wait_ready()
        cluster.kill(2, power_loss=False)
        world.machine("n2").disk = world.machine("n3").disk
        cluster.start(2)
        world.run(world.now + 0.1)
        assert str(cluster.refused[2]) == "/data is in use by another node"
        assert cluster.alive(3)


def test_a_directory_of_another_cluster_is_refused_and_harms_nobody() -> None:
    with World(11) as world:
        earlier = Scene(world)
        earlier.produce(3)
        for node_id in earlier.cluster.nodes:
            earlier.cluster.kill(node_id, power_loss=False)
        stranger = world.machine("n3").disk
        for node_id in earlier.cluster.nodes:
            earlier.cluster.new_disk(node_id)
        world.kill("client")
        scene = Scene(world)
        scene.produce(3)
        ids = cluster_ids(scene.cluster)
        scene.cluster.kill(3, power_loss=False)
        kept, world.machine("n3").disk = world.machine("n3").disk, stranger
        scene.cluster.start(3)
        world.run(world.now + 5.0)
        scene.produce(3)
        assert ids == {scene.cluster.nodes[1].image.cluster_id}
        assert scene.isr == {1, 2}
        assert any("belongs to cluster" in line for line in scene.cluster.log.lines)

        if scene.cluster.alive(3):
            scene.cluster.kill(3, power_loss=False)
        world.machine("n3").disk = kept
        scene.cluster.start(3)
        scene.wait_whole()
        scene.assert_nothing_lost()
