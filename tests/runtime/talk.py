"""Connections for the tests of the simulation: one that remembers what it hears and says what it is
told, and one that echoes.
"""

from collections.abc import Sequence

from raftka.runtime.interfaces import Buffer, FileSpan, Transport, pin
from raftka.runtime.simulated.world import Node


class Talker:
    """`heard` are the bytes that came, `end` is set by the other side's last byte, `reason` by
    closed().
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.heard = bytearray()
        self.times: list[float] = []
        self.transport: Transport | None = None
        self.end = False
        self.reason: str | None = None
        self.closed_times = 0
        self.output: list[Buffer | FileSpan] = []
        self.asked = 0

    def say(self, *output: Buffer | FileSpan) -> None:
        self.output.extend(output)
        if self.transport is not None:
            self.transport.wake()

    def opened(self, transport: Transport) -> None:
        assert self.transport is None
        self.transport = transport

    def room(self) -> memoryview | None:
        return None

    def receive(self, view: memoryview) -> None:
        if not len(view):
            self.end = True
            return
        self.heard += view
        self.times.append(self.node.clock.now())

    def take_output(self) -> Sequence[Buffer | FileSpan]:
        self.asked += 1
        output, self.output = self.output, []
        pin(output)
        return output

    def closed(self, reason: str) -> None:
        self.reason = reason
        self.closed_times += 1
        self.transport = None


class Echo(Talker):
    """Says what it hears, at the end of the turn in which it heard it."""

    def receive(self, view: memoryview) -> None:
        super().receive(view)
        if len(view):
            self.output.append(view)
            self.node.clock.at_turn_end(self._wake)
        elif self.transport is not None:
            self.transport.close("the other side is done")

    def _wake(self) -> None:
        if self.transport is not None:
            self.transport.wake()


def serve(
    node: Node, port: int = 1000, kind: type[Talker] = Echo, host: str = "0.0.0.0"
) -> list[Talker]:
    """Listens; the list fills with who was accepted."""
    accepted: list[Talker] = []

    def accept() -> Talker:
        accepted.append(kind(node))
        return accepted[-1]

    node.network.listen(host, port, accept)
    return accepted


def call(node: Node, host: str, port: int = 1000) -> Talker:
    talker = Talker(node)
    node.network.connect(host, port, talker)
    return talker
