"""Protocols: how clock, disk, network and tasks of a simulated node see their node, its machine and
the world's events (world.py has all three).
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Protocol

import trio

from raftka.runtime.interfaces import Clock


class Sender(Protocol):
    """One side of a connection, with bytes to send at the turn's end."""

    def take_output(self) -> None: ...


class Machine(Protocol):
    name: str
    powered: bool
    clock_offset_s: float
    clock_rate: float
    wall_offset_s: float

    @property
    def node(self) -> "Process | None":
        """The process that runs there; a dead one until the next starts."""


class Process(Protocol):
    """A node: one life of a process."""

    alive: bool
    paused: bool
    resumed: trio.Event
    scopes: dict[trio.CancelScope, None]
    in_turn: bool
    busy_s: float
    turn_ends: list[Callable[[], None]]
    views: list[bytearray]
    woken: list[Sender]

    @property
    def machine(self) -> Machine: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def events(self) -> "Events": ...

    @property
    def endpoints(self) -> dict[Any, None]:
        """Its connections."""

    def take(self, action: Callable[[Any], object], argument: object) -> None: ...

    def want_turn(self) -> None: ...

    def check_alive(self) -> None:
        """Raises NodeStopped."""

    def note(self, kind: bytes, a: int, b: int) -> None: ...


class Events(Protocol):
    """The world, as its parts use it: time, future events, random numbers, and the trace."""

    seed: int
    now: float

    def task_failed(self, node: Process, error: BaseException) -> None: ...

    @property
    def machines(self) -> Mapping[str, Machine]: ...

    def push(
        self, when: float, action: Callable[[Any, Any], object], a: object = None, b: object = None
    ) -> None: ...

    def random(self, stream: str) -> Random: ...

    def note(self, kind: bytes, node: int, a: int, b: int) -> None: ...
