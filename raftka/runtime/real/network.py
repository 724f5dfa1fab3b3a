"""Sockets of the real world, driven by callbacks. Something else, the heir's `poller`, says when a
descriptor is ready. Knows no Trio.

All bytes of one turn lie in one arena until the turn ends, so a batch can be written to its log
straight from where it was received.
"""

import errno
import fcntl
import ipaddress
import os
import resource
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Protocol

from raftka.runtime.interfaces import LONG_PIECE_S, Buffer, Connection, FileSpan, unpin
from raftka.runtime.memory import poison
from raftka.runtime.real.addresses import address_towards, plain_host
from raftka.runtime.real.sending import REST_BYTES, Sender
from raftka.runtime.real.turn import Turn

ARENA_BYTES = 1024 * 1024
READ_BYTES = 256 * 1024  # of one connection in one go, so that nobody waits long behind it
# the same of large frames: what has gone from the processor's cache when it is written costs as
# much as a turn
LARGE_BYTES = 1536 * 1024
# of all connections in a turn, in buffers of their own, which they may use until it ends
LENT_BYTES = 64 * 1024 * 1024
# of a connection whose frames are large: the rest goes straight to its own buffer
FIRST_READ_BYTES = 64 * 1024
# a last buffer of this size: all are sent as they are, not copied into one
VECTORED_BYTES = 16 * 1024
BACKLOG = 512
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close sends a reset

# of a descriptor, with the numbers that poll and epoll have for them
IN, OUT, ERR, HUP = 1, 4, 8, 16
NO_ANSWER_S = 3.0  # a connection that is not made by then is given up
# Of connections we make: a peer that vanished, or came back without its state, is noticed in
# seconds, not in minutes. Each is set where the system knows it.
LIVENESS = (
    (socket.IPPROTO_TCP, "TCP_SYNCNT", 1),  # asked again once, given up after NO_ANSWER_S
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    # seconds of silence, then the kernels ask each other
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 2),
    (socket.IPPROTO_TCP, "TCP_KEEPALIVE", 2),  # macOS' name of it
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    # ms that what was sent may stay unacknowledged
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 5000),
)


class Poller(Protocol):
    """Watches descriptors and has `ready` of their owners called. select.epoll has its methods."""

    def register(self, fd: int, eventmask: int) -> None: ...
    def modify(self, fd: int, eventmask: int) -> None: ...
    def unregister(self, fd: int) -> None: ...
    def close(self) -> None: ...


class Reader(Protocol):
    """The owner of a descriptor, which a turn calls when there is something to read or room to
    write.
    """

    def ready(self, events: int) -> None: ...


