"""Actions that a node does not take any more when its logs are closed."""

from collections.abc import Callable, Sequence

import pytest

from raftka.broker.node import LEAVE_S
from raftka.broker.replica.manager import CHECKPOINT_EVERY_S
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.scene import Scene
from raftka.log.manager import LogManager
from raftka.runtime.simulated.world import World


def test_a_checkpoint_that_is_due_after_the_end_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The directory is unlocked: another process may have it."""
    with World(1) as world:
        scene = Scene(world)
        scene.produce(1)
        node, ended, written = scene.cluster.nodes[scene.leader], [], []
        node.replicas.checkpoint_later()

        async def ends() -> None:
            await node.shutdown()
            ended.append(world.now)

        node.runtime.spawn(ends, "ends")
        assert world.run(lambda: bool(ended), at_most_s=20.0)
        monkeypatch.setattr(LogManager, "write_checkpoints", lambda logs, *_: written.append(logs))
        world.run(world.now + 2 * CHECKPOINT_EVERY_S)

        assert any(logs is not node.logs for logs in written)
        assert not any(logs is node.logs for logs in written)


def seconds_of_ends(
    seed: int, first: Sequence[int] = (), apart_s: float = 0.0, pause_s: float = 0.0
) -> dict[int, float]:
    """Stop all three nodes, those of `first` so long before the others; a node's process ends with
    its shutdown.

    Returns how many simulated seconds each took. `apart_s`: between one node and the next.
    """
    with World(seed) as world:
        cluster = Cluster(world)
        cluster.wait_ready()
        world.run(world.now + pause_s)
        began, ended, gone = dict[int, float](), dict[int, float](), set[int]()

        def stop(node_id: int) -> None:
            node, began[node_id] = cluster.nodes[node_id], world.now

            async def ends() -> None:
                await node.shutdown()
                ended[node_id] = world.now - began[node_id]

            node.runtime.spawn(ends, "ends")

        def run(until: Callable[[], bool], at_most_s: float) -> None:
            end = world.now + at_most_s
            while not until() and world.now < end:
                world.run(lambda: until() or bool(ended.keys() - gone), at_most_s=end - world.now)
                for node_id in ended.keys() - gone:
                    gone.add(node_id)
                    cluster.kill(node_id, power_loss=False)

        for node_id in (*first, *(each for each in cluster.nodes if each not in first)):
            stop(node_id)
            if apart_s:
                run(lambda: len(ended) == len(cluster.nodes), apart_s)
        run(lambda: len(ended) == len(cluster.nodes), 10.0)
        return ended


@pytest.mark.parametrize("seed", range(12))
def test_three_nodes_that_are_stopped_together_end_at_once(seed: int) -> None:
    ends = seconds_of_ends(seed, pause_s=seed % 4 / 4)
    assert len(ends) == 3
    assert max(ends.values()) <= 0.5, "in simulated time"


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("apart_s", [0.03, 0.2])
def test_nodes_that_are_stopped_one_after_the_other_end_at_once(seed: int, apart_s: float) -> None:
    ends = seconds_of_ends(seed, first=(1 + seed % 3,), apart_s=apart_s)
    assert len(ends) == 3
    assert max(ends.values()) <= 0.5, "in simulated time"


def test_a_node_waits_for_controllers_that_were_killed() -> None:
    """They may come back: what it leads moves then, before it ends."""
    with World(3) as world:
        cluster = Cluster(world)
        cluster.wait_ready()
        last, *others = cluster.nodes
        for node_id in others:
            cluster.kill(node_id, power_loss=False)
        node, ended = cluster.nodes[last], list[float]()

        async def ends() -> None:
            await node.shutdown()
            ended.append(world.now)

        node.runtime.spawn(ends, "ends")
        world.run(world.now + 1.0)
        assert not ended, "it did not wait for controllers that were killed"
        for node_id in others:
            cluster.start(node_id)
        assert world.run(lambda: bool(ended), at_most_s=LEAVE_S)
        assert cluster.nodes[others[0]].image.brokers[last].shutting_down
