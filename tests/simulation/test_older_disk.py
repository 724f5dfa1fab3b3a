"""A disk that is put back from a copy has forgotten what its node had promised: the node must not
go on with it, and does with an empty one.
"""

from copy import deepcopy

import pytest

from raftka.broker.controller.boot_counter import BootCounter, OlderDisk
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.scene import Scene
from raftka.runtime.simulated.world import World


def put_back(scene: Scene, victim: int) -> None:
    """The copy is of the process before the last."""
    disk = scene.cluster.disk(victim)
    copy = deepcopy(disk.root)
    scene.cluster.kill(victim, power_loss=False)
    scene.cluster.start(victim)
    scene.wait_whole()
    scene.produce(3)
    scene.wait_whole()
    scene.cluster.kill(victim, power_loss=False)
    disk.root = copy


def stopped_for_it(cluster: Cluster) -> set[str]:
    return {name for _, name, error in cluster.world.failures if isinstance(error, OlderDisk)}


@pytest.mark.parametrize("victim", [1, 4])
def test_a_node_does_not_go_on_with_an_older_disk(victim: int) -> None:
    """A voter, and a broker without a vote."""
    with World(41) as world:
        scene = Scene(world, nodes=4, voters=3)
        scene.produce(3)
        scene.wait_whole()
        put_back(scene, victim)
        scene.cluster.start(victim)
        world.run(world.now + 5.0)

        assert not scene.cluster.alive(victim)
        assert stopped_for_it(scene.cluster) == {f"n{victim}"}
        scene.produce(2)

        scene.cluster.new_disk(victim)
        scene.cluster.start(victim)
        scene.wait_whole()
        scene.produce(2)
        scene.wait_whole()
        scene.assert_nothing_lost()


def test_all_start_anew_and_one_of_them_on_an_older_disk() -> None:
    """Whoever meets it first knows, also when there is no controller yet."""
    with World(42) as world:
        scene = Scene(world)
        scene.produce(3)
        scene.wait_whole()
        put_back(scene, 2)
        scene.cluster.power_loss()
        for node_id in (2, 1, 3):
            scene.cluster.start(node_id)
        world.run(world.now + 10.0)

        assert not scene.cluster.alive(2)
        assert scene.read() == scene.acknowledged[0]


def test_without_the_rule_an_older_disk_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BootCounter, "known", lambda self, node_id: None)
    monkeypatch.setattr(BootCounter, "met", lambda self, node_id, start: None)
    with World(41) as world:
        scene = Scene(world)
        scene.produce(3)
        scene.wait_whole()
        put_back(scene, 1)
        scene.cluster.start(1)
        world.run(world.now + 5.0)

        assert scene.cluster.alive(1)


def test_starting_again_and_again_is_no_older_disk() -> None:
    with World(43) as world:
        scene = Scene(world)
        for node_id in (1, 2, 3, 1, 1, 2):
            scene.cluster.kill(node_id, power_loss=node_id == 1)
            scene.cluster.start(node_id)
            scene.wait_whole()
        assert not stopped_for_it(scene.cluster)
