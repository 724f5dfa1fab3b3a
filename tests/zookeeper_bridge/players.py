"""A play on one server, over real sockets: what each step is answered, and what everybody is told
because of it, as text.

Numbers that are names (zxids, sessions) become names: the first that is met is the first, on every
server. Times become what they have to be. After each step every client asks for a sync: what it was
to be told of, it has been told then. Knows no play.
"""

import socket
import time
from collections.abc import Sequence
from struct import pack
from typing import Any, NamedTuple

from tests.zookeeper_bridge.plays import CLIENTS, SEEN, Step
from zookeeper_bridge.machine.operations import CREATES, fits
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.jute import ConnectResponse, Kind, Malformed
from zookeeper_bridge.protocol.opcodes import BODIES, WRITES, Op
from zookeeper_bridge.tree.acl import ANYONE

BROKEN_OFF = "broken off"
WHO = "whoAmI"  # in place of a path
PATIENCE_S = 20.0
SHORTEST_MS = 1  # of a session: the server says what it can be
SYNC_XID, PING_XID, AUTH_XID, SET_WATCHES_XID, EVENT_XID = 1_000_000, -2, -4, -8, -1
ANSWERS: dict[Op, Kind] = {
    Op.CREATE: jute.STRING,
    Op.CREATE_2: jute.PATH_STAT,
    Op.CREATE_CONTAINER: jute.PATH_STAT,
    Op.CREATE_TTL: jute.PATH_STAT,
    Op.SET_DATA: jute.STAT,
    Op.SET_ACL: jute.STAT,
    Op.EXISTS: jute.STAT,
    Op.GET_DATA: jute.DATA_STAT,
    Op.GET_ACL: jute.ACLS_STAT,
    Op.GET_CHILDREN: jute.STRINGS,
    Op.GET_CHILDREN_2: jute.CHILDREN_STAT,
    Op.GET_EPHEMERALS: jute.STRINGS,
    Op.GET_ALL_CHILDREN_NUMBER: jute.INT,
    Op.SYNC: jute.STRING,
    Op.WHO_AM_I: jute.IDENTITIES,
    Op.SASL: jute.BUFFER,
    Op.ADD_WATCH: jute.INT,
}
# what succeeds and surely has a zxid of its own
CHANGES = WRITES - {Op.CHECK, Op.RECONFIG, Op.MULTI}
STRANGE = (  # frames that are no requests, and lengths that are none
    pack(">iii", 8, 7, 4711),
    pack(">iii", 8, 7, -17),
    pack(">i", -1),
    pack(">i", -(1 << 31)),
    pack(">i", 1 << 20),
    pack(">i", (1 << 31) - 1),
)


class Closed(Exception):
    """The server has closed the connection."""


class Packet(NamedTuple):
    xid: int
    zxid: int
    error: int
    body: bytes


class Line:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = bytearray()

    def send(self, data: bytes) -> None:
        try:
            self._sock.sendall(data)
        except ConnectionError:
            pass  # what it has said before can still be read

    def frame(self) -> bytes:
        while len(self._data) < 4 or len(self._data) < (end := 4 + int.from_bytes(self._data[:4])):
            try:
                more = self._sock.recv(65536)
            except ConnectionError:
                more = b""
            except TimeoutError:
                raise AssertionError(f"no answer; so far {bytes(self._data)!r}") from None
            if not more:
                self.close()
                raise Closed
            self._data += more
        frame = bytes(self._data[4:end])
        del self._data[:end]
        return frame

    def packet(self) -> Packet:
        frame = self.frame()
        xid, zxid, error = jute.REPLY_HEADER.unpack_from(frame)
        return Packet(xid, zxid, error, frame[jute.REPLY_HEADER.size :])

    def close(self) -> None:
        self._sock.close()


class Client:
    def __init__(self, number: int) -> None:
        self.node = number  # where it connects, of however many there are
        self.line: Line | None = None
        self.session: ConnectResponse | None = None
        self.seen = 0
        self.xid = 0


