"""Faults on demand, between what a client has sent and what a broker makes of it. Knows no thread:
called where the nodes run.

Clients alone are hit; what brokers ask each other goes through as always.
"""

from collections.abc import Callable, Iterable
from typing import cast

from raftka.broker.network.connection import Parts
from raftka.broker.network.dispatch import HANDLERS, Interceptor, Postponed
from raftka.broker.network.request import Answering, Request
from raftka.cluster.embedded import EmbeddedNode
from raftka.wire.errors import Code, KafkaError
from raftka.wire.rows import Row

Run = Callable[[Callable[[], object]], object]  # in the nodes' thread


def api_key(api: str | int) -> int:
    """Find an API by its name in Kafka's documentation, "Produce"; case does not matter. Raises
    ValueError.
    """
    names = {registration.api.name.lower(): key for key, registration in HANDLERS.items()}
    key = api if isinstance(api, int) else names.get(api.lower())
    if key not in HANDLERS:
        raise ValueError(
            f"no API {api!r}; there are "
            f"{', '.join(sorted(registration.api.name for registration in HANDLERS.values()))}"
        )
    return key


def error_code(error: str | int) -> Code:
    """Find an error by its name, "NOT_LEADER_OR_FOLLOWER", or its number. Raises ValueError."""
    try:
        return Code[error] if isinstance(error, str) else Code(error)
    except KeyError:
        raise ValueError(
            f"no error {error!r}: names are those of Kafka's documentation, as "
            "NOT_LEADER_OR_FOLLOWER"
        ) from None


class Fault:
    """One thing that goes wrong, until `remove`, the end of its `with` block, or as often as it was
    told to.
    """

    def __init__(
        self, effect: Callable[[Request[Row], EmbeddedNode], Row | None], times: float
    ) -> None:
        self.hits = 0  # requests that it has hit
        self._effect = effect
        self._left = times
        self._remove: Callable[[], object] | None = None

    def apply(self, request: Request[Row], node: EmbeddedNode) -> Row | None:
        if self._left <= 0:
            return None
        return self._effect(request, node)

    def hit(self) -> None:
        self.hits += 1
        self._left -= 1

    @property
    def over(self) -> bool:
        """The fault has hit as often as it was to."""
        return self._left <= 0

    def remove(self) -> None:
        if self._remove is not None:
            self._remove()

    def __enter__(self) -> "Fault":
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


class _LosesAnswer:
    """The dispatcher of one request, but for its answer."""

    def __init__(self, dispatcher: Answering) -> None:
        self._dispatcher = dispatcher

    def __getattr__(self, name: str) -> object:
        return getattr(self._dispatcher, name)

    def encoded(self, request: Request[Row], row: Row) -> Parts:
        request.connection.abort("a fault of the test's: the answer is lost")
        return ()

    def broken(self, request: Request[Row], error: Exception) -> Parts:
        return self.encoded(request, request.api.response())


class Faults:
    """Those of a cluster."""

    def __init__(self, nodes: Iterable[EmbeddedNode], run: Run) -> None:
        self._nodes = list(nodes)
        self._run = run
        self._by_api: dict[tuple[int, int], list[Fault]] = {}  # node, API key

    def fail(self, key: int, code: Code, times: float, nodes: Iterable[int]) -> Fault:
        def effect(request: Request[Row], node: EmbeddedNode) -> Row | None:
            fault.hit()
            raise KafkaError(code)

        fault = Fault(effect, times)
        return self._add(fault, key, nodes)

    def lose_request(self, key: int, times: float, nodes: Iterable[int]) -> Fault:
        def effect(request: Request[Row], node: EmbeddedNode) -> Row | None:
            fault.hit()
            request.connection.abort("a fault of the test's: the request is lost")
            return _lost(request)

        fault = Fault(effect, times)
        return self._add(fault, key, nodes)

    def lose_answer(self, key: int, times: float, nodes: Iterable[int]) -> Fault:
        """Carry the request out as always. The connection breaks when the answer is ready, so
        nothing of it is done after the client's next try.
        """

        def effect(request: Request[Row], node: EmbeddedNode) -> Row | None:
            fault.hit()
            request.dispatcher = cast(Answering, _LosesAnswer(request.dispatcher))
            return None

        fault = Fault(effect, times)
        return self._add(fault, key, nodes)

    def delay(self, key: int, seconds: float, times: float, nodes: Iterable[int]) -> Fault:
        """Delay each request once; the second time it passes."""
        late: set[tuple[int, int]] = set()

        def effect(request: Request[Row], node: EmbeddedNode) -> Row | None:
            who = (id(request.connection), request.correlation_id)
            if who in late:
                late.remove(who)
                return None
            late.add(who)
            fault.hit()
            raise Postponed(seconds)

        fault = Fault(effect, times)
        return self._add(fault, key, nodes)

    def clear(self) -> None:
        for node in self._nodes:
            node.interceptors.clear()
        self._by_api.clear()

    def _add(self, fault: Fault, key: int, nodes: Iterable[int]) -> Fault:
        chosen = [node for node in self._nodes if node.plan.node_id in set(nodes)]
        for node in chosen:
            self._by_api.setdefault((node.plan.node_id, key), []).append(fault)
            node.interceptors[key] = self._interceptor(node, key)
        fault._remove = lambda: self._run(lambda: self._drop(fault, key, chosen))
        return fault

    def _drop(self, fault: Fault, key: int, nodes: list[EmbeddedNode]) -> None:
        for node in nodes:
            faults = self._by_api.get((node.plan.node_id, key), [])
            if fault in faults:
                faults.remove(fault)
            if not faults:
                node.interceptors.pop(key, None)

    def _interceptor(self, node: EmbeddedNode, key: int) -> Interceptor:
        def intercept(request: Request[Row]) -> Row | None:
            if _from_broker(request):
                return None
            for fault in tuple(self._by_api.get((node.plan.node_id, key), ())):
                row = fault.apply(request, node)
                if row is not None:
                    return row
            return None

        return intercept


def _lost(request: Request[Row]) -> Row:
    """An answer, for a connection that is gone."""
    empty: Row = request.api.response()
    return empty


def _from_broker(request: Request[Row]) -> bool:
    body = request.body
    state = getattr(body, "replica_state", None)
    return getattr(body, "replica_id", -1) >= 0 or (state is not None and state.replica_id >= 0)
