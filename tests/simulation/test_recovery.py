"""`raftka cluster recover` on what a voter has left: the cluster goes on with what that one knew,
and nothing of before comes between.
"""

from collections.abc import Sequence
from random import Random

import pytest

from raftka.chaos.simulated.checks import verify
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.scene import TOPIC, Scene
from raftka.metadata.configs.settings import METADATA_DIRECTORY
from raftka.metadata.quorum.journal import Journal, Standing
from raftka.metadata.quorum.recovery import (
    LOST_AT_MOST,
    NotRecoverable,
    begin_anew,
    read_remains,
    recoveries,
)
from raftka.runtime.interfaces import Buffer
from raftka.runtime.simulated.world import World

DIRECTORY = f"/data/{METADATA_DIRECTORY}"


def recover(cluster: Cluster, node_id: int, voters: Sequence[int] = (1, 2, 3)) -> None:
    """As the command does, on a node that does not run."""
    runtime = cluster.world.node(f"n{node_id}")
    done: list[bool] = []

    def run(_: object) -> None:
        journal = Journal.open(runtime.files, DIRECTORY, node_id)
        begin_anew(journal, read_remains(journal), voters, "a test", Random(node_id))
        journal.close()
        done.append(True)

    runtime.take(run, None)
    assert cluster.world.run(lambda: bool(done), at_most_s=1.0)
    cluster.kill(node_id, power_loss=True)


def empty_metadata(cluster: Cluster, node_id: int) -> None:
    """Do what an operator does by hand: the records stay, the metadata go."""
    runtime = cluster.world.node(f"n{node_id}")
    done: list[bool] = []

    def run(_: object) -> None:
        runtime.files.remove(DIRECTORY)
        done.append(True)

    runtime.take(run, None)
    assert cluster.world.run(lambda: bool(done), at_most_s=1.0)
    cluster.world.run(cluster.world.now + 1.0)
    cluster.kill(node_id, power_loss=False)


def kill_all(cluster: Cluster) -> None:
    for node_id in tuple(cluster.living):
        cluster.kill(node_id, power_loss=True)


def standing(cluster: Cluster, node_id: int) -> Standing:
    core = cluster.nodes[node_id].quorum.core
    assert core is not None
    return core.journal.standing


@pytest.mark.parametrize("survivor", [1, 2, 3])
def test_the_cluster_goes_on_with_two_new_disks(survivor: int) -> None:
    with World(survivor) as world:
        scene = Scene(world)
        cluster = scene.cluster
        scene.produce(5)
        scene.wait_whole()
        cluster_id = cluster.newest.image.cluster_id
        kill_all(cluster)
        lost = [node_id for node_id in (1, 2, 3) if node_id != survivor]
        for node_id in lost:
            cluster.new_disk(node_id)
        recover(cluster, survivor)
        cluster.start(survivor)
        cluster.start(lost[0])
        world.run(world.now + 10.0)
        assert cluster.controller is None, "one that is not there yet might be of the quorum before"
        assert standing(cluster, survivor) is Standing.SEED

        cluster.start(lost[1])
        cluster.wait_ready()
        assert {node.image.cluster_id for node in cluster.nodes.values()} == {cluster_id}
        assert [standing(cluster, node_id) for node_id in (1, 2, 3)] == [Standing.VOTER] * 3
        scene.produce(3)
        scene.wait_whole()
        scene.assert_nothing_lost()

        cluster.kill(survivor, power_loss=True)  # from now on it is a quorum like any other
        scene.produce(3)
        cluster.new_disk(survivor)
        cluster.start(survivor)
        cluster.wait_ready()
        scene.wait_whole()
        scene.assert_nothing_lost()
        assert standing(cluster, survivor) is Standing.VOTER


@pytest.mark.parametrize("seed", range(12))
def test_a_beginning_that_is_interrupted_makes_one_quorum(seed: int) -> None:
    with World(seed) as world:
        chance = world.random("test")
        scene = Scene(world)
        cluster = scene.cluster
        scene.produce(3)
        kill_all(cluster)
        for node_id in (2, 3):
            cluster.new_disk(node_id)
        recover(cluster, 1)
        for node_id in (1, 2, 3):
            cluster.start(node_id)
        disks = chance.randint(0, 1)  # two that are lost are one too many for any quorum of three
        for _ in range(5):
            world.run(world.now + chance.uniform(0.0, 0.1))
            victim = chance.randint(1, 3)
            cluster.kill(victim, power_loss=True)
            if victim != 1 and disks:
                disks -= 1
                cluster.new_disk(victim)
            world.run(world.now + chance.uniform(0.0, 0.1))
            cluster.start(victim)
        cluster.wait_ready()
        assert all(node.image.topic_named(TOPIC) is not None for node in cluster.nodes.values()), (
            "somebody began with nothing"
        )
        assert len({node.image.cluster_id for node in cluster.nodes.values()}) == 1
        assert verify.metadata(cluster) == []


