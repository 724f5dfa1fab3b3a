"""A ZooKeeper client with no more than measuring needs: one blocking connection, requests as bytes,
many in flight. Knows no server's insides.
"""

import selectors
import socket
import time
from collections.abc import Sequence
from struct import pack, unpack_from
from typing import NamedTuple

CREATE, EXISTS, GET_DATA, SET_DATA, GET_CHILDREN, SYNC, CLOSE = 1, 3, 4, 5, 8, 9, -11
EVENT_XID = -1
EPHEMERAL, NODE_EXISTS = 1, -110
MANY = 500  # requests on their way at a time
SESSION_MS = 30_000
PATIENCE_SECONDS = 30.0


class Closed(Exception):
    """By the server."""


class Session(NamedTuple):
    session_id: int
    password: bytes


class Reply(NamedTuple):
    xid: int
    zxid: int
    error: int
    body: bytes


class Client:
    def __init__(self, port: int, session: Session | None = None) -> None:
        """`session`: one that is to be taken up again. Raises Closed, or OSError."""
        self._data = b""
        self._xid = 0
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        session_id, password = session or Session(0, bytes(16))
        self._send(pack(">iqiqi16s?", 0, 0, SESSION_MS, session_id, 16, password, False))
        _, _, session_id, _, password = unpack_from(">iiqi16s", self._frame())
        self.session = Session(session_id, password)
        if not session_id:
            raise Closed("there is no such session")

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, frame: bytes) -> None:
        self.sock.sendall(pack(">i", len(frame)) + frame)

    def _frame(self) -> bytes:
        while len(self._data) < 4 or len(self._data) < 4 + unpack_from(">i", self._data)[0]:
            more = self.sock.recv(1 << 18)
            if not more:
                raise Closed
            self._data += more
        end = 4 + unpack_from(">i", self._data)[0]
        frame, self._data = self._data[4:end], self._data[end:]
        return frame

    def reply(self) -> Reply:
        """The next packet; an event is one too."""
        frame = self._frame()
        xid, zxid, error = unpack_from(">iqi", frame)
        return Reply(xid, zxid, error, frame[16:])

    def ask(self, opcode: int, body: bytes) -> Reply:
        """Events that come before it are dropped."""
        self._xid += 1
        self._send(pack(">ii", self._xid, opcode) + body)
        while (found := self.reply()).xid != self._xid:
            pass
        return found

    def create(self, path: str, data: bytes = b"", flags: int = 0) -> None:
        error = self.ask(CREATE, to_create(path, data, flags)).error
        if error not in (0, NODE_EXISTS):
            raise AssertionError(f"create {path}: {error}")

    def create_all(self, paths: Sequence[str]) -> None:
        for first in range(0, len(paths), MANY):
            some = paths[first : first + MANY]
            for path in some:
                self._send(pack(">ii", 0, CREATE) + to_create(path))
            assert not any(self.reply().error for _ in some)

    def rate(self, opcode: int, body: bytes, in_flight: int, seconds: float) -> dict[str, float]:
        """Requests that are all alike, their number a second; with one in flight also the median of
        what each takes, in ms.

        So are their answers: it is enough to count bytes.
        """
        self.ask(opcode, body)
        request = pack(">iii", 8 + len(body), 1, opcode) + body
        self.sock.sendall(request)
        first = self._frame()
        assert unpack_from(">i", first, 12)[0] == 0, first
        size = 4 + len(first)
        self.sock.sendall(request * in_flight)
        began = sent = now = time.perf_counter()
        taken: list[float] = []
        answered = pending = 0
        while now - began < seconds:
            found, pending = divmod(pending + self._count(), size)
            now = time.perf_counter()
            answered += found
            if found:
                taken.append(now - sent)
                self.sock.sendall(request * found)
                sent = now
        left = in_flight * size - pending
        while left:
            left -= self._count()
        return {"per_s": answered / (now - began), "p50_ms": sorted(taken)[len(taken) // 2] * 1000}

    def _count(self) -> int:
        data = self.sock.recv(1 << 18)
        if not data:
            raise Closed
        return len(data)


def text(value: str) -> bytes:
    return buffer(value.encode())


def buffer(value: bytes) -> bytes:
    return pack(">i", len(value)) + value


def on_path(path: str, watch: bool = False) -> bytes:
    return text(path) + (b"\1" if watch else b"\0")


def to_create(path: str, data: bytes = b"", flags: int = 0) -> bytes:
    open_to_all = pack(">ii", 1, 31) + text("world") + text("anyone")
    return text(path) + buffer(data) + open_to_all + pack(">i", flags)


def to_set(path: str, value: bytes) -> bytes:
    return text(path) + buffer(value) + pack(">i", -1)


def last_told(clients: Sequence[Client], began: float) -> float:
    """Seconds until each of them has been told of something."""
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.sock, selectors.EVENT_READ, client)
        waiting = set(clients)
        while waiting:
            ready = selector.select(PATIENCE_SECONDS)
            assert ready, f"{len(waiting)} were not told"
            for key, _ in ready:
                if key.data.reply().xid == EVENT_XID:
                    waiting.discard(key.data)
        return time.perf_counter() - began
