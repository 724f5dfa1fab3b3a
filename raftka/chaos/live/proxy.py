"""A TCP proxy between nodes: each direction between two of them can be cut, one way or both, or
slowed. What is held back comes when it is healed.

A cut is silence, as where packets are lost: nothing is reset, and whoever dies behind it is not
missed. A node that does not listen is refused at its proxy too: the proxy's own listener closes
before anybody hears of the end. Runs in a thread of its own; knows Kafka's request header, to learn
from a follower's client id who it is; where nodes speak TLS it asks Linux, which process has
opened the connection.
"""

import os
import re
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import trio

HOST = "127.0.0.1"
UNKNOWN = 0  # who says nothing of itself, as a probe does
NAMED = re.compile(rb"broker-(\d+)-fetcher")
PIECE = 65536
HELD_PIECES = 64  # of a direction; then its sender waits
LOOK_S = 0.05  # how often a node that does not listen is tried
START_S = 10.0

Direction = tuple[int, int]  # from a node to a node


class Route(NamedTuple):
    port: int  # that we listen on
    upstream: int  # the node's own
    target: int
    # who dials here; UNKNOWN: many do, and the first request or the dialing process tells
    source: int = UNKNOWN


@dataclass(slots=True)
class Link:
    """One direction between two nodes, all connections of it."""

    cut: bool = False
    delay_s: float = 0.0
    bytes_passed: int = 0
    bytes_held: int = 0  # for how many a cut or a delay was in the way
    changed: trio.Event = field(default_factory=trio.Event)

    async def open(self) -> None:
        while self.cut:
            await self.changed.wait()

    def become(self, cut: bool, delay_s: float) -> None:
        if (cut, delay_s) != (self.cut, self.delay_s):
            self.cut, self.delay_s = cut, delay_s
            changed, self.changed = self.changed, trio.Event()
            changed.set()


class Proxy:
    """Leaving the block ends every connection."""

    def __init__(
        self, routes: Iterable[Route], processes: Callable[[], Mapping[int, int]] | None = None
    ) -> None:
        """`processes`: the nodes' pids; nodes are known by them. None: they are known by what they
        say.
        """
        self._routes, self._processes = list(routes), processes
        self._links: dict[Direction, Link] = {}
        self._thread = threading.Thread(
            target=lambda: trio.run(self._run), name="proxy", daemon=True
        )
        self._started = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self.failure: BaseException | None = None

    def __enter__(self) -> "Proxy":
        self._thread.start()
        if not self._started.wait(START_S) or self._token is None:
            raise OSError(f"the proxy did not start: {self.failure}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._do(self._scope.cancel)
        self._thread.join()

    # what is done to the network; from any thread

    def cut(self, *directions: Direction) -> None:
        self._become(directions, cut=True)

    def slow(self, delay_s: float, *directions: Direction) -> None:
        self._become(directions, delay_s=delay_s)

    def heal(self, *directions: Direction) -> None:
        """These, or all."""
        self._become(directions or tuple(self._links), cut=False, delay_s=0.0)

    def held(self) -> Mapping[Direction, int]:
        """Bytes for which something was in the way, since the beginning."""
        return {
            direction: link.bytes_held
            for direction, link in tuple(self._links.items())
            if link.bytes_held
        }

    def passed(self) -> Mapping[Direction, int]:
        return {
            direction: link.bytes_passed
            for direction, link in tuple(self._links.items())
            if link.bytes_passed
        }

    def _become(
        self,
        directions: Iterable[Direction],
        *,
        cut: bool | None = None,
        delay_s: float | None = None,
    ) -> None:
        def become() -> None:
            for each in directions:
                link = self._link(*each)
                link.become(
                    link.cut if cut is None else cut, link.delay_s if delay_s is None else delay_s
                )

        self._do(become)

    def _do(self, action: Callable[[], object]) -> None:
        """In the thread; returns when it is done."""
        done = threading.Event()

        def work() -> None:
            action()
            done.set()

        if self._token is not None and self._thread.is_alive():
            try:
                self._token.run_sync_soon(work)
            except trio.RunFinishedError:
                return
            done.wait(START_S)

    def _link(self, source: int, target: int) -> Link:
        return self._links.setdefault((source, target), Link())

    # the thread

    async def _run(self) -> None:
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    for route in self._routes:
                        nursery.start_soon(_Gate(route, self._link, self._processes).run)
                    self._token = trio.lowlevel.current_trio_token()
                    self._started.set()
        except BaseException as error:
            self.failure = error
        finally:
            self._started.set()


class _Gate:
    """Listens for one route, as long as the node behind it does."""

    def __init__(
        self,
        route: Route,
        link: Callable[[int, int], Link],
        processes: Callable[[], Mapping[int, int]] | None,
    ) -> None:
        self._route, self._processes = route, processes
        self._link = link
        self._listener: trio.socket.SocketType | None = None

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                while not await self._alive():  # noqa: ASYNC110  # the node is another process
                    await trio.sleep(LOOK_S)
                with _listener(self._route.port) as self._listener:
                    await self._accept(nursery)

    async def _accept(self, nursery: trio.Nursery) -> None:
        assert self._listener is not None
        while True:
            try:
                sock, _ = await self._listener.accept()
            except (trio.ClosedResourceError, OSError):
                return
            nursery.start_soon(self._serve, sock)

    async def _alive(self) -> bool:
        sock = await _dial(self._route.upstream)
        if sock is None:
            return False
        sock.close()
        return True

    async def _close_if_dead(self) -> None:
        """A connection to the node has ended: if the node is gone, stop listening before any client
        hears of the end.
        """
        if not await self._alive() and self._listener is not None:
            self._listener.close()

    async def _serve(self, near: trio.socket.SocketType) -> None:
        with near:
            try:
                first = b"" if self._route.source else await near.recv(PIECE)
                if not self._route.source and not first:
                    return  # a probe
                far = await _dial(self._route.upstream)
                if far is None:
                    await self._close_if_dead()
                    return
                with far:
                    await self._pump_both(
                        near, far, self._route.source or self._source(near, first), first
                    )
            except OSError:
                pass

    def _source(self, near: trio.socket.SocketType, first: bytes) -> int:
        if self._processes is None:
            return _named(first)
        return dialer(near.getpeername()[1], self._route.port, self._processes()) or UNKNOWN

    async def _pump_both(
        self, near: trio.socket.SocketType, far: trio.socket.SocketType, source: int, first: bytes
    ) -> None:
        there, back = self._link(source, self._route.target), self._link(self._route.target, source)
        async with trio.open_nursery() as nursery:

            async def pump(
                receiver: trio.socket.SocketType,
                sender: trio.socket.SocketType,
                link: Link,
                first: bytes,
            ) -> None:
                await _Pump(receiver, sender, link).run(first)
                if receiver is far:
                    await self._close_if_dead()
                nursery.cancel_scope.cancel()

            nursery.start_soon(pump, near, far, there, first)
            nursery.start_soon(pump, far, near, back, b"")


class _Pump:
    """One direction of one connection."""

    def __init__(
        self, receiver: trio.socket.SocketType, sender: trio.socket.SocketType, link: Link
    ) -> None:
        self._receiver = receiver
        self._sender = sender
        self._link = link
        self._pieces: deque[tuple[float, bytes]] = deque()  # due when
        self._came, self._went = trio.Event(), trio.Event()
        self._over = False

    async def run(self, first: bytes) -> None:
        """Until one side has ended, and the other may know."""
        if first:
            self._take(first)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send, nursery.cancel_scope)
            await self._receive()
            self._over = True
            self._came.set()

    async def _receive(self) -> None:
        while True:
            while len(self._pieces) >= HELD_PIECES:
                self._went = trio.Event()
                await self._went.wait()
            try:
                data = await self._receiver.recv(PIECE)
            except OSError:
                return
            if not data:
                return
            self._take(data)

    def _take(self, data: bytes) -> None:
        link = self._link
        if link.cut or link.delay_s:
            link.bytes_held += len(data)
        self._pieces.append((trio.current_time() + link.delay_s, data))
        self._came.set()

    async def _send(self, scope: trio.CancelScope) -> None:
        while True:
            while self._pieces:
                due, data = self._pieces[0]
                await trio.sleep_until(due)
                await self._link.open()
                self._link.bytes_passed += len(data)
                try:
                    await _send_all(self._sender, data)
                except OSError:
                    scope.cancel()
                    return
                self._pieces.popleft()
                self._went.set()
            if self._over:
                await self._link.open()
                return
            self._came = trio.Event()
            await self._came.wait()