def test_numbers_that_the_lost_may_have_given_out_are_not_given_out_again() -> None:
    with World(4) as world:
        scene = Scene(world)
        cluster = scene.cluster
        scene.produce(3)
        behind = scene.followers[0]
        cluster.kill(behind, power_loss=False)
        world.run(world.now + 5.0)
        for number in range(5):
            cluster.do(
                scene.client,
                lambda number=number: scene.client.create_topic(f"forgotten{number}", 1, 1),  # type: ignore[misc]
            )
        scene.produce(3)
        before = cluster.newest.image
        partition = before.topics[before.topic_ids[TOPIC]].partitions[0]
        kill_all(cluster)
        for node_id in (1, 2, 3):
            if node_id != behind:
                cluster.new_disk(node_id)
        recover(cluster, behind)
        for node_id in (1, 2, 3):
            cluster.start(node_id)
        cluster.wait_ready()
        after = cluster.newest.image
        now = after.topics[after.topic_ids[TOPIC]].partitions[0]
        assert after.offset > before.offset
        assert min(broker.epoch for broker in after.brokers.values()) > before.offset
        assert (
            now.leader_epoch > partition.leader_epoch,
            now.partition_epoch > partition.partition_epoch,
        ) == (True, True)
        assert after.next_producer_id >= before.next_producer_id
        assert list(after.topic_ids) == [TOPIC]
        assert recoveries(after) == ["a test"]
        assert after.offset - before.offset < 2 * LOST_AT_MOST


def test_records_that_lie_on_the_other_nodes_are_still_there() -> None:
    """Only their metadata are gone."""
    with World(5) as world:
        scene = Scene(world)
        cluster = scene.cluster
        scene.produce(5)
        scene.wait_whole()
        cluster.do(scene.client, lambda: scene.client.create_topic("elsewhere", 3, 1))
        kill_all(cluster)
        for node_id in (2, 3):
            empty_metadata(cluster, node_id)
        recover(cluster, 1)
        for node_id in (1, 2, 3):
            cluster.start(node_id)
        cluster.wait_ready()
        scene.wait_whole()
        scene.produce(3)
        scene.wait_whole()
        scene.assert_nothing_lost()


def test_logs_of_forgotten_topics_stay_on_the_disks() -> None:
    """Somebody may want their records; no broker removes what only the metadata have lost."""
    with World(12) as world:
        scene = Scene(world, nodes=4, voters=3)
        cluster = scene.cluster
        cluster.kill(3, power_loss=False)
        for number in range(6):
            cluster.do(
                scene.client,
                lambda number=number: scene.client.create_topic(f"forgotten{number}", 1, 1),  # type: ignore[misc]
            )
        placed = [
            number for number in range(6) if cluster.replicas_of(f"forgotten{number}", 0) == (4,)
        ]
        assert placed
        assert cluster.settled(lambda: len(forgotten(cluster, 4)) == len(placed)), (
            "it has not heard of all of them"
        )
        there = forgotten(cluster, 4)
        for node_id in (1, 2, 4):
            cluster.kill(node_id, power_loss=False)
        for node_id in (1, 2):
            cluster.new_disk(node_id)
        recover(cluster, 3)
        for node_id in (1, 2, 3, 4):
            cluster.start(node_id)
        cluster.wait_ready()
        assert forgotten(cluster, 4) == there
        assert len(cluster.log.saying("stray_log_kept")) == len(there)


def forgotten(cluster: Cluster, node_id: int) -> list[str]:
    return [
        name
        for name in cluster.nodes[node_id].runtime.files.list("/data")
        if name.startswith("forgotten")
    ]


def test_one_voter_alone_is_a_quorum_at_once_and_three_again_the_next_time() -> None:
    with World(6) as world:
        scene = Scene(world)
        cluster = scene.cluster
        scene.produce(3)
        kill_all(cluster)
        cluster.voters = 1
        recover(cluster, 1, [1])
        cluster.start(1)
        cluster.wait_ready()
        assert cluster.controller == 1
        kill_all(cluster)
        cluster.voters = 3
        for node_id in (2, 3):
            cluster.new_disk(node_id)
        recover(cluster, 1)
        for node_id in (1, 2, 3):
            cluster.start(node_id)
        cluster.wait_ready()
        assert recoveries(cluster.newest.image) == ["a test", "a test"]
        scene.produce(3)
        scene.wait_whole()
        scene.assert_nothing_lost()


