"""Writes to stored znodes, with ZooKeeper's own order of checks: the client gets the error of the
first that fails.

Works on a Layer; a refusal has changed nothing. Knows no session's timer, no log and no connection,
and nothing of what is the cluster's.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from raftka.limits import Limit
from zookeeper_bridge.limits import TREE_BYTES, ZNODES
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err, ZooKeeperError, beyond
from zookeeper_bridge.protocol.jute import CheckVersion, Create, Delete, SetAcl, SetData
from zookeeper_bridge.protocol.opcodes import Op
from zookeeper_bridge.protocol.paths import check_has_parent, check_new, check_path, parent_of
from zookeeper_bridge.tree import acl
from zookeeper_bridge.tree.acl import Identity, Rights
from zookeeper_bridge.tree.store import NO_FAMILY, NodeKind, Znode, stat_of
from zookeeper_bridge.tree.tree import FROM_THE_BEGINNING, Layer

if TYPE_CHECKING:
    from zookeeper_bridge.machine.writes.controls import Controls
    from zookeeper_bridge.tree.quotas import Enforcement

CREATES = (Op.CREATE, Op.CREATE_2, Op.CREATE_CONTAINER, Op.CREATE_TTL)
MAX_TTL_MS = 0xFF_FFFF_FFFF  # five bytes, as ZooKeeper keeps it
CONTAINER_FLAG = 4
KINDS = {  # by the flags of a create: (kind, whether it gets a number)
    0: (NodeKind.PERSISTENT, False),
    1: (NodeKind.EPHEMERAL, False),
    2: (NodeKind.PERSISTENT, True),
    3: (NodeKind.EPHEMERAL, True),
    CONTAINER_FLAG: (NodeKind.CONTAINER, False),
    5: (NodeKind.TTL, False),
    6: (NodeKind.TTL, True),
}


class Caller(NamedTuple):
    session_id: int
    identities: Sequence[Identity]
    wall_ms: int
    zxid: int  # that the write will have
    hit: Callable[[Limit], None]  # is told of limits
    controls: "Controls"  # for what is the cluster's
    quotas: "Enforcement | None" = None  # None: they are not enforced
    rights: Rights = Rights()


Done = tuple[int, bytes]  # the type it has among the results of a multi, and the body of its answer


def fits(opcode: int, flags: int) -> bool:
    """(A real ZooKeeper stops serving when it is asked for a time to live without such a flag.)"""
    return flags in KINDS and (KINDS[flags][0] is NodeKind.TTL) == (opcode == Op.CREATE_TTL)


def create(layer: Layer, opcode: int, request: Create, caller: Caller) -> Done:
    kind, numbered = KINDS.get(request.flags, (NodeKind.PERSISTENT, False))
    if not fits(opcode, request.flags):
        raise ZooKeeperError(Err.BAD_ARGUMENTS, f"flags {request.flags}")
    if kind is NodeKind.TTL and not 0 < request.ttl_ms <= MAX_TTL_MS:
        raise ZooKeeperError(Err.BAD_ARGUMENTS, f"a time to live of {request.ttl_ms} ms")
    if opcode == Op.CREATE_CONTAINER:
        kind = NodeKind.CONTAINER  # whatever else its flags say
    path = check_has_parent(request.path)
    stored = acl.completed(request.acl, caller.identities, caller.rights.schemes)
    parent_path = parent_of(path)
    parent = _node(layer, parent_path)
    acl.check(parent.acl, acl.CREATE, caller.identities)
    family = layer.family(parent_path)
    path = check_path(f"{path}{family.creates:010d}" if numbered else path)
    if layer.node(path) is not None:
        raise ZooKeeperError(Err.NODE_EXISTS)
    if parent.owner:
        raise ZooKeeperError(Err.NO_CHILDREN_FOR_EPHEMERALS)
    if caller.quotas is not None:
        caller.quotas.check(path, None, request.data)
    check_new(path)
    owner = caller.session_id if kind is NodeKind.EPHEMERAL else 0
    now, ttl_ms = caller.wall_ms, request.ttl_ms if kind is NodeKind.TTL else 0
    node = Znode(
        caller.zxid, caller.zxid, now, now, 0, 0, owner, ttl_ms, kind, stored, request.data
    )
    check_room(layer, node, path)
    layer.set_node(path, node)
    layer.set_family(parent_path, family._replace(creates=family.creates + 1, pzxid=caller.zxid))
    if opcode == Op.CREATE:
        return Op.CREATE, jute.STRING.encode(path)
    return Op.CREATE_2, jute.PATH_STAT.encode((path, stat_of(node, NO_FAMILY, 0)))


def check_room(layer: Layer, node: Znode, path: str) -> None:
    if layer.node_count >= ZNODES.value:
        raise beyond(ZNODES)
    if layer.size_bytes + node.size_bytes + len(path) > TREE_BYTES.value:
        raise beyond(TREE_BYTES)


def delete(layer: Layer, opcode: int, request: Delete, caller: Caller) -> Done:
    path = check_has_parent(request.path)
    if path in FROM_THE_BEGINNING:
        raise ZooKeeperError(Err.BAD_ARGUMENTS, f"{path} stays")
    parent = _node(layer, parent_of(path))
    acl.check(parent.acl, acl.DELETE, caller.identities)
    node = _node(layer, path)
    check_version(request.version, node.version)
    if layer.child_count(path):
        raise ZooKeeperError(Err.NOT_EMPTY)
    remove(layer, path, caller.zxid)
    return Op.DELETE, b""


def remove(layer: Layer, path: str, zxid: int) -> None:
    """One that may go: it has no children."""
    if layer.family(path) != NO_FAMILY:
        layer.set_family(path, None)
    layer.set_node(path, None)
    parent_path = parent_of(path)
    layer.set_family(parent_path, layer.family(parent_path)._replace(pzxid=zxid))


def set_data(layer: Layer, opcode: int, request: SetData, caller: Caller) -> Done:
    path = check_path(request.path)
    node = _node(layer, path)
    acl.check(node.acl, acl.WRITE, caller.identities)
    if caller.quotas is not None:
        caller.quotas.check(path, node, request.data)
    version = check_version(request.version, node.version)
    czxid, _, ctime, _, _, aversion, owner, ttl_ms, kind, stored, _ = node
    after = Znode(
        czxid,
        caller.zxid,
        ctime,
        caller.wall_ms,
        version,
        aversion,
        owner,
        ttl_ms,
        kind,
        stored,
        request.data,
    )
    more = after.more_bytes(node)
    if more > 0 and layer.size_bytes + more > TREE_BYTES.value:
        raise beyond(TREE_BYTES)
    layer.replace_node(path, node, after)
    return Op.SET_DATA, _stat(layer, path, after)


def set_acl(layer: Layer, opcode: int, request: SetAcl, caller: Caller) -> Done:
    path = check_path(request.path)
    stored = acl.completed(request.acl, caller.identities, caller.rights.schemes)
    node = _node(layer, path)
    acl.check(node.acl, acl.ADMIN, caller.identities)
    after = node._replace(acl=stored, aversion=check_version(request.version, node.aversion))
    layer.replace_node(path, node, after)
    return Op.SET_ACL, _stat(layer, path, after)


def check(layer: Layer, opcode: int, request: CheckVersion, caller: Caller) -> Done:
    node = _node(layer, check_path(request.path))
    acl.check(node.acl, acl.READ, caller.identities)
    check_version(request.version, node.version)
    return Op.CHECK, b""


def _reconfig(layer: Layer, opcode: int, request: object, caller: Caller) -> Done:
    raise ZooKeeperError(Err.RECONFIG_DISABLED)


def _node(layer: Layer, path: str) -> Znode:
    node = layer.node(path)
    if node is None:
        raise ZooKeeperError(Err.NO_NODE)
    return node


def check_version(expected: int, current: int) -> int:
    """The next one; -1 is what a client says for any, so a version skips it."""
    if expected not in (-1, current):
        raise ZooKeeperError(Err.BAD_VERSION)
    return next_version(current)


def next_version(current: int) -> int:
    after = current + 1 if current < (1 << 31) - 1 else -(1 << 31)
    return after if after != -1 else 0


def _stat(layer: Layer, path: str, node: Znode) -> bytes:
    return jute.STAT.encode(stat_of(node, layer.family(path), layer.child_count(path)))


Verb = Callable[[Layer, int, jute.Value, Caller], Done]
VERBS: dict[int, Verb] = {
    Op.CREATE: create,
    Op.CREATE_2: create,
    Op.CREATE_CONTAINER: create,
    Op.CREATE_TTL: create,
    Op.DELETE: delete,
    Op.SET_DATA: set_data,
    Op.SET_ACL: set_acl,
    Op.CHECK: check,
    Op.RECONFIG: _reconfig,
}
