"""Directed simulations of logs that are compacted, deleted from, and cut. See scenarios.py."""

from raftka.chaos.simulated.client import produce_row
from raftka.chaos.simulated.cluster import CLIENT_PORT
from raftka.chaos.simulated.compaction_workload import all_of, state_of
from raftka.chaos.simulated.lives import often
from raftka.chaos.simulated.scene import TOPIC, Scene
from raftka.chaos.zoo.directed import finds
from raftka.runtime.simulated import World
from raftka.wire.errors import Code
from raftka.wire.messages.delete_records import DELETE_RECORDS
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import build_batch

COMPACTED = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "300",
    "min.cleanable.dirty.ratio": "0.01",
    "min.insync.replicas": "1",
    "delete.retention.ms": "86400000",
}


def _put(scene: Scene, key: bytes, value: bytes | None, producer_id: int = -1, sequence: int = -1) -> None:
    """acks=all, until it is acknowledged."""
    epoch = 0 if producer_id >= 0 else -1
    batch = build_batch([(key, value, (), 1_700_000_000_000)], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    client = scene.client
    scene.cluster.do(client, lambda: client.ask_leader(TOPIC, 0, PRODUCE, produce_row(TOPIC, 0, batch)))


def _fill(scene: Scene, batches: int = 12) -> None:
    """Segments are rolled, so that what is before can be cleaned."""
    for number in range(batches):
        _put(scene, b"filling", b"%d" % number + b"." * 60)


def _cleaned(scene: Scene) -> None:
    """All that can be on those that live."""
    _fill(scene)
    scene.world.run(scene.world.now + 4.0)


def _compacting(world: World) -> Scene:
    return Scene(world, configs=COMPACTED, settings={"log.cleaner.backoff.ms": "200", "replica.lag.time.max.ms": "1000"})


@finds
def cleaner_drops_tombstones_early() -> None:
    """A follower is away while a key is deleted and its tombstone compacted: when it is back it must hear of it all the same."""
    with World(20) as world, often():
        scene = _compacting(world)
        _put(scene, b"gone", b"for ever")
        scene.wait_whole()
        late = scene.followers[0]
        scene.cluster.kill(late, power_loss=False)
        _put(scene, b"gone", None)
        _cleaned(scene)
        scene.cluster.start(late)
        scene.wait_whole()
        states = {node_id: state_of(all_of(scene.host(node_id))) for node_id in scene.replicas}
        assert all(b"gone" not in state for state in states.values()), f"a deleted key is back on n{late}"


@finds
def deleted_records_come_back() -> None:
    """Records are deleted, checkpoints written, and all brokers start anew."""
    with World(11) as world:
        scene = Scene(world)
        scene.produce(5)
        scene.wait_whole()
        request = DELETE_RECORDS.request
        row = request(topics=[request.topics(name=TOPIC, partitions=[request.topics.partitions(partition_index=0, offset=9)])], timeout_ms=5000)
        leader = (f"n{scene.leader}", CLIENT_PORT)
        answer = scene.cluster.do(scene.client, lambda: scene.client.ask(leader, DELETE_RECORDS, row))
        assert answer.topics[0].partitions[0].error_code == Code.NONE
        world.run(world.now + 12.0)
        scene.cluster.power_loss()
        for node_id in scene.cluster.nodes:
            scene.cluster.start(node_id)
        scene.cluster.wait_ready()
        scene.wait_whole()
        starts = {node_id: scene.host(node_id).log.start_offset for node_id in scene.replicas}
        assert set(starts.values()) == {9}, f"deleted records are back: {starts}"
