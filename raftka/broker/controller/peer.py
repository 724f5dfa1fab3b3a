"""One connection between nodes on the controller listener: a greeting, then frames of msgpack.
Sans-IO; knows no Raft and no controller.

Where the listener has SASL, a login comes before the greeting (peer_login.py). A stranger (garbage,
a node of another cluster) is closed with one line in the log. Nothing but msgpack is ever decoded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import msgpack

from raftka.broker.controller.boot_counter import Start, start_of
from raftka.broker.controller.peer_login import DialingLogin, LoginRefused, PeerLogin
from raftka.limits import (
    CONTROLLER_FRAME_BYTES,
    GREETING_BYTES,
    PEER_OUTPUT_BYTES,
    REQUEST_BYTES,
    Limit,
)
from raftka.metadata.commands import VoterEndpoints
from raftka.metadata.records import PACKED_BYTES
from raftka.runtime.interfaces import Transport
from raftka.versions import Features
from raftka.wire.errors import ProtocolError
from raftka.wire.frame import FrameBuffer

MAGIC = b"raftka controller 1\n"
Fields = list[Any]  # of a message between nodes, as msgpack has read them


class Kind(IntEnum):
    HELLO = 0  # magic, Hello's fields
    RAFT = 1  # a message between voters
    CALL = 2  # id, name, fields: a command for the controller
    REPLY = 3  # id, error code, message, value
    OBSERVE = 4  # index: send what is committed from there on
    ENTRIES = 5  # [[index, term, data], ...]
    SNAPSHOT = 6  # index, term, whole size, position, piece
    LEADER = 7  # node id or None, term
    PING = 8  # answered with LEADER
    GOODBYE = 10  # the node ends, and takes part in nothing any more
    VOTERS = 11  # index of the set, [[node id, host, port], ...]: where the voters are
    # magic, and what peer_login.py says: before the greeting, where the listener has SASL
    LOGIN = 9


KINDS: dict[object, Kind] = {int(kind): kind for kind in Kind}


@dataclass(frozen=True, slots=True)
class Hello:
    cluster_id: str | None  # None: has never been in a cluster
    node_id: int
    broker: bool
    controller: bool
    start: Start | None = None
    known: Start | None = None  # what the greeted was when it was met last
    features: Features = ()  # that its release supports
    endpoints: VoterEndpoints = ()  # of a controller; empty: a release that does not tell


def features_of(value: object) -> Features:
    """Read the features in a greeting; a release before the first one says nothing. Raises
    ProtocolError.
    """
    found = []
    for each in value if isinstance(value, list) else ():
        match each:
            case [str(name), int(low), int(high)]:
                found.append((name, low, high))
            case _:
                raise ProtocolError("a greeting with something else in the place of features")
    return tuple(found)


def endpoints_of(value: object) -> VoterEndpoints:
    """Read the end points in a greeting. Raises ProtocolError."""
    found = []
    for each in value if isinstance(value, list) else ():
        match each:
            case [str(listener), str(host), int(port)] if 0 < port < 65536:
                found.append((listener, host, port))
            case _:
                raise ProtocolError("a greeting with something else in the place of end points")
    return tuple(found)


class Traffic:
    """Bytes and messages of all connections of a node's controller side."""

    __slots__ = ("received_bytes", "received_messages", "sent_bytes", "sent_messages")

    def __init__(self) -> None:
        self.received_bytes = self.received_messages = self.sent_bytes = self.sent_messages = 0


