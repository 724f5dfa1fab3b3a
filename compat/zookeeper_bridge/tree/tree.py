"""The znodes and sessions of one moment, in memory: Tree is what is committed, a Layer is what is
decided on top of it and not yet committed.

Both change by the entries of the log alone (`put`, `delete`). A layer answers for what it has
changed and asks the one below for the rest, so a controller decides ahead of the log without a
second tree. Knows no rule: whether a znode may be there is operations.py's matter.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

from raftka.metadata.configs.settings import Voter
from zookeeper_bridge.protocol.long_list import LongList, list_of
from zookeeper_bridge.protocol.paths import ROOT, child_of, name_of, parent_of
from zookeeper_bridge.tree.acl import OPEN, PRIVATE, READABLE
from zookeeper_bridge.tree.quotas import Quotas
from zookeeper_bridge.tree.rules import FOLDERS, is_secret
from zookeeper_bridge.tree.store import (
    FAMILY,
    IMPLICIT,
    NO_FAMILY,
    NODE,
    SECRET,
    SESSION,
    Family,
    NodeKind,
    Session,
    Znode,
    family_key,
    node_key,
    pack_family,
    pack_node,
    pack_session,
    path_of,
    session_key,
    session_of,
    unpack_family,
    unpack_node,
    unpack_session,
)

K = TypeVar("K")
V = TypeVar("V")
CONFIG = "/zookeeper/config"
FROM_THE_BEGINNING = dict.fromkeys((ROOT, "/zookeeper", CONFIG, "/zookeeper/quota"), IMPLICIT) | {
    path: IMPLICIT._replace(data=None, acl=PRIVATE if is_secret(path) else OPEN) for path in FOLDERS
}
WORTH_KEEPING = 100  # children
Change = tuple[bytes, bytes | None]  # key, value; None: deleted


class View(Protocol):
    """The tree, or a layer over it, as a decision reads it."""

    secret: bytes
    size_bytes: int

    @property
    def node_count(self) -> int: ...

    @property
    def session_count(self) -> int: ...

    def node(self, path: str) -> Znode | None: ...

    def family(self, path: str) -> Family: ...

    def child_count(self, path: str) -> int: ...

    def session(self, session_id: int) -> Session | None: ...

    def ephemerals(self, session_id: int) -> Iterable[str]: ...

    def child_names(self, path: str) -> Iterable[str]: ...


class Tree:
    """All of it. `offset`: of the metadata, up to which it is applied. `membership`: what
    /zookeeper/config has, of no entry of the log.
    """

    def __init__(self, membership: bytes = b"") -> None:
        self.membership = membership
        self.quotas = Quotas(self)
        self.clear()

    def clear(self) -> None:
        self.offset = 0
        self.secret = b""
        self.nodes: dict[str, Znode] = dict(FROM_THE_BEGINNING)
        # as ZooKeeper's
        self.nodes[CONFIG] = IMPLICIT._replace(version=-1, acl=READABLE, data=self.membership)
        self.families: dict[str, Family] = {}
        self.children: dict[str, dict[str, None]] = {}
        for path in FROM_THE_BEGINNING:
            if path != ROOT:
                self.children.setdefault(parent_of(path), {})[name_of(path)] = None
        self.sessions: dict[int, Session] = {}
        # ephemerals of each session, in the order of their creation
        self.owned: dict[int, dict[str, None]] = {}
        self.passing: dict[str, None] = {}  # containers and what has a time to live
        self.size_bytes = 0
        self._packed: dict[str, bytes | LongList] = {}  # lists of many children, as they are sent

    def set_membership(self, membership: bytes) -> None:
        self.membership = membership
        self.nodes[CONFIG] = self.nodes[CONFIG]._replace(data=membership)

    def load(self, entries: Mapping[bytes, bytes], offset: int) -> None:
        """In place of what was there."""
        self.clear()
        for key, value in entries.items():
            self.replay(key, value)
        self.quotas.load()
        self.offset = offset

    def replay(self, key: bytes, value: bytes | None) -> None:
        kind = key[:1]
        if kind == NODE:
            self.set_node(path_of(key), value)
        elif kind == FAMILY:
            _put(self.families, path_of(key), None if value is None else unpack_family(value))
        elif kind == SESSION:
            _put(self.sessions, session_of(key), None if value is None else unpack_session(value))
        elif kind == SECRET:
            self.secret = value or b""

    def set_node(self, path: str, value: bytes | None) -> None:
        """As an entry says it; None: it is deleted."""
        if value is None:
            self._delete(path)
        else:
            self._put(path, unpack_node(value))

    def _put(self, path: str, node: Znode) -> None:
        before = self.nodes.get(path)
        self.nodes[path] = node
        if before is not None:
            self.size_bytes += node.more_bytes(before)
            self.quotas.changed(path, before, node)
            return
        self.size_bytes += node.size_bytes + len(path)
        parent = parent_of(path)
        self.children.setdefault(parent, {})[name_of(path)] = None
        self._packed.pop(parent, None)
        if node.owner:
            self.owned.setdefault(node.owner, {})[path] = None
        elif node.kind is not NodeKind.PERSISTENT:
            self.passing[path] = None
        self.quotas.changed(path, None, node)

    def _delete(self, path: str) -> None:
        node = self.nodes.pop(path, None)
        if node is None:
            return
        self.size_bytes -= node.size_bytes + len(path)
        self.passing.pop(path, None)
        parent = parent_of(path)
        _discard(self.children, parent, name_of(path))
        self._packed.pop(parent, None)
        if node.owner:
            _discard(self.owned, node.owner, path)
        self.quotas.changed(path, node, None)

    def show(self, path: str, data: bytes) -> None:
        """Other data in a znode, if it is there: no write, so nothing else of it changes."""
        before = self.nodes.get(path)
        if before is not None:
            after = self.nodes[path] = before._replace(data=data)
            self.size_bytes += after.more_bytes(before)

    # as a view

    @property
    def node_count(self) -> int:
        return len(self.nodes)

    @property
    def session_count(self) -> int:
        return len(self.sessions)

    def node(self, path: str) -> Znode | None:
        return self.nodes.get(path)

    def family(self, path: str) -> Family:
        return self.families.get(path, NO_FAMILY)

    def child_count(self, path: str) -> int:
        return len(self.children.get(path, ()))

    def session(self, session_id: int) -> Session | None:
        return self.sessions.get(session_id)

    def ephemerals(self, session_id: int) -> Iterable[str]:
        return self.owned.get(session_id, ())

    def child_names(self, path: str) -> Iterable[str]:
        return self.children.get(path, ())

    # what only readers ask

    def packed_children(self, path: str) -> bytes | LongList:
        """Their names as an array of strings."""
        packed = self._packed.get(path)
        if packed is None:
            names = tuple(self.children.get(path, ()))
            packed = list_of(names)
            if len(names) >= WORTH_KEEPING:
                self._packed[path] = packed
        return packed

    def descendants(self, path: str) -> Iterator[str]:
        """All below it, itself not."""
        pending = [path]
        while pending:
            at = pending.pop()
            for name in self.children.get(at, ()):
                child = child_of(at, name)
                yield child
                pending.append(child)


def membership(voters: Iterable[Voter], version: int) -> bytes:
    """The ensemble as ZooKeeper's dynamic configuration writes it. Peers and elections have one
    port: the controller's. `version` grows with each change.
    """
    addresses = [
        (each.node_id, f"[{each.host}]" if ":" in each.host else each.host, each.port)
        for each in voters
    ]
    lines = [
        f"server.{node_id}={host}:{port}:{port}:participant"
        for node_id, host, port in sorted(addresses)
    ]
    return "\n".join([*lines, f"version={version:x}"]).encode()


def _put(values: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


def _discard(sets: dict[K, dict[str, None]], key: K, member: str) -> None:
    members = sets.get(key)
    if members is not None:
        members.pop(member, None)
        if not members:
            del sets[key]


class Layer:
    """The changes of one entry, on top of another view; or of one operation of a multi, which may
    be dropped.
    """

    def __init__(self, below: View, offset: int) -> None:
        self.below = below
        self.offset = offset
        self.secret = below.secret
        self.node_count, self.session_count = below.node_count, below.session_count
        self.size_bytes = below.size_bytes
        self.changes: list[Change] = []
        self.change_bytes = 0
        self._nodes: dict[str, Znode | None] = {}
        self._families: dict[str, Family] = {}
        self._counts: dict[str, int] = {}
        self._sessions: dict[int, Session | None] = {}
        self._owned: dict[int, dict[str, bool]] = {}  # by session: whether it has that ephemeral

    def node(self, path: str) -> Znode | None:
        return self._nodes[path] if path in self._nodes else self.below.node(path)

    def family(self, path: str) -> Family:
        return self._families[path] if path in self._families else self.below.family(path)

    def child_count(self, path: str) -> int:
        return self._counts[path] if path in self._counts else self.below.child_count(path)

    def session(self, session_id: int) -> Session | None:
        return (
            self._sessions[session_id]
            if session_id in self._sessions
            else self.below.session(session_id)
        )

    def ephemerals(self, session_id: int) -> Iterable[str]:
        known = dict.fromkeys(self.below.ephemerals(session_id), True) | self._owned.get(
            session_id, {}
        )
        return [path for path, there in known.items() if there]

    def child_names(self, path: str) -> Iterable[str]:
        """List the children. Asked seldom: it looks through all changes of this layer."""
        known = dict.fromkeys(self.below.child_names(path), True)
        known.update(
            (name_of(each), node is not None)
            for each, node in self._nodes.items()
            if each != ROOT and parent_of(each) == path
        )
        return [name for name, there in known.items() if there]

    def set_node(self, path: str, node: Znode | None) -> None:
        self._record(node_key(path), None if node is None else pack_node(node))
        self._node(path, node)

    def replace_node(self, path: str, before: Znode, after: Znode) -> None:
        """set_node for one that is there, as it is there."""
        value = pack_node(after)
        key = node_key(path)
        self.changes.append((key, value))
        self.change_bytes += len(key) + len(value)
        self.size_bytes += after.more_bytes(before)
        self._nodes[path] = after

    def set_family(self, path: str, family: Family | None) -> None:
        self._record(family_key(path), None if family is None else pack_family(family))
        self._families[path] = family or NO_FAMILY

    def set_session(self, session_id: int, session: Session | None) -> None:
        self._record(session_key(session_id), None if session is None else pack_session(session))
        self._session(session_id, session)

    def set_secret(self, secret: bytes) -> None:
        self._record(SECRET, secret)
        self.secret = secret

    def replay(self, changes: Iterable[Change]) -> None:
        """As they came from a layer like this one."""
        for key, value in changes:
            self._record(key, value)
            kind = key[:1]
            if kind == NODE:
                self._node(path_of(key), None if value is None else unpack_node(value))
            elif kind == FAMILY:
                self._families[path_of(key)] = NO_FAMILY if value is None else unpack_family(value)
            elif kind == SESSION:
                self._session(session_of(key), None if value is None else unpack_session(value))
            elif kind == SECRET:
                self.secret = value or b""

    def _record(self, key: bytes, value: bytes | None) -> None:
        self.changes.append((key, value))
        self.change_bytes += len(key) + len(value or b"")

    def _session(self, session_id: int, after: Session | None) -> None:
        self.session_count += (after is not None) - (self.session(session_id) is not None)
        self._sessions[session_id] = after

    def _node(self, path: str, after: Znode | None) -> None:
        before = self.node(path)
        self._nodes[path] = after
        born = (after is not None) - (before is not None)
        self.node_count += born
        self.size_bytes += (
            (after.size_bytes if after is not None else 0)
            - (before.size_bytes if before is not None else 0)
            + born * len(path)
        )
        if born:
            parent, owner = parent_of(path), (after or before or IMPLICIT).owner
            self._counts[parent] = self.child_count(parent) + born
            if owner:
                self._owned.setdefault(owner, {})[path] = after is not None
