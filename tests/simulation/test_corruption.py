"""Damaged disks: a broker that finds its records damaged is fenced until others lead, and fetches
theirs. No acknowledged record is lost.
"""

from dataclasses import replace

import pytest

from raftka.chaos.simulated.faults.schedule import KILLS, Kind
from raftka.chaos.simulated.scene import TOPIC, Scene
from raftka.chaos.simulated.swarm import PLANS
from raftka.chaos.simulation import Options, simulate
from raftka.log.manager import LogManager
from raftka.runtime.simulated.world import World

ROT = replace(
    PLANS["three"],
    name="rot",
    kinds=(
        Kind("flip_in_log", 3),
        Kind("misdirected_write", 3),
        Kind("flip_beside_log", 2),
        *KILLS,
    ),
    seconds=8.0,
)


def rotten(scene: Scene) -> None:
    """All lose power, and a bit of what the leader had flushed is another one."""
    scene.produce(6)
    scene.wait_whole()
    scene.cluster.power_loss()
    scene.cluster.disk(1).flip(f"/data/{TOPIC}-0/{0:020d}.log", 100)


@pytest.mark.parametrize("first", [True, False])
def test_a_damaged_replica_does_not_lead(first: bool) -> None:
    with World(31) as world:
        scene = Scene(world)
        rotten(scene)
        for node_id in (1, 2, 3) if first else (2, 3, 1):
            scene.cluster.start(node_id)
            world.run(world.now + 4.0)
        scene.wait_whole()

        assert bool(scene.cluster.log.saying("log_damaged")) is first
        assert scene.leader != 1
        assert not scene.cluster.nodes[1].lifecycle.withdrawn
        scene.produce(2)
        scene.wait_whole()
        scene.assert_nothing_lost()


def test_without_that_rule_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    believes = LogManager._open
    monkeypatch.setattr(
        LogManager,
        "_open",
        lambda self, key, topic_id, config, whole: believes(self, key, topic_id, config, False),
    )
    with World(35) as world:
        scene = Scene(world, settings={"min.insync.replicas": "1"})
        rotten(scene)
        for node_id in (1, 2, 3):
            scene.cluster.start(node_id)
            world.run(world.now + 4.0)
        scene.wait_whole()

        with pytest.raises(AssertionError):
            scene.assert_nothing_lost()


def test_a_damaged_last_member_of_the_isr_serves_the_rest() -> None:
    with World(32) as world:
        scene = Scene(world, replication_factor=1, configs={"min.insync.replicas": "1"})
        scene.produce(6)
        victim = scene.leader
        scene.cluster.kill(victim, power_loss=True)
        scene.cluster.disk(victim).flip(f"/data/{TOPIC}-0/{0:020d}.log", 300)
        scene.cluster.start(victim)
        scene.wait_whole()

        assert scene.cluster.log.saying("log_cut")
        assert 0 < len(scene.read()) < 18


def test_when_all_replicas_are_damaged_the_rest_is_served() -> None:
    """Nobody waits for ever for records that nobody has: the last of the ISR leads with what it
    has, and what is new is not lost.
    """
    with World(33) as world:
        scene = Scene(world)
        rotten(scene)
        for node_id in (2, 3):
            scene.cluster.disk(node_id).flip(f"/data/{TOPIC}-0/{0:020d}.log", 300)
        for node_id in (1, 2, 3):
            scene.cluster.start(node_id)
        scene.wait_whole()

        assert scene.cluster.log.saying("log_damaged")
        assert not any(node.lifecycle.withdrawn for node in scene.cluster.nodes.values())
        left = scene.read()
        assert len(left) < 18
        # of the one before, records are missing
        scene.producer_id = scene.cluster.do(scene.client, scene.client.producer_id)
        scene.produce(2)
        scene.wait_whole()
        assert scene.read()[: len(left)] == left
        assert len(scene.read()) == len(left) + 6


def test_a_damaged_replica_waits_for_intact_ones() -> None:
    """Two of three, and the third is away: with what they have left nobody leads."""
    with World(34) as world:
        scene = Scene(world)
        rotten(scene)
        scene.cluster.disk(2).flip(f"/data/{TOPIC}-0/{0:020d}.log", 300)
        scene.cluster.start(1)
        scene.cluster.start(2)
        world.run(world.now + 30.0)
        topic = scene.cluster.newest.image.topic_named(TOPIC)
        assert topic is not None
        assert topic.partitions[0].eligible == (3,)

        scene.cluster.start(3)
        scene.wait_whole()
        scene.produce(2)
        scene.wait_whole()
        scene.assert_nothing_lost()


def test_damage_on_one_disk_beside_all_other_faults() -> None:
    runs = [simulate(seed, Options(ROT)) for seed in range(8)]

    assert [run.violations for run in runs] == [[]] * 8
    assert (
        sum("bit flip" in each or "misdirected" in each for run in runs for each in run.happened)
        >= 4
    )
