"""A cluster as processes: started, watched, killed, started again. That they are ready they tell
(notices.py).

One thread uses it, and lives as long as the nodes: when it ends, however it ends, they get SIGTERM.
`poll` waits for what happens.
"""

import os
import select
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from raftka.cluster.ask import wait_for_brokers
from raftka.cluster.fork_server import Forge, Forked
from raftka.cluster.notices import VARIABLE, Notices
from raftka.cluster.parents import options_of_child
from raftka.cluster.plan import NodePlan, plan_cluster
from raftka.cluster.ports import HeldPorts
from raftka.cluster.secured.keys import ClusterSecurity

PLAIN = "raftka.cli"
READY_SECONDS = 30.0
STOP_SECONDS = 20.0  # a controlled shutdown moves leaderships first; then SIGKILL
PAUSE_SECONDS = 0.005
STOP_HOST_SECONDS = 45.0  # two of them, one after the other
SOURCES = Path(__file__).parents[2]  # so that a checkout runs itself, installed or not


class ClusterFailed(Exception):
    """A node ended, or did not come up; the text says which and shows the end of its log."""


@dataclass(frozen=True, slots=True)
class Event:
    kind: str  # ready, ended, other (a descriptor that `also` was asked to watch)
    node_id: int = 0
    exit_code: int = 0  # of `ended`; negative: the signal
    fd: int = -1  # of `other`


def python_path() -> str:
    return os.pathsep.join(
        [str(SOURCES), str(SOURCES / "compat"), *filter(None, [os.environ.get("PYTHONPATH")])]
    )


def parent_of(pid: int) -> int:
    """Raises OSError or ValueError when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        return int(stat.rpartition(")")[2].split()[1])
    except FileNotFoundError:
        pass  # macOS has no /proc
    listed = subprocess.run(
        ["ps", "-o", "ppid=", "-p", str(pid)], stdout=subprocess.PIPE, check=False
    )
    return int(listed.stdout)


class NodeProcess:
    """One node, dead or alive."""

    def __init__(self, plan: NodePlan) -> None:
        self.plan = plan
        self.module = PLAIN  # what is run; a test may put something before it
        self.environment: dict[str, str] = {}  # over ours
        self.release: Path | None = None  # the folder of another release; None: ours is run
        self.ready = False
        self.process: subprocess.Popen[bytes] | Forked | None = None
        self.notices = Notices()
        self.life = -1  # a descriptor that becomes readable when the process has ended

    @property
    def alive(self) -> bool:
        return self.process is not None

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Return the addresses for clients; several when it is a host."""
        return [
            (address.rpartition(":")[0], int(address.rpartition(":")[2]))
            for address in self.plan.addresses
        ]

    @property
    def pid(self) -> int:
        """The pid of the running process; of a host, of its supervisor. Raises ClusterFailed when
        there is none.
        """
        if self.process is None:
            raise ClusterFailed(f"{self.plan.title} does not run")
        return self.process.pid

    @property
    def pids(self) -> list[int]:
        """All its processes: the node's one; of a host the supervisor, the one that forks, and the
        brokers that run.
        """
        brokers = [
            int(path.read_text(encoding="ascii"))
            for path in sorted(self.plan.directory.glob("raftka-*.pid"))
        ]
        return [self.pid, *sorted({parent_of(each) for each in brokers} - {1}), *brokers]

    def start(self, forge: Forge | None = None) -> None:
        """`forge`: what forks it; else it is an interpreter of its own."""
        assert self.process is None, f"{self.plan.title} runs already"
        while self.notices.take():
            pass  # of the last life
        self.ready = False
        environment = {
            **os.environ,
            **self.environment,
            "PYTHONPATH": python_path() if self.release is None else str(self.release),
            VARIABLE: self.notices.address,
        }
        with self.plan.log_file.open("ab") as log:
            if forge is not None:
                try:
                    self.process = forge.start(self.plan.properties_file, environment, log.fileno())
                except OSError as error:
                    raise ClusterFailed(f"{self.plan.title} cannot be forked: {error}") from error
            else:
                life, lives = os.pipe()  # the process alone holds it open
                try:
                    self.process = subprocess.Popen(
                        [sys.executable, "-P", "-m", self.module, *self.plan.arguments],
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        # Ctrl-C goes to the caller, which ends the nodes in order
                        start_new_session=True,
                        **options_of_child(environment, [lives]),
                    )
                finally:
                    os.close(lives)
        self.life = os.dup(self.process.life) if isinstance(self.process, Forked) else life

    def signal(self, number: int) -> None:
        if self.process is not None:
            self.process.send_signal(number)

    def reap(self) -> int:
        """Wait for its end, at most as long as a stop may take; then it is killed."""
        assert self.process is not None
        try:
            code = self.process.wait(STOP_HOST_SECONDS if self.plan.brokers else STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        os.close(self.life)
        self.process, self.ready, self.life = None, False, -1
        return code

    def end_of_log(self, lines: int = 20) -> str:
        try:
            text = self.plan.log_file.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])