class RealTransport:
    __slots__ = (
        "_closing",
        "_connecting",
        "_dropped",
        "_events",
        "_network",
        "_read_bytes",
        "_reads",
        "_recv_into",
        "_refusal",
        "_sock",
        "_unsent",
        "_woken",
        "connection",
        "fd",
        "peer",
    )

    def __init__(
        self,
        network: "RealNetwork",
        sock: socket.socket,
        connection: Connection,
        peer: str,
        *,
        connecting: bool,
    ) -> None:
        self._network = network
        self._sock = sock
        self._recv_into: Callable[[memoryview], int] = sock.recv_into
        self.fd = sock.fileno()
        self.connection = connection
        self.peer = peer
        self._connecting = connecting
        self._refusal = 0  # number of the error with which connecting has failed at once
        self._unsent: deque[Buffer | FileSpan] = deque()
        self._woken = False
        self._reads = IN  # 0: reading is held
        self._read_bytes = READ_BYTES  # of the next read into the arena
        self._closing: str | None = None
        self._dropped = False
        self._events = OUT if connecting else IN
        network.poller.register(self.fd, self._events)
        network.transports[self.fd] = self

    # what the connection asks for

    def wake(self) -> None:
        if not self._woken:
            self._woken = True
            turn = self._network.current
            turn.woken.append(self)
            if not turn.active:
                turn.kick()

    def close(self, reason: str) -> None:
        if self._closing is None:
            self._closing = reason
            self.wake()

    def drop(self, reason: str) -> None:
        self._dropped = True
        self._closing = self._closing or reason
        self.wake()

    def hold_reading(self, held: bool) -> None:
        self._reads = 0 if held else IN
        self._watch()

    def own_host(self) -> str:
        return plain_host(self._sock.getsockname()[0]) if self.fd >= 0 else ""

    def left(self) -> bool:
        raise NotImplementedError  # each system has its own way to know

    # what the network does

    def ready(self, events: int) -> None:
        if self._connecting:
            self._connected()
            return
        if events & OUT:
            self._send()
        if events & (IN | HUP | ERR) and self.fd >= 0 and (self._reads or events & (HUP | ERR)):
            taken = filled = self._receive()
            while (
                filled >= FIRST_READ_BYTES
                and taken < LARGE_BYTES
                and self._reads
                and self._closing is None
            ):
                # large frames come one by one, and may wait behind each other
                filled = self._receive()
                taken += filled

    def note_refusal(self, code: int) -> None:
        """`code`: the result of connect_ex. Some systems forget it, and tell of an event alone."""
        if code != errno.EINPROGRESS:
            self._refusal = code

    def _connected(self) -> None:
        failure = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) or self._refusal
        if failure:
            self.finish(os.strerror(failure))
            return
        self._connecting = False
        self._watch()
        self.connection.opened(self)
        self.wake()

    def _receive(self) -> int:
        """Return how many bytes have filled the room that the connection had for them; else 0."""
        network = self._network
        room = self.connection.room()
        if room is None:
            start = network.arena_used
            view = network.arena[start : start + self._read_bytes]
        else:
            if len(room) >= FIRST_READ_BYTES:
                self._read_bytes = FIRST_READ_BYTES
            view = room
        try:
            count = self._recv_into(view)
        except BlockingIOError:
            return 0
        except OSError as failure:
            self.finish(failure.strerror or str(failure))
            return 0
        if count == 0:
            self._reads = 0
            self._watch()
            self.connection.receive(view[:0])
            return 0
        if room is not None:
            network.lent_bytes += count
        else:
            network.arena_used = start + count
            if count < FIRST_READ_BYTES:
                self._read_bytes = READ_BYTES
        if self._closing is None:
            self.connection.receive(view[:count])
        return count if room is not None and count == len(view) else 0

    def flush(self) -> None:
        """At the end of a turn: send what there is."""
        self._woken = False
        if self._dropped:
            self.finish(self._closing or "")
        elif self.fd >= 0 and not self._connecting and not self._unsent:
            self._send()

    def _send(self) -> None:
        """Send the bytes taken before, then new output: nothing was asked for while bytes were
        unsent.
        """
        unsent = self._unsent
        try:
            if unsent and not self._network.sender.send(self._sock, unsent, REST_BYTES):
                return
            self._send_new(self.connection.take_output())
        except OSError as failure:
            self.finish(failure.strerror or str(failure))
            return
        if self._closing is not None and not unsent:
            self.finish(self._closing)
        elif unsent or self._events & OUT:
            self._watch()

    def _send_new(self, out: Sequence[Buffer | FileSpan]) -> None:
        """The answers of a turn in one send, which nearly always takes them all; the rest is left
        in `_unsent`.
        """
        if not out:
            return
        if len(out) == 1 or not (
            out[1].__class__ is FileSpan
            or (out[-1].__class__ is bytes and len(out[-1]) >= VECTORED_BYTES)
        ):
            try:
                data = b"".join(out)  # type: ignore[arg-type]
                sent = self._sock.send(data)
                if sent < len(data):
                    self._unsent.append(memoryview(data)[sent:])
                return
            except BlockingIOError:
                out = (data,)
            except TypeError:  # there is a file among them
                pass
        self._network.sender.send_new(self._sock, out, self._unsent)

    def _watch(self) -> None:
        if self.fd < 0:
            return
        events = self._reads | (OUT if self._unsent or self._connecting else 0)
        if events != self._events:
            self._events = events
            self._network.poller.modify(self.fd, events)

    def finish(self, reason: str, *, reset: bool = False) -> None:
        if self.fd < 0:
            return
        self._network.poller.unregister(self.fd)
        del self._network.transports[self.fd]
        if reset:
            with suppress(OSError):  # macOS refuses it when the peer has closed
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._sock.close()
        self.fd = -1
        unpin(self._unsent)
        self._unsent.clear()
        if not reset:
            self.connection.closed(reason)


# from this descriptor on, or the middle where there are fewer: connections that are to close before
# others
CLOSED_FIRST = 4096


class Spare:
    """A descriptor in reserve: when no other is left, a waiting connection can still be refused,
    and is not reported again and again.
    """

    def __init__(self) -> None:
        self._fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def give_to(self, listener: socket.socket) -> bool:
        self.close()
        try:
            listener.accept()[0].close()
            turned_away = True
        except OSError:
            turned_away = False
        self._fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return turned_away

    def close(self) -> None:
        os.close(self._fd)


def moved(sock: socket.socket, lowest: int) -> socket.socket:
    """The same connection with a descriptor from `lowest` on: when a process dies, Linux (from 4.3)
    closes its highest descriptor first.
    """
    try:
        fd = fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, lowest)
    except OSError:  # there are no more
        return sock
    with sock:
        return socket.socket(sock.family, sock.type, sock.proto, fd)


