"""Brokers with two log directories, one of which fails, is lost, or comes back: exactly what lay
there leaves, and nothing acknowledged is lost.
"""

from collections.abc import Iterable

import pytest

from raftka.chaos.simulated.cluster import CLIENT_PORT
from raftka.chaos.simulated.scene import TOPIC, Scene
from raftka.chaos.simulation import DIRECTORIES as LIFE
from raftka.chaos.simulation import live
from raftka.runtime.simulated.world import World
from raftka.wire.messages.metadata import METADATA

FIRST, SECOND = "/data", "/more"  # the metadata log is in the first
DIRECTORIES = {"log.dirs": f"{FIRST},{SECOND}"}
PARTITIONS = 4


def two(world: World, **more: object) -> Scene:
    return Scene(world, settings=DIRECTORIES, partitions=PARTITIONS, **more)  # type: ignore[arg-type]


def produce(scene: Scene, batches: int = 2, partitions: Iterable[int] = range(PARTITIONS)) -> None:
    for partition in partitions:
        scene.produce(batches, partition)


def lying_in(scene: Scene, node_id: int, path: str) -> set[int]:
    logs = scene.cluster.nodes[node_id].logs
    return {
        partition
        for topic, partition in logs.logs
        if topic == TOPIC and logs.home((topic, partition)).path == path
    }


def members(scene: Scene, node_id: int) -> set[int]:
    """The partitions in whose ISR it is, or for which it is eligible."""
    known = scene.cluster.newest.image.topic_named(TOPIC)
    assert known is not None
    return {
        index for index, partition in enumerate(known.partitions) if node_id in partition.eligible
    }


def offline(scene: Scene, node_id: int) -> set[int]:
    known = scene.cluster.newest.image.topic_named(TOPIC)
    assert known is not None
    return {
        index for index, partition in enumerate(known.partitions) if node_id in partition.offline
    }


def led(scene: Scene, node_id: int) -> set[int]:
    return {
        partition
        for partition in range(scene.partitions)
        if scene.cluster.leader_of(TOPIC, partition) == node_id
    }


def fail_at_runtime(scene: Scene, victim: int, how: str) -> None:
    disk = scene.cluster.disk(victim)
    if how == "all of it":
        disk.broken.add(SECOND)
    else:
        disk.failing_under = SECOND
        setattr(disk, how, 1)


@pytest.mark.parametrize("how", ["all of it", "failing_writes", "failing_syncs"])
def test_one_directory_fails_and_the_broker_goes_on_with_the_other(how: str) -> None:
    with World(1) as world:
        scene = two(world)
        produce(scene)
        scene.wait_whole()
        victim = scene.leader
        gone = lying_in(scene, victim, SECOND)
        assert len(gone) == PARTITIONS // 2
        fail_at_runtime(scene, victim, how)

        produce(scene, 3)

        assert scene.cluster.settled(lambda: offline(scene, victim) == gone, 5.0)
        assert members(scene, victim) == set(range(PARTITIONS)) - gone
        assert not led(scene, victim) & gone
        assert scene.cluster.alive(victim)
        assert len(scene.cluster.log.saying("log_directory_failed")) == 1
        world.run(world.now + 3.0)
        assert members(scene, victim) == set(range(PARTITIONS)) - gone, (
            "its broker lives, but nothing follows there"
        )
        assert scene.cluster.nodes[victim].image.alive(victim)

        scene.cluster.disk(victim).broken.clear()
        scene.cluster.kill(victim, power_loss=True)
        scene.cluster.start(victim)
        produce(scene)
        scene.wait_whole()
        assert offline(scene, victim) == set()
        assert lying_in(scene, victim, SECOND) == gone
        scene.assert_nothing_lost()


