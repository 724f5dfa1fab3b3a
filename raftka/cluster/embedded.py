"""Nodes in the caller's Trio process: `async with raftka.cluster.launch(nodes=3) as cluster`. Each
has its own runtime, files and ports.

`kill` ends a node as SIGKILL would: nothing is written, flushed or said any more. (What a lost
power supply does is the simulation's to show.)
"""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

import trio

from raftka.broker.context import Observer
from raftka.broker.network.dispatch import Interceptor
from raftka.broker.node import Node
from raftka.cluster.plan import (
    HOST,
    NodePlan,
    bridge_ports_from,
    metrics_ports_from,
    plan_cluster,
    ports_from,
)
from raftka.cluster.ports import HeldPorts
from raftka.cluster.services import Edge, close_edges, open_edges
from raftka.cluster.services.payloads import open_judge
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.records import ScramCredentialSet
from raftka.runtime.real.base import RealRuntime
from raftka.runtime.real.runtime import NodeFailed, open_runtime

OnEvent = Callable[[str, str, dict[str, object]], None]  # level, event of the log, fields

if TYPE_CHECKING:
    from raftka.cluster.secured.keys import ClusterSecurity
    from raftka.cluster.secured.logins import ClusterLogins

API_CEILING = "raftka.api.ceiling"  # the setting
READY_SECONDS = 30.0
STOP_SECONDS = 10.0
PAUSE_SECONDS = 0.001


class Killed(Exception):
    """The cause of a node's end when it was killed on purpose."""


class EmbeddedNode:
    """One node, dead or alive. `failure` is what its last life ended of, None while it lives or
    when it was asked to end.
    """

    def __init__(self, plan: NodePlan, first_users: tuple[ScramCredentialSet, ...] = ()) -> None:
        self.plan = plan
        self._first_users = first_users
        self.settings = NodeSettings.from_properties(dict(plan.properties))
        self.node: Node | None = None
        self.edges: dict[str, Edge] = {}
        # of all its lives, by API key; for tests that inject faults
        self.interceptors: dict[int, Interceptor] = {}
        self._observer: Observer | None = None
        self._on_event: OnEvent | None = None
        self.failure: BaseException | None = None
        self._runtime: RealRuntime | None = None
        self._shutdown = trio.Event()
        self._settled = trio.Event()  # ready, or ended before
        self._ended = trio.Event()

    @classmethod
    def around(cls, plan: NodePlan, node: Node, runtime: RealRuntime) -> Self:
        """Return the handle of a node that runs already, whose life is its owner's."""
        found = cls(plan)
        found.node, found._runtime = node, runtime
        node.dispatcher.interceptors = found.interceptors
        return found

    @property
    def alive(self) -> bool:
        return self.node is not None

    def observe(self, observer: Observer, on_event: OnEvent) -> None:
        """Let `observer` see what the node does and `on_event` the events of its log, in this life
        and later ones.
        """
        self._observer, self._on_event = observer, on_event
        self._show(self.node)

    def _show(self, node: Node | None) -> None:
        if node is not None:
            node.context.observer, node.events.watch = self._observer, self._on_event

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """One life. `started` when its listeners are bound; an error before that goes to who
        started it.
        """
        self._shutdown, self._settled, self._ended, self.failure = (
            trio.Event(),
            trio.Event(),
            trio.Event(),
            None,
        )
        judge = None
        try:
            with self.plan.log_file.open("a", encoding="utf-8") as log:
                async with _unwrapped(), open_runtime() as self._runtime:
                    self.node = node = Node(self._runtime, self.settings, log, self._first_users)
                    node.dispatcher.interceptors = self.interceptors
                    self._show(node)
                    node.start()
                    self.edges = open_edges(node.services)
                    judge = open_judge(node.services)
                    self._runtime.spawn(self._watch_ready, "ready")
                    task_status.started()
                    await self._shutdown.wait()
                    close_edges(self.edges)
                    await node.shutdown()
        except NodeFailed as failed:
            self.failure = failed.__cause__
        finally:
            if judge is not None:
                judge.end()
            self.node = self._runtime = None
            self._settled.set()
            self._ended.set()

    @property
    def paused(self) -> bool:
        return self._runtime is not None and self._runtime.paused

    def knows(self, node_id: int) -> bool:
        """Return whether this node names that one to its clients."""
        return self.node is None or node_id in self.node.image.alive_brokers()

    async def _watch_ready(self) -> None:
        assert self.node is not None
        await self.node.ready.wait()
        self._settled.set()

    async def kill(self) -> None:
        if self._runtime is not None:
            self._runtime.fail(Killed())
            await self._ended.wait()

    def pause(self) -> None:
        """As SIGSTOP does: its connections stay open, and nobody answers."""
        if self._runtime is not None:
            self._runtime.pause()

    def resume(self) -> None:
        if self._runtime is not None:
            self._runtime.resume()

    async def stop(self) -> None:
        """A controlled shutdown; who takes too long is killed."""
        self.resume()
        self._shutdown.set()
        with trio.move_on_after(STOP_SECONDS):
            await self._ended.wait()
        await self.kill()

    async def wait_ready(self) -> None:
        """Until it is registered and unfenced; raises what it died of."""
        await self._settled.wait()
        if not self.alive:
            raise NodeFailed(f"node {self.plan.node_id} ended: {self.failure}") from self.failure


