"""Disks that fail under a cluster: full, a flush that fails, a process that ends before its flush
is done. Nobody may believe what is not on them.
"""

import errno

import pytest

from raftka.chaos.simulated.scene import TOPIC, Scene
from raftka.runtime.simulated.world import World

JOURNAL = "/data/__raftka_metadata/journal"
LOG = f"/data/{TOPIC}-0/00000000000000000000.log"


def unflushed(scene: Scene, node_id: int, path: str) -> bool:
    """Is there anything in the file that a power loss would take?"""
    inode = scene.cluster.disk(node_id).file(path)
    return bool(inode.changes or inode.lost)


@pytest.mark.parametrize("path", [LOG, JOURNAL])
def test_pages_of_a_failed_flush_are_not_trusted_by_the_next_process(path: str) -> None:
    """It was: the next process read it from the page cache, counted it as flushed, and the journal
    had a hole after the next power loss.
    """
    with World(1) as world:
        scene = Scene(world)
        scene.produce(3)
        victim = scene.followers[0]
        disk = scene.cluster.disk(victim)
        disk.failing_syncs = 1
        if path == JOURNAL:
            scene.cluster.do(scene.client, lambda: scene.client.create_topic("another", 1, 3))
        else:
            scene.produce(1)

        assert world.run(lambda: not scene.cluster.alive(victim), at_most_s=5.0), (
            "a node whose flush fails must stop"
        )
        (failure,) = world.failures
        assert isinstance(failure[2], OSError)
        assert scene.cluster.log.saying(
            "metadata_log_failed" if path == JOURNAL else "flush_failed"
        )

        scene.cluster.start(victim)
        scene.cluster.wait_ready()
        scene.wait_whole()
        assert not unflushed(scene, victim, path)
        for node_id in scene.replicas:
            scene.cluster.kill(node_id, power_loss=True)
        scene.cluster.start(victim)
        world.run(world.now + 1.0)
        for node_id in scene.replicas:
            if node_id != victim:
                scene.cluster.start(node_id)
        scene.wait_whole()
        assert scene.cluster.refused == {}
        scene.assert_nothing_lost()


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_log_that_cannot_be_written_takes_its_broker_out_and_nobody_else(role: str) -> None:
    """It stayed the leader for ever, and answered every produce with KAFKA_STORAGE_ERROR."""
    with World(2) as world:
        scene = Scene(world)
        scene.produce(3)
        victim = scene.leader if role == "leader" else scene.followers[0]
        scene.cluster.disk(victim).failing_writes = 1
        scene.produce(5, at_most_s=5.0)

        assert scene.leader != victim
        assert victim not in scene.isr
        assert scene.cluster.log.saying("log_failed")
        assert scene.cluster.alive(victim), "its controller goes on"
        world.run(world.now + 3.0)
        assert victim not in scene.isr

        scene.cluster.kill(victim, power_loss=False)
        scene.cluster.start(victim)
        scene.produce(3)
        scene.wait_whole()
        scene.assert_nothing_lost()


def test_a_full_disk_stops_only_its_node() -> None:
    """The metadata log is on it too, so a voter cannot go on."""
    with World(2) as world:
        scene = Scene(world)
        scene.produce(3)
        victim = scene.leader
        scene.cluster.disk(victim).room_bytes = 100
        scene.produce(5, at_most_s=5.0)

        assert scene.cluster.log.saying("log_failed", "metadata_log_failed")
        scene.cluster.disk(victim).room_bytes = None
        if scene.cluster.alive(victim):
            scene.cluster.kill(victim, power_loss=False)
        scene.cluster.start(victim)
        scene.wait_whole()
        scene.assert_nothing_lost()


def test_a_metadata_log_that_cannot_be_written_stops_the_node() -> None:
    with World(3) as world:
        scene = Scene(world)
        controller = scene.cluster.controller
        assert controller is not None
        scene.cluster.disk(controller).room_bytes = 10
        scene.cluster.do(scene.client, lambda: scene.client.create_topic("another", 1, 3))

        assert not scene.cluster.alive(controller)
        (failure,) = world.failures
        assert isinstance(failure[2], OSError)
        assert failure[2].errno == errno.ENOSPC
        scene.cluster.disk(controller).room_bytes = None
        scene.cluster.start(controller)
        scene.produce(2)
        scene.wait_whole()
        scene.assert_nothing_lost()


def test_records_found_at_the_start_are_flushed_before_they_count() -> None:
    """A process that was killed between write and flush leaves its last bytes in memory; the next
    one acknowledges them with its first word.
    """
    with World(4) as world:
        scene = Scene(world)
        scene.wait_whole()
        victim = scene.followers[0]
        scene.cluster.disk(victim).sync_s = (1.0, 1.0)
        for name in ("b", "c"):
            scene.cluster.do(scene.client, lambda name=name: scene.client.create_topic(name, 1, 3))  # type: ignore[misc]
        assert world.run(lambda: unflushed(scene, victim, JOURNAL), at_most_s=1.0)
        scene.cluster.kill(victim, power_loss=False)
        scene.cluster.start(victim)
        node = scene.cluster.nodes[victim]
        assert world.run(lambda: node.quorum.core is not None, at_most_s=0.5)
        assert not unflushed(scene, victim, JOURNAL)
