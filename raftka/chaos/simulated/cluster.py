"""A whole cluster in a simulated world: unmodified nodes, one a machine, and machines for
clients.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import IO, Any, cast

from raftka.broker.node import Node
from raftka.broker.replica.partition import Partition
from raftka.chaos.simulated.clients.client import Client
from raftka.chaos.simulated.clients.shapes import PLAIN, SHAPES, Shape
from raftka.chaos.simulated.releases import PRESENT, Release
from raftka.client.connection import PLAIN as UNSECURED
from raftka.client.connection import Secured
from raftka.json_values import JsonObject
from raftka.metadata.image import PartitionImage
from raftka.runtime.simulated.disk import SimulatedDisk
from raftka.runtime.simulated.tasks import NodeStopped
from raftka.runtime.simulated.world import World

CLIENT_PORT, CONTROLLER_PORT = 9092, 9093
READY_S = 30.0
LOG_LINES = 20_000


class LogLines:
    """The log lines of the nodes, readable when something went wrong."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.timed: list[tuple[float, str]] = []
        self._now = now

    @property
    def lines(self) -> list[str]:
        return [line for _, line in self.timed]

    def isatty(self) -> bool:
        return True

    def write(self, line: str) -> None:
        if len(self.timed) < LOG_LINES:
            self.timed.append((self._now(), line.rstrip("\n")))

    def flush(self) -> None: ...

    def saying(self, *events: str) -> list[str]:
        return [line for line in self.lines if any(f" {event} " in line for event in events)]


