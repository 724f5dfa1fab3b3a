"""Read-only mode, as ZooKeeper's with readonlymode.enabled: what a node does for its clients while
no controller answers it.

The node's tree is what was committed when the node last heard of it. Clients that have said at
connecting that this is enough for them get a session of this node alone, read and watch, and are
refused every write and `sync`. All others are closed, so that they look for a node that is better
off; a session of the cluster stays theirs. When a controller answers again all connections of the
mode are closed, and its sessions are forgotten.

The node asks once a tick whether a controller answers that still leads, also when it has no
clients: so it knows when the mode begins and ends.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from raftka.broker.context import BrokerContext
from raftka.runtime.interfaces import Clock
from zookeeper_bridge.machine.sessions import Expiry, clamped
from zookeeper_bridge.machine.wire import Result, Sync
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.jute import PASSWORD_BYTES, ConnectRequest
from zookeeper_bridge.server.connection import ClientConnection
from zookeeper_bridge.server.submissions import Submission, Submissions
from zookeeper_bridge.tree.tree import Tree

LOCAL_SESSION = 1 << 61  # above every number of a session of the cluster


class LocalSession(NamedTuple):
    timeout_ms: int
    password: bytes


class Bridge(Protocol):
    """The bridge, as read-only mode uses it."""

    tree: Tree
    clock: Clock
    tick_ms: int
    submissions: Submissions

    @property
    def connections(self) -> Mapping[ClientConnection, None]: ...

    @property
    def sessions(self) -> Mapping[int, ClientConnection]:
        """Those that are connected to this node."""

    def attach(
        self, connection: ClientConnection, asked: ConnectRequest, result: Result
    ) -> None: ...


class ReadOnlyMode:
    def __init__(self, bridge: Bridge, context: BrokerContext) -> None:
        self.active = False
        self.sessions: dict[int, LocalSession] = {}
        self._bridge = bridge
        self._events = context.events
        self._random = context.runtime.random("zookeeper read-only sessions")
        self._expiry = Expiry(bridge.tick_ms)
        self._asking = False
        self._tick()

    def begin(self) -> None:
        """No controller answers. The caller has closed all connections."""
        self.active = True
        self._events.warning("bridge_read_only")

    def answered(self) -> None:
        """A controller has, and a majority knows it as such."""
        self._asking = False
        if not self.active:
            return
        self.active = False
        for session_id in self.sessions:
            self._expiry.remove_session(session_id)
        self.sessions.clear()
        self._events.info("bridge_read_write")
        for connection in list(self._bridge.connections):
            connection.end("a controller answers this node again: read-only mode has ended")

    def connect(self, connection: ClientConnection, asked: ConnectRequest) -> None:
        bridge = self._bridge
        connection.read_only = True
        if not asked.read_only:
            connection.end("no controller answers this node, and the client is no read-only client")
        elif asked.last_zxid > bridge.tree.offset:
            connection.end(
                f"the client's zxid {asked.last_zxid:#x} is ahead of ours {bridge.tree.offset:#x}"
            )
        elif bridge.tree.session(asked.session_id) is not None:
            connection.end("a session of the cluster is not taken up again in read-only mode")
        elif not asked.session_id:
            timeout_ms = clamped(asked.timeout_ms, bridge.tick_ms)
            session_id = LOCAL_SESSION + self._random.getrandbits(60)
            self.sessions[session_id] = LocalSession(
                timeout_ms, self._random.randbytes(PASSWORD_BYTES)
            )
            self._attach(connection, asked, session_id)
        elif (
            known := self.sessions.get(asked.session_id)
        ) is not None and known.password == asked.password:
            self._attach(connection, asked, asked.session_id)
        else:
            connection.attach(Result(Err.SESSION_EXPIRED), asked)

    def _attach(self, connection: ClientConnection, asked: ConnectRequest, session_id: int) -> None:
        timeout_ms, password = self.sessions[session_id]
        self.heard(session_id)
        self._bridge.attach(
            connection, asked, Result(Err.OK, b"", session_id, timeout_ms, password)
        )

    def heard(self, session_id: int) -> None:
        if session_id in self.sessions:
            self._expiry.touch(
                session_id, self.sessions[session_id].timeout_ms, self._bridge.clock.now()
            )

    def close(self, session_id: int) -> None:
        self._expiry.remove_session(session_id)
        self.sessions.pop(session_id, None)

    def _tick(self) -> None:
        clock, bridge = self._bridge.clock, self._bridge
        for session_id in self._expiry.due(clock.now()):
            self.close(session_id)
            if session_id in bridge.sessions:
                bridge.sessions[session_id].end("its session has expired")
        if not self._asking:
            self._asking = True
            bridge.submissions.put(_Probe(self))
        clock.call_at(clock.now() + bridge.tick_ms / 1000, self._tick)


class _Probe(Submission):
    """Asks until a controller answers."""

    __slots__ = ("_mode",)

    def __init__(self, mode: ReadOnlyMode) -> None:
        super().__init__(Sync())
        self._mode = mode

    def done(self, zxid: int, result: Result) -> None:
        self._mode.answered()