# what must not come between


def test_the_quorum_before_does_not_come_back_into_the_new_one() -> None:
    with World(7) as world:
        scene = Scene(world)
        cluster = scene.cluster
        kill_all(cluster)
        cluster.new_disk(2)
        recover(cluster, 1)
        for node_id in (1, 2, 3):  # the third with its old directory
            cluster.start(node_id)
        world.run(world.now + 10.0)
        assert cluster.controller is None
        assert standing(cluster, 1) is Standing.SEED
        assert standing(cluster, 2) is not Standing.VOTER
        assert any("recovered without the other" in line for line in cluster.log.lines)

        for node_id in (2, 3):  # the second may have met the wrong one first
            cluster.kill(node_id, power_loss=False)
            cluster.new_disk(node_id)
            cluster.start(node_id)
        cluster.wait_ready()


def test_two_seeds_do_not_mix() -> None:
    with World(8) as world:
        scene = Scene(world)
        cluster = scene.cluster
        kill_all(cluster)
        cluster.new_disk(3)
        for node_id in (1, 2):
            recover(cluster, node_id)
        for node_id in (1, 2, 3):
            cluster.start(node_id)
        world.run(world.now + 10.0)
        assert cluster.controller is None
        assert standing(cluster, 3) is Standing.EMPTY


def test_other_voters_than_it_was_recovered_for_are_refused() -> None:
    with World(9) as world:
        scene = Scene(world)
        cluster = scene.cluster
        kill_all(cluster)
        recover(cluster, 1, [1])
        cluster.start(1)
        world.run(world.now + 0.5)
        assert isinstance(cluster.refused[1], NotRecoverable)
        assert "recovered for the voters 1; controller.quorum.voters has other ones" in str(
            cluster.refused[1]
        )


def test_a_broker_that_knows_lost_entries_stops() -> None:
    """It runs all the time; what it leads and fetches is of a history that is no more."""
    with World(10) as world:
        scene = Scene(world, nodes=4, voters=3)
        cluster = scene.cluster
        scene.produce(3)
        for node_id in (1, 2, 3):
            cluster.kill(node_id, power_loss=True)
        for node_id in (2, 3):
            cluster.new_disk(node_id)
        recover(cluster, 1)
        for node_id in (1, 2, 3):
            cluster.start(node_id)
        assert cluster.settled(lambda: not cluster.alive(4))
        assert [str(error) for _, name, error in world.failures if name == "n4"] == [
            str(world.failures[-1][2])
        ]
        assert "the metadata quorum was recovered" in str(world.failures[-1][2])
        cluster.start(4)
        cluster.wait_ready()


@pytest.mark.parametrize("calls", range(4))
def test_a_recovery_that_is_broken_off_says_so_and_can_be_run_again(calls: int) -> None:
    """The power goes at each of the files that it replaces."""
    with World(11) as world:
        cluster = Scene(world).cluster
        kill_all(cluster)
        cluster.new_disk(2)
        cluster.new_disk(3)
        runtime = world.node("n1")
        seen: list[str] = []

        def run(_: object) -> None:
            journal = Journal.open(runtime.files, DIRECTORY, 1)
            remains = read_remains(journal)
            left = calls
            replace = runtime.files.replace

            def failing(path: str, data: Buffer) -> None:
                nonlocal left
                if left == 0:
                    seen.append("broken off")
                    raise OSError("the power went")
                left -= 1
                replace(path, data)

            runtime.files.replace = failing  # type: ignore[method-assign]
            try:
                begin_anew(journal, remains, (1, 2, 3), "a test", Random(1))
                seen.append("done")
            except OSError:
                pass

        runtime.take(run, None)
        assert world.run(lambda: bool(seen), at_most_s=1.0)
        cluster.kill(1, power_loss=True)
        for node_id in (1, 2, 3):
            cluster.start(node_id)
        world.run(world.now + 1.0)
        if calls == 0:
            assert standing(cluster, 1) is Standing.VOTER, "nothing has happened yet"
            return
        assert (1 in cluster.refused) == (seen == ["broken off"]) == (calls < 3)
        if 1 in cluster.refused:
            assert "run `raftka cluster recover` again" in str(cluster.refused[1])
            recover(cluster, 1)
            cluster.start(1)
        cluster.wait_ready()
        assert all(node.image.topic_named(TOPIC) is not None for node in cluster.nodes.values())
