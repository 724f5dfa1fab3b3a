"""Operations that change nothing, answered at once from this node's tree, and watches. Knows no log
and no bytes of headers.
"""

from collections.abc import Callable, Sequence

from zookeeper_bridge.limits import READS_OF_MULTI, REPLY_BYTES, WATCHES, WATCHES_OF_CONNECTION
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err, ZooKeeperError, beyond
from zookeeper_bridge.protocol.jute import Malformed, Path, PathMode, PathWatch, SetWatches
from zookeeper_bridge.protocol.long_list import LongList, list_of
from zookeeper_bridge.protocol.opcodes import BODIES, IN_MULTI_READ, Op
from zookeeper_bridge.protocol.paths import ROOT
from zookeeper_bridge.server.connection import ClientConnection
from zookeeper_bridge.tree import acl
from zookeeper_bridge.tree.layout import Layout
from zookeeper_bridge.tree.projection import computes
from zookeeper_bridge.tree.rules import rule_of
from zookeeper_bridge.tree.store import Znode
from zookeeper_bridge.tree.tree import Tree
from zookeeper_bridge.tree.watches import EventType, Kind, Watches

MULTI_READ, WHO_AM_I = int(Op.MULTI_READ), int(Op.WHO_AM_I)
DECODERS = {int(op): kind.decode for op, kind in BODIES.items()}
MODES = {0: Kind.PERSISTENT, 1: Kind.RECURSIVE}