class Processes:
    def __init__(self, plans: Iterable[NodePlan]) -> None:
        self.nodes = {plan.node_id: NodeProcess(plan) for plan in plans}
        # without logins and TLS: brokers can be asked whether they know of each other
        self.asks = True
        self._forge: Forge | None = None
        self._selector = selectors.DefaultSelector()
        for node in self.nodes.values():
            node.plan.write()
            self._selector.register(node.notices, selectors.EVENT_READ, node)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(address for node in self.nodes.values() for address in node.plan.addresses)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [address for node in self.nodes.values() for address in node.addresses]

    def also(self, fd: int) -> None:
        """`poll` watches this one too."""
        self._selector.register(fd, selectors.EVENT_READ, None)

    def start(self, node_id: int) -> None:
        node = self.nodes[node_id]
        node.start(self._forge_for(node))
        self._selector.register(node.life, selectors.EVENT_READ, node)

    def _forge_for(self, node: NodeProcess) -> Forge | None:
        """None where the interpreter is to see another environment, or to run something else; for a
        lone node, which shares with nobody; and for a host, which has its own.
        """
        if (
            len(self.nodes) == 1
            or node.plan.brokers
            or node.module != PLAIN
            or node.release is not None
            or "LD_PRELOAD" in node.environment
        ):
            return None
        if self._forge is not None and not self._forge.alive:
            self._forge.close()
            self._forge = None
        if self._forge is None:
            self._forge = Forge(python_path())
        return self._forge

    def start_all(self) -> None:
        for node_id in self.nodes:
            self.start(node_id)

    def kill(self, node_id: int, number: int = signal.SIGKILL) -> None:
        """Send a signal and wait for the end. SIGKILL of a host is one for all its processes."""
        node = self.nodes[node_id]
        if node.plan.brokers and number == signal.SIGKILL:
            _kill_all(node.pids)
        node.signal(number)
        self._reap(node)

    def wait_ready(self, timeout: float = READY_SECONDS) -> bool:
        """Until every node that runs is unfenced and all know it; False when something else asked
        for attention. Raises ClusterFailed.
        """
        deadline = time.monotonic() + timeout
        while waiting := [node for node in self.nodes.values() if node.alive and not node.ready]:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                node = waiting[0]
                raise ClusterFailed(
                    f"{node.plan.title} was not ready after {timeout:g} s; its log ends with\n"
                    f"{node.end_of_log()}"
                )
            for event in self.poll(remaining):
                if event.kind == "other":
                    return False
                if event.kind == "ended":
                    node = self.nodes[event.node_id]
                    raise ClusterFailed(
                        f"{node.plan.title} {how(event.exit_code)}; its log ends with\n"
                        f"{node.end_of_log()}"
                    )
        alive = [
            address for node in self.nodes.values() if node.alive for address in node.addresses
        ]
        admin = next(iter(self.nodes.values())).plan.admin
        # a node knows of itself before the others know of it
        if self.asks and not wait_for_brokers(alive, len(alive), deadline, admin):
            raise ClusterFailed(f"after {timeout:g} s not every broker knows all the others")
        return True

    def poll(self, timeout: float | None = None) -> Iterator[Event]:
        """Yield the events that have happened; wait `timeout` seconds for the first one."""
        for key, _ in self._selector.select(timeout):
            node: NodeProcess | None = key.data
            if node is None:
                yield Event("other", fd=key.fd)
            elif key.fileobj is node.notices:
                while message := node.notices.take():
                    if "READY=1" in message.splitlines() and node.alive:
                        node.ready = True
                        yield Event("ready", node.plan.node_id)
            elif node.life == key.fd:
                yield Event("ended", node.plan.node_id, self._reap(node))

    def stop(self) -> None:
        """SIGTERM to all at once, then wait; whoever takes too long is killed."""
        running = [node for node in self.nodes.values() if node.alive]
        for node in running:
            node.signal(signal.SIGCONT)
            node.signal(signal.SIGTERM)
        for node in running:
            self._reap(node)

    def close(self) -> None:
        """Kill what still runs; nothing is left."""
        hosts = [node for node in self.nodes.values() if node.plan.brokers and node.alive]
        # nothing is left only if its supervisor ends its brokers: at once, after two signals
        for node in hosts:
            node.signal(signal.SIGTERM)
            node.signal(signal.SIGINT)
        for node in hosts:
            self._reap(node)
        for node in self.nodes.values():
            if node.alive:
                self.kill(node.plan.node_id)
            node.notices.close()
        if self._forge is not None:
            self._forge.close()
            self._forge = None
        self._selector.close()

    def _reap(self, node: NodeProcess) -> int:
        if node.life in self._selector.get_map():
            self._selector.unregister(node.life)
        return node.reap()


def _kill_all(pids: Sequence[int]) -> None:
    """Kill a host's supervisor, which comes first, and its other processes; return when these are
    gone.
    """
    if hasattr(os, "pidfd_open"):
        pidfds = [os.pidfd_open(pid) for pid in pids]
        for pidfd in pidfds:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        for pidfd in pidfds:
            select.select([pidfd], [], [])
            os.close(pidfd)
        return
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # they are the children of the first process of the system now, which does not tell us
    deadline = time.monotonic() + STOP_SECONDS
    while any(map(_exists, pids[1:])) and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def how(exit_code: int) -> str:
    return (
        f"died of {signal.Signals(-exit_code).name}"
        if exit_code < 0
        else f"ended with exit code {exit_code}"
    )


@contextmanager
def running(
    nodes: int = 3,
    settings: Mapping[str, str] | None = None,
    data: Path | None = None,
    *,
    bridge: bool = False,
    security: ClusterSecurity | None = None,
    brokers: int = 0,
) -> Iterator[Processes]:
    """A cluster that is ready, on free ports, in a folder of its own unless `data` is given; at the
    end it is killed. `brokers`: of each host.
    """
    with (
        TemporaryDirectory(prefix="raftka-") as folder,
        HeldPorts(2 * nodes) as ports,
        HeldPorts(nodes if bridge else 0) as bridges,
    ):
        pairs = [
            (ports.add_row(brokers), controller) if brokers else (port, controller)
            for port, controller in ports.pairs()
        ]
        cluster = Processes(
            plan_cluster(
                data or Path(folder),
                pairs,
                settings,
                bridge_ports=bridges.numbers,
                security=security,
                brokers=brokers,
            )
        )
        try:
            cluster.start_all()
            cluster.wait_ready()
            yield cluster
        finally:
            cluster.close()