def test_clients_are_told_which_replicas_are_offline() -> None:
    with World(8) as world:
        scene = two(world)
        produce(scene)
        scene.wait_whole()
        victim = scene.leader
        gone = lying_in(scene, victim, SECOND)
        fail_at_runtime(scene, victim, "all of it")
        produce(scene)
        asked = METADATA.request(topics=[METADATA.request.topics(name=TOPIC)])
        row = scene.cluster.do(
            scene.client, lambda: scene.client.ask((f"n{victim}", CLIENT_PORT), METADATA, asked)
        )
        (topic,) = row.topics
        assert {
            each.partition_index for each in topic.partitions if victim in each.offline_replicas
        } == gone
        (there,) = [each for each in row.brokers if each.node_id == victim]
        assert there.port == CLIENT_PORT


def test_nobody_waits_for_the_replicas_of_a_directory_that_failed() -> None:
    """Its broker lives, and had fetched a moment ago: a leader could take it for one that is about
    to come back to the ISR.
    """
    with World(2) as world:
        scene = two(world)
        produce(scene)
        scene.wait_whole()
        victim = scene.followers[0]
        fail_at_runtime(scene, victim, "all of it")
        began = world.now
        produce(scene)
        assert world.now - began < 2.0


def test_a_directory_that_cannot_be_read_at_the_start_is_waited_for() -> None:
    with World(3) as world:
        scene = two(world)
        produce(scene)
        scene.wait_whole()
        victim = scene.leader
        gone = lying_in(scene, victim, SECOND)
        scene.cluster.kill(victim, power_loss=True)
        scene.cluster.disk(victim).broken.add(SECOND)
        scene.cluster.start(victim)
        produce(scene)
        assert scene.cluster.settled(
            lambda: members(scene, victim) == set(range(PARTITIONS)) - gone, 10.0
        )
        assert offline(scene, victim) == gone
        assert lying_in(scene, victim, FIRST) == set(range(PARTITIONS)) - gone, (
            "they are not made anew in the other"
        )

        scene.cluster.do(scene.client, lambda: scene.client.create_topic("another", 2, 3))
        assert scene.cluster.settled(
            lambda: ("another", 1) in scene.cluster.nodes[victim].logs.logs, 5.0
        )

        scene.cluster.kill(victim, power_loss=False)
        scene.cluster.disk(victim).broken.clear()
        scene.cluster.start(victim)
        scene.wait_whole()
        scene.assert_nothing_lost()


def test_a_broker_without_a_vote_starts_without_its_first_directory() -> None:
    """Nothing of the node lies there alone."""
    with World(4) as world:
        scene = two(world, nodes=4, voters=3, replication_factor=4)
        produce(scene)
        scene.wait_whole()
        scene.cluster.kill(4, power_loss=True)
        scene.cluster.disk(4).broken.add(FIRST)
        scene.cluster.start(4)
        produce(scene)
        assert scene.cluster.settled(
            lambda: members(scene, 4) == lying_in(scene, 4, SECOND) != set(), 10.0
        )

        scene.cluster.kill(4, power_loss=False)
        scene.cluster.disk(4).broken.clear()
        scene.cluster.start(4)
        scene.wait_whole()
        scene.assert_nothing_lost()


def test_a_directory_that_was_replaced_takes_its_replicas_out_of_every_isr_and_no_others() -> None:
    with World(4) as world:
        scene = two(world)
        produce(scene)
        scene.wait_whole()
        victim = scene.leader
        gone = lying_in(scene, victim, SECOND)
        scene.cluster.kill(victim, power_loss=True)
        scene.cluster.disk(victim).replace_directory(SECOND)
        world.network.isolate(f"n{victim}")  # for the image to be looked at before it has caught up
        scene.cluster.start(victim)
        world.run(world.now + 0.5)
        for other in scene.cluster.nodes:
            if other != victim and scene.cluster.controller == other:
                world.network.heal()
        world.network.heal()
        seen: list[set[int]] = []

        def out() -> bool:
            seen.append(members(scene, victim))
            return not members(scene, victim) & gone

        assert scene.cluster.settled(out, 10.0, every_s=0.001)
        produce(scene)
        scene.wait_whole()
        assert scene.cluster.nodes[victim].logs.offline == {}
        scene.assert_nothing_lost()


