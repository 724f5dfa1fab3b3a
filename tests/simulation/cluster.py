"""A whole cluster in a simulated world: unmodified nodes, one a machine, and machines for clients."""

from collections.abc import Awaitable, Callable
from typing import Any

from raftka.broker.node import Node
from raftka.metadata.settings import NodeSettings
from raftka.runtime.simulated import World
from tests.simulation.client import Client

CLIENT_PORT, CONTROLLER_PORT = 9092, 9093


class Cluster:
    """Node i runs on machine `n<i>`, voters are the first `voters` of them."""

    def __init__(self, world: World, nodes: int = 3, voters: int | None = None, **settings: str) -> None:
        self.world = world
        self.size = nodes
        self.voters = voters or nodes
        self.settings = settings
        self.nodes: dict[int, Node] = {}
        for node_id in range(1, nodes + 1):
            self.start(node_id)

    def properties(self, node_id: int) -> dict[str, str]:
        controller = node_id <= self.voters
        listeners = [f"PLAINTEXT://n{node_id}:{CLIENT_PORT}"] + ([f"CONTROLLER://n{node_id}:{CONTROLLER_PORT}"] if controller else [])
        return {
            "node.id": str(node_id),
            "process.roles": "broker,controller" if controller else "broker",
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{i}@n{i}:{CONTROLLER_PORT}" for i in range(1, self.voters + 1)),
            "log.dirs": "/data",
            "min.insync.replicas": "2" if self.size > 2 else "1",
            **{name.replace("_", "."): value for name, value in self.settings.items()},
        }

    def start(self, node_id: int) -> None:
        runtime = self.world.node(f"n{node_id}")
        node = Node(runtime, NodeSettings.from_properties(self.properties(node_id)), log_to=None)
        self.nodes[node_id] = node
        self.world.at(self.world.now, node.start)

    def kill(self, node_id: int, *, power_loss: bool) -> None:
        self.world.kill(f"n{node_id}", power_loss=power_loss)
        del self.nodes[node_id]

    def wait_ready(self) -> None:
        assert self.world.run(lambda: all(node.ready.is_set() for node in self.nodes.values()), at_most_s=30), "not all nodes became ready"

    def leader_of(self, topic: str, partition: int) -> int | None:
        """As the node that knows most has it."""
        image = max((node.image for node in self.nodes.values()), key=lambda image: image.offset)
        known = image.topic_named(topic)
        return known.partitions[partition].leader if known is not None else None

    def client(self, name: str = "client") -> Client:
        return Client(self.world.node(name), [(f"n{i}", CLIENT_PORT) for i in range(1, self.size + 1)])

    def do(self, client: Client, task: Callable[[], Awaitable[Any]], at_most_s: float = 60.0) -> Any:
        """Run a task of the client to its end; its result."""
        outcome: list[Any] = []

        async def run() -> None:
            outcome.append(await task())

        client.runtime.spawn(run, "task")
        assert self.world.run(lambda: bool(outcome), at_most_s=at_most_s), f"not done after {at_most_s} s"
        return outcome[0]
