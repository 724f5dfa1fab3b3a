"""Replicas that move: nothing that was acknowledged is lost on the way, whoever dies meanwhile, and
who loses a replica loses its files.
"""

from functools import partial
from typing import Any

import pytest

from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.scene import TOPIC, Scene
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code
from raftka.wire.messages.partitions import CREATE_PARTITIONS
from raftka.wire.messages.reassignments import (
    LIST_PARTITION_REASSIGNMENTS,
)
from tests.simulation.reassigning import ask, others, reassign, settled


def under_way(scene: Scene) -> list[tuple[int, list[int], list[int], list[int]]]:
    topics = ask(
        scene, LIST_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS.request(topics=None)
    ).topics
    return [
        (p.partition_index, *map(list, (p.replicas, p.adding_replicas, p.removing_replicas)))
        for topic in topics
        for p in topic.partitions
    ]


def directory(cluster: Cluster, node_id: int) -> list[str]:
    files = cluster.nodes[node_id].runtime.files
    return [name for name in files.list("/data") if name.startswith(TOPIC)]


def test_all_replicas_move_to_other_brokers() -> None:
    with World(1) as world:
        scene = Scene(world, nodes=6, voters=3)
        scene.produce(5)
        before, target = set(scene.replicas), others(scene)
        assert reassign(scene, target) is Code.NONE
        scene.produce(5)
        settled(scene, set(target))
        assert under_way(scene) == []
        scene.produce(5)
        scene.wait_whole()
        scene.assert_nothing_lost()
        assert [directory(scene.cluster, node_id) for node_id in sorted(before)] == [[], [], []]


@pytest.mark.parametrize("seed", range(10))
def test_a_reassignment_completes_although_nodes_die(seed: int) -> None:
    """A machine loses power in the middle: the leader, the controller, one that comes, one that
    goes. Then it is back.
    """
    with World(seed) as world:
        chance = world.random("test")
        scene = Scene(world, nodes=6, voters=3)
        scene.produce(4)
        target = [*others(scene)[:2], chance.choice(scene.replicas)]
        assert reassign(scene, target) is Code.NONE
        world.run(world.now + chance.uniform(0.0, 0.05))
        victim = chance.choice([*scene.cluster.nodes])
        scene.cluster.kill(victim, power_loss=True)
        world.run(world.now + chance.uniform(0.0, 3.0))
        scene.cluster.start(victim)
        scene.produce(4)
        settled(scene, set(target))
        scene.wait_whole()
        scene.assert_nothing_lost()


def test_one_that_does_not_come_can_be_called_off() -> None:
    with World(3) as world:
        scene = Scene(world, nodes=5, voters=3)
        scene.produce(3)
        before, (absent, new) = list(scene.replicas), others(scene)
        scene.cluster.kill(absent, power_loss=False)
        assert reassign(scene, [before[0], absent, new]) is Code.NONE
        assert scene.cluster.settled(lambda: new in scene.isr)
        assert under_way(scene) == [
            (0, [before[0], absent, new, *before[1:]], sorted([absent, new]), sorted(before[1:]))
        ]
        assert reassign(scene, None) is Code.NONE
        settled(scene, set(before))
        assert under_way(scene) == []
        assert reassign(scene, None) is Code.NO_REASSIGNMENT_IN_PROGRESS
        assert scene.cluster.settled(lambda: directory(scene.cluster, new) == [])
        scene.produce(3)
        scene.wait_whole()
        scene.assert_nothing_lost()


def test_a_replica_that_goes_while_its_broker_is_down_leaves_no_files() -> None:
    with World(4) as world:
        scene = Scene(world, nodes=4, voters=3)
        scene.produce(3)
        gone = scene.followers[0]
        scene.cluster.kill(gone, power_loss=False)
        target = [node_id for node_id in scene.cluster.nodes if node_id != gone]
        assert reassign(scene, target) is Code.NONE
        settled(scene, set(target))
        scene.cluster.start(gone)
        scene.cluster.wait_ready()
        assert scene.cluster.settled(lambda: directory(scene.cluster, gone) == [])
        scene.wait_whole()
        scene.assert_nothing_lost()


