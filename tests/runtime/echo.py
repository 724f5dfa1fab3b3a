"""Connections for tests of the real network: one sends back what comes, one sends what it is
given.
"""

from collections.abc import Sequence

import trio

from raftka.runtime.interfaces import Buffer, FileSpan, Transport, pin


class Echo:
    """Sends back what comes; `large` bytes go to a buffer of its own, as those of a large frame."""

    def __init__(self, large: int = 0) -> None:
        self.transport: Transport | None = None
        self.out: list[Buffer | FileSpan] = []
        self.own = memoryview(bytearray(large)) if large else None
        self.received = 0
        self.end: str | None = None
        self.over = trio.Event()

    def opened(self, transport: Transport) -> None:
        self.transport = transport

    def room(self) -> memoryview | None:
        return (
            self.own[self.received :]
            if self.own is not None and self.received < len(self.own)
            else None
        )

    def receive(self, view: memoryview) -> None:
        assert self.transport is not None
        self.received += len(view)
        if not view:
            self.transport.close("said all")
        self.out.append(bytes(view))
        self.transport.wake()

    def take_output(self) -> Sequence[Buffer | FileSpan]:
        out, self.out = self.out, []
        pin(out)
        return [item for item in out if not isinstance(item, bytes) or item]

    def closed(self, reason: str) -> None:
        self.end = reason
        self.over.set()


class Sender(Echo):
    """Sends what it is given once it is connected, and keeps what comes."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.out = [data]
        self.got = b""
        self.wanted = len(data)

    def receive(self, view: memoryview) -> None:
        assert self.transport is not None
        self.got += view
        if len(self.got) == self.wanted:
            self.transport.close("got all")


class Late(Sender):
    """Reads nothing until it is told to begin."""

    def opened(self, transport: Transport) -> None:
        super().opened(transport)
        transport.hold_reading(True)

    def begin(self) -> None:
        assert self.transport is not None
        self.transport.hold_reading(False)