class Peer:
    """A connection to another node. `mine` makes the greeting for a node id (-1: unknown yet).

    `on_hello` may raise ProtocolError to refuse the node; `on_message` gets all later messages.
    """

    def __init__(
        self,
        mine: Callable[[int], Hello],
        on_hello: Callable[["Peer"], None],
        on_message: Callable[["Peer", Kind, Fields], None],
        on_closed: Callable[["Peer", str], None],
        *,
        dialed: bool,
        traffic: Traffic,
        login: PeerLogin | None = None,
    ) -> None:
        # the ids of nodes that the other side's certificate is for; None: it names none
        self.certified: frozenset[int] | None = None
        self.hello: Hello | None = None
        self.node_id = -1  # of the other side, from its greeting on
        self.transport: Transport | None = None
        self.address = ""  # of the other side
        self.limit_hit: Limit | None = None
        self.dialed = dialed
        self.traffic = traffic
        self.observed: int | None = None  # the next index to be sent, when the other side observes
        self.on_drained: Callable[[Peer], None] | None = None
        self._mine = mine
        self._on_hello = on_hello
        self._on_message = on_message
        self._on_closed = on_closed
        self._login = login  # None too once it is over
        self._frames = FrameBuffer(GREETING_BYTES.value)
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._over = False
        self._refused = False  # it has failed to log in

    @property
    def crowded(self) -> bool:
        return self._out_bytes > PEER_OUTPUT_BYTES.value

    def send(self, kind: Kind, *fields: object) -> None:
        """Send a message. It is lost if the connection breaks; callers send again."""
        if self.transport is None:
            return
        data = msgpack.packb((kind, *fields), buf_size=PACKED_BYTES)
        frame = len(data).to_bytes(4, "big") + data
        size = len(frame)
        self._out.append(frame)
        self._out_bytes += size
        self.traffic.sent_bytes += size
        self.traffic.sent_messages += 1
        self.transport.wake()

    def close(self, reason: str) -> None:
        if self.transport is not None:
            self.transport.close(reason)

    def leave(self) -> None:
        """Have no part in the connection any more: the other side is no node."""
        self._over, self.transport = True, None

    # the network's side

    def opened(self, transport: Transport) -> None:
        self.transport = transport
        self.address = transport.peer
        if isinstance(self._login, DialingLogin):
            self.send(Kind.LOGIN, MAGIC, *self._login.first())
        elif self.dialed:
            self._greet(-1)

    def room(self) -> None:
        return None

    def receive(self, view: memoryview) -> None:
        if not view:
            self.close("closed by the other side")
            # at once, so that answers to clients in this turn take it into account
            self.closed("closed by the other side")
            return
        self.traffic.received_bytes += len(view)
        try:
            for frame in self._frames.feed(view):
                if self.transport is None or self._refused:
                    return
                self._read_frame(frame)
        except (ProtocolError, msgpack.UnpackException, ValueError) as error:
            if isinstance(error, ProtocolError) and error.limit is not None:
                of_frame = GREETING_BYTES if self.hello is None else CONTROLLER_FRAME_BYTES
                self.limit_hit = of_frame if error.limit is REQUEST_BYTES else error.limit
            self.close(f"refused: {error}")

    def take_output(self) -> list[bytes]:
        out, self._out = self._out, []
        self._out_bytes = 0
        if self.on_drained is not None and self.observed is not None:
            self.on_drained(self)
            out += self._out
            self._out = []
            self._out_bytes = 0
        return out

    def closed(self, reason: str) -> None:
        if not self._over:
            self._over = True
            self.transport = None
            self._on_closed(self, reason)

    # frames

    def _greet(self, whom: int) -> None:
        mine = self._mine(whom)
        self.send(
            Kind.HELLO,
            MAGIC,
            mine.cluster_id,
            mine.node_id,
            mine.broker,
            mine.controller,
            mine.start,
            mine.known,
            mine.features,
            mine.endpoints,
        )

    def _read_frame(self, frame: memoryview) -> None:
        if self.hello is None and MAGIC not in bytes(frame[:64]):
            raise ProtocolError("this is neither a node of raftka nor a Kafka client")
        try:
            message = msgpack.unpackb(frame, use_list=True, strict_map_key=False)
            kind = KINDS.get(message[0]) if isinstance(message, list) and message else None
        except TypeError:  # a list is the kind, or the key of a map
            kind = None
        if kind is None:
            raise ProtocolError("no message of ours")
        fields = message[1:]
        self.traffic.received_messages += 1
        if self._login is not None or kind is Kind.LOGIN:
            self._log_in(kind, fields)
        elif self.hello is None:
            self._read_hello(kind, fields)
        else:
            self._on_message(self, kind, fields)

    def _log_in(self, kind: Kind, fields: list[object]) -> None:
        login = self._login
        if login is None:
            raise ProtocolError(
                "a login where none is due: the controller listener has SASL on one side only"
            )
        if kind is not Kind.LOGIN or fields[:1] != [MAGIC]:
            self.send(Kind.LOGIN, MAGIC, None, "the controller listener has SASL")
            raise ProtocolError("a login was due")
        try:
            answer = login.step(fields[1:])
        except LoginRefused as error:
            self._refuse_later(login, str(error))
            return
        if answer is not None:
            self.send(Kind.LOGIN, MAGIC, *answer)
        if login.over:
            self._login = None
            if self.dialed:
                self._greet(-1)

    def _refuse_later(self, login: PeerLogin, reason: str) -> None:
        """Refuse the login after a delay, so that passwords cannot be tried at the network's speed.
        No further message is read.
        """

        def refuse() -> None:
            self.send(Kind.LOGIN, MAGIC, None, reason)
            self.close(f"refused: {reason}")

        self._refused = True
        login.later(refuse)

    def _read_hello(self, kind: Kind, fields: list[object]) -> None:
        if kind is not Kind.HELLO or len(fields) < 5 or fields[0] != MAGIC:
            raise ProtocolError("a greeting was due")
        _, cluster_id, node_id, broker, controller, start, known, features, endpoints = [
            *fields,
            *(None, None, None, None),
        ][:9]
        if not isinstance(node_id, int) or not (cluster_id is None or isinstance(cluster_id, str)):
            raise ProtocolError("a greeting without node and cluster")
        hello = Hello(
            cluster_id,
            node_id,
            bool(broker),
            bool(controller),
            start_of(start),
            start_of(known),
            features_of(features),
            endpoints_of(endpoints),
        )
        if not self.dialed:
            self._greet(node_id)  # a refused node too: its log then has the reason
        mine = self._mine(node_id).cluster_id
        if cluster_id is not None and mine is not None and cluster_id != mine:
            raise ProtocolError(
                f"node {node_id} belongs to cluster {cluster_id}, this one to {mine}"
            )
        if self.certified is not None and node_id not in self.certified:
            raise ProtocolError(
                f"the certificate is for node {', '.join(map(str, sorted(self.certified)))}, not "
                f"for node {node_id}"
            )
        self.hello, self.node_id = hello, node_id
        self._frames.limit_bytes = CONTROLLER_FRAME_BYTES.value
        self._on_hello(self)
