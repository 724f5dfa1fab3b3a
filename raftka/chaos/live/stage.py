"""The cluster that suffers: its processes, the proxy between them, a shim under each of them. Knows
no nemesis and no client of a workload.

One thread uses it (a node gets SIGTERM when the thread that started it ends).
"""

import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from raftka.chaos.live.network import OwnNetwork
from raftka.chaos.live.plan import plan, ports_needed
from raftka.chaos.live.proxy import Direction, Proxy
from raftka.chaos.live.shim import Shim, compile_shim
from raftka.cluster.ask import ClusterView, ask_any, call
from raftka.cluster.ports import HeldPorts
from raftka.cluster.processes import ClusterFailed, NodeProcess, Processes, how
from raftka.cluster.secured.keys import ClusterSecurity
from raftka.security.client_security import PLAINTEXT
from raftka.wire.schema import Api, Req, Resp

PAUSE_S = 0.05
ASK_S = 1.0
HEALED_S = 90.0
EVERYBODY_S = 60.0


class Stage:
    """Entering the block starts the cluster; leaving it kills what runs."""

    def __init__(
        self,
        folder: Path,
        nodes: int,
        settings: Mapping[str, str] | None = None,
        module: str = "raftka.cli",
        network: OwnNetwork | None = None,
        *,
        secure: bool = False,
        earlier: Path | None = None,
    ) -> None:
        """`earlier`: the folder of the release that all nodes begin with; else they run ours."""
        self.earlier = earlier
        self._resources = ExitStack()
        self.network = network or OwnNetwork()
        folder.mkdir(parents=True, exist_ok=True)
        library, self.no_shim = compile_shim(folder)
        held = self._resources.enter_context(HeldPorts(ports_needed(nodes)))
        security = ClusterSecurity(folder / "security") if secure else None
        # where clients find the administrator's
        self.keys = str(security.folder) if security is not None else ""
        # how the harness itself comes in
        self.admin = security.admin.security if security is not None else PLAINTEXT
        made = plan(folder / "nodes", nodes, held.numbers, settings or {}, security)
        self.proxy = Proxy(made.routes, self._pids if secure else None)
        self.voters, self.spare = made.voters, made.spare
        self.members = tuple(range(1, nodes + 1))  # always there, unless a fault says otherwise
        self.processes = Processes(made.nodes)
        self.shims: dict[int, Shim] = {}
        self.stopped: set[int] = set()  # by SIGSTOP
        self.expected: set[int] = set()  # to end: their disk fails
        self.died: list[str] = []  # what ended by itself and should not have
        for node_id, node in self.processes.nodes.items():
            node.module, node.release = module, earlier
            if library is not None:
                self.shims[node_id] = Shim(
                    library, node.plan.directory / "shim.page", node.plan.directory / "data"
                )
                node.environment = dict(self.shims[node_id].environment)

    def __enter__(self) -> "Stage":
        try:
            self._resources.callback(self._close)
            self._resources.enter_context(self.proxy)
            for node_id in self.members:
                self.processes.start(node_id)
            self.wait_ready()
        except BaseException:
            self._resources.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._resources.close()

    def _close(self) -> None:
        for node_id in tuple(self.stopped):
            self.resume(node_id)
        self.processes.close()
        for shim in self.shims.values():
            shim.close()

    def wait_ready(self) -> None:
        self.processes.wait_ready(EVERYBODY_S)

    # who is there

    @property
    def nodes(self) -> Mapping[int, NodeProcess]:
        return self.processes.nodes

    @property
    def alive(self) -> list[int]:
        return [node_id for node_id, node in self.nodes.items() if node.alive]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The bootstrap addresses of clients."""
        return [self.address(node_id) for node_id in self.members]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    def _pids(self) -> dict[int, int]:
        """Of the nodes that run; from any thread."""
        return {
            node_id: process.pid
            for node_id, node in self.nodes.items()
            if (process := node.process) is not None
        }

    def address(self, node_id: int) -> tuple[str, int]:
        host, _, port = self.nodes[node_id].plan.address.rpartition(":")
        return host, int(port)

    def view(self, topics: Sequence[str] | None = None) -> ClusterView | None:
        """As one of those who answer sees it."""
        awake = [self.address(node_id) for node_id in self.alive if node_id not in self.stopped]
        try:
            return ask_any(awake, topics, ASK_S, self.admin)
        except OSError:
            return None

    def ready(self, node_id: int) -> bool:
        """Return whether the node runs and another broker lists it."""
        self.watch()
        view = self.view([])
        return (
            self.nodes[node_id].alive
            and self.nodes[node_id].ready
            and view is not None
            and node_id in view.brokers
        )

    def ask_anybody(
        self, api: Api[Req, Resp], request: Req, version: int | None = None
    ) -> Resp | None:
        """None when nobody answers: it may have been done all the same."""
        for node_id in self.alive:
            if node_id not in self.stopped:
                try:
                    return call(
                        self.address(node_id),
                        api,
                        request,
                        timeout=10 * ASK_S,
                        version=version,
                        security=self.admin,
                    )
                except OSError:
                    continue
        return None

    # what is done to processes

    def start(self, node_id: int) -> None:
        if not self.nodes[node_id].alive:
            self.count_on(node_id)
            self.processes.start(node_id)

    def kill(self, *node_ids: int) -> None:
        """All at once, then their ends are waited for."""
        running = [node_id for node_id in node_ids if self.nodes[node_id].alive]
        for node_id in running:
            self.nodes[node_id].signal(signal.SIGKILL)
        for node_id in running:
            self.stopped.discard(node_id)
            self.processes.kill(node_id)

    def end(self, node_id: int) -> None:
        """In order; who does not end in time is killed."""
        self.resume(node_id)
        if self.nodes[node_id].alive:
            self.processes.kill(node_id, signal.SIGTERM)

    def pause(self, node_id: int) -> None:
        if self.nodes[node_id].alive:
            self.nodes[node_id].signal(signal.SIGSTOP)
            self.stopped.add(node_id)

    def resume(self, node_id: int) -> None:
        if node_id in self.stopped:
            self.nodes[node_id].signal(signal.SIGCONT)
            self.stopped.discard(node_id)

    def count_on(self, node_id: int) -> None:
        """From now on it may not end by itself, unless its disk still fails."""
        self.watch()
        if node_id not in self.shims or self.shims[node_id].healthy:
            self.expected.discard(node_id)

    def watch(self) -> None:
        """Take note of who ended by itself."""
        for event in self.processes.poll(0):
            if event.kind == "ended" and event.node_id not in self.expected:
                node = self.nodes[event.node_id]
                self.died.append(
                    f"node {event.node_id} {how(event.exit_code)}; its log ends with\n"
                    f"{node.end_of_log()}"
                )

    # the network

    def between(self, some: Iterable[int], others: Iterable[int]) -> list[Direction]:
        """Both ways."""
        there = [(a, b) for a in some for b in others if a != b]
        return there + [(b, a) for a, b in there]

    # healing

    def heal(self) -> None:
        """Everything works again, and everybody who belongs there runs. Raises ClusterFailed when
        the cluster does not come back.
        """
        self.proxy.heal()
        for node_id in tuple(self.stopped):
            self.resume(node_id)
        for shim in self.shims.values():
            shim.heal()
        self.watch()
        for node_id in self.members:
            self.start(node_id)
        self.wait_ready()

    def until_whole(self, topics: Sequence[str]) -> float:
        """Seconds until every partition of them has a leader and all its replicas in sync. Raises
        ClusterFailed.
        """
        began = time.monotonic()
        if not self.wait_for(lambda: self._whole(topics), HEALED_S):
            raise ClusterFailed(
                f"{HEALED_S:g} s after all was healed not every replica is in sync: "
                f"{self.view(topics)}"
            )
        return time.monotonic() - began

    def _whole(self, topics: Sequence[str]) -> bool:
        view = self.view(topics)
        return (
            view is not None
            and bool(view.partitions)
            and all(p.leader >= 0 and set(p.isr) == set(p.replicas) for p in view.partitions)
        )

    def wait_for(self, holds: Callable[[], bool], at_most_s: float) -> bool:
        end = time.monotonic() + at_most_s
        while not holds():
            if time.monotonic() > end:
                return False
            time.sleep(PAUSE_S)
        return True
