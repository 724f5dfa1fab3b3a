"""A ZooKeeper client in the simulation: one session, on any node that accepts it, one request at a
time. It checks that its view never goes back.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import trio

from raftka.runtime.interfaces import Runtime, Transport
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.opcodes import BODIES, Op
from zookeeper_bridge.tree.watches import EventType

EVENT_XID = -1
ANSWER_S = 2.0
LOST = frozenset({Err.SESSION_EXPIRED, Err.SESSION_MOVED})


class Gone(Exception):
    """The connection ended. The request may have been carried out or not."""


class Expired(Exception):
    """The session, with its ephemerals."""


class Reply(NamedTuple):
    zxid: int
    error: Err
    body: bytes


class Session:
    """A session. `wrong` gets a sentence about each answer that no server may give."""

    def __init__(
        self,
        runtime: Runtime,
        addresses: Sequence[tuple[str, int]],
        timeout_ms: int,
        wrong: list[str],
    ) -> None:
        self.runtime = runtime
        self.wrong = wrong
        self.id = self.last_zxid = 0
        self.events: list[tuple[EventType, str]] = []
        self._addresses = addresses
        self._timeout_ms = timeout_ms
        self._password = bytes(jute.PASSWORD_BYTES)
        self._random = runtime.random("zookeeper session")
        self._link: _Link | None = None
        self._xid = 0

    async def ask(self, opcode: Op, *fields: object) -> Reply:
        """Return the reply. Raise Gone and Expired."""
        if self._link is None:
            await self._connect()
        link = self._link
        assert link is not None
        self._xid += 1
        link.send(
            jute.REQUEST_HEADER.pack(self._xid, opcode)
            + (BODIES[opcode].encode(fields) if opcode in BODIES else b"")
        )
        while True:
            packet = await self._next(link)
            xid, zxid, error = jute.REPLY_HEADER.unpack_from(packet)
            body = packet[jute.REPLY_HEADER.size :]
            if xid == EVENT_XID:
                kind, _, path = jute.EVENT.decode(body)
                self.events.append((EventType(kind), path))
                continue
            if xid != self._xid:
                self.wrong.append(f"session {self.id:#x} asked {self._xid} and is answered {xid}")
            self._seen(zxid, opcode)
            if error in LOST:
                self.leave()
                raise Gone
            return Reply(zxid, Err(error), body)

    def leave(self) -> None:
        """Close the connection; the session goes on with the next one."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def _seen(self, zxid: int, opcode: Op) -> None:
        if zxid < self.last_zxid:
            self.wrong.append(
                f"session {self.id:#x} saw {self.last_zxid:#x}, and {opcode.name} shows it "
                f"{zxid:#x}"
            )
        self.last_zxid = max(self.last_zxid, zxid)

    async def _connect(self) -> None:
        link = self._link = _Link()
        self.runtime.network.connect(*self._random.choice(self._addresses), link)
        asked = (
            jute.LONG.encode(self.last_zxid),
            jute.INT.encode(self._timeout_ms),
            jute.LONG.encode(self.id),
            jute.BUFFER.encode(self._password),
        )
        link.send(jute.INT.encode(0) + b"".join(asked) + b"\0")
        answer = jute.decode_connected(await self._next(link))
        if not answer.session_id:
            self.leave()
            self.id, self._password = 0, bytes(jute.PASSWORD_BYTES)
            raise Expired
        if self.id not in (0, answer.session_id):
            self.wrong.append(f"session {self.id:#x} comes back as {answer.session_id:#x}")
        self.id, self._password = answer.session_id, answer.password

    async def _next(self, link: "_Link") -> bytes:
        with trio.move_on_after(ANSWER_S):
            packet = await link.packet()
            if packet is not None:
                return packet
        self.leave()
        raise Gone


class _Link:
    """One connection: packets, undecoded."""

    def __init__(self) -> None:
        self._packets: deque[bytes] = deque()
        self._come = bytearray()
        self._out: list[bytes] = []
        self._transport: Transport | None = None
        self._over = False
        self._news = trio.Event()

    async def packet(self) -> bytes | None:
        """Return the next packet, or None when the connection is closed."""
        while not self._packets and not self._over:
            self._news = trio.Event()
            await self._news.wait()
        return self._packets.popleft() if self._packets else None

    def send(self, packet: bytes) -> None:
        self._out.append(jute.INT.encode(len(packet)) + packet)
        if self._transport is not None:
            self._transport.wake()

    def close(self) -> None:
        self._over = True
        if self._transport is not None:
            self._transport.close("the client goes")

    # the network's side

    def opened(self, transport: Transport) -> None:
        self._transport = transport
        if self._over:
            transport.close("the client goes")
        else:
            transport.wake()

    def room(self) -> memoryview | None:
        return None

    def receive(self, view: memoryview) -> None:
        if not view:
            self.close()
        self._come += view
        while len(self._come) >= 4 and len(self._come) >= (
            end := 4 + int.from_bytes(self._come[:4])
        ):
            self._packets.append(bytes(self._come[4:end]))
            del self._come[:end]
        self._news.set()

    def take_output(self) -> list[bytes]:
        out, self._out = self._out, []
        return out

    def closed(self, reason: str) -> None:
        self._over, self._transport = True, None
        self._news.set()
