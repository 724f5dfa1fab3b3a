"""Znodes and sessions as the metadata log keeps them: entries of a map of bytes to bytes, under the
name of PACKAGE.

    n PATH     a znode: stat, ACL, data
    c PATH     of a znode that has had children: how many were ever created, and when that last
               changed
    s ID       a session
    k          the secret that session passwords are made with

The first byte of a value of n, c and s is its version. Knows no rule of ZooKeeper's, and what they
become in memory is tree.py's matter.
"""

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from raftka.versions import ZNODES
from zookeeper_bridge.protocol.jute import Stat
from zookeeper_bridge.tree.acl import OPEN

PACKAGE = "zookeeper"
NODE, FAMILY, SESSION, SECRET = b"n", b"c", b"s", b"k"

# format, czxid, mzxid, ctime, mtime, version, aversion, owner, ttl, kind, bytes of the ACL
_NODE = Struct(">BqqqqiiqqBi")
_FAMILY = Struct(">Bqq")
_SESSION = Struct(">Bi?")
_ID = Struct(">q")
FORMAT = 0


class NodeKind(IntEnum):
    PERSISTENT = 0
    EPHEMERAL = 1
    CONTAINER = 2
    TTL = 3


class Znode(NamedTuple):
    czxid: int
    mzxid: int
    ctime: int  # ms since the epoch
    mtime: int
    version: int
    aversion: int
    owner: int  # session; 0: it is no ephemeral
    ttl_ms: int
    kind: NodeKind
    acl: bytes  # as jute has it
    data: bytes | None

    @property
    def size_bytes(self) -> int:
        """The znode's bytes in the log, without its path."""
        return _NODE.size + len(self.acl) + len(self.data or b"")

    def more_bytes(self, before: "Znode") -> int:
        """Than it took before."""
        return len(self.data or b"") - len(before.data or b"") + len(self.acl) - len(before.acl)


class Family(NamedTuple):
    creates: int = 0  # ever under this znode: the next sequential name
    pzxid: int = 0  # of the last that came or went; 0: none yet


class Session(NamedTuple):
    timeout_ms: int
    closing: bool = False  # its ephemerals go, some with each entry; nobody can use it any more


# what every tree has from the beginning
IMPLICIT = Znode(0, 0, 0, 0, 0, 0, 0, 0, NodeKind.PERSISTENT, OPEN, b"")
NO_FAMILY = Family()


def node_key(path: str) -> bytes:
    return NODE + path.encode("utf-8", "surrogatepass")


def family_key(path: str) -> bytes:
    return FAMILY + path.encode("utf-8", "surrogatepass")


def session_key(session_id: int) -> bytes:
    return SESSION + _ID.pack(session_id)


def path_of(key: bytes) -> str:
    return key[1:].decode("utf-8", "surrogatepass")


def session_of(key: bytes) -> int:
    session_id: int = _ID.unpack_from(key, 1)[0]
    return session_id


def pack_node(node: Znode) -> bytes:
    czxid, mzxid, ctime, mtime, version, aversion, owner, ttl_ms, kind, acl, data = node
    head = _NODE.pack(
        FORMAT, czxid, mzxid, ctime, mtime, version, aversion, owner, ttl_ms, kind, len(acl)
    )
    return b"".join((head, acl, b"\0" if data is None else b"\1" + data))


def check_format(value: bytes) -> None:
    """Raise NewerFormat for a value that a later release wrote."""
    if value[:1] > _NEWEST:
        ZNODES.check(value[0], "the bridge")


_NEWEST = bytes([FORMAT])


def unpack_node(value: bytes) -> Znode:
    """Raises NewerFormat."""
    check_format(value)
    _, czxid, mzxid, ctime, mtime, version, aversion, owner, ttl_ms, kind, size = _NODE.unpack_from(
        value
    )
    at = _NODE.size + size
    acl = value[_NODE.size : at]
    data = value[at + 1 :] if value[at] else None
    return Znode(
        czxid,
        mzxid,
        ctime,
        mtime,
        version,
        aversion,
        owner,
        ttl_ms,
        KINDS[kind],
        OPEN if acl == OPEN else acl,
        data,
    )


KINDS = tuple(NodeKind)


def pack_family(family: Family) -> bytes:
    return _FAMILY.pack(FORMAT, *family)


def unpack_family(value: bytes) -> Family:
    check_format(value)
    return Family(*_FAMILY.unpack(value)[1:])


def pack_session(session: Session) -> bytes:
    return _SESSION.pack(FORMAT, *session)


def unpack_session(value: bytes) -> Session:
    check_format(value)
    return Session(*_SESSION.unpack(value)[1:])


def int32(number: int) -> int:
    """As a counter of 32 bits shows it."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def stat_of(node: Znode, family: Family, children: int) -> Stat:
    """Every create and every delete of a child is a version of the children; deletes are what was
    created and is not there.
    """
    return Stat(
        node.czxid,
        node.mzxid,
        node.ctime,
        node.mtime,
        node.version,
        int32(2 * family.creates - children),
        node.aversion,
        node.owner,
        len(node.data or b""),
        children,
        family.pzxid or node.czxid,
    )
