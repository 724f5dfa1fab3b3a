"""The bridge of one node: its tree, its connections, and the effect of each applied entry on them.
Decides nothing that is replicated.

An entry is applied to the tree change by change; each change fires its watches; then the results
that waited for the entry leave. So a client gets an event before it can read the change, and the
event of its own write before the write's reply.
"""

from collections.abc import Callable, Iterable
from math import inf
from typing import ClassVar

from raftka.broker.handlers.services import Services
from raftka.broker.network.access.authentication import FAILURES, SUCCESSES
from raftka.broker.telemetry.event_log import BoundedRate
from raftka.limits import LOGIN_SECONDS, Limit
from raftka.metadata.extension import of_package
from raftka.metadata.image import Delta, MetadataImage
from raftka.runtime.interfaces import SECRETS
from raftka.security.distinguished_names import subject_of
from zookeeper_bridge.limits import CONNECT_SECONDS, CONNECTIONS, WAITING_CONNECTS
from zookeeper_bridge.machine.machine import LOOK_S, Machine
from zookeeper_bridge.machine.sessions import LEAST_TICKS, SECRET_BYTES
from zookeeper_bridge.machine.wire import Attach, Open, Request, Result, Sync, Touch, Write
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.jute import ConnectRequest
from zookeeper_bridge.protocol.opcodes import Op
from zookeeper_bridge.server.connection import ABANDONED, ATTACHING, NEW, ClientConnection
from zookeeper_bridge.server.login import LoginRules, SaslLogin
from zookeeper_bridge.server.read_only import ReadOnlyMode
from zookeeper_bridge.server.reads import Reader
from zookeeper_bridge.server.submissions import Submission, Submissions
from zookeeper_bridge.tree import acl
from zookeeper_bridge.tree.acl import Rights
from zookeeper_bridge.tree.layout import Happening, Layout, keeps_configs
from zookeeper_bridge.tree.projection import Controller
from zookeeper_bridge.tree.quotas import Enforcement
from zookeeper_bridge.tree.store import NODE, PACKAGE, SESSION, Znode, path_of, session_of
from zookeeper_bridge.tree.tree import CONFIG, Tree, membership
from zookeeper_bridge.tree.watches import EventType, Watches

SYNC = int(Op.SYNC)  # names of an enumeration cost more than what is done with them
QUOTA_WARNING_S = 1.0  # between two lines in the log
TOUCHES_OF_TICK = 4  # how often sessions that were heard of are told to the controller


