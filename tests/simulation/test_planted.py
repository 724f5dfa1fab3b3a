"""The simulation notices mistakes: each of the zoo is found by a scenario, or by lives of the default seeds. Without it, the same run is good."""

from collections.abc import Callable

import pytest

from raftka.chaos.simulated.client import produce_row
from raftka.chaos.simulated.cluster import CLIENT_PORT
from raftka.chaos.simulated.scene import TOPIC, Scene
from raftka.chaos.simulation import FAULTS, POWER, live
from raftka.chaos.zoo.planted import planted
from raftka.metadata.raft import RaftCore
from raftka.runtime.simulated import World
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import build_batch

SLOW_S = (0.5, 0.5)  # what a flush takes where a scenario needs time


def truncates_to_the_high_watermark() -> None:
    """KIP-101: who follows a new leader before it was told how much is committed, and then must lead itself, has all that was acknowledged."""
    with World(1) as world:
        scene = Scene(world)
        scene.produce(3)
        scene.wait_whole()
        scene.produce(1)  # the followers hear that it is committed with the answer to their next fetch, up to 500 ms later
        first = scene.leader
        scene.cluster.kill(first, power_loss=False)
        world.run(lambda: scene.leader not in (first, -1), at_most_s=5.0)
        second = scene.leader
        third = scene.other_than(first, second)
        assert world.run(lambda: scene.host(third).image.leader == second, at_most_s=5.0)
        scene.cluster.kill(second, power_loss=True)
        scene.cluster.start(first)
        scene.produce(1)
        scene.cluster.start(second)
        scene.wait_whole()
        scene.assert_nothing_lost()


def high_watermark_ahead_of_the_shrink() -> None:
    """A leader that nobody hears may not go on alone because it has asked for an ISR of its own."""
    with World(2) as world:
        scene = Scene(world, settings={"replica.lag.time.max.ms": "500", "min.insync.replicas": "1"})
        scene.produce(3)
        while scene.leader == scene.cluster.controller:
            scene.cluster.kill(scene.leader, power_loss=False)
            scene.cluster.start(next(iter(set(scene.replicas) - scene.cluster.living.keys())))
            scene.produce(1)
            scene.wait_whole()
        for other in scene.followers:
            world.network.cut(f"n{scene.leader}", f"n{other}")
        client = scene.client
        scene.client.runtime.spawn(lambda: client.produce(TOPIC, 0, [b"to a leader alone"], scene.producer_id, len(scene.acknowledged[0])), "produce")
        world.run(world.now + 1.5)
        told = scene.host(scene.leader).high_watermark
        world.run(world.now + 5.0)
        world.network.heal()
        scene.wait_whole()
        assert scene.read() == [*scene.acknowledged[0], b"to a leader alone"]
        assert told == len(scene.acknowledged[0])


def joins_the_isr_too_early() -> None:
    """Who is still catching up may not be the one that is left."""
    with World(3) as world:
        scene = Scene(world, settings={"replica.fetch.max.bytes": "100", "min.insync.replicas": "1"}, replication_factor=2)
        leader, (late,) = scene.leader, scene.followers
        scene.cluster.kill(late, power_loss=False)
        scene.produce(20)
        scene.cluster.disk(late).sync_s = SLOW_S
        scene.cluster.start(late)
        assert scene.cluster.settled(lambda: late in scene.cluster.hosts(TOPIC, 0) and scene.host(late).log.flushed_offset > 0, 20.0)
        world.run(world.now + 0.1)
        assert scene.host(late).log.end_offset < len(scene.acknowledged[0])
        scene.cluster.kill(leader, power_loss=False)
        world.run(world.now + 3.0)
        scene.cluster.start(leader)
        scene.wait_whole()
        scene.assert_nothing_lost()


def follower_forgets_producers() -> None:
    """A batch that is everywhere when its leader dies, unanswered, is sent again to the next leader: it is a duplicate there too."""
    with World(4) as world:
        scene = Scene(world)
        scene.produce(3)
        scene.wait_whole()
        before, leader = len(scene.acknowledged[0]), scene.leader
        world.network.cut(f"n{leader}", "client", one_way=True)
        scene.client.runtime.spawn(lambda: scene.client.produce(TOPIC, 0, [b"once"], scene.producer_id, before), "produce")
        assert world.run(lambda: scene.host(leader).high_watermark > before, at_most_s=2.0)
        scene.cluster.kill(leader, power_loss=False)
        scene.acknowledged[0].append(b"once")
        world.run(world.now + 5.0)
        scene.cluster.start(leader)
        world.network.heal()
        scene.wait_whole()
        scene.assert_nothing_lost()


