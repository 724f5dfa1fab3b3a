"""Sockets of the real world, driven by callbacks out of one epoll. Knows no Trio: runtime.py calls
`turn` when the epoll has something.

All bytes of one turn lie in one arena until the turn ends, so a batch can be written to its log
straight from where it was received.
"""

import errno
import fcntl
import ipaddress
import os
import resource
import select
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Protocol

from raftka.runtime.interfaces import LONG_PIECE_S, Buffer, Connection, FileSpan, unpin
from raftka.runtime.memory import poison
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

TCP_ESTABLISHED = 1  # the first byte of TCP_INFO: the connection's state

EPOLLIN, EPOLLOUT, EPOLLERR = select.EPOLLIN, select.EPOLLOUT, select.EPOLLERR
EPOLLHUP = select.EPOLLHUP
# Of connections we make: a peer that vanished, or came back without its state, is noticed in
# seconds, not in minutes.
LIVENESS = (
    ((socket.IPPROTO_TCP, socket.TCP_SYNCNT), 1),  # asked again once, given up after 3 s
    ((socket.SOL_SOCKET, socket.SO_KEEPALIVE), 1),
    # seconds of silence, then the kernels ask each other
    ((socket.IPPROTO_TCP, socket.TCP_KEEPIDLE), 2),
    ((socket.IPPROTO_TCP, socket.TCP_KEEPINTVL), 1),
    ((socket.IPPROTO_TCP, socket.TCP_KEEPCNT), 3),
    # ms that what was sent may stay unacknowledged
    ((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT), 5000),
)


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
        self.fd = sock.fileno()
        self.connection = connection
        self.peer = peer
        self._connecting = connecting
        self._unsent: deque[Buffer | FileSpan] = deque()
        self._woken = False
        self._reads = EPOLLIN  # 0: reading is held
        self._read_bytes = READ_BYTES  # of the next read into the arena
        self._closing: str | None = None
        self._dropped = False
        self._events = EPOLLOUT if connecting else EPOLLIN
        network.epoll.register(self.fd, self._events)
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
        self._reads = 0 if held else EPOLLIN
        self._watch()

    def left(self) -> bool:
        return (
            self.fd < 0
            or self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != TCP_ESTABLISHED
        )

    # what the network does

    def ready(self, events: int) -> None:
        if self._connecting:
            self._connected()
            return
        if events & EPOLLOUT:
            self._send()
        if (
            events & (EPOLLIN | EPOLLHUP | EPOLLERR)
            and self.fd >= 0
            and (self._reads or events & (EPOLLHUP | EPOLLERR))
        ):
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

    def _connected(self) -> None:
        failure = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
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
            count = self._sock.recv_into(view)
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
        elif unsent or self._events & EPOLLOUT:
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
        events = self._reads | (EPOLLOUT if self._unsent or self._connecting else 0)
        if events != self._events:
            self._events = events
            self._network.epoll.modify(self.fd, events)

    def finish(self, reason: str, *, reset: bool = False) -> None:
        if self.fd < 0:
            return
        self._network.epoll.unregister(self.fd)
        del self._network.transports[self.fd]
        if reset:
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
        network.epoll.register(self.fd, EPOLLIN)
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
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            transport = RealTransport(
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
            self._network.epoll.unregister(self.fd)
            del self._network.transports[self.fd]
            self._sock.close()
            self.fd = -1


class RealNetwork:
    def __init__(self, turn: Turn, offload: Callable[..., None], *, poisons: bool = False) -> None:
        self.current = turn
        self.epoll = select.epoll()
        self.transports: dict[int, Reader] = {}
        self.arena = memoryview(bytearray(ARENA_BYTES))
        self.arena_used = 0
        self.lent_bytes = 0
        self.sender = Sender()
        self.spare = Spare()
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        # those beyond are for logs
        self.last_for_connections: int = descriptors * 3 // 4 if descriptors > 0 else sys.maxsize
        self.closed_first = min(CLOSED_FIRST, descriptors // 2) if descriptors > 0 else CLOSED_FIRST
        self._offload = offload
        self._poisons = poisons
        self.poisoned: list[bytearray] = []  # when this turn is over
        self._stopped = False

    def listen(
        self, host: str, port: int, accept: Callable[[], Connection | None], *, first: bool = False
    ) -> RealListener:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(
            family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        )
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
            sock.listen(BACKLOG)
        except OSError as failure:
            sock.close()
            raise OSError(
                failure.errno, f"cannot listen on {host or '*'}:{port}: {failure.strerror}"
            ) from None
        return RealListener(self, sock, accept, first=first)

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
            socket.AF_INET6 if ":" in address else socket.AF_INET,
            socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC,
        )
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option, value in LIVENESS:
            sock.setsockopt(*option, value)
        sock.connect_ex((address, port))  # a failure shows as an event, in a later turn
        RealTransport(self, sock, connection, f"{address}:{port}", connecting=True)

    def watch(self, fd: int, reader: Reader, how: int = 0) -> None:
        """Another descriptor than a socket, for as long as the network is there. EPOLLET: told once
        of each event, nobody has to read it.
        """
        self.epoll.register(fd, EPOLLIN | how)
        self.transports[fd] = reader

    def turn_of(self, work: Callable[[], None]) -> None:
        """A turn for something else than events."""
        turn = self.current
        began = turn.began = monotonic()
        work()
        self.end_turn()
        if turn.watch is not None:
            turn.watch.turn(turn.began - began)

    def turn(self, wait_s: float = 0.0) -> bool:
        """Hand out what has come, once; False when there was nothing, also not within `wait_s`."""
        events = self.epoll.poll(wait_s, 256)
        turn = self.current
        turn.active = True
        began = turn.began = monotonic()
        transports = self.transports
        for fd, event in events:
            if self.arena_used > ARENA_BYTES - READ_BYTES or self.lent_bytes > LENT_BYTES:
                self.end_turn()
                turn.active = True
            if (transport := transports.get(fd)) is not None:
                transport.ready(event)
                now = monotonic()  # Turn.done, without its call
                if now - turn.began > LONG_PIECE_S:
                    turn.long(now, transport)
                turn.began = now
        self.end_turn()
        if events and turn.watch is not None:
            turn.watch.turn(turn.began - began)
        return bool(events) and not self._stopped

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
        self._stopped = True
        for transport in list(self.transports.values()):
            if isinstance(transport, RealListener):
                transport.close()
            elif isinstance(transport, RealTransport):
                transport.finish("this node stopped", reset=reset)
        self.epoll.close()
        self.spare.close()
