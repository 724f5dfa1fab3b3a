"""The bridge's machine beside the active controller: decides all that changes znodes and sessions,
many requests in one entry of the log.

It decides on layers over the committed tree, one for each entry that is not applied yet. Failed
writes write nothing: their zxid is the last one. Soft, and forgotten with the leadership: when
sessions were heard of, and which connection is theirs. No clock, no socket, no log.
"""

from collections import deque
from collections.abc import Callable, Sequence
from math import inf

from raftka.limits import Limit
from raftka.metadata.controller.decision import Context, Outcome
from raftka.metadata.controller.draft import Draft
from raftka.metadata.extension import changes_of
from raftka.metadata.image import MetadataImage
from raftka.metadata.records import ConfigSet, ExtensionChanged, Record, TopicCreated, TopicDeleted
from raftka.wire.errors import Code, KafkaError
from zookeeper_bridge.limits import CLOSED_BYTES, COMMANDS_OF_ENTRY, DECIDED_BYTES, SESSIONS
from zookeeper_bridge.machine.operations import Caller, remove
from zookeeper_bridge.machine.requests import perform
from zookeeper_bridge.machine.sessions import Expiry, Owner, clamped, is_password, password_of
from zookeeper_bridge.machine.wire import (
    Attach,
    Batch,
    Open,
    Request,
    Result,
    Sync,
    Touch,
    Write,
    pack_answer,
    unpack_batch,
)
from zookeeper_bridge.machine.writes import configs
from zookeeper_bridge.machine.writes.configs import CHANGES
from zookeeper_bridge.machine.writes.controls import Controls
from zookeeper_bridge.protocol.errors import Err, ZooKeeperError
from zookeeper_bridge.protocol.opcodes import Op
from zookeeper_bridge.protocol.paths import child_of, parent_of
from zookeeper_bridge.tree.acl import Rights
from zookeeper_bridge.tree.kafka_acls import ACL_CHANGES
from zookeeper_bridge.tree.projection import Controller
from zookeeper_bridge.tree.quotas import Enforcement
from zookeeper_bridge.tree.store import (
    PACKAGE,
    SESSION,
    NodeKind,
    Session,
    session_of,
    unpack_session,
)
from zookeeper_bridge.tree.tree import Change, Layer, Tree, View

ANNOUNCEMENTS = (CHANGES, *ACL_CHANGES)  # folders of what is of no use after a while
# between two looks for containers that are empty and times to live that are over, as ZooKeeper's
LOOK_S = 60.0
LOOKED_AT_ONCE = 1000
ANNOUNCED_MS = 15 * 60 * 1000  # how long a change of settings stays in /config/changes, as in Kafka
PAUSE_S = 0.01  # between two portions of one look
SESSIONS_OF_ENTRY = 1 << 16
REFUSED, OK = Result(Err.SESSION_EXPIRED), Result(Err.OK)
CLOSE_SESSION = int(Op.CLOSE_SESSION)


