"""Brokers that join and leave a living cluster of a test. Knows no thread: called where the nodes
run.

The first nodes are the controllers, and stay: a broker that is added has no vote.
"""

from collections.abc import Callable
from dataclasses import replace

import trio

from raftka.broker.node import Node
from raftka.cluster.embedded import Cluster as Embedded
from raftka.cluster.embedded import EmbeddedNode
from raftka.cluster.plan import HOST, NodePlan
from raftka.cluster.ports import HeldPorts
from raftka.metadata.commands import (
    AlterReassignments,
    ListReassignments,
    Move,
    MovedTopic,
    UnregisterBroker,
)
from raftka.metadata.image import MetadataImage
from raftka.testing.steering import check_results

MOVED_S = 30.0  # at most, until the replicas of a broker that leaves are elsewhere
LOOK_S = 0.01


class Membership:
    """`newest` returns the node with the newest metadata."""

    def __init__(self, embedded: Embedded, newest: Callable[[], Node]) -> None:
        self._embedded = embedded
        self._newest = newest
        self._ports = HeldPorts(0)
        self._added: set[int] = set()

    @property
    def added(self) -> list[int]:
        """Ids of brokers that were added and not removed."""
        return sorted(self._added)

    def plan(self) -> NodePlan:
        """Plan one more broker. Raises ValueError for a cluster with keys of its nodes."""
        first = next(iter(self._embedded.nodes.values())).plan
        if "PLAINTEXT://" not in first.properties["listeners"]:
            raise ValueError("a secured cluster has keys for its first nodes alone")
        node_id = max(self._embedded.nodes) + 1
        port, scraped = self._ports.add_row(1), self._ports.add_row(1)
        directory = first.directory.parent / f"node-{node_id}"
        own = {
            "node.id": str(node_id),
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://{HOST}:{port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
            "log.dirs": str(directory / "data"),
            "metrics.port": str(scraped),
        }
        properties = {**first.properties, **own}
        for name in ("zookeeper.bridge.port", "registry.port"):
            properties.pop(name, None)
        return replace(
            first,
            node_id=node_id,
            directory=directory,
            broker_port=port,
            properties=properties,
            metrics_port=scraped,
            bridge_port=None,
        )

    async def add(self) -> EmbeddedNode:
        """Start one more broker; return when it serves, and all nodes know it."""
        plan = self.plan()
        plan.write()
        node = self._embedded.nodes[plan.node_id] = EmbeddedNode(plan)
        self._added.add(plan.node_id)
        await self._embedded.start(plan.node_id)
        await self._embedded.wait_ready()
        return node

    async def remove(self, node_id: int) -> None:
        """Move the replicas of an added broker to others, stop it, and unregister it. Raises
        ValueError for a node that has a vote or is not there, KafkaError, and trio.TooSlowError.
        """
        if node_id not in self._added:
            raise ValueError(
                f"node {node_id} was not added: "
                f"{self.added or 'none'} can be removed, the others are the controllers"
            )
        moves = _moves(self._newest().image, node_id)
        if moves:
            check_results(await self._newest().controller.ask(AlterReassignments(moves)))
            with trio.fail_after(MOVED_S):
                # only the controller knows, and it tells nobody
                while await self._newest().controller.ask(ListReassignments()):  # noqa: ASYNC110
                    await trio.sleep(LOOK_S)
        await self._embedded.stop(node_id)
        await self._newest().controller.ask(UnregisterBroker(node_id))
        self._added.remove(node_id)
        del self._embedded.nodes[node_id]

    def close(self) -> None:
        self._ports.release()


def _moves(image: MetadataImage, node_id: int) -> tuple[MovedTopic, ...]:
    """Return the reassignments that take all replicas from a broker: another one gets each, or the
    partition has one less where all others have it.
    """
    moved = []
    for topic in image.topics.values():
        moves = []
        for index, partition in enumerate(topic.partitions):
            if node_id in partition.replicas:
                others = [each for each in image.alive_brokers() if each != node_id]
                spare = [each for each in others if each not in partition.replicas][:1]
                kept = [each for each in partition.replicas if each != node_id]
                moves.append(Move(index, (*kept, *spare)))
        if moves:
            moved.append(MovedTopic(topic.name, tuple(moves)))
    return tuple(moved)