class Cluster:
    """Node i runs on machine `n<i>`, voters are the first `voters` of them."""

    def __init__(
        self,
        world: World,
        nodes: int = 3,
        voters: int | None = None,
        settings: Mapping[str, str] | None = None,
        *,
        start: Iterable[int] | None = None,
        controllers: Iterable[int] = (),
        before_start: Iterable[Callable[[int, Node], object]] = (),
        own: Mapping[int, Mapping[str, str]] | None = None,
        later_voters: Iterable[int] = (),
        release: Release = PRESENT,
    ) -> None:
        """`start`: who is started at once; all, if it is not said. `controllers`: voters without a
        broker. `before_start`: is given each process of the present release. `later_voters`:
        controllers that are no voters when the cluster is formed.

        `own`: settings of single nodes. `release`: what all nodes begin with.
        """
        self.world = world
        self.size = nodes
        self.voters = voters or nodes
        self.settings = settings or {}
        self.own = own or {}
        self.keeps_power = False  # a power loss is no more than a kill
        # the node whose disk forgets, once there is one
        self.rotten: Callable[[], int | None] = lambda: None
        self.controllers = frozenset(controllers)
        self.later_voters = frozenset(later_voters)
        self.voters_in_log = False  # kraft.version 1: controller.quorum.voters is gone
        self.release = release
        self.releases: dict[int, Release] = {}  # of nodes that begin with another one from now on
        self.log = LogLines(lambda: world.now)
        self.clients: list[Client] = []
        self.nodes: dict[int, Node] = {}  # the last process of each
        self.refused: dict[int, Exception] = {}  # those that did not want to start, and why
        self.before_start: list[Callable[[int, Node], object]] = list(before_start)
        for node_id in range(1, nodes + 1) if start is None else start:
            self.start(node_id)

    def properties(self, node_id: int) -> dict[str, str]:
        broker = node_id not in self.controllers
        controller = node_id <= self.voters or node_id in self.later_voters
        listeners = [f"PLAINTEXT://n{node_id}:{CLIENT_PORT}"] * broker + [
            f"CONTROLLER://n{node_id}:{CONTROLLER_PORT}"
        ] * controller
        return {
            "node.id": str(node_id),
            "process.roles": ",".join(["broker"] * broker + ["controller"] * controller),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            **self._addresses_of_voters(node_id),
            "log.dirs": "/data",
            "min.insync.replicas": "2" if self.size > 2 else "1",
            **{
                name: value.replace("{host}", f"n{node_id}")
                for name, value in self.settings.items()
            },
            **self.own.get(node_id, {}),
        }

    def _addresses_of_voters(self, node_id: int) -> dict[str, str]:
        founders = range(1, self.voters + 1)
        if self.voters_in_log or node_id in self.later_voters:
            ids = sorted({*founders, *self.later_voters}) if self.voters_in_log else founders
            servers = ",".join(f"n{i}:{CONTROLLER_PORT}" for i in ids)
            return {"controller.quorum.bootstrap.servers": servers}
        voters = ",".join(f"{i}@n{i}:{CONTROLLER_PORT}" for i in founders)
        return {"controller.quorum.voters": voters}

    # its nodes

    def start(self, node_id: int) -> None:
        runtime = self.world.node(f"n{node_id}")
        release = self.release_of(node_id)
        node = release.make_node(runtime, self.properties(node_id), cast(IO[str], self.log))
        self.nodes[node_id] = node
        runtime.at_death.append(partial(_drop_work, node))
        self.refused.pop(node_id, None)
        for called in self.before_start if isinstance(node, Node) else ():
            called(node_id, node)
        runtime.take(lambda _: self._start(node_id, node), None)

    def _start(self, node_id: int, node: Node) -> None:
        """As the command line does: an exception here ends the process with a sentence."""
        try:
            node.start()
            self.release_of(node_id).open_edges(node.services)
        except NodeStopped:
            raise
        except Exception as error:
            self.refused[node_id] = error
            self.world.kill(f"n{node_id}")
            raise NodeStopped from error

    def release_of(self, node_id: int) -> Release:
        return self.releases.get(node_id, self.release)

    def alive(self, node_id: int) -> bool:
        process = self.world.machine(f"n{node_id}").node
        return process is not None and process.alive

    @property
    def living(self) -> dict[int, Node]:
        return {node_id: node for node_id, node in self.nodes.items() if self.alive(node_id)}

    @property
    def judged(self) -> dict[int, Node]:
        """The living nodes of the release of these judges: insides of others may differ."""
        return {node_id: node for node_id, node in self.living.items() if isinstance(node, Node)}

    def kill(self, node_id: int, *, power_loss: bool) -> None:
        self.world.kill(f"n{node_id}", power_loss=power_loss and not self.keeps_power)

    def power_loss(self) -> None:
        """Cut the power of all nodes at once."""
        for node_id in self.nodes:
            self.kill(node_id, power_loss=True)

    def stop(self, node_id: int, at_most_s: float = 20.0) -> None:
        """A controlled shutdown, to its end."""
        node, ended = self.nodes[node_id], []

        async def stop() -> None:
            await node.shutdown()
            ended.append(True)

        node.runtime.spawn(stop, "stop")
        assert self.world.run(lambda: bool(ended), at_most_s=at_most_s), (
            f"node {node_id} does not stop"
        )
        self.kill(node_id, power_loss=False)

    def new_disk(self, node_id: int) -> None:
        """The old one is lost, with all that was on it. The node must not run."""
        assert not self.alive(node_id)
        machine = self.world.machine(f"n{node_id}")
        machine.disk = SimulatedDisk(machine.name, self.world.random(f"disk {machine.name}"))

    def disk(self, node_id: int) -> SimulatedDisk:
        return self.world.disk(f"n{node_id}")

    # what it comes to

    def is_ready(self) -> bool:
        """All that run are serving; brokers are registered and unfenced."""
        return all(
            node.ready.is_set() and (node_id in self.controllers or node.image.alive(node_id))
            for node_id, node in self.living.items()
        )

    def wait_ready(self, at_most_s: float = READY_S) -> None:
        assert self.settled(self.is_ready, at_most_s), "not all nodes became ready"

    def settled(
        self, holds: Callable[[], bool], at_most_s: float = READY_S, every_s: float = 0.02
    ) -> bool:
        """For what takes long to look at: looked at now and then, not after each event."""
        end = self.world.now + at_most_s
        while not holds():
            if self.world.now >= end:
                return False
            self.world.run(self.world.now + every_s)
        return True

    @property
    def newest(self) -> Node:
        """The node that knows most; of several one of the present release."""
        return max(
            self.nodes.values(), key=lambda node: (node.image.offset, isinstance(node, Node))
        )

    def leader_of(self, topic: str, partition: int) -> int | None:
        """None: there is none, or no such topic. As the node that knows most has it."""
        known = self.newest.image.topic_named(topic)
        leader = known.partitions[partition].leader if known is not None else -1
        return leader if leader >= 0 else None

    def all_partitions(self) -> list[PartitionImage]:
        return [
            partition
            for topic in self.newest.image.topics.values()
            for partition in topic.partitions
        ]

    def isr_of(self, topic: str, partition: int) -> tuple[int, ...]:
        known = self.newest.image.topic_named(topic)
        return tuple(known.partitions[partition].isr) if known is not None else ()

    def replicas_of(self, topic: str, partition: int) -> tuple[int, ...]:
        known = self.newest.image.topic_named(topic)
        return tuple(known.partitions[partition].replicas) if known is not None else ()

    @property
    def controller(self) -> int | None:
        return next(
            (
                i
                for i, node in self.living.items()
                if node.quorum.host is not None and node.quorum.host.active
            ),
            None,
        )

    def partitions(self, topic: str, partition: int) -> dict[int, Partition]:
        """The replicas on those that live."""
        found = {
            node_id: node.replicas.partitions.get((topic, partition))
            for node_id, node in self.living.items()
        }
        return {node_id: replica for node_id, replica in found.items() if replica is not None}

    # its clients

    def client(
        self, name: str = "client", shape: Shape = PLAIN, secured: Secured = UNSECURED
    ) -> Client:
        """Add a client; if the name is taken, it gets a number."""
        machine = self.world.machines.get(name)
        if machine is not None and machine.node is not None and machine.node.alive:
            name = next(
                other
                for number in count(2)
                if (other := f"{name}{number}") not in self.world.machines
            )
        brokers = [
            (f"n{i}", CLIENT_PORT) for i in range(1, self.size + 1) if i not in self.controllers
        ]
        self.clients.append(client := Client(self.world.node(name), brokers, shape, secured))
        return client

    def client_of_a_library(self, name: str, shapes: Sequence[Shape] = SHAPES) -> Client:
        """Add a client with the request shapes of one client library, which the seed draws."""
        return self.client(name, self.world.random(f"shape of {name}").choice(shapes))

    @property
    def wrong(self) -> list[str]:
        """Violations that clients saw while they read."""
        return [wrong for client in self.clients for wrong in client.wrong]

    def do(
        self, client: Client, task: Callable[[], Awaitable[object]], at_most_s: float = 60.0
    ) -> Any:
        """Run a task of the client to its end; its result."""
        outcome: list[Any] = []

        async def run() -> None:
            outcome.append(await task())

        client.runtime.spawn(run, "task")
        assert self.world.run(lambda: bool(outcome), at_most_s=at_most_s), (
            f"not done after {at_most_s} s"
        )
        return outcome[0]


def _drop_work(node: Node) -> None:
    """Close the generators of a dead node now: one that is left to the garbage collector finds out
    there that its node is dead.
    """
    for work in node.dispatcher.long_work._queue:
        with suppress(NodeStopped):
            work.steps.close()


def sample(cluster: Cluster, topic: str, partitions: int) -> JsonObject:
    """Leaders, ISRs and log ends, as the leaders have them."""
    leaders = {f"{topic}-{p}": cluster.leader_of(topic, p) for p in range(partitions)}
    found = {
        (name, leader): cluster.partitions(topic, p).get(leader or 0)
        for p, (name, leader) in enumerate(leaders.items())
    }
    replicas = {name: partition for (name, _), partition in found.items() if partition is not None}
    return {
        "at_s": cluster.world.now,
        "leaders": leaders,
        "isr": {f"{topic}-{p}": list(cluster.isr_of(topic, p)) for p in range(partitions)},
        "ends": {name: partition.log.end_offset for name, partition in replicas.items()},
        "high_watermarks": {name: partition.high_watermark for name, partition in replicas.items()},
        "alive": sorted(cluster.living),
    }
