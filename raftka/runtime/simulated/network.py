"""The simulated network: byte streams in order, cut into random pieces, late by random times; links
that lose, are slow, or are cut in one direction.

A connection is two endpoints and two pipes. A pipe has a bound, so the writer feels a reader that
does not read. Loss means what it means under TCP: the bytes come later. Bytes that meet a cut wait
in the pipe until the link heals. Knows no disk and no clock of a node.
"""

import errno
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final

from raftka.checksum import crc32c
from raftka.runtime.interfaces import Buffer, Connection, FileSpan, unpin
from raftka.runtime.simulated.link import DELAY_S, RESEND_S, Link
from raftka.runtime.simulated.process import Events, Machine, Process
from raftka.security.tls_connection import TlsConnection

PIECE_BYTES = 64 * 1024  # the most that comes at once
PIPE_BYTES = 256 * 1024  # the most that is under way in one direction: socket buffers
SPLIT = 0.1  # of the pieces are cut in two at a random byte
SYN_TRIES = 2  # as the real network asks for: again after one second, given up after two more
SYN_AGAIN_S = 1.0
KEEPALIVE_IDLE_S = 2.0  # of who has connected; as the real network sets it
KEEPALIVE_AGAIN_S = 1.0
KEEPALIVE_TRIES = 3
SILENCE_S = 900.0  # a connection gives up when nothing gets through for so long
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
WILDCARD = frozenset({"", "0.0.0.0", "::"})
# of the offers of a connection to have bytes put where it wants them: a network may ignore these
IGNORE_ROOM = 0.1
END: Final = b""  # as a piece: no more will come
RESET: Final = None  # as a piece: the other side is gone


class Pipe:
    """The bytes from one endpoint to the other. Pieces arrive one by one, and what arrives is
    always what left first: a piece that is under way while an earlier one waits for its link to
    heal does not overtake it, as TCP keeps the order.
    """

    __slots__ = (
        "connection_id",
        "last_arrival",
        "link",
        "room",
        "source",
        "target",
        "under_way",
        "waiting",
        "waiting_since",
        "world",
    )

    def __init__(
        self, world: Events, link: Link, connection_id: int, source: "Endpoint", target: "Endpoint"
    ) -> None:
        self.world = world
        self.connection_id = connection_id
        self.source = source
        self.target = target
        self.link = link
        self.room = PIPE_BYTES
        self.last_arrival = 0.0
        self.under_way: deque[bytes | None] = deque()  # in the order in which they left
        self.waiting = 0  # so many of them met a cut
        self.waiting_since = 0.0

    def send(self, data: bytes) -> None:
        """Room was asked for before."""
        self.room -= len(data)
        link = self.link
        position, size = 0, len(data)
        while size - position > PIECE_BYTES or (
            size - position > 1 and link.random.random() < SPLIT
        ):
            piece = link.random.randint(1, min(size - position - 1, PIECE_BYTES))
            self.leave(data[position : position + piece])
            position += piece
        self.leave(data[position:] if position else data)

    def leave(self, piece: bytes | None) -> None:
        self.under_way.append(piece)
        self._travel(0.0)

    def _travel(self, late_s: float) -> None:
        world = self.world
        self.last_arrival = arrival = max(world.now + late_s + self.link.delay(), self.last_arrival)
        world.push(arrival, self._arrive)

    def _arrive(self, _a: object, _b: object) -> None:
        if not self.under_way:
            return  # given up meanwhile
        if self.link.cut or not self.target.node.machine.powered:
            self._wait()
            return
        piece = self.under_way.popleft()
        target = self.target
        if target.state is OVER or not target.node.alive:
            if piece:  # nobody there any more: the kernel says so
                self.source.reset("connection reset by peer")
        else:
            target.node.take(target.deliver, piece)

    def _wait(self) -> None:
        if not self.waiting:
            self.waiting_since = self.world.now
            self.link.pipes[self.connection_id] = self
            self.world.push(self.world.now + SILENCE_S, self._give_up, self.waiting_since)
        self.waiting += 1

    def _give_up(self, since: float, _: object) -> None:
        if self.waiting and self.waiting_since == since:
            self.waiting = 0
            self.under_way.clear()
            self.source.reset("connection timed out")

    def resume(self) -> None:
        """Deliver the bytes that waited, when TCP sends them again."""
        late = self.link.random.random() * 2 * RESEND_S
        waiting, self.waiting = self.waiting, 0
        for _ in range(waiting):
            self._travel(late)