class Cluster:
    def __init__(
        self,
        plans: list[NodePlan],
        nursery: trio.Nursery | None,
        first_users: tuple[ScramCredentialSet, ...] = (),
    ) -> None:
        """`nursery`: of the nodes; None: none is started here."""
        self.nodes = {plan.node_id: EmbeddedNode(plan, first_users) for plan in plans}
        self._nursery = nursery

    @property
    def bootstrap_servers(self) -> str:
        """As every client takes it: host:port,host:port."""
        return ",".join(node.plan.address for node in self.nodes.values())

    @property
    def ready(self) -> bool:
        """Every node runs, is registered and unfenced."""
        return all(
            node.node is not None and node.node.ready.is_set() for node in self.nodes.values()
        )

    @property
    def zookeeper_connect(self) -> str:
        """The addresses of all bridges as a ZooKeeper connect string; those of dead nodes too."""
        return ",".join(
            f"{HOST}:{node.plan.bridge_port}"
            for node in self.nodes.values()
            if node.plan.bridge_port is not None
        )

    async def kill(self, node_id: int) -> None:
        """As SIGKILL does. Returns when the node is gone."""
        await self.nodes[node_id].kill()

    async def stop(self, node_id: int) -> None:
        """A controlled shutdown."""
        await self.nodes[node_id].stop()

    async def start(self, node_id: int) -> None:
        """Returns when its listeners are bound. Raises OSError when they can not be, and what else
        keeps a node from starting.
        """
        assert not self.nodes[node_id].alive, f"node {node_id} runs already"
        assert self._nursery is not None
        await self._nursery.start(self.nodes[node_id].run)

    async def restart(self, node_id: int) -> None:
        """Kill it if it lives, start it on the same files and ports, wait until it is unfenced."""
        await self.kill(node_id)
        await self.start(node_id)
        await self.wait_ready()

    async def wait_ready(self) -> None:
        """Until every living node is unfenced and all know it; raises what one died of, and
        TooSlowError.
        """
        with trio.fail_after(READY_SECONDS):
            living = [node for node in self.nodes.values() if node.alive]
            for node in living:
                await node.wait_ready()
            # images tell nobody
            while not all(node.knows(other.plan.node_id) for node in living for other in living):  # noqa: ASYNC110
                await trio.sleep(PAUSE_SECONDS)

    async def close(self, *, kill: bool) -> None:
        async with trio.open_nursery() as nursery:
            for node in self.nodes.values():
                if node.alive:
                    nursery.start_soon(node.kill if kill else node.stop)


@asynccontextmanager
async def launch(
    nodes: int = 3,
    *,
    data: str | os.PathLike[str] | None = None,
    base_port: int = 0,
    properties: Mapping[str, str] | None = None,
    metrics: bool = False,
    bridge_port: int | None = None,
    security: "ClusterSecurity | ClusterLogins | None" = None,
    first_users: tuple[ScramCredentialSet, ...] = (),
    api_ceiling: str | None = None,
    **settings: object,
) -> AsyncIterator[Cluster]:
    """A cluster that is ready. Base port 0 picks free ports; without `data` everything lies in a
    temporary folder that goes with it. With `metrics` each node has a port for scrapes.
    `bridge_port`: where the first node speaks ZooKeeper's protocol, the others follow; 0 picks free
    ones. `security`: the keys or logins of a secured cluster. `api_ceiling`: the release of Kafka
    ("3.9") whose versions of APIs and features clients see at most.

    Settings are Kafka's, with underscores for dots (`num_partitions=3`) or as they are in
    `properties`. Raises OSError, PlanError (a ValueError), and NodeFailed when a node does not come
    up.
    """
    given = {
        **{name.replace("_", "."): _text(value) for name, value in settings.items()},
        **(properties or {}),
        **({} if api_ceiling is None else {API_CEILING: api_ceiling}),
    }
    with (
        TemporaryDirectory(prefix="raftka-") as folder,
        HeldPorts(0 if base_port else 3 * nodes) as held,
        HeldPorts(nodes if bridge_port == 0 else 0) as bridges,
    ):
        bridge_ports = bridges.numbers or (
            bridge_ports_from(bridge_port, nodes) if bridge_port else ()
        )
        ports, scraped = (
            (ports_from(base_port, nodes), metrics_ports_from(base_port, nodes))
            if base_port
            else held.triples()
        )
        plans = plan_cluster(
            Path(data or folder), ports, given, scraped if metrics else (), bridge_ports, security
        )
        for plan in plans:
            plan.write()
        async with _unwrapped(), trio.open_nursery() as nursery:
            cluster = Cluster(plans, nursery, first_users)
            try:
                for node_id in cluster.nodes:
                    await cluster.start(node_id)
                await cluster.wait_ready()
                yield cluster
            finally:
                with trio.CancelScope(shield=True):
                    await cluster.close(kill=data is None)


@asynccontextmanager
async def _unwrapped() -> AsyncIterator[None]:
    """A nursery wraps what its block raises; one error comes out as itself."""
    try:
        yield
    except BaseExceptionGroup as group:
        if len(group.exceptions) != 1:
            raise
        error = group.exceptions[0]
        raise error from error.__cause__


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
