"""A ZooKeeper client that waits for each answer: what the commands need, and no more. Knows no
command and no znode of Kafka's.

Its session ends with the connection; another of the addresses is tried only before there is one.
"""

import socket
import ssl
from collections import deque
from contextlib import suppress
from struct import Struct
from types import TracebackType
from typing import Self

from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err, ZooKeeperError
from zookeeper_bridge.protocol.jute import Acl, Stat
from zookeeper_bridge.protocol.opcodes import BODIES, Op
from zookeeper_bridge.tree.watches import EventType

PASSES_S = 10.0  # from a request to its answer
SESSION_MS = 15_000
PING_S = 4.0
RECEIVED_BYTES = 64 * 1024
ANSWER_BYTES = 64 * 1024 * 1024  # more is none: children of a very large znode are less
EVENT_XID, PING_XID, AUTH_XID = -1, -2, -4
_SIZE = Struct(">i")
_REQUEST = Struct(">ii")
OPEN_TO_ALL = [Acl(31, "world", "anyone")]


class Unreachable(OSError):
    """None of the addresses has a server that answers."""


class ZooKeeperClient:
    """Answers that are errors are raised as ZooKeeperError, a connection that breaks as OSError."""

    def __init__(
        self,
        addresses: str,
        digest: str | None = None,
        ca: str | None = None,
        certificate: str | None = None,
    ) -> None:
        """As Address has them."""
        self.events: deque[tuple[EventType, str]] = deque()
        self._xid = 0
        self._data = bytearray()  # received, and not taken yet
        self._tls = _context(ca, certificate) if ca is not None else None
        self._socket = self._connected(addresses)
        if digest is not None:
            self._send(AUTH_XID, Op.AUTH, jute.AUTH.encode((0, "digest", digest.encode())))
            self._answer(AUTH_XID)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError, ZooKeeperError):
            self.ask(Op.CLOSE_SESSION)
        self._socket.close()

    def _connected(self, addresses: str) -> socket.socket:
        reasons = []
        for address in addresses.split(","):
            host, _, port = address.strip().rpartition(":")
            self._data.clear()
            try:
                self._socket = socket.create_connection((host.strip("[]"), int(port)), PASSES_S)
                try:
                    if self._tls is not None:
                        self._socket = self._tls.wrap_socket(
                            self._socket, server_hostname=host.strip("[]")
                        )
                    self._open_session()
                except BaseException:
                    self._socket.close()
                    raise
                return self._socket
            except (OSError, ValueError) as error:
                reasons.append(f"{address}: {error}")
        raise Unreachable("; ".join(reasons))

    def _open_session(self) -> None:
        asked = (
            jute.LONG.encode(0),
            jute.INT.encode(SESSION_MS),
            jute.LONG.encode(0),
            jute.BUFFER.encode(bytes(jute.PASSWORD_BYTES)),
        )
        self._write(jute.INT.encode(0) + b"".join(asked) + b"\0")
        if not jute.decode_connected(self._read()).session_id:
            raise ConnectionError("the server opened no session")

    # what there is to ask

    def ask(self, opcode: Op, *fields: object) -> bytes:
        """The body of the answer."""
        self._xid += 1
        self._send(self._xid, opcode, BODIES[opcode].encode(fields) if opcode in BODIES else b"")
        return self._answer(self._xid)

    def get(self, path: str) -> tuple[bytes | None, Stat]:
        found: tuple[bytes | None, Stat] = jute.DATA_STAT.decode(self.ask(Op.GET_DATA, path, False))
        return found

    def stat(self, path: str) -> Stat | None:
        """None: there is no such znode."""
        try:
            return Stat(*jute.STAT.decode(self.ask(Op.EXISTS, path, False)))
        except ZooKeeperError as error:
            if error.code is Err.NO_NODE:
                return None
            raise

    def children(self, path: str) -> list[str]:
        return sorted(jute.STRINGS.decode(self.ask(Op.GET_CHILDREN, path, False)))

    def put(self, path: str, data: bytes) -> None:
        """With its parents, where they are missing."""
        try:
            self.ask(Op.SET_DATA, path, data, -1)
        except ZooKeeperError as error:
            if error.code is not Err.NO_NODE:
                raise
            names = path[1:].split("/")
            for depth in range(1, len(names)):
                self._create("/" + "/".join(names[:depth]), None)
            self._create(path, data)

    def _create(self, path: str, data: bytes | None) -> None:
        try:
            self.ask(Op.CREATE, path, data, OPEN_TO_ALL, 0)
        except ZooKeeperError as error:
            if error.code is not Err.NODE_EXISTS:
                raise

    def watch(self, path: str) -> None:
        """All that happens to it and below it, until the end."""
        self.ask(Op.ADD_WATCH, path, 1)

    def next_event(self) -> tuple[EventType, str]:
        """Waits for it, and keeps the session alive meanwhile."""
        while not self.events:
            self._socket.settimeout(PING_S)
            try:
                if not self._data:
                    self._receive()
                self._take(self._read())
            except TimeoutError:
                self._send(PING_XID, Op.PING, b"")
                self._answer(PING_XID)
        return self.events.popleft()

    # bytes

    def _send(self, xid: int, opcode: int, body: bytes) -> None:
        self._write(_REQUEST.pack(xid, opcode) + body)

    def _answer(self, xid: int) -> bytes:
        self._socket.settimeout(PASSES_S)
        while True:
            answered, error, body = self._take(self._read())
            if answered == xid:
                if error:
                    raise ZooKeeperError(Err(error))
                return body

    def _take(self, packet: bytes) -> tuple[int, int, bytes]:
        xid, _, error = jute.REPLY_HEADER.unpack_from(packet)
        body = packet[jute.REPLY_HEADER.size :]
        if xid == EVENT_XID:
            kind, _, path = jute.EVENT.decode(body)
            self.events.append((EventType(kind), path))
        return xid, error, body

    def _write(self, packet: bytes) -> None:
        self._socket.sendall(_SIZE.pack(len(packet)) + packet)

    def _read(self) -> bytes:
        self._socket.settimeout(PASSES_S)
        (size,) = _SIZE.unpack(self._exactly(4))
        if not 0 <= size <= ANSWER_BYTES:
            raise ConnectionError("not a ZooKeeper server")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        while len(self._data) < size:
            self._receive()
        data = bytes(self._data[:size])
        del self._data[:size]
        return data

    def _receive(self) -> None:
        piece = self._socket.recv(RECEIVED_BYTES)
        if not piece:
            raise ConnectionError("the server has closed the connection")
        self._data += piece


def _context(ca: str, certificate: str | None) -> ssl.SSLContext:
    """Raises OSError for files that cannot be used: ssl.SSLError is one."""
    context = ssl.create_default_context(cafile=ca)
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context
