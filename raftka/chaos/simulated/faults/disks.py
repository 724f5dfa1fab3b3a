"""Disks that are slow, full, or fail; second directories that fail, are lost, or take over the logs
of the first.
"""

from raftka.broker.node import Node
from raftka.chaos.simulated.faults.happened import Happened
from raftka.chaos.simulated.faults.incident import Incident, kind
from raftka.runtime.simulated.disk import SYNC_S
from raftka.wire.errors import KafkaError

SLOW_SYNC_S = (0.02, 0.3)
SECOND_DIRECTORY = "/more"
ROOM_BYTES = (0, 20_000)
SEEN_TO_S = (1.0, 5.0)  # until somebody has seen to a disk


@kind
def slow_sync(it: Incident) -> None:
    node_id = it.anyone()
    disk = it.cluster.disk(node_id)
    disk.sync_s = (SLOW_SYNC_S[0], it.random.uniform(*SLOW_SYNC_S))
    it.for_a_while(
        f"slow disk n{node_id}",
        it.random.uniform(0.5, 5.0),
        lambda: setattr(it.cluster.disk(node_id), "sync_s", SYNC_S),
    )


@kind
def full_disk(it: Incident) -> None:
    node_id = it.someone()
    if node_id is not None:
        it.cluster.disk(node_id).room_bytes = it.random.randint(*ROOM_BYTES)
        it.for_a_while(
            f"full disk n{node_id}", it.random.uniform(*SEEN_TO_S), lambda: it.again(node_id)
        )


@kind
def failing_sync(it: Incident) -> None:
    node_id = it.someone()
    if node_id is not None:
        it.cluster.disk(node_id).failing_syncs = 1
        it.for_a_while(
            f"failing sync n{node_id}", it.random.uniform(*SEEN_TO_S), lambda: it.again(node_id)
        )


@kind
def failing_write(it: Incident) -> None:
    node_id = it.someone()
    if node_id is not None:
        it.cluster.disk(node_id).failing_writes = 1
        it.for_a_while(
            f"failing write n{node_id}", it.random.uniform(*SEEN_TO_S), lambda: it.again(node_id)
        )


# directories


@kind
def break_directory(it: Incident) -> None:
    node_id = it.someone()
    if node_id is not None:
        it.cluster.disk(node_id).broken.add(SECOND_DIRECTORY)
        it.for_a_while(
            f"broken directory n{node_id}", it.random.uniform(0.5, 5.0), lambda: it.again(node_id)
        )


@kind
def start_without_directory(it: Incident) -> None:
    node_id = it.someone()
    if node_id is not None:
        it.cluster.kill(node_id, power_loss=it.random.random() < 0.5)
        it.cluster.disk(node_id).broken.add(SECOND_DIRECTORY)
        it.cluster.start(node_id)
        it.for_a_while(
            f"restart without a directory n{node_id}",
            it.random.uniform(0.5, 5.0),
            lambda: it.again(node_id),
        )


@kind
def lose_directory(it: Incident) -> None:
    """Only while all others have everything, and nothing new happens to them before it is known:
    else the cluster could not help it.
    """
    it.when(60, it.all_are_in_sync, lambda: _lose(it))


def _lose(it: Incident) -> None:
    node_id = it.someone()
    everywhere = all(
        len(it.cluster.partitions(it.topic, p)) == len(it.cluster.replicas_of(it.topic, p))
        for p in range(it.partitions)
    )
    # who has just begun anew may still be in an ISR
    if node_id is None or not everywhere or not it.all_are_in_sync():
        return
    it.note(f"lost directory n{node_id}")
    it.cluster.kill(node_id, power_loss=it.random.random() < 0.5)
    it.cluster.disk(node_id).replace_directory(SECOND_DIRECTORY)
    it.scene.preparing = True
    it.later(it.random.choice((0.0, 0.01, 2.0)), lambda: it.start(node_id))
    it.when(400, lambda: _registered(it, node_id), lambda: setattr(it.scene, "preparing", False))


def _registered(it: Incident, node_id: int) -> bool:
    return it.cluster.alive(node_id) and it.cluster.nodes[node_id].lifecycle.broker_epoch >= 0


@kind
def move_directory(it: Incident) -> None:
    node_id = it.someone()
    if node_id is not None:
        path, partition = it.random.choice(("/data", SECOND_DIRECTORY)), it.partition()
        happened = it.note(f"move {it.topic}-{partition} to {path} on n{node_id}")
        process, node = it.world.machine(f"n{node_id}").node, it.cluster.nodes[node_id]
        assert process is not None
        process.take(lambda _: _alter(it, happened, node, path, partition), None)


def _alter(it: Incident, happened: Happened, node: Node, path: str, partition: int) -> None:
    try:
        node.housekeeping.mover.alter(path, it.topic, partition)
    except KafkaError as error:
        happened.what += f" (no: {error})"