@pytest.mark.parametrize("fast", [True, False])
def test_the_directory_with_the_only_replica_is_lost(fast: bool) -> None:
    """The other replicas of its broker lead again; an empty log does not pass for the whole one,
    however soon it is back.
    """
    with World(5) as world:
        scene = two(world, replication_factor=1, configs={"min.insync.replicas": "1"})
        produce(scene)
        victim = scene.leader
        mine = led(scene, victim)
        gone = lying_in(scene, victim, SECOND)
        kept = mine - gone
        assert gone
        scene.cluster.kill(victim, power_loss=fast)
        scene.cluster.disk(victim).replace_directory(SECOND)
        if not fast:
            world.run(world.now + 3.0)
        scene.cluster.start(victim)
        scene.cluster.wait_ready()
        world.run(world.now + 5.0)
        assert led(scene, victim) == kept
        assert members(scene, victim) == kept
        for partition in kept:
            assert scene.read(partition) == scene.acknowledged[partition]


def test_the_last_of_an_isr_is_waited_for_while_its_directory_is_away() -> None:
    with World(6) as world:
        scene = two(world, replication_factor=1, configs={"min.insync.replicas": "1"})
        produce(scene)
        victim = scene.leader
        mine = led(scene, victim)
        gone = lying_in(scene, victim, SECOND)
        scene.cluster.disk(victim).broken.add(SECOND)
        scene.cluster.kill(victim, power_loss=True)
        scene.cluster.start(victim)
        scene.cluster.wait_ready()
        world.run(world.now + 3.0)
        assert led(scene, victim) == mine - gone
        assert members(scene, victim) == mine

        scene.cluster.kill(victim, power_loss=True)
        scene.cluster.disk(victim).broken.clear()
        scene.cluster.start(victim)
        scene.cluster.wait_ready()
        assert scene.cluster.settled(lambda: led(scene, victim) == mine, 5.0)
        for partition in range(PARTITIONS):
            assert scene.read(partition) == scene.acknowledged[partition]


@pytest.mark.parametrize("seed", range(6))
def test_directories_fail_are_lost_and_change_places_while_everything_else_goes_wrong(
    seed: int,
) -> None:
    assert live(seed, LIFE).violations == []


def test_in_these_lives_it_does_happen() -> None:
    lives = [live(seed, LIFE) for seed in range(3, 7)]

    assert sum("lost directory" in each for life in lives for each in life.happened) >= 4
    for event in ("log_directory_failed", "log_directory_moved"):
        assert sum(f" {event} " in line for life in lives for line in life.log) >= 4, event


def test_the_directory_of_the_metadata_log_cannot_be_spared() -> None:
    with World(7) as world:
        scene = two(world)
        produce(scene)
        scene.wait_whole()
        victim = scene.leader
        scene.cluster.disk(victim).failing_under = FIRST + f"/{TOPIC}"
        scene.cluster.disk(victim).failing_writes = 1
        produce(scene)
        assert scene.cluster.settled(lambda: members(scene, victim) == set(), 5.0)
        assert scene.cluster.log.saying("log_failed")
        scene.cluster.kill(victim, power_loss=False)
        scene.cluster.start(victim)
        scene.wait_whole()
        scene.assert_nothing_lost()


def test_a_log_that_moves_hears_what_the_answer_under_way_has_said() -> None:
    """Its leader says once what is committed, in a session in which many partitions are followed;
    the log that was there before has left with it.
    """
    with World(12) as world:
        scene = Scene(
            world, nodes=4, voters=1, controllers=(1,), settings=DIRECTORIES, partitions=12
        )
        leader, follower = scene.leader, scene.followers[0]
        # followers hear that it is committed with the answer to their next fetch, up to 500 ms
        # later
        scene.produce(1)
        world.network.cut(f"n{leader}", f"n{follower}", one_way=True)
        world.run(world.now + 1.0)
        other = SECOND if 0 in lying_in(scene, follower, FIRST) else FIRST
        assert scene.partition(follower).high_watermark < scene.partition(leader).high_watermark

        scene.cluster.nodes[follower].housekeeping.mover.alter(other, TOPIC, 0)
        assert world.run(lambda: 0 in lying_in(scene, follower, other), at_most_s=5.0)
        world.network.heal()

        scene.wait_whole(5.0)
