"""The faults of a cluster, put between its clients and its nodes. Knows no thread: called where the
nodes run.

Clients alone are hit; what brokers ask each other goes through as always.
"""

import re
from collections.abc import Callable, Iterable

from raftka.broker.network.connection import ServerConnection
from raftka.broker.network.dispatch import Interceptor, Postponed
from raftka.broker.network.request import Request
from raftka.cluster.embedded import EmbeddedNode
from raftka.testing.faults.fault import Fault, Note
from raftka.testing.faults.treatment import Treatment
from raftka.wire.rows import Row

Run = Callable[[Callable[[], object]], object]  # in the nodes' thread
OF_BROKERS = re.compile(r"broker-\d+-.+")  # client ids of brokers: coordinators/broker_channels.py


class Faults:
    """Those of a cluster. While a node has one for an API, the short ways of all its connections
    are closed: every request is decoded and offered to the faults.
    """

    def __init__(self, run: Run, note: Note) -> None:
        """`note` is told of faults that begin, hit and end."""
        self._nodes: list[EmbeddedNode] = []
        self._run = run
        self._note = note
        self._by_api: dict[tuple[int, int], list[Fault]] = {}  # node, API key
        # requests that wait, and what is to be done to them: by connection and correlation id
        self._postponed: dict[tuple[ServerConnection, int], Treatment] = {}

    def reach(self, node: EmbeddedNode) -> None:
        """Let later faults hit the node, too."""
        self._nodes.append(node)

    def forget(self, node_id: int) -> None:
        self._nodes = [each for each in self._nodes if each.plan.node_id != node_id]

    def add(self, fault: Fault) -> None:
        chosen = [node for node in self._nodes if node.plan.node_id in fault.selection.nodes]
        for node in chosen:
            for key in fault.selection.apis:
                self._by_api.setdefault((node.plan.node_id, key), []).append(fault)
                node.interceptors[key] = self._interceptor(node, key)
        fault.attach(
            lambda: self._run(lambda: self.drop(fault)),
            self._note,
        )
        self._note(f"fault set: {fault}", None)

    def active(self) -> list[Fault]:
        """Return the faults that are set and can still hit, each once."""
        found = {id(each): each for faults in self._by_api.values() for each in faults}
        return [each for each in found.values() if not each.over]

    def clear(self) -> None:
        if self._by_api:
            self._note("faults cleared", None)
        for node in self._nodes:
            node.interceptors.clear()
        self._by_api.clear()
        self._postponed.clear()

    def cut_connections(self, client_id: str | None, nodes: Iterable[int]) -> int:
        """Close the connections of clients, of this client id or all; return how many."""
        chosen = set(nodes)
        count = 0
        for each in self._nodes:
            if each.node is None or each.plan.node_id not in chosen:
                continue
            for connection in tuple(each.node.dispatcher.connections):
                name = connection.session.client_id
                if (client_id is None or name == client_id) and not _is_of_broker(connection):
                    connection.abort("a fault of the test's: the connection is cut")
                    count += 1
        self._note(f"{count} connections cut" + (f" of {client_id!r}" if client_id else ""), None)
        return count

    def drop(self, fault: Fault) -> None:
        """End the fault; called where the nodes run."""
        for node in self._nodes:
            for key in fault.selection.apis:
                place = node.plan.node_id, key
                faults = self._by_api.get(place, [])
                if fault in faults:
                    faults.remove(fault)
                if not faults and self._by_api.pop(place, None) is not None:
                    node.interceptors.pop(key, None)

    def _interceptor(self, node: EmbeddedNode, key: int) -> Interceptor:
        place = node.plan.node_id, key

        def intercept(request: Request[Row]) -> Row | None:
            if _is_for_broker(request):
                return None
            waited = request.connection, request.correlation_id
            treatment = self._postponed.pop(waited, None)
            if treatment is None:
                treatment = Treatment(request, node)
                for fault in tuple(self._by_api.get(place, ())):
                    fault.consider(treatment)
            try:
                return treatment.carry_out(request)
            except Postponed:
                for connection, correlation_id in tuple(self._postponed):
                    if connection.gone:
                        del self._postponed[connection, correlation_id]
                self._postponed[waited] = treatment
                raise

        return intercept


def _is_for_broker(request: Request[Row]) -> bool:
    body = request.body
    state = getattr(body, "replica_state", None)
    return (
        getattr(body, "replica_id", -1) >= 0
        or (state is not None and state.replica_id >= 0)
        or _is_of_broker(request.connection)
    )


def _is_of_broker(connection: ServerConnection) -> bool:
    return connection.follower >= 0 or bool(
        OF_BROKERS.fullmatch(connection.session.client_id or "")
    )