class Reader:
    def __init__(self, tree: Tree, layout: Layout, watches: Watches[ClientConnection]) -> None:
        self._tree = tree
        self._layout = layout
        self._watches = watches
        self._verbs: dict[int, Callable[[ClientConnection, jute.Value], bytes | LongList]] = {
            Op.EXISTS: self._exists,
            Op.GET_DATA: self._get_data,
            Op.GET_ACL: self._get_acl,
            Op.GET_CHILDREN: self._get_children,
            Op.GET_CHILDREN_2: self._get_children_2,
            Op.CHECK_WATCHES: self._check_watches,
            Op.REMOVE_WATCHES: self._remove_watches,
            Op.SET_WATCHES: self._set_watches,
            Op.SET_WATCHES_2: self._set_watches,
            Op.ADD_WATCH: self._add_watch,
            Op.GET_EPHEMERALS: self._get_ephemerals,
            Op.GET_ALL_CHILDREN_NUMBER: self._get_all_children_number,
        }

    def knows(self, opcode: int) -> bool:
        return opcode in self._verbs or opcode in (MULTI_READ, WHO_AM_I)

    def answer(self, connection: ClientConnection, opcode: int, body: bytes) -> bytes | LongList:
        """The body of the reply. Raises ZooKeeperError."""
        try:
            if opcode == MULTI_READ:
                return self._multi_read(connection, body)
            if opcode == WHO_AM_I:
                return jute.IDENTITIES.encode(
                    [
                        (scheme, id.partition(":")[0] if scheme == "digest" else id)
                        for scheme, id in connection.identities
                    ]
                )
            request = DECODERS[opcode](body)
        except Malformed as error:
            raise ZooKeeperError(Err.MARSHALLING, str(error)) from error
        return self._verbs[opcode](connection, request)

    # znodes

    def _find(self, path: str) -> Znode | None:
        """Stored, or computed of the cluster's metadata."""
        return self._layout.node(path)

    def _node(self, path: str) -> Znode:
        node = self._layout.node(path)
        if node is None:
            raise ZooKeeperError(Err.NO_NODE)
        return node

    def _stat(self, path: str, node: Znode) -> jute.Stat:
        return self._layout.stat(path, node)

    def _children(self, path: str) -> bytes | LongList:
        if computes(path):
            found = self._layout.find(path)
            return (
                self._layout.packed_children(path, found)
                if found is not None
                else jute.STRINGS.encode(())
            )
        if self._layout.more(path):
            return list_of(self._layout.children(path))
        return self._tree.packed_children(path)

    def _exists(self, connection: ClientConnection, request: PathWatch) -> bytes:
        path = _looked_for(request.path)
        if "\0" in path:
            raise ZooKeeperError(Err.BAD_ARGUMENTS)
        node = self._find(path)
        # of Kafka's znodes it asks no permission: its tools are of a time when ZooKeeper did not
        if node is not None and rule_of(path) is None:
            acl.check(node.acl, acl.READ, connection.identities)
        if request.watch:
            self._watch(connection, Kind.DATA, path)
        shown = self._layout.shown_to(path, self._node(path), connection.identities)
        return jute.STAT.encode(self._stat(path, shown))

    def _get_data(self, connection: ClientConnection, request: PathWatch) -> bytes:
        path = _looked_for(request.path)
        node = self._node(path)
        acl.check(node.acl, acl.READ, connection.identities)
        if request.watch:
            self._watch(connection, Kind.DATA, path)
        node = self._layout.shown_to(path, node, connection.identities)
        return jute.DATA_STAT.encode((node.data, self._stat(path, node)))

    def _get_acl(self, connection: ClientConnection, request: Path) -> bytes:
        path = _looked_for(request.path)
        node = self._node(path)
        acl.check(node.acl, acl.READ | acl.ADMIN, connection.identities)
        shown: Sequence[jute.Acl] = acl.entries_of(node.acl)
        if not acl.allows(node.acl, acl.ADMIN, connection.identities):
            shown = acl.hidden(node.acl)
        return jute.ACLS_STAT.encode(
            (shown, self._stat(path, self._layout.shown_to(path, node, connection.identities)))
        )

    def _get_children(self, connection: ClientConnection, request: PathWatch) -> bytes | LongList:
        path = _looked_for(request.path)
        node = self._node(path)
        acl.check(node.acl, acl.READ, connection.identities)
        if request.watch:
            self._watch(connection, Kind.CHILDREN, path)
        return self._children(path)

    def _get_children_2(self, connection: ClientConnection, request: PathWatch) -> bytes | LongList:
        children = self._get_children(connection, request)
        path = _looked_for(request.path)
        stat = jute.STAT.encode(
            self._stat(path, self._layout.shown_to(path, self._node(path), connection.identities))
        )
        return children.with_tail(stat) if isinstance(children, LongList) else children + stat

    def _multi_read(self, connection: ClientConnection, body: bytes) -> bytes:
        parts, size = [], 0
        reads = jute.decode_multi(body, 0, IN_MULTI_READ, READS_OF_MULTI.value + 1)
        if len(reads) > READS_OF_MULTI.value:
            raise beyond(READS_OF_MULTI)
        for opcode, request in reads:
            try:
                found = self._verbs[opcode](connection, request)
                if isinstance(found, LongList):
                    self._check_size(size + found.size)
                    found = b"".join(found.pieces())
                part = jute.MULTI_HEADER.pack(opcode, False, 0) + found
            except ZooKeeperError as error:
                part = jute.MULTI_HEADER.pack(-1, False, error.code) + jute.INT.encode(error.code)
            parts.append(part)
            size += len(part)
            self._check_size(size)
        return b"".join(parts) + jute.MULTI_END

    def _get_ephemerals(self, connection: ClientConnection, request: Path) -> bytes:
        within = request.path or ROOT
        prefix = "" if within.strip() in ("", ROOT) else within
        body = jute.STRINGS.encode(
            [
                path
                for path in self._tree.ephemerals(connection.session_id)
                if path.startswith(prefix)
            ]
        )
        self._check_size(len(body))
        return body

    def _get_all_children_number(self, connection: ClientConnection, request: Path) -> bytes:
        path = _looked_for(request.path)
        acl.check(self._node(path).acl, acl.READ, connection.identities)
        if path == ROOT:
            return jute.INT.encode(self._tree.node_count - 1 + self._layout.computed_count)
        if rule_of(path) is not None:
            return jute.INT.encode(self._count(path))
        return jute.INT.encode(sum(1 for _ in self._tree.descendants(path)))

    def _count(self, path: str) -> int:
        return sum(1 + self._count(f"{path}/{name}") for name in self._layout.children(path))

    def _check_size(self, size: int) -> None:
        if size > REPLY_BYTES.value:
            raise beyond(REPLY_BYTES)

    # watches

    def _watch(self, connection: ClientConnection, kind: Kind, path: str) -> None:
        watches = self._watches
        for limit, count in (
            (WATCHES_OF_CONNECTION, watches.count_of(connection)),
            (WATCHES, watches.count),
        ):
            if count >= limit.value and not watches.has(connection, kind, path):
                raise beyond(limit)
        watches.add(connection, kind, path)

    def _add_watch(self, connection: ClientConnection, request: PathMode) -> bytes:
        if request.mode not in MODES:
            raise ZooKeeperError(Err.MARSHALLING, f"mode {request.mode}")
        self._watch(connection, MODES[request.mode], _looked_for(request.path))
        return jute.INT.encode(0)

    def _check_watches(self, connection: ClientConnection, request: PathMode) -> bytes:
        if not self._watches.has(connection, _kind(request.mode), request.path or ""):
            raise ZooKeeperError(Err.NO_WATCHER)
        return b""

    def _remove_watches(self, connection: ClientConnection, request: PathMode) -> bytes:
        if not self._watches.remove(connection, _kind(request.mode), request.path or ""):
            raise ZooKeeperError(Err.NO_WATCHER)
        return b""

    def _set_watches(self, connection: ClientConnection, request: SetWatches) -> bytes:
        """Set the watches again after a reconnect; events for changes since then are sent at
        once.
        """
        since = request.relative_zxid
        for path in _paths(request.data):
            node = self._find(path)
            if node is None:
                connection.event(EventType.DELETED, path, -1)
            elif node.mzxid > since and _may_read(connection, node):
                connection.event(EventType.CHANGED, path, -1)
            else:
                self._watch(connection, Kind.DATA, path)
        for path in _paths(request.exist):
            node = self._find(path)
            if node is not None and _may_read(connection, node):
                connection.event(EventType.CREATED, path, -1)
            else:
                self._watch(connection, Kind.DATA, path)
        for path in _paths(request.child):
            node = self._find(path)
            if node is None:
                connection.event(EventType.DELETED, path, -1)
            elif self._stat(path, node).pzxid > since and _may_read(connection, node):
                connection.event(EventType.CHILD, path, -1)
            else:
                self._watch(connection, Kind.CHILDREN, path)
        for kind, paths in (
            (Kind.PERSISTENT, request.persistent),
            (Kind.RECURSIVE, request.recursive),
        ):
            for path in _paths(paths):
                self._watch(connection, kind, path)
        return b""


def _may_read(connection: ClientConnection, node: Znode) -> bool:
    return acl.allows(node.acl, acl.READ, connection.identities)


def _paths(paths: Sequence[str | None] | None) -> list[str]:
    return [_looked_for(path) for path in paths or ()]


def _looked_for(path: str | None) -> str:
    """Return the path to look for: the empty one is the root's other name, and an invalid one is
    not found.
    """
    if path is None:
        raise ZooKeeperError(Err.MARSHALLING, "there is no path")
    return path or ROOT


def _kind(number: int) -> Kind:
    try:
        return Kind(number)
    except ValueError:
        raise ZooKeeperError(Err.MARSHALLING, f"a watch of type {number}") from None