class EndpointState(Enum):
    CONNECTING = auto()
    OPEN = auto()  # `opened` of the connection was called
    OVER = auto()  # `closed` of the connection was called, or will be in the next turn


CONNECTING, OPEN, OVER = EndpointState


class Endpoint:
    """One side of a connection: the Transport its connection is given."""

    __slots__ = (
        "closing",
        "connection",
        "dropped",
        "held",
        "node",
        "other",
        "peer",
        "pipe",
        "received",
        "state",
        "unsent",
        "woken",
    )

    def __init__(self, node: Process, peer: str, connection: Connection | None) -> None:
        self.node = node
        self.peer = peer
        self.connection = connection  # None: the node has not accepted yet
        self.pipe: Pipe
        self.other: Endpoint
        self.state = CONNECTING
        self.held = False
        self.woken = False
        self.closing: str | None = None
        self.dropped = False
        self.received: deque[bytes] = deque()  # while reading is held
        self.unsent = b""  # taken from the connection, no room in the pipe

    # -- Transport
    # ----------------------------------------------------------------------------------------------

    def wake(self) -> None:
        if not self.woken and self.node.alive:
            self.woken = True
            node = self.node
            node.woken.append(self)
            if not node.in_turn:
                node.want_turn()

    def close(self, reason: str) -> None:
        if self.closing is None:
            self.closing = reason
            self.wake()

    def drop(self, reason: str) -> None:
        self.dropped = True
        self.closing = self.closing or reason
        self.wake()

    def hold_reading(self, held: bool) -> None:
        self.held = held
        if not held and self.received:
            self.node.take(self._deliver_received, None)

    def own_host(self) -> str:
        return self.node.machine.name

    def left(self) -> bool:
        return self.state is OVER or END in self.received

    # -- out
    # ----------------------------------------------------------------------------------------------

    def take_output(self) -> None:
        """Everything that is ready, as far as the pipe has room; what is left over is sent before
        more is asked for.
        """
        self.woken = False
        if self.dropped:
            self._finish(self.closing or "")
            return
        while self.state is OPEN and not self.unsent and self.connection is not None:
            taken = self.connection.take_output()
            if not taken:
                break
            data = _content(taken)
            unpin(taken)
            if data is None:
                self._finish("file shorter than promised")  # it was truncated meanwhile
            else:
                self._send(data)
        if self.closing is not None and not self.unsent:
            self._finish(self.closing)

    def _send(self, data: bytes) -> None:
        room = self.pipe.room
        if len(data) > room:
            self.unsent = data[room:]
            data = data[:room]
        if data:
            self.pipe.send(data)

    def room_again(self, _a: object = None, _b: object = None) -> None:
        """The other side has read."""
        if self.unsent:
            self.node.take(self._send_unsent, None)

    def _send_unsent(self, _: object) -> None:
        if self.unsent and self.state is not OVER:
            data, self.unsent = self.unsent, b""
            self._send(data)
            if not self.unsent:
                self.wake()

    # -- in
    # ----------------------------------------------------------------------------------------------

    def deliver(self, piece: bytes | None) -> None:
        """In the node's turn."""
        if self.state is OVER or self.closing is not None:
            return
        if piece is RESET:
            self.reset("connection reset by peer")
        elif self.held or self.received or self.connection is None:
            self.received.append(piece)
        elif piece:
            self._receive(self.connection, piece)
        else:
            self.node.note(b"E", self.pipe.connection_id, 0)
            self.connection.receive(memoryview(bytearray()))

    def _receive(self, connection: Connection, piece: bytes) -> None:
        while piece:
            room = connection.room()
            if room and self.pipe.link.random.random() > IGNORE_ROOM:
                view = room[: len(piece)]
                view[:] = piece[: len(view)]
            else:
                own = bytearray(piece)
                self.node.views.append(own)
                view = memoryview(own)
            now, piece = piece[: len(view)], piece[len(view) :]
            self._account(now)
            connection.receive(view)
            if piece and (self.held or self.state is OVER or self.closing is not None):
                self.received.appendleft(piece)
                return

    def _account(self, piece: bytes) -> None:
        """The bytes have left the pipe."""
        node, pipe = self.node, self.other.pipe
        # never twice the same
        encrypted = isinstance(self.connection, TlsConnection) or isinstance(
            self.other.connection, TlsConnection
        )
        node.note(b"<", pipe.connection_id, len(piece) << 32 ^ (0 if encrypted else crc32c(piece)))
        pipe.room += len(piece)
        if self.other.unsent:
            node.events.push(node.events.now + self.pipe.link.delay(), self.other.room_again)

    def _deliver_received(self, _: object) -> None:
        while self.received and not self.held and self.state is not OVER:
            pieces, self.received = self.received, deque()
            for piece in pieces:
                self.deliver(piece)

    # -- the end
    # ----------------------------------------------------------------------------------------------

    def opened(self, _: object) -> None:
        if self.state is not OVER and self.connection is not None:
            self.state = OPEN
            self.node.note(b"C", self.pipe.connection_id, 0)
            self.connection.opened(self)
            self.wake()

    def _finish(self, reason: str) -> None:
        """Everything has left: say so to the other side, then to the connection."""
        self.say(END)
        self.reset(reason)

    def say(self, last: bytes | None) -> None:
        if self.state is not OVER and hasattr(self, "pipe"):  # else no machine has accepted it
            self.pipe.leave(last)

    def reset(self, reason: str) -> None:
        """End this side; its connection hears of it in a turn of its own."""
        if self.state is not OVER:
            self.state = OVER
            self.unsent = b""
            self.node.endpoints.pop(self, None)
            if self.connection is not None:
                self.node.take(self._say_closed, reason)

    def _say_closed(self, reason: str) -> None:
        assert self.connection is not None
        self.node.note(b"Q", crc32c(reason.encode()), 0)
        self.connection.closed(reason)