class Machine:
    def __init__(
        self,
        tree: Tree,
        now: float,
        tick_ms: int = 2000,
        look_s: float = LOOK_S,
        hit: Callable[[Limit], None] = lambda limit: None,
        controller: Callable[[], Controller] = lambda: Controller(None, 0),
        quotas: Enforcement | None = None,
        rights: Rights = Rights(),  # noqa: B008  # it cannot change
    ) -> None:
        """`tree`: has every committed change. `hit` gets the limits that are reached. `controller`:
        the one beside which the machine runs.

        `quotas`: None where they are not enforced.
        """
        self._quotas = quotas
        self._rights = rights
        self._tree = tree
        self._controller = controller
        self.hit = hit
        self._tick_ms = tick_ms
        self._layers: deque[Layer] = deque()  # decided and not yet in the tree, oldest first
        # the last decision: nearly always the next one to be replayed
        self._drafted: tuple[Sequence[Record], Layer] = ((), Layer(tree, 0))
        self._expiry = Expiry(tick_ms)
        self._owners: dict[int, Owner] = {}
        self._closing: dict[int, None] = {}  # sessions of which some ephemerals are left
        self._look_s, self._look_at = look_s, now + look_s
        self._to_look: deque[str] = deque()
        for session_id, session in tree.sessions.items():
            self._expiry.touch(session_id, session.timeout_ms, now)
            if session.closing:
                self._closing[session_id] = None

    # the controller's side

    def decide(self, payload: bytes, context: Context, draft: Draft) -> Outcome:
        try:
            batch = unpack_batch(payload)
        except ValueError as error:
            raise KafkaError(Code.INVALID_REQUEST, str(error)) from error
        layer = self._draft(context)
        controls = Controls(draft, self._controller, guarded=self._rights.guarded)
        decision = _Decision(self, layer, batch, context, controls)
        results = [decision.result(request) for request in batch.requests]
        zxid = context.next_offset if layer.changes or draft.records else context.next_offset - 1
        confirm = any(isinstance(request, (Sync, Attach)) for request in batch.requests)
        return Outcome(
            self._records(layer, draft.records),
            pack_answer(zxid, results),
            confirm,
            controls.hand_over,
        )

    def beside(
        self, records: Sequence[Record], context: Context, image: MetadataImage
    ) -> Sequence[Record]:
        if not any(
            isinstance(record, (ConfigSet, TopicCreated, TopicDeleted)) for record in records
        ):
            return ()
        layer = self._draft(context)
        for limit in configs.beside(layer, records, image, context.next_offset, context.wall_ms):
            self.hit(limit)
        return self._records(layer)

    def replay(self, offset: int, records: Sequence[Record]) -> None:
        changes = changes_of(PACKAGE, records)
        if changes:
            layer = (
                self._drafted[1] if records is self._drafted[0] else self._replayed(changes, offset)
            )
            assert layer.offset == offset
            self._layers.append(layer)
            for key, value in changes:
                if key[:1] == SESSION:
                    self._session_changed(
                        session_of(key), None if value is None else unpack_session(value)
                    )

    def _replayed(self, changes: Sequence[Change], offset: int) -> Layer:
        layer = Layer(self._view(), offset)
        layer.replay(changes)
        return layer

    def _records(self, layer: Layer, others: Sequence[Record] = ()) -> list[Record]:
        records: list[Record] = [ExtensionChanged(PACKAGE, layer.changes)] if layer.changes else []
        records += others
        self._drafted = records, layer
        return records

    def _session_changed(self, session_id: int, session: Session | None) -> None:
        """Its timer goes only now: had the entry been refused, it would have to run on."""
        if session is None or session.closing:
            self._expiry.remove_session(session_id)
            self._owners.pop(session_id, None)
            self._closing.pop(session_id, None)
            if session is not None:
                self._closing[session_id] = None

    def deadline(self) -> float:
        if self._closing:
            return -inf
        return min(self._expiry.deadline(), self._look_at)

    def tick(self, context: Context) -> Outcome:
        layer = self._draft(context)
        for session_id in [*self._closing, *self._expiry.due(context.now)]:
            if layer.change_bytes >= CLOSED_BYTES.value:
                break
            if not self.close(layer, session_id, context.next_offset):
                self._expiry.remove_session(session_id)
        if context.now >= self._look_at:
            self._sweep_some(layer, context)
        return Outcome(self._records(layer))

    # what is decided now

    def _view(self) -> View:
        """All that is decided. What the tree has meanwhile needs no layer any more."""
        layers = self._layers
        while layers and layers[0].offset <= self._tree.offset:
            layers.popleft()
            if layers:
                layers[0].below = self._tree
        return layers[-1] if layers else self._tree

    def _draft(self, context: Context) -> Layer:
        return Layer(self._view(), context.next_offset)

    def close(self, layer: Layer, session_id: int, zxid: int) -> bool:
        """Its ephemerals go, and it goes with the last of them. False: there is no such session."""
        session = layer.session(session_id)
        if session is None:
            return False
        full = layer.change_bytes + CLOSED_BYTES.value
        for path in layer.ephemerals(session_id):
            if layer.change_bytes >= full:
                self.hit(CLOSED_BYTES)
                layer.set_session(session_id, session._replace(closing=True))
                return True
            remove(layer, path, zxid)
        layer.set_session(session_id, None)
        return True

    def _sweep_some(self, layer: Layer, context: Context) -> None:
        """Containers that had children and have none, what has outlived its time to live, and old
        announcements: some at a time.
        """
        if not self._to_look:
            self._to_look.extend(self._tree.passing)
            for folder in ANNOUNCEMENTS:
                self._to_look.extend(
                    child_of(folder, name) for name in self._tree.child_names(folder)
                )
        for _ in range(min(LOOKED_AT_ONCE, len(self._to_look))):
            path = self._to_look.popleft()
            node = layer.node(path)
            if node is None or layer.child_count(path):
                continue
            abandoned = node.kind is NodeKind.CONTAINER and layer.family(path).creates > 0
            age_ms = context.wall_ms - node.mtime
            if (
                abandoned
                or (node.kind is NodeKind.TTL and age_ms > node.ttl_ms)
                or (parent_of(path) in ANNOUNCEMENTS and age_ms > ANNOUNCED_MS)
            ):
                remove(layer, path, context.next_offset)
        self._look_at = context.now + (PAUSE_S if self._to_look else self._look_s)