def _named(first: bytes) -> int:
    """Length, key, version, correlation id; then the client id."""
    size = int.from_bytes(first[12:14], "big", signed=True) if len(first) >= 14 else -1
    match = NAMED.fullmatch(first[14 : 14 + size]) if size > 0 else None
    return int(match[1]) if match else UNKNOWN


async def _dial(port: int) -> trio.socket.SocketType | None:
    sock = trio.socket.socket()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        await sock.connect((HOST, port))
    except OSError:
        sock.close()
        return None
    except BaseException:
        sock.close()
        raise
    return sock


def _listener(port: int) -> trio.socket.SocketType:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((HOST, port))
        sock.listen(128)
    except OSError:
        sock.close()
        raise
    return trio.socket.from_stdlib_socket(sock)


async def _send_all(sock: trio.socket.SocketType, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[await sock.send(view) :]


SOCKETS = Path("/proc/self/net/tcp")
LOOPBACK = "0100007F"  # 127.0.0.1, as the table has it
LOCAL, REMOTE, INODE = 1, 2, 9  # columns


def dialer(near: int, far: int, processes: Mapping[int, int]) -> int | None:
    """Return the node that has the connection from one port of this machine to another; `processes`
    are the nodes' pids.
    """
    wanted = f"{LOOPBACK}:{near:04X}", f"{LOOPBACK}:{far:04X}"
    rows = map(str.split, SOCKETS.read_text().splitlines()[1:])
    link = next(
        (f"socket:[{row[INODE]}]" for row in rows if (row[LOCAL], row[REMOTE]) == wanted), None
    )
    return next(
        (node_id for node_id, pid in processes.items() if link is not None and _has(pid, link)),
        None,
    )


def _has(pid: int, link: str) -> bool:
    with suppress(OSError):  # it has ended
        for file in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):  # it was closed
                if os.readlink(f"/proc/{pid}/fd/{file}") == link:
                    return True
    return False
