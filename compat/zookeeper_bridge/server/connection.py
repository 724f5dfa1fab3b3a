"""One client's connection, sans-IO: packets in, replies and events out. Keeps the order of its
session, and knows neither tree nor log.

A write is submitted and waits for its result. A read behind a waiting write waits too, so it never
shows a state before that write. Writes that follow each other travel together. Replies leave in the
order of their requests, events as they happen. Reads also wait while the client does not receive
the answers that it has asked for: so a connection holds one large answer at most.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Protocol

from raftka.limits import Limit
from raftka.runtime.interfaces import Buffer, Clock, Transport
from raftka.wire.errors import ProtocolError
from raftka.wire.frame import FrameBuffer
from zookeeper_bridge.limits import (
    AUTHS_OF_CONNECTION,
    LOGIN_PACKET_BYTES,
    OUTPUT_BYTES,
    PACKET_BYTES,
    REQUEST_BYTES_IN_HAND,
    REQUESTS_IN_HAND,
)
from zookeeper_bridge.machine.wire import Result
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err, ZooKeeperError
from zookeeper_bridge.protocol.jute import ConnectRequest, ConnectResponse, Malformed
from zookeeper_bridge.protocol.long_list import LongList
from zookeeper_bridge.protocol.opcodes import WRITES, Op
from zookeeper_bridge.server.digest_md5 import LoginRefused
from zookeeper_bridge.server.login import LoginRules, SaslLogin
from zookeeper_bridge.tree.acl import Identity
from zookeeper_bridge.tree.tree import Tree
from zookeeper_bridge.tree.watches import EventType


class ConnectionState(Enum):
    GREETING = auto()  # the first four bytes decide: the size of a packet, or a four-letter word
    CONNECTING = auto()  # the client has not asked for its session yet
    ATTACHING = auto()  # the bridge looks for the session; requests behind it wait
    ATTACHED = auto()  # the client has a session
    CLOSED = auto()  # no packet that comes is read; writes that were submitted are carried out
    ABANDONED = auto()  # closed, and a write of it was lost: none behind that is carried out


GREETING, CONNECTING, ATTACHING, ATTACHED, CLOSED, ABANDONED = ConnectionState
NEW = (GREETING, CONNECTING)
OVER = (CLOSED, ABANDONED)

CONNECTION_STATES: Mapping[ConnectionState, frozenset[ConnectionState]] = {
    GREETING: frozenset({CONNECTING, CLOSED}),
    CONNECTING: frozenset({ATTACHING, CLOSED}),
    ATTACHING: frozenset({ATTACHED, CLOSED}),
    ATTACHED: frozenset({CLOSED, ABANDONED}),
    CLOSED: frozenset({ABANDONED}),
    ABANDONED: frozenset(),
}

EVENT_XID, PING_XID = -1, -2
# to the machine, in order with those before and behind it
HANDED_ON = frozenset(map(int, (*WRITES, Op.SYNC)))
CLOSE_SESSION, SYNC = int(Op.CLOSE_SESSION), int(Op.SYNC)
LOST = (int(Err.SESSION_MOVED), int(Err.SESSION_EXPIRED))
CONNECTED_STATE = 3
NO_ZXID = -1
_REPLY = Struct(">iiqi")  # size, xid, zxid, error


class Reads(Protocol):
    """Answers the operations that change nothing."""

    def knows(self, opcode: int) -> bool: ...

    def answer(self, connection: "ClientConnection", opcode: int, body: bytes) -> bytes | LongList:
        """Raises ZooKeeperError."""


class Bridge(Protocol):
    """The bridge, as a connection uses it."""

    clock: Clock
    tree: Tree
    logins: LoginRules
    packets_received: int
    packets_sent: int
    answer_word: Callable[[bytes], str | None]

    @property
    def reader(self) -> Reads: ...

    def connecting(self, connection: "ClientConnection", asked: ConnectRequest) -> None: ...

    def submit(self, connection: "ClientConnection", opcode: int, body: bytes) -> None: ...

    def refuse(self, connection: "ClientConnection", xid: int, opcode: int) -> None: ...

    def heard(self, connection: "ClientConnection") -> None: ...

    def gone(self, connection: "ClientConnection") -> None: ...

    def failed(self, error: Exception) -> None: ...

    def hit(self, limit: Limit) -> None: ...

    def login(self, *, secure: bool) -> SaslLogin: ...

    def logged_in(self) -> None: ...

    def login_failed(self, connection: "ClientConnection", scheme: str, reason: str) -> None: ...


class ClientConnection:
    def __init__(self, bridge: Bridge, number: int, *, secure: bool = False) -> None:
        """`secure`: there is TLS in front of it."""
        self.bridge = bridge
        self.number = number
        self.secure = secure
        self.state = GREETING
        self._sasl: SaslLogin | None = None  # from its first message on
        self.session_id = 0
        self.timeout_ms = 0
        self.identities: tuple[Identity, ...] = ()
        self.peer = ""
        self.received = self.sent = 0  # packets
        self.read_only = False  # its session is one of read-only mode
        self._transport: Transport | None = None
        self._head = bytearray()  # the first four bytes
        self._frames = FrameBuffer(PACKET_BYTES.value)
        self._out: list[Buffer | Iterator[bytes]] = []  # an iterator: the pieces of a long list
        self._out_bytes = 0  # without those of long lists
        self._long_lists = 0
        # (xid, opcode) of writes that are on their way
        self._waiting: deque[tuple[int, int]] = deque()
        # requests that wait behind them: xid, opcode, body
        self._behind: deque[tuple[int, int, bytes]] = deque()
        self._behind_bytes = 0
        self._held_by: Limit | None = None  # nothing is read, because of this limit

    # the network's side

    def opened(self, transport: Transport) -> None:
        self._transport = transport
        self.peer = transport.peer
        self.identities = (("ip", self.peer.rpartition(":")[0].strip("[]")),)

    def room(self) -> memoryview | None:
        return None if self.state is GREETING else self._frames.room()

    def receive(self, view: memoryview) -> None:
        if self.state in OVER:
            return
        if not view:
            self._leave()
            return
        try:
            frames = self._greet(view) if self.state is GREETING else self._frames.feed(view)
            for frame in frames:
                self._packet(bytes(frame))
            if (
                self._frames.pending_bytes > LOGIN_PACKET_BYTES.value
                and not self.bridge.logins.known(self.identities)
            ):
                self.bridge.hit(LOGIN_PACKET_BYTES)
                self.end("a packet that is too large before the login")
        except (ProtocolError, Malformed) as error:
            if isinstance(error, ProtocolError) and error.limit is not None:
                self.bridge.hit(PACKET_BYTES)
            self.end(str(error))
        except Exception as error:  # a bug: this connection ends, and no other
            self.bridge.failed(error)
            self.end("the bridge failed")

    def _leave(self) -> None:
        """End the connection of a client that has left. Its writes are still submitted, the end of
        its session above all.
        """
        for _, opcode, body in self._behind:
            if opcode in WRITES and self.bridge.logins.admits(opcode, self.identities):
                self.bridge.submit(self, opcode, body)
        self.end("closed by the other side")

    def _greet(self, view: memoryview) -> Sequence[memoryview]:
        self._head += view
        if len(self._head) < 4:
            return ()
        head, self._head = self._head, bytearray()
        text = self.bridge.answer_word(bytes(head[:4]))
        if text is not None:
            self._send(text.encode())
            self.end("answered")
            return ()
        self.state = CONNECTING
        return self._frames.feed(memoryview(head))

    def take_output(self) -> Sequence[Buffer]:
        if self._long_lists:
            out = self._take_piece()
        else:
            out, self._out = self._out, []  # type: ignore[assignment]
            self._out_bytes = 0
        self._begin_waiting()
        return out

    def _take_piece(self) -> list[Buffer]:
        """Output up to the first long list, and a piece of that. The next piece is asked for in a
        later turn, when this one has left.
        """
        at = next(at for at, each in enumerate(self._out) if isinstance(each, Iterator))
        out: list[Buffer] = self._out[:at]  # type: ignore[assignment]
        self._out_bytes -= sum(map(len, out))
        piece = next(self._out[at], None)  # type: ignore[arg-type]
        if piece is None:
            self._long_lists -= 1
        else:
            out.append(piece)
        self._out = self._out[at + (piece is None) :]
        self.bridge.clock.call_at(self.bridge.clock.now(), self._wake)
        return out

    def _wake(self) -> None:
        if self._transport is not None:
            self._transport.wake()

    def closed(self, reason: str) -> None:
        if self.state not in OVER:
            self.state = CLOSED
        self._transport = None
        self.bridge.gone(self)

    # its session

    @property
    def attached(self) -> bool:
        return self.session_id != 0

    @property
    def over(self) -> bool:
        return self.state in OVER

    @property
    def closing(self) -> bool:
        """The client has asked to close its session, and gets an answer."""
        return any(opcode == Op.CLOSE_SESSION for _, opcode in self._waiting)

    def attach(self, result: Result, request: ConnectRequest) -> None:
        """Give the connection its session, or answer that there is none and end."""
        self.session_id, self.timeout_ms = result.session_id, result.timeout_ms
        flag = None if request.read_only is None else self.read_only
        password = result.password if result.error == Err.OK else bytes(jute.PASSWORD_BYTES)
        reply = ConnectResponse(result.timeout_ms, result.session_id, password, flag).encode()
        self._send(jute.INT.encode(len(reply)) + reply)
        if result.error != Err.OK:
            self.end("there is no such session")
        else:
            self.state = ATTACHED
            self._begin_waiting()

    def _packet(self, frame: bytes) -> None:
        if self.state in OVER:
            return
        self.received += 1
        self.bridge.packets_received += 1
        if self.state is CONNECTING:
            request = jute.decode_connect(frame)
            self.state = ATTACHING
            self.bridge.connecting(self, request)
            return
        self.bridge.heard(self)
        try:
            xid, opcode = jute.REQUEST_HEADER.unpack_from(frame)
        except struct_error as error:
            raise Malformed("a packet without a header") from error
        self._take(xid, opcode, frame[jute.REQUEST_HEADER.size :])
        self._control_reading()

    # requests

    def _take(self, xid: int, opcode: int, body: bytes) -> None:
        if self._behind or self.state is ATTACHING or not self._may_begin(opcode):
            self._behind.append((xid, opcode, body))
            self._behind_bytes += len(body)
        else:
            self._begin(xid, opcode, body)

    def _may_begin(self, opcode: int) -> bool:
        return opcode in HANDED_ON or not (
            self._waiting or self._long_lists or self._out_bytes > OUTPUT_BYTES.value // 2
        )

    def _begin(self, xid: int, opcode: int, body: bytes) -> None:
        logins = self.bridge.logins
        if logins.required and not logins.admits(opcode, self.identities):
            self.bridge.login_failed(self, "", "a request before the login that is required")
            self.reply(xid, 0, Err.SESSION_CLOSED_REQUIRE_SASL_AUTH)
            self.end("the client has to log in first")
            return
        if opcode in HANDED_ON and self.read_only:
            self.bridge.refuse(self, xid, opcode)
        elif opcode in HANDED_ON:
            self._waiting.append((xid, opcode))
            self.bridge.submit(self, opcode, body)
        elif opcode == Op.PING:
            self.reply(PING_XID, self.bridge.tree.offset, Err.OK)
        elif opcode == Op.AUTH:
            self._authenticate(xid, body)
        elif opcode == Op.SASL:
            self._log_in(xid, body)
        elif self.bridge.reader.knows(opcode):
            try:
                answer = self.bridge.reader.answer(self, opcode, body)
                self.reply(xid, self.bridge.tree.offset, Err.OK, answer)
            except ZooKeeperError as error:
                if error.limit is not None:
                    self.bridge.hit(error.limit)
                self.reply(xid, self.bridge.tree.offset, error.code)
        else:
            self.reply(xid, NO_ZXID, Err.UNIMPLEMENTED)
            self.end(f"operation {opcode} is not known")

    def result(self, zxid: int, result: Result, body: bytes) -> None:
        """Answer the oldest write that waits; its changes are in the tree, and watchers were told.
        `body`: as the client sent it.
        """
        if self.state in OVER:
            return
        xid, opcode = self._waiting.popleft()
        if result.error in LOST:
            self.end(Err(result.error).name)
            return
        self.reply(xid, zxid, *((result.error, result.body) if opcode != SYNC else _echo(body)))
        if opcode == CLOSE_SESSION:
            self.end("the session is closed")
        else:
            self._begin_waiting()

    def _begin_waiting(self) -> None:
        """Begin the requests that have waited and need not wait any more."""
        while self._behind and self.state is ATTACHED and self._may_begin(self._behind[0][1]):
            xid, opcode, body = self._behind.popleft()
            self._behind_bytes -= len(body)
            self._begin(xid, opcode, body)
        self._control_reading()

    def _authenticate(self, xid: int, body: bytes) -> None:
        """The answer has the request's xid: Java, C and kazoo send -4, go-zookeeper numbers AUTH
        like any other request.
        """
        try:
            _, scheme, shown = jute.AUTH.decode(body)
        except Malformed:
            scheme, shown = None, None
        crowded = len(self.identities) >= AUTHS_OF_CONNECTION.value
        if crowded:
            self.bridge.hit(AUTHS_OF_CONNECTION)
        if scheme not in ("digest", "ip") or crowded:
            known = scheme if scheme in ("digest", "ip") else ""
            self.bridge.login_failed(
                self, known, "too many identities" if crowded else "an unknown scheme"
            )
            self.reply(xid, 0, Err.AUTH_FAILED)
            self.end(f"nobody is known by {scheme}")
            return
        if scheme == "digest":
            self.show(self.bridge.logins.by_digest(shown or b""))
        self.reply(xid, 0, Err.OK)

    def show(self, found: Sequence[Identity]) -> None:
        """Add identities that the client has proved."""
        self.identities += tuple(each for each in found if each not in self.identities)

    def _log_in(self, xid: int, body: bytes) -> None:
        """One step of SASL. After a failure nothing more is read."""
        if self._sasl is None:
            self._sasl = self.bridge.login(secure=self.secure)
        try:
            answer = self._sasl.step(jute.BUFFER.decode(body))
        except (LoginRefused, Malformed) as error:
            self.bridge.login_failed(
                self,
                "sasl",
                str(error) if isinstance(error, LoginRefused) else "a malformed request",
            )
            none = jute.BUFFER.encode(None)
            self._send(_REPLY.pack(16 + len(none), xid, 0, Err.AUTH_FAILED) + none)
            self.end("the login has failed")
            return
        if answer.identities:
            self.bridge.logged_in()
        self.show(answer.identities)
        self.reply(xid, 0, Err.OK, jute.BUFFER.encode(answer.token))

    # out

    def reply(self, xid: int, zxid: int, error: int, body: bytes | LongList = b"") -> None:
        if isinstance(body, LongList):
            self._send(_REPLY.pack(16 + body.size, xid, zxid, error))
            self._out.append(body.pieces())
            self._long_lists += 1
            return
        if error:
            body = b""
        self._send(_REPLY.pack(16 + len(body), xid, zxid, error) + body)

    def event(self, event: EventType, path: str, zxid: int) -> None:
        self._send(_event(event, path, zxid))

    def _send(self, data: bytes) -> None:
        if self._transport is None:
            return
        self.sent += 1
        self.bridge.packets_sent += 1
        self._out.append(data)
        self._out_bytes += len(data)
        if self._out_bytes > OUTPUT_BYTES.value and len(self._out) > 1:
            self.bridge.hit(OUTPUT_BYTES)
            if self.state not in OVER:
                self.state = CLOSED
            self._transport.drop("it does not read its replies")
        else:
            self._transport.wake()

    def end(self, reason: str) -> None:
        """Close the connection when all replies and events so far have left."""
        if self.state not in OVER:
            self.state = CLOSED
        self._behind.clear()
        self._out = [b"".join(each) if isinstance(each, Iterator) else each for each in self._out]
        self._long_lists = 0
        if self._transport is not None:
            self._transport.close(reason)

    def abandon(self, reason: str) -> None:
        """Close the connection after a write of it was lost."""
        self.state = ABANDONED
        self.end(reason)

    # flow

    @property
    def outstanding(self) -> int:
        return len(self._waiting) + len(self._behind)

    def _control_reading(self) -> None:
        """Read nothing while too many requests are in hand, or the client takes no replies."""
        limit = None
        if self.outstanding >= REQUESTS_IN_HAND.value:
            limit = REQUESTS_IN_HAND
        elif self._behind_bytes > REQUEST_BYTES_IN_HAND.value:
            limit = REQUEST_BYTES_IN_HAND
        elif self._out_bytes > OUTPUT_BYTES.value // 2:
            limit = OUTPUT_BYTES
        if (limit is None) != (self._held_by is None) and self._transport is not None:
            self._held_by = limit
            if limit is not None:
                self.bridge.hit(limit)
            self._transport.hold_reading(limit is not None)


@lru_cache(16)
def _event(event: EventType, path: str, zxid: int) -> bytes:
    """Encode an event; it goes to many connections, one right after the other."""
    body = jute.EVENT.encode((event, CONNECTED_STATE, path))
    return _REPLY.pack(16 + len(body), EVENT_XID, zxid, Err.OK) + body


def _echo(body: bytes) -> tuple[Err, bytes]:
    """A sync's answer is the path that it was asked for."""
    try:
        jute.PATH.decode(body)
    except Malformed:
        return Err.MARSHALLING, b""
    return Err.OK, body
