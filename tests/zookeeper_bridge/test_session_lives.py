"""Sessions at work in the simulation find what a bridge may do wrong: each mistake is planted here
once.
"""

from collections.abc import Callable
from typing import Any

import pytest

from raftka.chaos.runner import run_one
from zookeeper_bridge.machine import machine, operations
from zookeeper_bridge.machine.machine import Machine
from zookeeper_bridge.machine.operations import remove
from zookeeper_bridge.machine.wire import Attach, Result
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.jute import ConnectRequest
from zookeeper_bridge.server.bridge import Bridge
from zookeeper_bridge.tree.watches import Watches

SEEDS = 12
Plant = tuple[Any, str, Callable[[Any], Any]]


def sessions_are_taken_over_at_once(original: Any) -> Any:
    """By what this node knows, without asking anybody."""

    def connecting(self: Bridge, connection: Any, asked: ConnectRequest) -> None:
        session = self.tree.session(asked.session_id)
        if session is None:
            original(self, connection, asked)
        else:
            known = Result(
                Err.OK,
                session_id=asked.session_id,
                timeout_ms=session.timeout_ms,
                password=asked.password or b"",
            )
            self._attach(connection, asked._replace(last_zxid=0), known)

    return connecting


def whoever_moves_loses_its_ephemerals(original: Any) -> Any:
    def attach(self: Any, request: Attach) -> Result:
        for path in self._layer.ephemerals(request.session_id):
            remove(self._layer, path, self._context.next_offset)
        result: Result = original(self, request)
        return result

    return attach


def writes_of_the_dead_count(_: Any) -> Any:
    """A session that is gone may still write: its ephemerals go, and the new one stays."""

    def close(self: Machine, layer: Any, session_id: int, zxid: int) -> bool:
        for path in layer.ephemerals(session_id):
            remove(layer, path, zxid)
        return layer.session(session_id) is not None

    return close


PLANTS: dict[str, Plant] = {
    "and the watch on that of": (Watches, "changed", lambda _: lambda self, path: None),
    "not linearizable": (
        operations,
        "check_version",
        lambda original: lambda expected, current: original(-1, current),
    ),
    "shows it": (Bridge, "connecting", sessions_are_taken_over_at_once),
    "and its lock is gone": (machine._Decision, "_attach", whoever_moves_loses_its_ephemerals),
    "and its lock had gone to another": (Machine, "close", writes_of_the_dead_count),
}


@pytest.mark.parametrize("sentence", PLANTS)
def test_a_planted_mistake_is_found(monkeypatch: pytest.MonkeyPatch, sentence: str) -> None:
    owner, name, mistake = PLANTS[sentence]
    monkeypatch.setattr(owner, name, mistake(getattr(owner, name)))

    assert any(
        sentence in each for seed in range(SEEDS) for each in run_one(seed, "sessions").violations
    )
