"""What a node does not do any more when its logs are closed."""

import pytest

from raftka.broker.replica.manager import CHECKPOINT_EVERY_S
from raftka.chaos.simulated.scene import Scene
from raftka.log.manager import LogManager
from raftka.runtime.simulated.world import World


def test_a_checkpoint_that_is_due_after_the_end_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
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
