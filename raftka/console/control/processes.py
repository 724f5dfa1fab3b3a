"""Control of nodes that are processes. One thread owns them, so it does the work: other threads
hand it over, and wait.
"""

import os
import shlex
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from raftka.cluster.processes import ClusterFailed, NodeProcess, Processes
from raftka.console.control.channel import DONE, ControlRefused
from raftka.json_values import JsonObject
from raftka.limits import TIMELINE_LINES

T = TypeVar("T")
WAIT_S = 60.0  # for the owner of the nodes
MANY = 4096  # marks of work, one byte each


class Mailbox:
    """Work of other threads for the one that owns the nodes. `fileno()` is readable when there is
    some.
    """

    def __init__(self) -> None:
        self._readable, self._writable = os.pipe()
        os.set_blocking(self._readable, False)
        self._work: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._is_open = True

    def fileno(self) -> int:
        return self._readable

    def ask(self, work: Callable[[], T]) -> T:
        """Let the owner do it, and return its result; raises what it raises, and ControlRefused
        when the owner has other things to do for long, or has ended.
        """
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)

        with self._lock:
            if not self._is_open:
                raise ControlRefused("the cluster has ended")
            self._work.append(run)
            os.write(self._writable, b".")
        try:
            return future.result(WAIT_S)
        except TimeoutError:
            future.cancel()
            raise ControlRefused("the program that started the nodes is busy") from None

    def work_off(self) -> None:
        """Run the actions that were handed over; for the owner."""
        with suppress(BlockingIOError):
            os.read(self._readable, MANY)
        while self._work:
            self._work.popleft()()

    def close(self) -> None:
        """Run the actions that are left; later ones are refused."""
        with self._lock:
            self._is_open = False
        self.work_off()
        os.close(self._readable)
        os.close(self._writable)


class ProcessesControl:
    """Control of a cluster of processes."""

    def __init__(self, cluster: Processes, mailbox: Mailbox) -> None:
        self._cluster, self._mailbox = cluster, mailbox
        self._paused: set[int] = set()  # pids
        self.has_acted = False  # a user has done something to a node
        self._events: deque[JsonObject] = deque(maxlen=TIMELINE_LINES)

    def nodes(self) -> list[JsonObject]:
        return self._mailbox.ask(
            lambda: [self._describe(node) for node in self._cluster.nodes.values()]
        )

    def act(self, node: int, action: str) -> None:
        self._mailbox.ask(lambda: self._act(node, action))

    def faults(self) -> JsonObject:
        return {"kinds": [], "set": []}

    def set_fault(self, wanted: JsonObject, try_only: bool = False) -> JsonObject:
        raise ControlRefused(
            "nodes that are processes have no faults: `raftka cluster start --in-process` and the "
            "pytest fixture do"
        )

    def remove_faults(self, ids: Sequence[int] | None) -> None:
        pass

    def events(self) -> JsonObject:
        return {"is_observed": False, "events": list(self._events)}

    def note(self, text: str) -> None:
        """Add an event to the time line; from any thread."""
        now = round(time.time() * 1000)
        self._events.append({"at_ms": now, "until_ms": now, "times": 1, "text": text})

    # by the owner

    def _describe(self, node: NodeProcess) -> JsonObject:
        pid = node.pid if node.alive else None
        state = (
            "stopped"
            if pid is None
            else "paused"
            if pid in self._paused
            else "running"
            if node.ready
            else "starting"
        )
        return {
            "node": node.plan.node_id,
            "title": node.plan.title,
            "state": state,
            "pid": pid,
            "actions": self._actions(node, state),
        }

    def _actions(self, node: NodeProcess, state: str) -> dict[str, str]:
        if state == "stopped":
            return {"start": f"raftka {shlex.join(node.plan.arguments)}"}
        pids = " ".join(map(str, node.pids if node.plan.brokers else [node.pid]))
        ends = {"kill": f"kill -KILL {pids}", "stop": f"kill -TERM {node.pid}"}
        if state == "paused":
            return {"resume": f"kill -CONT {pids}", **ends}
        return {**ends, "pause": f"kill -STOP {pids}"}

    def _act(self, node_id: int, action: str) -> None:
        node = self._cluster.nodes.get(node_id)
        if node is None:
            raise ControlRefused(f"there is no node {node_id}")
        state = self._describe(node)
        if action not in state["actions"]:
            raise ControlRefused(
                f"{node.plan.title} is {state['state']}: {', '.join(state['actions'])} can be done"
            )
        self.has_acted = True
        self.note(f"{node.plan.title}: {DONE[action]} at the console")
        pids = node.pids if node.plan.brokers and node.alive else [state["pid"]]
        try:
            match action:
                case "start":
                    self._cluster.start(node_id)
                case "kill":
                    self._cluster.kill(node_id)
                case "stop":
                    self._signal(pids, signal.SIGCONT)
                    node.signal(signal.SIGTERM)  # its end is an event: a stop may take long
                case "pause":
                    self._signal(pids, signal.SIGSTOP)
                    self._paused.add(node.pid)
                case "resume":
                    self._signal(pids, signal.SIGCONT)
                    self._paused.discard(node.pid)
        except (ClusterFailed, OSError) as error:
            raise ControlRefused(str(error)) from None

    def _signal(self, pids: Sequence[int], number: int) -> None:
        for pid in pids:
            os.kill(pid, number)