class RealListener:
    __slots__ = ("_accept", "_first", "_network", "_sock", "fd", "port")

    def __init__(
        self,
        network: "RealNetwork",
        sock: socket.socket,
        accept: Callable[[], Connection | None],
        *,
        first: bool,
    ) -> None:
        self._network = network
        self._sock = sock
        self._accept = accept
        self._first = first
        self.fd = sock.fileno()
        self.port: int = sock.getsockname()[1]
        network.poller.register(self.fd, IN)
        network.transports[self.fd] = self

    def ready(self, events: int) -> None:
        for _ in range(64):
            try:
                sock, address = self._sock.accept()
            except BlockingIOError:
                return
            except OSError as failure:
                if failure.errno not in OUT_OF_DESCRIPTORS or not self._network.spare.give_to(
                    self._sock
                ):
                    return
                self._turned_away(self._accept())
                continue
            if self._first:
                sock = moved(sock, self._network.closed_first)
            connection = self._accept()
            if connection is None or sock.fileno() >= self._network.last_for_connections:
                sock.close()
                self._turned_away(connection)
                continue
            sock.setblocking(False)
            with suppress(OSError):  # macOS refuses it when the peer has closed
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            transport = self._network.transport(
                self._network, sock, connection, f"{address[0]}:{address[1]}", connecting=False
            )
            connection.opened(transport)
            transport.wake()

    @staticmethod
    def _turned_away(connection: Connection | None) -> None:
        if connection is not None:
            connection.closed(
                "no descriptors are left for connections: raise the limit of open files"
            )

    def close(self) -> None:
        if self.fd >= 0:
            self._network.poller.unregister(self.fd)
            del self._network.transports[self.fd]
            self._sock.close()
            self.fd = -1


class RealNetwork:
    """Its heirs have a turn for what has come."""

    transport: type[RealTransport]

    def __init__(
        self,
        turn: Turn,
        offload: Callable[..., None],
        poller: Poller,
        sender: Sender,
        *,
        poisons: bool = False,
    ) -> None:
        self.current = turn
        self.poller = poller
        self.transports: dict[int, Reader] = {}
        self.arena = memoryview(bytearray(ARENA_BYTES))
        self.arena_used = 0
        self.lent_bytes = 0
        self.sender = sender
        self.spare = Spare()
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        # those beyond are for logs
        self.last_for_connections: int = descriptors * 3 // 4 if descriptors > 0 else sys.maxsize
        self.closed_first = min(CLOSED_FIRST, descriptors // 2) if descriptors > 0 else CLOSED_FIRST
        self._offload = offload
        self._poisons = poisons
        self.poisoned: list[bytearray] = []  # when this turn is over
        self.stopped = False

    def listen(
        self, host: str, port: int, accept: Callable[[], Connection | None], *, first: bool = False
    ) -> RealListener:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
            sock.listen(BACKLOG)
        except OSError as failure:
            sock.close()
            raise OSError(
                failure.errno, f"cannot listen on {host or '*'}:{port}: {failure.strerror}"
            ) from None
        return RealListener(self, sock, accept, first=first)

    @staticmethod
    def address_towards(host: str, port: int) -> str | None:
        return address_towards(host, port)

    def connect(self, host: str, port: int, connection: Connection) -> None:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            self._offload(
                lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0],
                lambda ip: self._resolved(ip, port, connection),
            )
        else:
            self._open(host, port, connection)

    def _resolved(self, address: object, port: int, connection: Connection) -> None:
        if isinstance(address, str):
            self._open(address, port, connection)
        else:
            connection.closed(f"cannot resolve: {address}")

    def _open(self, address: str, port: int, connection: Connection) -> None:
        sock = socket.socket(
            socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM
        )
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for level, name, value in LIVENESS:
            if hasattr(socket, name):
                sock.setsockopt(level, getattr(socket, name), value)
        # a failure shows as an event, in a later turn
        code = sock.connect_ex((address, port))
        transport = self.transport(self, sock, connection, f"{address}:{port}", connecting=True)
        transport.note_refusal(code)

    def turn_of(self, work: Callable[[], None]) -> None:
        """A turn for something else than events."""
        turn = self.current
        began = turn.began = monotonic()
        work()
        self.end_turn()
        if turn.watch is not None:
            turn.watch.turn(turn.began - began)

    def end_turn(self) -> None:
        turn = self.current
        turn.active = True
        while True:
            pieces: Sequence[Callable[[], None]]
            if turn.actions:
                pieces, turn.actions = turn.actions, []
            elif turn.woken:
                pieces = (self._flush_woken,)
            elif turn.last:
                pieces, turn.last = turn.last, []
            else:
                break
            for piece in pieces:
                piece()
                now = monotonic()  # Turn.done, without its call
                if now - turn.began > LONG_PIECE_S:
                    turn.long(now, piece)
                turn.began = now
        turn.active = False
        if self._poisons:
            self._poison()
        self.arena_used = self.lent_bytes = 0

    def _poison(self) -> None:
        poison(self.arena[: self.arena_used])
        for buffer in self.poisoned:
            poison(buffer)
        self.poisoned.clear()

    def _flush_woken(self) -> None:
        woken, self.current.woken = self.current.woken, []
        for transport in woken:
            transport.flush()

    def stop(self, *, reset: bool) -> None:
        self.stopped = True
        for transport in list(self.transports.values()):
            if isinstance(transport, RealListener):
                transport.close()
            elif isinstance(transport, RealTransport):
                transport.finish("this node stopped", reset=reset)
        self.poller.close()
        self.spare.close()
