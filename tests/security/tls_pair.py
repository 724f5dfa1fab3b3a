"""A TLS client and server without a network."""

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from raftka.cluster.secured.authority import Authority
from raftka.runtime.interfaces import Buffer, FileSpan
from raftka.runtime.real.files import lend
from raftka.security.tls_connection import Side, TlsConnection
from raftka.security.tls_context import StoreFiles, client_context, read_material, server_context
from raftka.security.tls_settings import StoreSettings, TlsSettings

AUTHORITY, STRANGER = Authority(), Authority("another")
SERVER, CLIENT = AUTHORITY.issue("node", ["n1", "127.0.0.1"]), AUTHORITY.issue("alice")
FILES = StoreFiles(lambda path: Path(path).read_bytes(), lend)


def settings(own: str = "", trusted: str = "", **others: Any) -> TlsSettings:
    return TlsSettings(StoreSettings(text=own), StoreSettings(text=trusted), **others)


class Inner:
    """The connection that is protected."""

    def __init__(self, rooms: Sequence[int] = ()) -> None:
        self.rooms = deque(rooms)  # sizes of the places that it wants bytes at
        self.out: list[Buffer | FileSpan] = []
        self.come = bytearray()
        self.ended = False
        self.close_reason: str | None = None
        self.transport: Any = None

    def opened(self, transport: Any) -> None:
        self.transport = transport

    def room(self) -> memoryview | None:
        return memoryview(bytearray(self.rooms.popleft())) if self.rooms else None

    def receive(self, view: memoryview) -> None:
        self.ended |= not view
        self.come += view

    def take_output(self) -> Sequence[Buffer | FileSpan]:
        out, self.out = self.out, []
        return out

    def closed(self, reason: str) -> None:
        self.close_reason = reason

    def send(self, *parts: Buffer | FileSpan) -> None:
        self.out += parts
        self.transport.wake()


class End:
    """The network's side of one end."""

    peer = "there:1"

    def __init__(
        self, inner: Inner, context: Any, side: Side, later: list[Callable[[], None]]
    ) -> None:
        self.inner = inner
        self.tls = TlsConnection(inner, context, side, later.append)
        self.closing: str | None = None
        self.sent = bytearray()
        self.held = False

    def wake(self) -> None: ...

    def close(self, reason: str) -> None:
        self.closing = self.closing or reason

    drop = close

    def hold_reading(self, held: bool) -> None:
        self.held = held

    def own_host(self) -> str:
        return "pair"

    def left(self) -> bool:
        return False


class Pair:
    """A client and a server; `cut` says how many bytes arrive at once."""

    def __init__(
        self,
        server: TlsSettings,
        client: TlsSettings,
        *,
        host: str = "n1",
        cut: Callable[[], int] = lambda: 1 << 20,
        **side: Any,
    ) -> None:
        self.failures: list[str] = []
        self.later: list[Callable[[], None]] = []
        self.cut = cut
        tell = side.pop("failed", lambda tls, reason: self.failures.append(reason))
        made = (
            server_context(server, read_material(server, FILES), FILES),
            client_context(client, read_material(client, FILES), FILES),
        )
        self.server = End(Inner(), made[0], Side(None, failed=tell, **side), self.later)
        self.client = End(Inner(), made[1], Side(host, failed=tell), self.later)
        self.ends = (self.client, self.server)
        for end in self.ends:
            end.tls.opened(end)
        self.run()

    def run(self) -> None:
        """Until nothing moves any more."""
        moved = True
        while moved:
            moved = False
            for here, there in (self.ends, self.ends[::-1]):
                while out := b"".join(here.tls.take_output()):  # type: ignore[arg-type]
                    here.sent += out
                    moved = True
                    self._deliver(out, there)
            later, self.later[:] = list(self.later), []
            for action in later:
                moved = True
                action()

    def _deliver(self, data: bytes, there: End) -> None:
        while data:
            size = max(1, self.cut())
            there.tls.receive(memoryview(bytearray(data[:size])))
            data = data[size:]