def _content(taken: Sequence[Buffer | FileSpan]) -> bytes | None:
    """Return the bytes to send; None if a file is shorter than its span."""
    try:
        return b"".join(taken)  # type: ignore[arg-type]
    except TypeError:  # there are files among it
        try:
            data = [
                item.file.read(item.position, item.size) if isinstance(item, FileSpan) else item
                for item in taken
            ]
        except (OSError, ValueError):  # its disk has failed, or it was closed in this turn
            return None
    short = any(
        isinstance(item, FileSpan) and len(read) < item.size
        for item, read in zip(taken, data, strict=True)
    )
    return None if short else b"".join(data)


class SimulatedListener:
    def __init__(
        self,
        network: "SimulatedNetwork",
        node: Process,
        host: str,
        port: int,
        accept: Callable[[], Connection | None],
    ) -> None:
        self.port = port
        self.host = host
        self.node = node
        self.accept = accept
        self._network = network

    def close(self) -> None:
        self._network.remove_listener(self)

    def answers_to(self, host: str) -> bool:
        if host in LOOPBACK:
            return self.host in LOOPBACK or self.host in WILDCARD
        return host in (self.host, self.node.machine.name)


class SimulatedNetwork:
    """All links, listeners and connections of the world. Machines are named by their nodes;
    127.0.0.1 reaches any of them by its port.
    """

    def __init__(self, world: Events) -> None:
        self.default_delay_s = DELAY_S
        self._world = world
        self._links: dict[tuple[str, str], Link] = {}
        # those of dead nodes too: a machine without power answers nothing
        self._listeners: dict[int, list[SimulatedListener]] = {}
        self._next_port = 40_000
        self._next_connection = 0

    # -- faults
    # ----------------------------------------------------------------------------------------------

    def delay(
        self, a: str, b: str, low_s: float, high_s: float | None = None, *, one_way: bool = False
    ) -> None:
        for link in self._both(a, b, one_way):
            link.low_s, link.high_s = low_s, high_s if high_s is not None else low_s

    def loss(self, a: str, b: str, share: float, *, one_way: bool = False) -> None:
        for link in self._both(a, b, one_way):
            link.loss = share

    def reorder(self, a: str, b: str, share: float, late_s: float) -> None:
        """Deliver that share of the pieces up to `late_s` later, so that bytes of one connection
        overtake those of another.
        """
        for link in self._both(a, b, False):
            link.late, link.late_s = share, late_s

    def cut(self, a: str, b: str, *, one_way: bool = False) -> None:
        """Nothing comes from `a` to `b` any more, and nothing back unless one_way."""
        for link in self._both(a, b, one_way):
            link.cut = True

    def mend(self, a: str, b: str) -> None:
        """As `heal`, of this direction."""
        self._world.note(b"H", 0, crc32c(f"{a} {b}".encode()), 0)
        self._mend(self.link(a, b))

    def isolate(self, name: str) -> None:
        for other in self._world.machines:
            if other != name:
                self.cut(name, other)

    def heal(self) -> None:
        """All links carry again, lose nothing, and keep the order; delays stay as they were set."""
        self._world.note(b"H", 0, 0, 0)
        for link in self._links.values():
            self._mend(link)

    def _mend(self, link: Link) -> None:
        link.cut, link.loss, link.late = False, 0.0, 0.0
        self._resume_link(link)

    def _both(self, a: str, b: str, one_way: bool) -> list[Link]:
        self._world.note(b"K", 0, crc32c(f"{a} {b}".encode()), one_way)
        return [self.link(a, b)] if one_way else [self.link(a, b), self.link(b, a)]

    def link(self, a: str, b: str) -> Link:
        if (link := self._links.get((a, b))) is None:
            link = self._links[a, b] = Link(
                *self.default_delay_s, self._world.random(f"link {a} {b}")
            )
        return link

    def powered_again(self, machine: Machine) -> None:
        for (_, target), link in self._links.items():
            if target == machine.name and not link.cut:
                self._resume_link(link)

    def _resume_link(self, link: Link) -> None:
        pipes, link.pipes = link.pipes, {}
        for pipe in pipes.values():
            pipe.resume()

    # -- connections
    # ----------------------------------------------------------------------------------------------

    def listen(
        self, node: Process, host: str, port: int, accept: Callable[[], Connection | None]
    ) -> SimulatedListener:
        if not port:
            self._next_port += 1
            port = self._next_port
        listener = SimulatedListener(self, node, host, port, accept)
        there = self._listeners.setdefault(port, [])
        there[:] = [
            other for other in there if other.node.alive or other.node.machine is not node.machine
        ]
        for other in there:
            if other.node.alive and (
                other.node.machine is node.machine or (host in LOOPBACK and other.host in LOOPBACK)
            ):
                raise OSError(
                    errno.EADDRINUSE, f"{host}:{port} is taken by {other.node.machine.name}"
                )
        there.append(listener)
        return listener

    def remove_listener(self, listener: SimulatedListener) -> None:
        there = self._listeners.get(listener.port, [])
        if listener in there:
            there.remove(listener)

    def connect(self, node: Process, host: str, port: int, connection: Connection) -> None:
        endpoint = Endpoint(node, f"{host}:{port}", connection)
        node.endpoints[endpoint] = None
        self._world.push(
            self._world.now + self.default_delay_s[0],
            lambda _a, _b: self._try(endpoint, host, port, 0),
        )

    def _try(self, endpoint: Endpoint, host: str, port: int, tries: int) -> None:
        """Send a SYN. A living machine accepts or refuses; one without power, or behind a cut, is
        asked again later.
        """
        node, world = endpoint.node, self._world
        if not node.alive or endpoint.state is OVER:
            return
        listener = self._find(node, host, port)
        machine = (
            listener.node.machine
            if listener is not None
            else world.machines.get(host, node.machine if host in LOOPBACK else None)
        )
        if machine is None:
            endpoint.reset(f"no such host: {host}")
            return
        there = self.link(node.machine.name, machine.name)
        back = self.link(machine.name, node.machine.name)
        if there.cut or back.cut or not machine.powered:
            if tries == SYN_TRIES:
                endpoint.reset("connecting timed out")
            else:
                world.push(
                    world.now + SYN_AGAIN_S * 2**tries,
                    lambda _a, _b: self._try(endpoint, host, port, tries + 1),
                )
            return
        round_trip = there.delay() + back.delay()
        if listener is None or not listener.node.alive:
            world.push(world.now + round_trip, lambda _a, _b: endpoint.reset("connection refused"))
        else:
            self._establish(endpoint, listener, there.delay(), round_trip)

    def _find(self, node: Process, host: str, port: int) -> SimulatedListener | None:
        """A living one if there is one; on 127.0.0.1 rather one's own."""
        found = [each for each in self._listeners.get(port, ()) if each.answers_to(host)]
        return min(
            found,
            key=lambda each: (not each.node.alive, each.node.machine is not node.machine),
            default=None,
        )

    def _establish(
        self, endpoint: Endpoint, listener: SimulatedListener, there_s: float, round_trip_s: float
    ) -> None:
        world = self._world
        self._next_connection += 2
        server = Endpoint(
            listener.node, f"{endpoint.node.machine.name}:{self._next_connection}", None
        )
        server.node.endpoints[server] = None
        endpoint.other, server.other = server, endpoint
        here, there = endpoint.node.machine.name, server.node.machine.name
        endpoint.pipe = Pipe(world, self.link(here, there), self._next_connection, endpoint, server)
        server.pipe = Pipe(
            world, self.link(there, here), self._next_connection + 1, server, endpoint
        )
        accepted = world.now + there_s
        endpoint.pipe.last_arrival = accepted
        server.pipe.last_arrival = world.now + round_trip_s
        world.push(
            accepted,
            lambda _a, _b: server.node.take(lambda _: self._accept(server, listener), None),
        )
        world.push(
            world.now + round_trip_s, lambda _a, _b: endpoint.node.take(endpoint.opened, None)
        )
        world.push(world.now + round_trip_s + KEEPALIVE_IDLE_S, self._keep_alive, endpoint, 0)

    def _keep_alive(self, endpoint: Endpoint, misses: int) -> None:
        """The kernel of who has connected asks the other one whether it knows the connection."""
        if endpoint.state is OVER or not endpoint.node.alive:
            return
        other, again = endpoint.other, self._world.now + KEEPALIVE_AGAIN_S
        if endpoint.pipe.link.cut or other.pipe.link.cut or not other.node.machine.powered:
            if misses == KEEPALIVE_TRIES:
                endpoint.reset("connection timed out")
            else:
                self._world.push(again, self._keep_alive, endpoint, misses + 1)
        elif other.state is not OVER and other.node.alive:
            self._world.push(self._world.now + KEEPALIVE_IDLE_S, self._keep_alive, endpoint, 0)
        elif other.pipe.last_arrival >= self._world.now:  # its last word is under way
            self._world.push(again, self._keep_alive, endpoint, 0)
        else:
            endpoint.reset("connection reset by peer")

    def _accept(self, server: Endpoint, listener: SimulatedListener) -> None:
        connection = listener.accept()
        if connection is None or server.state is OVER:
            server.say(RESET)
            server.reset("refused")
            return
        server.connection = connection
        server.opened(None)
        server._deliver_received(None)

    def killed(self, node: Process) -> None:
        """The process is gone, its kernel says so on every connection it had, after what was taken
        already.
        """
        for endpoint in node.endpoints:
            if node.machine.powered:
                endpoint.say(RESET)
            endpoint.state = OVER
        node.endpoints.clear()


class NodeNetwork:
    """The network as one incarnation of a node sees it."""

    def __init__(self, node: Process, network: SimulatedNetwork) -> None:
        self._node = node
        self._network = network

    def listen(
        self, host: str, port: int, accept: Callable[[], Connection | None], *, first: bool = False
    ) -> SimulatedListener:
        """`first` changes nothing: here each connection of a process that dies closes after a delay
        of its own.
        """
        self._node.check_alive()
        return self._network.listen(self._node, host, port, accept)

    def connect(self, host: str, port: int, connection: Connection) -> None:
        self._node.check_alive()
        self._network.connect(self._node, host, port, connection)

    def address_towards(self, host: str, port: int) -> str | None:
        """Names of machines are addresses here."""
        return self._node.machine.name