class Names:
    """By the order in which they are met."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._known: dict[int, str] = {0: "0", -1: "-1"}

    def of(self, number: int) -> str:
        return self._known.setdefault(number, f"{self._prefix}{len(self._known) - 1}")


class Player:
    def __init__(self, ports: Sequence[int], top_names: frozenset[str] = frozenset()) -> None:
        """`ports`: of all its nodes. `top_names`: what lies in the root and is not of the play."""
        self._ports = ports
        self._top_names = top_names
        self._clients = [Client(number) for number in range(CLIENTS)]
        self._zxids, self._sessions = Names("z"), Names("s")
        self._told: list[str] = []

    def play(self, steps: Sequence[Step]) -> list[str]:
        """One line a step."""
        lines = []
        for step in steps:
            self._told = []
            client = self._clients[step.client]
            try:
                if client.line is None and step.verb != "connect":
                    self._attach(client)
                getattr(self, f"_{step.verb}")(client, *step.given)
            except Closed:
                client.line = None
                self._say("closed")
            except (AssertionError, OSError) as error:
                self._say(f"{BROKEN_OFF}: {error!r}")
                lines.append(" | ".join(self._told))
                return lines
            self._settle(client)
            if step.verb in ("close", "expire"):
                self._told.sort()  # a session's ephemerals go in an order that nobody promises
            lines.append(" | ".join(self._told))
        self.leave()
        return lines

    def leave(self) -> None:
        for client in self._clients:
            if client.line is not None:
                client.line.send(pack(">iii", 8, 1, Op.CLOSE_SESSION))
                client.line.close()
                client.line = None

    def _say(self, text: str) -> None:
        self._told.append(text)

    # connecting

    def _dial(self, client: Client) -> Line:
        return Line(self._ports[client.node % len(self._ports)])

    def _greet(
        self, line: Line, timeout_ms: int, session: ConnectResponse | None, seen: int, *, old: bool
    ) -> ConnectResponse | None:
        """None: closed without a word."""
        session_id, password = (
            (session.session_id, session.password) if session is not None else (0, bytes(16))
        )
        body = (
            pack(">iqiqi", 0, seen, timeout_ms, session_id, len(password))
            + password
            + (b"" if old else b"\0")
        )
        line.send(pack(">i", len(body)) + body)
        try:
            frame = line.frame()
        except Closed:
            self._say("closed without a word")
            return None
        found = jute.decode_connected(frame)
        self._say(
            f"session {self._sessions.of(found.session_id)} of {found.timeout_ms} ms, "
            f"{len(found.password)}, {len(frame)} bytes"
        )
        return found

    def _attach(self, client: Client) -> None:
        """As it comes back: with its session, else with a new one."""
        for session in [client.session, None] if client.session is not None else [None]:
            line = self._dial(client)
            found = self._greet(
                line,
                session.timeout_ms if session is not None else 20_000,
                session,
                client.seen,
                old=False,
            )
            if found is not None and found.session_id:
                client.line, client.session = line, found
                self._silently(client, Op.SYNC, ("/",))  # others may have written at other nodes
                return
            self._until_closed(line)
        raise AssertionError("no session is to be had")

    def _connect(self, client: Client, timeout_ms: int, old: bool) -> None:
        if client.line is not None:
            client.line.close()
        client.line = self._dial(client)
        client.session = self._greet(client.line, timeout_ms, None, client.seen, old=old)

    def _again(self, client: Client, old: bool) -> None:
        """The session on another connection: of the same node, or of the next one where there are
        more.
        """
        client.node += 1
        earlier, client.line = client.line, self._dial(client)
        assert client.session is not None
        found = self._greet(
            client.line, client.session.timeout_ms, client.session, client.seen, old=old
        )
        assert earlier is not None
        if len(self._ports) > 1:
            self._try(earlier)
        self._until_closed(earlier)
        client.session = found if found is not None and found.session_id else None

    def _try(self, earlier: Line) -> None:
        """Find out where the frame came from: a write ends the connection, if it has not ended by
        itself.
        """
        body = BODIES[Op.SET_DATA].encode(("/nowhere", b"", -1))
        earlier.send(pack(">iii", 8 + len(body), 2, Op.SET_DATA) + body)

    def _until_closed(self, line: Line) -> None:
        try:
            while True:
                self._hear(line.packet())
        except Closed:
            self._say("closed")

    def _drop(self, client: Client) -> None:
        assert client.line is not None
        client.line.close()
        client.line = None

    def _hijack(self, client: Client, password: bytes) -> None:
        """Its own connection is gone before, for ZooKeeper closes it now: a difference that is
        meant.
        """
        if client.line is not None:
            self._drop(client)
        assert client.session is not None
        line = self._dial(client)
        self._greet(
            line, 20_000, client.session._replace(password=password), client.seen, old=False
        )
        self._until_closed(line)

    def _from_the_future(self, client: Client, zxid: int) -> None:
        line = self._dial(client)
        self._greet(line, 20_000, None, zxid, old=False)
        line.close()

    def _close(self, client: Client) -> None:
        self._ask(client, Op.CLOSE_SESSION, ())
        client.session = None
        assert client.line is not None
        self._until_closed(client.line)
        client.line = None

    def _expire(self, client: Client, mark: str) -> None:
        """Its session is given the least time there is; others see when that is over."""
        self._drop(client)
        line = self._dial(client)
        assert client.session is not None
        self._greet(line, SHORTEST_MS, client.session, client.seen, old=False)
        client.line = line
        created = self._ask(client, Op.CREATE, (mark, b"", [ANYONE], 1))
        self._drop(client)
        other = next(each for each in self._clients if each is not client)
        if other.line is None:
            self._attach(other)
        self._silently(other, Op.SYNC, ("/",))
        deadline = time.monotonic() + PATIENCE_S
        while (
            created
            and self._silently(other, Op.EXISTS, (mark, False)).error == 0
            and time.monotonic() < deadline
        ):
            time.sleep(0.02)

    # asking

    def _ask(self, client: Client, opcode: Op, given: tuple[Any, ...]) -> bool:
        xid = self._send(client, opcode, self._body(client, opcode, given))
        return self._answer(client, xid, opcode, given)

    def _body(self, client: Client, opcode: Op, given: tuple[Any, ...]) -> bytes:
        if opcode not in BODIES:
            return b""
        return BODIES[opcode].encode(
            tuple(client.seen if value is SEEN else value for value in given)
        )

    def _send(self, client: Client, opcode: int, body: bytes) -> int:
        client.xid += 1
        own = {
            Op.PING: PING_XID,
            Op.SET_WATCHES: SET_WATCHES_XID,
            Op.SET_WATCHES_2: SET_WATCHES_XID,
        }
        xid = own[Op(opcode)] if opcode in own else client.xid
        assert client.line is not None
        client.line.send(pack(">iii", 8 + len(body), xid, opcode) + body)
        return xid

    def _answer(self, client: Client, xid: int, opcode: Op, given: tuple[Any, ...]) -> bool:
        packet = self._until(client, xid)
        body = b"" if packet.error else packet.body
        if packet.error and packet.body:
            self._say(f"a body of {len(packet.body)} bytes with an error")
        assert packet.zxid >= client.seen or opcode in (Op.AUTH, Op.SASL) or packet.zxid == -1, (
            f"{packet.zxid} after {client.seen}"
        )
        client.seen = max(client.seen, packet.zxid)
        name = f" {self._zxids.of(packet.zxid)}" if opcode in CHANGES and not packet.error else ""
        shown = _error(packet.error) if packet.error else self._shown(opcode, body, given)
        self._say(f"{opcode.name}{name}: {shown}")
        return not packet.error

    def _until(self, client: Client, xid: int) -> Packet:
        """Its answer; events before it are told."""
        assert client.line is not None
        while True:
            packet = client.line.packet()
            if packet.xid == xid:
                return packet
            self._hear(packet)

    def _hear(self, packet: Packet) -> None:
        if packet.xid == EVENT_XID:
            kind, state, path = jute.EVENT.decode(packet.body)
            self._say(f"event {kind} {state} {path!r} {self._zxids.of(packet.zxid)}")
        else:
            self._say(f"an answer to {packet.xid}: {_error(packet.error)}")

    def _silently(self, client: Client, opcode: Op, given: tuple[Any, ...]) -> Packet:
        return self._until(client, self._send(client, opcode, self._body(client, opcode, given)))

    def _settle(self, actor: Client) -> None:
        for number, client in enumerate(self._clients):
            if client.line is None:
                continue
            before, self._told = self._told, []
            try:
                assert client.session is not None
                client.line.send(pack(">iii", 8 + 5, SYNC_XID, Op.SYNC) + jute.STRING.encode("/"))
                packet = self._until(client, SYNC_XID)
                client.seen = max(client.seen, packet.zxid)
            except Closed:
                client.line = None
                self._say("closed")
            self._told = before + [f"client {number}: {told}" for told in self._told]

    # shown

    def _shown(self, opcode: Op, body: bytes, given: tuple[Any, ...]) -> str:
        if opcode not in ANSWERS:
            return repr(body)
        try:
            value, end = ANSWERS[opcode].read(body, 0)
        except (Malformed, IndexError) as error:
            return f"unreadable: {error} {body.hex()}"
        more = f", and {body[end:].hex()} behind it" if end != len(body) else ""
        return (
            self._value(
                value,
                WHO
                if opcode is Op.WHO_AM_I
                else given[0]
                if given and isinstance(given[0], str)
                else "",
            )
            + more
        )

    def _value(self, value: Any, path: str) -> str:
        match value:
            case jute.Stat():
                return self._stat(value, path)
            case tuple():
                return ", ".join(self._value(each, path) for each in value)
            case list() if path == WHO:
                return repr(sorted(value))
            case list() if value and all(isinstance(each, str) for each in value):
                return repr(
                    sorted(name for name in value if path != "/" or name not in self._top_names)
                )
        return repr(value) if path != "/" or not isinstance(value, int) else "some"

    def _stat(self, stat: jute.Stat, path: str) -> str:
        now_ms = time.time() * 1000
        assert not stat.mtime or (stat.ctime <= stat.mtime and abs(stat.mtime - now_ms) < 3_600_000)
        of_children = (
            f"{stat.cversion} {stat.num_children} {self._zxids.of(stat.pzxid)}"
            if path != "/"
            else "some"
        )
        names = (
            f"{self._zxids.of(stat.czxid)} {self._zxids.of(stat.mzxid)} "
            f"{self._sessions.of(stat.ephemeral_owner)}"
        )
        return (
            f"<{names} v{stat.version} a{stat.aversion} {stat.data_length} bytes, children "
            f"{of_children}>"
        )

    # other verbs

    def _multi(self, client: Client, requests: Sequence[tuple[Op, tuple[Any, ...]]]) -> None:
        if len(self._ports) > 1 and not all(_can_be_read(op, given) for op, given in requests):
            return  # as what is broken
        self._several(client, Op.MULTI, requests)

    def _multi_read(self, client: Client, requests: Sequence[tuple[Op, tuple[Any, ...]]]) -> None:
        self._several(client, Op.MULTI_READ, requests)

    def _several(
        self, client: Client, opcode: Op, requests: Sequence[tuple[Op, tuple[Any, ...]]]
    ) -> None:
        body = jute.encode_multi([(op, BODIES[op].encode(given)) for op, given in requests])
        packet = self._until(client, self._send(client, opcode, body))
        client.seen = max(client.seen, packet.zxid)
        self._say(f"{opcode.name} {_error(packet.error)}: {self._results(packet.body, requests)}")

    def _results(self, body: bytes, requests: Sequence[tuple[Op, tuple[Any, ...]]]) -> str:
        found, at = [], 0
        try:
            while body:
                kind, done, code = jute.MULTI_HEADER.unpack_from(body, at)
                at += jute.MULTI_HEADER.size
                if done:
                    found.append(f"end {kind} {code} {len(body) - at}")
                    break
                value: Any = None
                if kind == -1:
                    value, at = jute.INT.read(body, at)
                elif kind in ANSWERS:
                    value, at = ANSWERS[Op(kind)].read(body, at)
                found.append(f"{kind} {code} {self._value(value, str(requests[len(found)][1][0]))}")
        except Exception as error:
            found.append(f"unreadable: {error!r} {body[at:].hex()}")
        return "; ".join(found)

    def _burst(self, client: Client, requests: Sequence[tuple[Op, tuple[Any, ...]]]) -> None:
        """All at once; answers in the same order."""
        sent = [
            (self._send(client, op, self._body(client, op, given)), op, given)
            for op, given in requests
        ]
        for xid, op, given in sent:
            self._answer(client, xid, op, given)

    def _authenticate(self, client: Client, scheme: str, shown: bytes) -> None:
        body = jute.AUTH.encode((0, scheme, shown))
        assert client.line is not None
        client.line.send(pack(">iii", 8 + len(body), AUTH_XID, Op.AUTH) + body)
        packet = self._until(client, AUTH_XID)
        self._say(f"AUTH {packet.zxid} {_error(packet.error)} {packet.body!r}")
        if packet.error:
            self._until_closed(client.line)
            client.line = None

    def _broken(self, client: Client, opcode: Op, body: bytes) -> None:
        if len(self._ports) > 1 and opcode in (*WRITES, Op.SYNC):
            return  # a follower of a real ensemble never answers that, nor anything behind it
        packet = self._until(client, self._send(client, opcode, body))
        self._say(f"{opcode.name} broken: {_error(packet.error)} {packet.body!r}")

    def _strange(self, client: Client, number: int) -> None:
        assert client.line is not None
        client.line.send(STRANGE[number])
        try:
            while True:
                packet = client.line.packet()
                self._say(
                    f"{packet.zxid} {_error(packet.error)} {packet.body!r}"
                ) if packet.xid == 7 else self._hear(packet)
        finally:
            client.line = None


def _can_be_read(opcode: Op, given: tuple[Any, ...]) -> bool:
    """In a multi."""
    return opcode is not Op.GET_DATA and (
        opcode not in CREATES or (given[2] is not None and fits(opcode, given[3]))
    )


def _error(code: int) -> str:
    try:
        return Err(code).name
    except ValueError:
        return str(code)
