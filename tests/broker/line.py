"""The transport and the dispatcher of one connection, played by the test."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from raftka.broker.network.connection import ServerConnection, Slot
from raftka.broker.network.frame_pool import FramePool
from raftka.broker.telemetry.metrics import Metrics


class Line:
    """The transport and the dispatcher of one connection: keeps what it is told."""

    peer = "127.0.0.1:1"

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.reports = self
        self.now: Callable[[], float] = lambda: 0.0
        self.cpu_s: Callable[[], float] = lambda: 0.0
        self.frames: list[bytes] = []
        self.slots: list[Slot] = []
        self.refusals: list[str] = []
        self.close_reason: str | None = None
        self.dropped = False
        self.reading = True
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.context: Any = SimpleNamespace(
            metadata=SimpleNamespace(settings=SimpleNamespace(automatic_listeners=frozenset())),
            runtime=SimpleNamespace(
                clock=SimpleNamespace(
                    call_at=lambda when, action: self.timers.append((when, action))
                )
            ),
        )
        self.long_requests = SimpleNamespace(is_full=False)
        self.turn: list[Callable[[], None]] = []
        self.act: Callable[[bytes], None] = lambda frame: None
        self.pool = FramePool(self.turn.append)
        dispatcher: Any = self
        self.connection = ServerConnection(dispatcher, self.pool, "PLAINTEXT")
        self.connection.opened(self)

    # transport
    def wake(self) -> None: ...

    def close(self, reason: str) -> None:
        self.close_reason = reason

    def drop(self, reason: str) -> None:
        self.close_reason = reason
        self.dropped = True

    def hold_reading(self, held: bool) -> None:
        self.reading = not held

    def own_host(self) -> str:
        return "broker"

    def left(self) -> bool:
        return False

    # dispatcher
    def dispatch(self, connection: ServerConnection, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        self.act(bytes(frame))

    def refused(self, connection: ServerConnection, reason: str) -> None:
        self.refusals.append(reason)

    def opened(self, connection: ServerConnection) -> None: ...

    def closed(self, connection: ServerConnection, reason: str) -> None: ...

    def end_turn(self) -> None:
        for action in self.turn:
            action()
        self.turn.clear()

    def feed(self, data: bytes, step: int, direct: bool = False) -> None:
        """Hand over pieces of `step` bytes; `direct`: in the connection's own buffer, if any."""
        position = 0
        while position < len(data):
            room = self.connection.room() if direct else None
            if room is not None:
                count = min(len(room), step, len(data) - position)
                room[:count] = data[position : position + count]
                self.connection.receive(room[:count])
            else:
                count = min(step, len(data) - position)
                self.connection.receive(memoryview(bytearray(data[position : position + count])))
            position += count
            self.end_turn()
