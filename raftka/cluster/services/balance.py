"""`raftka.balance=auto`: the node that is the active controller keeps the brokers even, a round now
and then. A round is the work of a client of the cluster, in a thread: it asks the brokers for
their replicas, plans, and moves with throttles.
"""

import threading

import trio

from raftka.balance.moves import carry_out
from raftka.balance.state import ClusterState, read_state
from raftka.broker.handlers.services import Services
from raftka.client.blocking.client import Client
from raftka.client.blocking.reassignments import list_reassignments
from raftka.metadata.balance import Move, measure, plan_balance

LOOK_S = 3.0  # for the rates
UNEVEN, LEADERS, BYTES = 0.10, 10, 64 << 20  # of the mean; and so many more than it
CLIENT, AUTO = "raftka-balance", "auto"


class Stopped(Exception):
    """The node ends, or another one is the controller."""


class Edge:
    port = None

    def __init__(self, services: Services) -> None:
        self._services = services
        self._closed, self._stop = trio.Event(), threading.Event()
        services.context.runtime.spawn(self._keep, "balance")

    def close(self) -> None:
        self._stop.set()
        self._closed.set()

    async def _keep(self) -> None:
        while not self._closed.is_set():
            settings = self._services.metadata.settings
            with trio.move_on_after(settings.seconds("raftka.balance.interval.ms")):
                await self._closed.wait()
            is_wanted = settings["raftka.balance"] == AUTO and not self._closed.is_set()
            if is_wanted and self._is_controller():
                await trio.to_thread.run_sync(self._try_round, abandon_on_cancel=True)

    def _is_controller(self) -> bool:
        host = self._services.quorum.host
        return host is not None and host.active

    def _try_round(self) -> None:
        events = self._services.context.events
        try:
            moved = self._round()
        except Stopped:
            return
        except Exception as error:  # also a bug of ours must not end the node
            events.warning("balance_failed", error=str(error))
        else:
            if moved:
                copied = sum(each.copied for each in moved)
                events.info("balanced", partitions=len(moved), copied_bytes=copied)

    def _round(self) -> list[Move]:
        settings, image = self._services.metadata.settings, self._services.metadata.image
        listener = settings.inter_broker_listener
        found = [each.endpoint(listener) for each in image.brokers.values() if each.alive]
        addresses = [(each.host, each.port) for each in found if each is not None]
        with Client(addresses, CLIENT, security=settings.between_brokers) as client:
            if list_reassignments(client):
                return []
            state = read_state(client, LOOK_S)
            if state.gone or state.lagging or not is_uneven(state):
                return []
            moves = plan_balance(state.partitions, state.brokers)
            rate = settings["raftka.balance.throttle"]
            carry_out(client, moves, rate, state.brokers.keys(), check=self._check)
            return moves

    def _check(self) -> None:
        if self._stop.is_set() or not self._is_controller():
            raise Stopped


def is_uneven(state: ClusterState) -> bool:
    """Return whether a round is worth its work: small differences come and go by themselves."""
    takes = {node_id for node_id, each in state.brokers.items() if each.takes}
    if any(not takes.issuperset(each.replicas) for each in state.partitions.values()):
        return True
    even = measure(state.partitions, state.brokers)
    return any(
        values
        and max(values) - min(values) >= least
        and max(values) > (1 + UNEVEN) * sum(values) / len(values)
        for values, least in (
            (list(even.sizes.values()), BYTES),
            (list(even.leaders.values()), LEADERS),
        )
    )


def open_edge(services: Services) -> Edge:
    return Edge(services)