def never_truncates() -> None:
    """A leader that comes back with records that nobody else has lets go of them."""
    with World(5) as world:
        scene = Scene(world)
        scene.produce(3)
        scene.wait_whole()
        leader, followers = scene.leader, scene.followers
        for other in followers:
            world.network.cut(f"n{leader}", f"n{other}")
        values, address = [b"for nobody"], (f"n{leader}", CLIENT_PORT)
        row = produce_row(TOPIC, 0, build_batch([(None, value, (), 0) for value in values]), acks=1)
        scene.cluster.do(scene.client, lambda: scene.client.ask(address, PRODUCE, row))
        assert world.run(lambda: scene.host(leader).log.flushed_offset == scene.host(leader).log.end_offset, at_most_s=1.0)
        scene.cluster.kill(leader, power_loss=True)
        scene.produce(2)
        world.run(world.now + 10.0)  # what was on its way is given up
        world.network.heal()
        scene.cluster.start(leader)
        scene.wait_whole(5.0)
        scene.assert_nothing_lost()


def journal_without_flush() -> None:
    """What the controller has confirmed is there when all come back, and with it every acknowledged record."""
    with World(6) as world:
        scene = Scene(world)
        scene.produce(1)
        for node_id in scene.cluster.nodes:
            scene.cluster.disk(node_id).keeps_nothing = True
        scene.cluster.power_loss()
        for node_id in scene.cluster.nodes:
            scene.cluster.start(node_id)
        scene.wait_whole()
        scene.assert_nothing_lost()


def forgets_its_vote() -> None:
    """A voter that was restarted votes no second time in a term: two leaders would decide, each with a majority."""
    with World(7) as world:
        scene = Scene(world)
        cluster, first = scene.cluster, scene.cluster.controller
        assert first is not None
        world.network.isolate(f"n{first}")
        others = [node_id for node_id in cluster.nodes if node_id != first]
        assert cluster.settled(lambda: any(_leads(scene, node_id) for node_id in others), 10.0)
        second = next(node_id for node_id in others if _leads(scene, node_id))
        voter, term = scene.other_than(first, second), _core(scene, second).term
        cluster.kill(voter, power_loss=True)
        world.network.heal()
        world.network.isolate(f"n{second}")
        cluster.start(voter)
        assert cluster.settled(lambda: any(_leads(scene, node_id, term) for node_id in (first, voter)), 10.0)
        world.network.heal()
        scene.produce(1)
        scene.wait_whole()
        scene.assert_nothing_lost()


def _core(scene: Scene, node_id: int) -> RaftCore:
    core = scene.cluster.nodes[node_id].quorum.core
    assert core is not None
    return core


def _leads(scene: Scene, node_id: int, term: int = 0) -> bool:
    """In that term or a later one."""
    core = scene.cluster.nodes[node_id].quorum.core  # None: about to start
    return core is not None and core.active and core.term >= term


def believes_every_directory() -> None:
    """One of a broker's directories is replaced by an empty one, and the broker is back before the other that has everything."""
    with World(8) as world:
        settings = {"log.dirs": "/data,/more", "min.insync.replicas": "1"}
        scene = Scene(world, settings=settings, partitions=6, replication_factor=2)
        cluster = scene.cluster
        for partition in range(6):
            scene.produce(3, partition)
        scene.wait_whole()
        partition, victim = next((p, i) for p in range(6) for i, host in cluster.hosts(TOPIC, p).items() if host.home.path == "/more")
        (other,) = set(cluster.replicas_of(TOPIC, partition)) - {victim}
        cluster.power_loss()
        cluster.disk(victim).replace_directory("/more")
        for node_id in cluster.nodes.keys() - {other}:
            cluster.start(node_id)
        world.run(world.now + 5.0)
        cluster.start(other)
        scene.wait_whole()
        scene.assert_nothing_lost()


SCENARIOS = [
    believes_every_directory,
    truncates_to_the_high_watermark,
    high_watermark_ahead_of_the_shrink,
    joins_the_isr_too_early,
    follower_forgets_producers,
    never_truncates,
    journal_without_flush,
    forgets_its_vote,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_scenario_finds_its_mistake(scenario: Callable[[], None]) -> None:
    scenario()

    with planted(scenario.__name__), pytest.raises(AssertionError):
        scenario()


@pytest.mark.parametrize("mistake", ["leader_counts_what_is_written", "follower_claims_what_is_written"])
def test_answers_before_the_flush_are_found_by_most_power_losses(mistake: str) -> None:
    with planted(mistake):
        found = [seed for seed in range(20) if live(seed, POWER).violations]

    assert len(found) >= 15


def test_a_controller_that_acts_before_its_term_has_begun_is_found_at_once() -> None:
    with planted("acts_before_its_term_has_begun"):
        assert live(0, FAULTS).violations