class _Decision:
    """One payload: its requests one after the other, each on what those before it did."""

    def __init__(
        self, machine: Machine, layer: Layer, batch: Batch, context: Context, controls: Controls
    ) -> None:
        self._machine = machine
        self._layer = layer
        self._batch = batch
        self._context = context
        self._controls = controls
        self._opened = 0
        # by session, connection and identities: looked at once
        self._callers: dict[tuple[int, int, int], Caller | Result] = {}

    def result(self, request: Request) -> Result:
        """Once the entry is full, all that is left is to be asked again: no request overtakes
        another.
        """
        if self._layer.change_bytes > DECIDED_BYTES.value:
            self._machine.hit(DECIDED_BYTES)
            return Result(Err.AGAIN)
        if self._controls.commands >= COMMANDS_OF_ENTRY.value:
            self._machine.hit(COMMANDS_OF_ENTRY)
            return Result(Err.AGAIN)
        if type(request) is Write:
            return self._write(request)
        match request:
            case Open():
                return self._open(request)
            case Attach():
                return self._attach(request)
            case Touch(session_ids):
                for session_id in session_ids:
                    self._touch(session_id)
        return Result(Err.OK)

    def _write(self, request: Write) -> Result:
        session_id, connection, identities, opcode, body = request
        caller = self._callers.get((session_id, connection, identities))
        if caller is None:
            caller = self._callers[session_id, connection, identities] = self._caller(request)
        if type(caller) is Result:
            return caller
        assert type(caller) is Caller
        if opcode == CLOSE_SESSION:
            self._machine.close(self._layer, session_id, caller.zxid)
            self._callers.clear()
            return OK
        try:
            return Result(0, perform(self._layer, opcode, body, caller))
        except ZooKeeperError as error:
            if error.limit is not None:
                self._machine.hit(error.limit)
            return Result(error.code)

    def _caller(self, request: Write) -> Caller | Result:
        """Or what all its writes are told."""
        machine, context = self._machine, self._context
        owner = (self._batch.origin, request.connection)
        if not self._touch(request.session_id):
            return REFUSED
        if machine._owners.setdefault(request.session_id, owner) != owner:
            return Result(Err.SESSION_MOVED)
        identities = self._batch.identities[request.identities]
        return Caller(
            request.session_id,
            identities,
            context.wall_ms,
            context.next_offset,
            machine.hit,
            self._controls,
            machine._quotas,
            machine._rights,
        )

    def _open(self, request: Open) -> Result:
        layer, context = self._layer, self._context
        if layer.session_count >= SESSIONS.value:
            self._machine.hit(SESSIONS)
            return Result(Err.QUOTA_EXCEEDED)
        if not layer.secret:
            layer.set_secret(request.secret)
        session_id = context.next_offset * SESSIONS_OF_ENTRY + self._opened
        self._opened += 1
        timeout_ms = clamped(request.timeout_ms, self._machine._tick_ms)
        layer.set_session(session_id, Session(timeout_ms))
        return self._attached(session_id, timeout_ms, request.connection)

    def _attach(self, request: Attach) -> Result:
        session = self._layer.session(request.session_id)
        if (
            session is None
            or session.closing
            or not is_password(self._layer.secret, request.session_id, request.password)
        ):
            return REFUSED
        timeout_ms = clamped(request.timeout_ms, self._machine._tick_ms)
        if timeout_ms != session.timeout_ms:
            self._layer.set_session(request.session_id, session._replace(timeout_ms=timeout_ms))
        return self._attached(request.session_id, timeout_ms, request.connection)

    def _attached(self, session_id: int, timeout_ms: int, connection: int) -> Result:
        self._callers.clear()
        self._machine._owners[session_id] = (self._batch.origin, connection)
        self._machine._expiry.touch(session_id, timeout_ms, self._context.now)
        return Result(
            Err.OK, b"", session_id, timeout_ms, password_of(self._layer.secret, session_id)
        )

    def _touch(self, session_id: int) -> bool:
        session = self._layer.session(session_id)
        if session is None or session.closing:
            return False
        self._machine._expiry.touch(session_id, session.timeout_ms, self._context.now)
        return True
