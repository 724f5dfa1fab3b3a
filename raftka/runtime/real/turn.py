"""The actions that a turn of the loop still has to run, and how long each took."""

from collections.abc import Callable
from time import monotonic
from typing import Protocol

from raftka.runtime.interfaces import LONG_PIECE_S, TurnWatch


class Flushed(Protocol):
    def flush(self) -> None:
        """At the end of a turn: send what there is."""


class Turn:
    """Outside a turn the first action that is asked for wakes the loop."""

    __slots__ = ("actions", "active", "began", "kick", "last", "watch", "woken")

    def __init__(self) -> None:
        # the loop's, which knows whether it must be woken
        self.kick: Callable[[], None] = lambda: None
        self.active = False
        self.actions: list[Callable[[], None]] = []
        self.woken: list[Flushed] = []
        self.last: list[Callable[[], None]] = []  # when what there is to send has left
        self.watch: TurnWatch | None = None
        self.began = monotonic()  # of the piece under way

    def done(self, piece: object) -> None:
        """A piece of the turn is over, and the next one begins."""
        now = monotonic()
        if now - self.began > LONG_PIECE_S:
            self.long(now, piece)
        self.began = now

    def long(self, now: float, piece: object) -> None:
        if self.watch is not None:
            self.watch.long(now - self.began, piece)

    def at_last(self, action: Callable[[], None]) -> None:
        self.last.append(action)
        if not self.active:
            self.kick()
