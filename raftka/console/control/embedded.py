"""Control of nodes that live in the process of their launcher or of a test: also cuts and faults,
and a time line as the nodes see it.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import trio

from raftka.broker.node import Node
from raftka.cluster.console import open_door, report_failure
from raftka.cluster.embedded import Cluster, EmbeddedNode
from raftka.cluster.plan import HOST, NodePlan
from raftka.console.control.channel import DONE, ControlRefused, serve_control
from raftka.console.control.faults import make_fault, offered
from raftka.console.door import DoorThread
from raftka.json_values import JsonObject
from raftka.runtime.real.base import RealRuntime
from raftka.testing.faults.effects import cuts, delays
from raftka.testing.faults.fault import Effect, Fault
from raftka.testing.faults.injector import Faults
from raftka.testing.faults.selection import Selection
from raftka.testing.timeline.observer import ClusterObserver, NodeObserver
from raftka.testing.timeline.recorder import Moment, Timeline

SLOW_MS = 200  # more than a client waits for a node of its own network
Run = Callable[[Callable[[], Awaitable[Any]]], Any]  # where the nodes run, for another thread


class EmbeddedControl:
    """Control of a cluster in this process. `run` does work where the nodes run."""

    def __init__(
        self,
        cluster: Cluster,
        run: Run,
        faults: Faults,
        timeline: Timeline,
        observe: Callable[[], None] = lambda: None,
        *,
        ends_nodes: bool = True,
    ) -> None:
        """`observe`: called there with the first question, so that the time line begins.
        `ends_nodes`: they can be killed, stopped and started.
        """
        self.cluster = cluster
        self._run, self._faults, self._timeline, self._observe = run, faults, timeline, observe
        self._is_observed, self._ends_nodes = False, ends_nodes
        self._ids: dict[int, tuple[Fault, str]] = {}
        self._last_id = 0
        self._at_nodes: dict[tuple[int, str], Fault] = {}  # cuts and slowness, by node and action

    def nodes(self) -> list[JsonObject]:
        async def describe() -> list[JsonObject]:
            if not self._is_observed:
                self._is_observed = True
                self._observe()
            return [self._describe(node) for node in self.cluster.nodes.values()]

        found: list[JsonObject] = self._run(describe)
        return found

    def act(self, node: int, action: str) -> None:
        self._run(lambda: self._act(node, action))

    def faults(self) -> JsonObject:
        async def list_set() -> list[JsonObject]:
            return [self._show(each) for each in self._faults.active()]

        return {**offered(), "set": self._run(list_set)}

    def set_fault(self, wanted: JsonObject, try_only: bool = False) -> JsonObject:
        async def add() -> JsonObject:
            fault, command = make_fault(wanted, list(self.cluster.nodes))
            if try_only:
                return {"id": 0, "text": str(fault), "hits": 0, "left": None, "command": command}
            self._faults.add(fault)
            return self._show(fault, command)

        found: JsonObject = self._run(add)
        return found

    def remove_faults(self, ids: Sequence[int] | None) -> None:
        async def remove() -> list[Fault]:
            active = self._faults.active()
            for fault in active:
                self._show(fault)  # each has an id
            wanted = set(self._ids) if ids is None else set(ids)
            return [fault for each, (fault, _) in self._ids.items() if each in wanted]

        for fault in self._run(remove):
            fault.remove()  # waits for the nodes, so it is done by this thread

    def events(self) -> JsonObject:
        offset_s = time.time() - time.monotonic()
        events = [_event(each, offset_s) for each in self._timeline.last()]
        return {"is_observed": True, "events": events}

    # where the nodes run

    def _describe(self, node: EmbeddedNode) -> JsonObject:
        node_id = node.plan.node_id
        if node.node is None:
            state, actions = "stopped", ["start"]
        else:
            is_ready = node.node.ready.is_set()
            state = "paused" if node.paused else "running" if is_ready else "starting"
            actions = [
                *(["kill", "stop"] if self._ends_nodes else []),
                "resume" if node.paused else "pause",
                *(
                    end if self._has(node_id, begin) else begin
                    for begin, end in (("cut", "join"), ("slow", "hasten"))
                ),
            ]
        return {
            "node": node_id,
            "title": node.plan.title,
            "state": state,
            "pid": None,
            "actions": {each: _command(each, node_id) for each in actions},
        }

    async def _act(self, node_id: int, action: str) -> None:
        node = self.cluster.nodes.get(node_id)
        if node is None:
            raise ControlRefused(f"there is no node {node_id}")
        state = self._describe(node)
        if action not in state["actions"]:
            raise ControlRefused(
                f"{node.plan.title} is {state['state']}: {', '.join(state['actions'])} can be done"
            )
        self._timeline.note(f"node {node_id}: {DONE[action]} at the console")
        match action:
            case "kill":
                await self.cluster.kill(node_id)
            case "stop":
                await self.cluster.stop(node_id)
            case "start":
                await self._start(node_id)
            case "pause":
                node.pause()
            case "resume":
                node.resume()
            case "cut":
                self._set(node_id, action, "unreachable", cuts(before=True))
                self._faults.cut_connections(None, [node_id])
            case "slow":
                self._set(node_id, action, f"delay {SLOW_MS} ms", delays(SLOW_MS))
            case "join":
                self._faults.drop(self._at_nodes.pop((node_id, "cut")))
            case "hasten":
                self._faults.drop(self._at_nodes.pop((node_id, "slow")))

    async def _start(self, node_id: int) -> None:
        try:
            await self.cluster.start(node_id)
        except (OSError, ValueError) as error:
            raise ControlRefused(f"node {node_id} cannot start: {error}") from None

    def _has(self, node_id: int, action: str) -> bool:
        fault = self._at_nodes.get((node_id, action))
        return fault is not None and fault in self._faults.active()

    def _set(self, node_id: int, action: str, name: str, effect: Effect) -> None:
        """Set a fault of all requests that clients send to the node."""
        selection = Selection(None, {"nodes": [node_id]}, list(self.cluster.nodes))
        fault = Fault(f"{name}, node {node_id}", selection, effect, inf)
        self._at_nodes[node_id, action] = fault
        self._faults.add(fault)
        self._show(fault, _command(action, node_id))

    def _show(self, fault: Fault, command: str = "") -> JsonObject:
        known = next((each for each, (one, _) in self._ids.items() if one is fault), None)
        if known is None:
            active = self._faults.active()
            self._ids = {each: pair for each, pair in self._ids.items() if pair[0] in active}
            self._last_id = known = self._last_id + 1
            self._ids[known] = fault, command
        return {
            "id": known,
            "text": str(fault),
            "hits": fault.hits,
            "left": None if fault.left == inf else fault.left,
            "command": self._ids[known][1],
        }


def _command(action: str, node_id: int) -> str:
    """The line of a test that does the same."""
    match action:
        case "start":
            return f"cluster.restart({node_id})"
        case "cut":
            return f"cut = cluster.unreachable({node_id})"
        case "join":
            return "cut.remove()"
        case "slow":
            return f"slow = cluster.delay(None, {SLOW_MS}, nodes=[{node_id}])"
        case "hasten":
            return "slow.remove()"
        case "stop":
            return f"await cluster.stop({node_id})  # of raftka.cluster.launch"
        case _:
            return f"cluster.{action}({node_id})"


def _event(moment: Moment, offset_s: float) -> JsonObject:
    return {
        "at_ms": round((moment.at + offset_s) * 1000),
        "until_ms": round((moment.last + offset_s) * 1000),
        "times": moment.times,
        "text": moment.text,
    }


def control_of(cluster: Cluster, *, ends_nodes: bool = True) -> EmbeddedControl:
    """Return control of a cluster that nothing else observes; called where it runs."""
    token = trio.lowlevel.current_trio_token()

    def run(work: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return trio.from_thread.run(work, trio_token=token)
        except trio.RunFinishedError:
            raise ControlRefused("the cluster has ended") from None

    async def do(work: Callable[[], object]) -> object:
        return work()

    timeline = Timeline(f"cluster of {cluster.bootstrap_servers}")
    faults = Faults(lambda work: run(lambda: do(work)), timeline.note)
    observer = ClusterObserver(timeline)

    def observe() -> None:
        for node in cluster.nodes.values():
            own = NodeObserver(observer, node.plan.node_id)
            node.observe(own, own.on_event)

    for node in cluster.nodes.values():
        faults.reach(node)
    return EmbeddedControl(cluster, run, faults, timeline, observe, ends_nodes=ends_nodes)


def control_of_node(node: Node, runtime: RealRuntime) -> EmbeddedControl:
    """Return control of the one node of this process, which its owner ends; called where it
    runs.
    """
    settings = node.settings
    directory = Path(settings.log_dirs[0]).parent
    ports = node.broker_port or 0, node.controller_port or 0
    plan = NodePlan(settings.node_id, directory, *ports, settings.given)
    cluster = Cluster([], None)
    cluster.nodes[plan.node_id] = EmbeddedNode.around(plan, node, runtime)
    return control_of(cluster, ends_nodes=False)


class EmbeddedConsole:
    """The console of a cluster in this process."""

    def __init__(
        self, control: EmbeddedControl, port: int, own: Mapping[str, str] | None = None
    ) -> None:
        """Listen and let browsers in. Raises OSError and ValueError, as `open_door`."""
        nodes = list(control.cluster.nodes.values())
        addresses = [(HOST, node.plan.broker_port) for node in nodes]
        door = open_door(
            nodes[0].plan, addresses, port, serve_control(control, report_failure), own
        )
        self._thread = DoorThread(door).start()

    @property
    def url(self) -> str:
        return self._thread.door.url

    def close(self) -> None:
        """Return when its process is gone."""
        self._thread.close()