class Latency:
    """Latency of writes, from the request to its result, in ms. Reads have none: they are answered
    in the turn in which they come.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.least = self.most = self._sum = 0.0
        self._count = 0

    def took(self, ms: float) -> None:
        self.least = min(self.least, ms) if self._count else ms
        self.most = max(self.most, ms)
        self._sum += ms
        self._count += 1

    @property
    def average(self) -> float:
        return round(self._sum / max(1, self._count), 4)


class Bridge:
    package = PACKAGE
    _TELL: ClassVar[dict[EventType, Callable[[Watches[ClientConnection], str], None]]] = {
        EventType.CREATED: Watches.created,
        EventType.DELETED: Watches.deleted,
        EventType.CHANGED: Watches.changed,
    }

    def __init__(
        self,
        services: Services,
        tick_ms: int = 2000,
        logins: LoginRules = LoginRules(),  # noqa: B008  # it cannot change
        look_s: float = LOOK_S,
        enforce_quotas: bool = False,
        read_only_mode: bool = False,
        guarded: bool = False,
    ) -> None:
        self.services = services
        self.tick_ms = tick_ms
        self.look_s = look_s
        # to four bytes that may be a four-letter word
        self.answer_word: Callable[[bytes], str | None] = lambda _word: None
        self._enforce_quotas = enforce_quotas
        self._warned_at = -inf  # of a quota
        self.logins = logins
        self._rights = Rights(logins.schemes, guarded)
        self.tree: Tree = Tree(self._membership())
        self.layout = Layout(self.tree, guarded=guarded)
        self.watches: Watches[ClientConnection] = Watches(self._send_event)
        self.reader = Reader(self.tree, self.layout, self.watches)
        self.connections: dict[ClientConnection, None] = {}
        self.sessions: dict[int, ClientConnection] = {}  # those that are connected to this node
        self.packets_received = self.packets_sent = self.auth_failures = 0
        self.latency = Latency()
        self.clock = services.context.runtime.clock
        self.began = self.leads_since = self.clock.now()
        self._random = services.context.runtime.random("zookeeper bridge")
        self._secrets = services.context.runtime.random(SECRETS)
        self._failed_login = BoundedRate(
            services.context.events.info, "bridge_authentication_failed", self.clock.now
        )
        self._numbers = 0
        self._leaving: Znode | None = None  # the one whose deletion is being told
        # what is being told, and the ACL of the znode
        self._telling: tuple[str, EventType | None, bytes] = "", None, b""
        self._heard: dict[int, None] = {}  # sessions, since the controller was told
        self._touching = False
        # by the entry that is applied right now: versions of settings, as they were
        self._touched: dict[str, Znode | None] = {}
        answer_s = LEAST_TICKS * tick_ms / 1000
        self.submissions = Submissions(
            services.context.incarnation_id,
            self.clock,
            services.quorum.ask_controller,
            answer_s,
            self._unreachable,
            self.hit,
        )

        self._read_only = ReadOnlyMode(self, services.context) if read_only_mode else None
        services.quorum.addresses.on_change = self._voters_changed

    @property
    def read_only(self) -> bool:
        return self._read_only is not None and self._read_only.active

    @property
    def local_session_count(self) -> int:
        return len(self._read_only.sessions) if self._read_only is not None else 0

    # as an extension

    def applied(self, image: MetadataImage, delta: Delta) -> None:
        if delta.reloaded:
            self.load(image)
            return
        for key, value in delta.extensions_changed.get(PACKAGE, ()):
            self._change(key, value, image.offset)
        self.tree.offset = image.offset
        self._happened(self.layout.apply(image, delta, self._touched))
        self._touched = {}
        self._look_who_leads()
        self.submissions.release(image.offset)

    def machine(self, image: MetadataImage, now: float) -> Machine:
        assert self.tree.offset == image.offset
        self.leads_since = now
        quotas = (
            Enforcement(self.tree.quotas, self._quota_exceeded) if self._enforce_quotas else None
        )
        return Machine(
            self.tree,
            now,
            self.tick_ms,
            self.look_s,
            self.hit,
            self._controller,
            quotas,
            self._rights,
        )

    def _quota_exceeded(self, text: str) -> None:
        now = self.clock.now()
        if now >= self._warned_at + QUOTA_WARNING_S:
            self._warned_at = now
            self.services.context.events.warning("bridge_quota_exceeded", message=text)

    def load(self, image: MetadataImage) -> None:
        """Replace the tree. Events in between are unknown: clients connect again, and say what they
        watch.
        """
        self.tree.load(of_package(image, PACKAGE).entries, image.offset)
        self.layout.load(image, self._controller())
        for connection in list(self.connections):
            connection.end("this node was far behind")
        self.submissions.release(image.offset)

    def _happened(self, happened: Iterable[Happening]) -> None:
        if self.watches.count:
            for event, path in happened:
                self._TELL[event](self.watches, path)

    def _look_who_leads(self) -> None:
        quorum = self.services.quorum
        if self.layout.controller != (quorum.leader, max(0, quorum.term)):
            self._happened(self.layout.elected(self._controller()))

    def _membership(self) -> bytes:
        addresses = self.services.quorum.addresses
        return membership(addresses.voters, addresses.index)

    def _voters_changed(self) -> None:
        self.tree.set_membership(self._membership())
        self._happened([(EventType.CHANGED, CONFIG)])

    def _controller(self) -> Controller:
        """As this node knows it."""
        quorum = self.services.quorum
        return Controller(quorum.leader, max(0, quorum.term))

    def _change(self, key: bytes, value: bytes | None, zxid: int) -> None:
        kind, tree = key[:1], self.tree
        if kind != NODE:
            tree.replay(key, value)
            if kind == SESSION and (value is None or tree.sessions[session_of(key)].closing):
                self._session_gone(session_of(key))
            return
        path = path_of(key)
        before = tree.nodes.get(path)
        tree.set_node(path, value)
        tree.offset = zxid  # events have it
        self._telling = "", None, b""
        if keeps_configs(path):
            self._touched.setdefault(path, before)
        elif not self.watches.count:
            return
        elif value is None:
            self._leaving = before
            self.watches.deleted(path)
            self._leaving = None
        elif before is None:
            self.watches.created(path)
        elif tree.nodes[path].version != before.version:
            self.watches.changed(path)

    def _send_event(self, connection: ClientConnection, event: EventType, path: str) -> None:
        """Send the event to clients that may read the znode."""
        # of each event the first: many hear of it
        if self._telling[0] is not path or self._telling[1] is not event:
            node = self._leaving if event is EventType.DELETED else self.layout.node(path)
            gone = acl.PRIVATE if self.layout.is_private(path) else acl.OPEN
            self._telling = path, event, gone if node is None else node.acl
        stored = self._telling[2]
        if stored == acl.OPEN or acl.allows(stored, acl.READ, connection.identities):
            connection.event(event, path, self.tree.offset)

    def _session_gone(self, session_id: int) -> None:
        connection = self.sessions.pop(session_id, None)
        if connection is not None and not connection.closing:
            connection.end("its session has expired")

    # connections

    def accept(self, *, secure: bool = False) -> ClientConnection | None:
        """`secure`: there is TLS in front of it."""
        if len(self.connections) >= CONNECTIONS.value:
            self.hit(CONNECTIONS)
            return None
        self._numbers += 1
        connection = ClientConnection(self, self._numbers, secure=secure)
        self.connections[connection] = None
        self.clock.call_at(
            self.clock.now() + CONNECT_SECONDS.value, lambda: self._check_greeting(connection)
        )
        if self.logins.required:
            self.clock.call_at(
                self.clock.now() + LOGIN_SECONDS.value, lambda: self._check_login(connection)
            )
        return connection

    def _check_login(self, connection: ClientConnection) -> None:
        if not connection.over and not self.logins.known(connection.identities):
            self.hit(LOGIN_SECONDS)
            connection.end("the client has not logged in")

    def certified(self, connection: ClientConnection, certificate: bytes | None) -> None:
        """The handshake of a connection is over. `certificate`: the client's, DER, if it has shown
        one.
        """
        subject = subject_of(certificate) if certificate is not None else ""
        if subject:
            connection.show(self.logins.by_certificate(subject))

    def login(self, *, secure: bool) -> SaslLogin:
        return SaslLogin(self.logins, self._secrets.randbytes, secure=secure)

    def logged_in(self) -> None:
        self.services.context.metrics.count(SUCCESSES)

    def login_failed(self, connection: ClientConnection, scheme: str, reason: str) -> None:
        self.auth_failures += 1
        self.services.context.metrics.count(FAILURES)
        self._failed_login(peer=connection.peer, scheme=scheme, reason=reason)

    def _check_greeting(self, connection: ClientConnection) -> None:
        if connection.state in NEW:
            self.hit(CONNECT_SECONDS)
            connection.end("the client has sent no connect request")

    def gone(self, connection: ClientConnection) -> None:
        self.connections.pop(connection, None)
        self.watches.remove_connection(connection)
        if self.sessions.get(connection.session_id) is connection:
            del self.sessions[connection.session_id]

    def failed(self, error: Exception) -> None:
        self.services.context.metrics.count("raftka_handler_errors_total")
        self.services.context.events.error("bridge_failed", error=repr(error))

    def hit(self, limit: Limit) -> None:
        self.services.context.metrics.hit(limit)

    # sessions

    def connecting(self, connection: ClientConnection, asked: ConnectRequest) -> None:
        """A new session, or one that the client has; it is answered when this node knows all that
        the client can have seen.
        """
        if sum(1 for each in self.connections if each.state is ATTACHING) > WAITING_CONNECTS.value:
            self.hit(WAITING_CONNECTS)
            connection.end("too many connect at once")
            return
        if self._read_only is not None and self._read_only.active:
            self._read_only.connect(connection, asked)
            return
        request: Request
        if asked.session_id:
            request = Attach(
                connection.number, asked.timeout_ms, asked.session_id, asked.password or b""
            )
        else:
            request = Open(
                connection.number, asked.timeout_ms, self._random.randbytes(SECRET_BYTES)
            )
        self.submissions.put(_Connecting(self, connection, request, asked))

    def _attach(self, connection: ClientConnection, asked: ConnectRequest, result: Result) -> None:
        if connection.over:
            return
        if asked.last_zxid > self.tree.offset:
            connection.end("its zxid is ahead of the cluster's: it belongs to another cluster")
        elif result.error == Err.OK and self.tree.session(result.session_id) is None:
            # it ended since the controller said so
            connection.attach(Result(Err.SESSION_EXPIRED), asked)
        else:
            self.attach(connection, asked, result)

    def attach(self, connection: ClientConnection, asked: ConnectRequest, result: Result) -> None:
        if result.error == Err.OK:
            earlier = self.sessions.pop(result.session_id, None)
            if earlier is not None:
                earlier.end("its session has moved to another connection")
            self.sessions[result.session_id] = connection
        connection.attach(result, asked)

    def heard(self, connection: ClientConnection) -> None:
        if connection.read_only and self._read_only is not None:
            self._read_only.heard(connection.session_id)
        elif connection.attached:
            self._heard[connection.session_id] = None
            if not self._touching:
                self._touching = True
                self.clock.call_at(
                    self.clock.now() + self.tick_ms / 1000 / TOUCHES_OF_TICK, self._touch
                )

    def _touch(self) -> None:
        self._touching = False
        self._look_who_leads()
        heard, self._heard = list(self._heard), {}
        self.submissions.put(Submission(Touch(heard)))

    def _unreachable(self) -> None:
        """No controller answers: what this node shows may be of the past, and nothing can be
        written. Others may be better off.
        """
        if self.read_only:
            return
        if self.connections:
            self.services.context.events.warning(
                "bridge_cut_off", connections=len(self.connections)
            )
        for connection in list(self.connections):
            connection.end("no controller answers this node")
        if self._read_only is not None:
            self._read_only.begin()

    # writes

    def refuse(self, connection: ClientConnection, xid: int, opcode: int) -> None:
        """In read-only mode: of all that is handed on a client may end its own session, and no
        more.
        """
        assert self._read_only is not None
        if opcode == Op.CLOSE_SESSION:
            self._read_only.close(connection.session_id)
            connection.reply(xid, self.tree.offset, Err.OK)
            connection.end("the session is closed")
        else:
            connection.reply(xid, self.tree.offset, Err.NOT_READ_ONLY)

    def submit(self, connection: ClientConnection, opcode: int, body: bytes) -> None:
        if opcode == SYNC:
            self.submissions.put(_OfClient(self, connection, Sync(), body))
        else:
            self.submissions.put(
                _OfClient(
                    self,
                    connection,
                    Write(connection.session_id, connection.number, 0, opcode, body),
                    body,
                )
            )


class _OfClient(Submission):
    """A request that its connection waits for. `body`: as the client sent it."""

    __slots__ = ("_began", "_body", "_bridge", "_connection")

    def __init__(
        self, bridge: Bridge, connection: ClientConnection, request: Request, body: bytes = b""
    ) -> None:
        self.request = request
        self.identities = connection.identities
        self._bridge = bridge
        self._connection = connection
        self._body = body
        self._began = bridge.clock.now()

    def done(self, zxid: int, result: Result) -> None:
        self._bridge.latency.took(1000 * (self._bridge.clock.now() - self._began))
        try:
            self._complete(zxid, result)
        # a bug: this connection pays for it, and not the node, which is applying an entry
        except Exception as error:
            self._bridge.failed(error)
            self._connection.end("the bridge failed")

    def _complete(self, zxid: int, result: Result) -> None:
        self._connection.result(zxid, result, self._body)

    def lost(self) -> None:
        self._connection.abandon("the controller was lost")

    def wanted(self) -> bool:
        return (
            self._connection.state is not ABANDONED
            if type(self.request) is Write
            else not self._connection.over
        )


class _Connecting(_OfClient):
    __slots__ = ("_asked",)

    def __init__(
        self, bridge: Bridge, connection: ClientConnection, request: Request, asked: ConnectRequest
    ) -> None:
        super().__init__(bridge, connection, request)
        self._asked = asked

    def _complete(self, zxid: int, result: Result) -> None:
        self._bridge._attach(self._connection, self._asked, result)
