"""Durations of the loop's turns: a histogram, and a log line for each long piece of one. Knows no
request.
"""

from functools import partial

from raftka.broker.telemetry.event_log import Events
from raftka.broker.telemetry.metrics import Metrics


class TurnTimes:
    """Told by the runtime (TurnWatch)."""

    def __init__(self, metrics: Metrics, events: Events) -> None:
        self._metrics = metrics
        self._events = events
        self.turn = metrics.turns.add

    def long(self, took_s: float, piece: object) -> None:
        self._metrics.count("raftka_long_turns_total")
        self._events.warning("long_turn", handler=name_of(piece), ms=round(took_s * 1000))


def name_of(piece: object) -> str:
    """The request that a connection, or the long work of the node, has handled last; or the name of
    a function.
    """
    owner = getattr(piece, "connection", None) or getattr(piece, "__self__", None)
    handled = getattr(owner, "handled", None)
    if handled is not None:
        return str(handled)
    called: object = piece
    while isinstance(called, partial):
        called = called.func
    return str(getattr(called, "__qualname__", type(called).__name__))