def test_a_replica_that_goes_and_comes_back_before_it_notices_is_not_taken_for_the_one_it_was() -> (
    None
):
    """Its fetches still tell of a log that it is about to remove. If they counted, it would be in
    sync with nothing, and lead.
    """
    with World(5) as world:
        scene = Scene(world, nodes=4, voters=1, configs={"min.insync.replicas": "1"})
        cluster = scene.cluster
        scene.produce(5)
        scene.wait_whole()
        late = next(node_id for node_id in scene.followers if node_id != 1)
        rest = [node_id for node_id in scene.replicas if node_id != late]
        told, unread = cluster.nodes[late], list[Any]()
        apply = told.quorum._apply
        # what is decided does not come through, what it fetches does
        told.quorum._apply = unread.append
        assert reassign(scene, rest) is Code.NONE
        assert reassign(scene, [*rest, late]) is Code.NONE
        world.run(world.now + 1.0)
        assert unread
        assert late not in scene.isr

        told.quorum._apply = apply
        for found in unread:
            world.at(world.now, partial(told.apply, found))
        for node_id in rest:
            cluster.kill(node_id, power_loss=True)
        for node_id in rest:
            cluster.start(node_id)
        settled(scene, {*rest, late})
        scene.produce(2)
        scene.wait_whole()
        scene.assert_nothing_lost()


def test_a_waiting_produce_survives_a_reassignment_under_the_same_leader() -> None:
    """A replica goes for good, so the leader epoch moves; the leader does not."""
    with World(6) as world:
        scene = Scene(world, nodes=4, voters=3)
        scene.produce(3)
        leader, (first, second) = scene.leader, scene.followers
        world.pause(f"n{first}")
        acknowledged: list[int] = []

        async def produce() -> None:
            values = [b"0-9", b"0-10", b"0-11"]
            # sent twice, it would be there twice
            acknowledged.append(await scene.client.produce(TOPIC, 0, values, -1, -1))

        scene.client.runtime.spawn(produce, "produce")
        assert world.run(lambda: bool(scene.partition(leader).delayed_by_commit), at_most_s=5.0)
        epoch = scene.partition(leader).leader_epoch
        assert reassign(scene, [leader, second]) is Code.NONE
        assert world.run(lambda: bool(acknowledged), at_most_s=1.0)
        assert (scene.leader, scene.partition(leader).leader_epoch) == (leader, epoch + 1)
        world.resume(f"n{first}")
        scene.acknowledged[0] += [b"0-9", b"0-10", b"0-11"]
        assert scene.read() == scene.acknowledged[0]
        ends = {scene.partition(node_id).log.end_offset for node_id in (leader, second)}
        assert ends == {12}


def test_new_partitions_take_records() -> None:
    with World(7) as world:
        scene = Scene(world, nodes=4, voters=3)
        request = CREATE_PARTITIONS.request
        row = request(
            topics=[request.topics(name=TOPIC, count=8, assignments=None)], timeout_ms=5000
        )
        assert ask(scene, CREATE_PARTITIONS, row).results[0].error_code == 0
        for partition in range(1, 8):
            scene.acknowledged[partition] = []
            scene.produce(1, partition)
        scene.partitions = 8
        scene.wait_whole()
        scene.assert_nothing_lost()


def test_electing_the_last_joined_isr_member_is_not_unclean() -> None:
    with World(21) as world:
        scene = Scene(world, replication_factor=1, configs={"min.insync.replicas": "1"})
        scene.produce(2)
        other = scene.other_than(scene.leader)
        assert reassign(scene, [other]) is Code.NONE
        settled(scene, {other})
        scene.assert_nothing_lost()
        assert scene.cluster.log.saying("unclean_election") == []
