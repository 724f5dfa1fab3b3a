"""What each write does to the tree, in ZooKeeper's own order of checks: the first that fails is what the client is told.

Works on a Layer; a refusal has changed nothing. Knows no session's timer, no log and no connection.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from raftka.limits import Limit
from zookeeper_bridge import acl, jute
from zookeeper_bridge.acl import Identity
from zookeeper_bridge.errors import Err, ZooKeeperError, beyond
from zookeeper_bridge.jute import CheckVersion, Create, Delete, Malformed, SetAcl, SetData
from zookeeper_bridge.layout import ALWAYS, owns
from zookeeper_bridge.limits import MULTI_BYTES, OPERATIONS_OF_MULTI, TREE_BYTES, ZNODES
from zookeeper_bridge.opcodes import BODIES, IN_MULTI, Op
from zookeeper_bridge.paths import check_new, check_path, parent_of
from zookeeper_bridge.store import NO_FAMILY, NodeKind, Znode, stat_of
from zookeeper_bridge.tree import FROM_THE_BEGINNING, Layer

CREATES = (Op.CREATE, Op.CREATE_2, Op.CREATE_CONTAINER, Op.CREATE_TTL)
MAX_TTL_MS = 0xFF_FFFF_FFFF  # five bytes, as ZooKeeper keeps it
KINDS = {  # by the flags of a create: (kind, whether it gets a number)
    0: (NodeKind.PERSISTENT, False),
    1: (NodeKind.EPHEMERAL, False),
    2: (NodeKind.PERSISTENT, True),
    3: (NodeKind.EPHEMERAL, True),
    4: (NodeKind.CONTAINER, False),
    5: (NodeKind.TTL, False),
    6: (NodeKind.TTL, True),
}


class Caller(NamedTuple):
    session_id: int
    identities: Sequence[Identity]
    wall_ms: int
    zxid: int  # that the write will have
    hit: Callable[[Limit], None]  # is told of limits


def perform(layer: Layer, opcode: int, body: bytes, caller: Caller) -> bytes:
    """The body of the reply. Raises ZooKeeperError, and then nothing has changed."""
    try:
        if opcode == Op.MULTI:
            return _multi(layer, body, caller)
        request = BODIES[Op(opcode)].decode(body)
    except Malformed as error:
        raise ZooKeeperError(Err.MARSHALLING, str(error)) from error
    return _one(layer, opcode, request, caller)[1]


Done = tuple[int, bytes]  # the type it has among the results of a multi, and the body of its answer


def _one(layer: Layer, opcode: int, request: Any, caller: Caller) -> Done:
    if opcode != Op.RECONFIG and owns(request.path or ""):  # it is the cluster's, and not written to from here
        raise ZooKeeperError(Err.NODE_EXISTS if opcode in CREATES and request.path in ALWAYS else Err.NO_AUTH)
    return _VERBS[opcode](layer, opcode, request, caller)


def _create(layer: Layer, opcode: int, request: Create, caller: Caller) -> Done:
    kind, numbered = KINDS.get(request.flags, (NodeKind.PERSISTENT, False))
    if request.flags not in KINDS or (kind is NodeKind.TTL) != (opcode == Op.CREATE_TTL):
        raise ZooKeeperError(Err.BAD_ARGUMENTS, f"flags {request.flags}")
    if kind is NodeKind.TTL and not 0 < request.ttl_ms <= MAX_TTL_MS:
        raise ZooKeeperError(Err.BAD_ARGUMENTS, f"a time to live of {request.ttl_ms} ms")
    path = check_path(request.path, sequential=numbered)
    stored = acl.completed(request.acl, caller.identities)
    parent_path = parent_of(path)
    parent = _node(layer, parent_path)
    acl.check(parent.acl, acl.CREATE, caller.identities)
    family = layer.family(parent_path)
    if numbered:
        path = check_path(f"{path}{family.creates:010d}")
    if layer.node(path) is not None:
        raise ZooKeeperError(Err.NODE_EXISTS)
    if parent.owner:
        raise ZooKeeperError(Err.NO_CHILDREN_FOR_EPHEMERALS)
    check_new(path)
    owner = caller.session_id if kind is NodeKind.EPHEMERAL else 0
    now, ttl_ms = caller.wall_ms, request.ttl_ms if kind is NodeKind.TTL else 0
    node = Znode(caller.zxid, caller.zxid, now, now, 0, 0, owner, ttl_ms, kind, stored, request.data)
    _check_room(layer, node, path)
    layer.set_node(path, node)
    layer.set_family(parent_path, family._replace(creates=family.creates + 1, pzxid=caller.zxid))
    if opcode == Op.CREATE:
        return Op.CREATE, jute.STRING.encode(path)
    return Op.CREATE_2, jute.PATH_STAT.encode((path, stat_of(node, NO_FAMILY, 0)))


def _check_room(layer: Layer, node: Znode, path: str) -> None:
    if layer.node_count >= ZNODES.value:
        raise beyond(ZNODES)
    if layer.size_bytes + node.size_bytes + len(path) > TREE_BYTES.value:
        raise beyond(TREE_BYTES)


def _delete(layer: Layer, opcode: int, request: Delete, caller: Caller) -> Done:
    path = check_path(request.path)
    if path in FROM_THE_BEGINNING:
        raise ZooKeeperError(Err.BAD_ARGUMENTS, f"{path} stays")
    parent = _node(layer, parent_of(path))
    node = _node(layer, path)
    acl.check(parent.acl, acl.DELETE, caller.identities)
    _check_version(request.version, node.version)
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


def _set_data(layer: Layer, opcode: int, request: SetData, caller: Caller) -> Done:
    path = check_path(request.path)
    node = _node(layer, path)
    acl.check(node.acl, acl.WRITE, caller.identities)
    version = _check_version(request.version, node.version)
    after = node._replace(data=request.data, version=version, mzxid=caller.zxid, mtime=caller.wall_ms)
    if layer.size_bytes + after.size_bytes - node.size_bytes > TREE_BYTES.value and after.size_bytes > node.size_bytes:
        raise beyond(TREE_BYTES)
    layer.set_node(path, after)
    return Op.SET_DATA, _stat(layer, path, after)


def _set_acl(layer: Layer, opcode: int, request: SetAcl, caller: Caller) -> Done:
    path = check_path(request.path)
    stored = acl.completed(request.acl, caller.identities)
    node = _node(layer, path)
    acl.check(node.acl, acl.ADMIN, caller.identities)
    after = node._replace(acl=stored, aversion=_check_version(request.version, node.aversion))
    layer.set_node(path, after)
    return Op.SET_ACL, _stat(layer, path, after)


def _check(layer: Layer, opcode: int, request: CheckVersion, caller: Caller) -> Done:
    node = _node(layer, check_path(request.path))
    acl.check(node.acl, acl.READ, caller.identities)
    _check_version(request.version, node.version)
    return Op.CHECK, b""


def _reconfig(layer: Layer, opcode: int, request: object, caller: Caller) -> Done:
    raise ZooKeeperError(Err.RECONFIG_DISABLED)


def _multi(layer: Layer, body: bytes, caller: Caller) -> bytes:
    """All or nothing, and each operation sees what those before it did. It never fails as a whole: its results say what failed."""
    draft = Layer(layer, layer.offset)
    done: list[Done] = []
    operations = jute.decode_multi(body, 0, IN_MULTI, OPERATIONS_OF_MULTI.value + 1)
    if len(operations) > OPERATIONS_OF_MULTI.value:
        raise beyond(OPERATIONS_OF_MULTI)
    for opcode, request in operations:
        try:
            done.append(_one(draft, opcode, request, caller))
            if draft.change_bytes > MULTI_BYTES.value:
                done.pop()
                raise beyond(MULTI_BYTES)
        except ZooKeeperError as error:
            if error.limit is not None:
                caller.hit(error.limit)
            behind = len(operations) - len(done) - 1
            return _failed([Err.OK] * len(done) + [error.code] + [Err.RUNTIME_INCONSISTENCY] * behind)
    layer.replay(draft.changes)
    return b"".join([jute.MULTI_HEADER.pack(kind, False, 0) + answer for kind, answer in done]) + jute.MULTI_END


def _failed(codes: Sequence[Err]) -> bytes:
    return b"".join([jute.MULTI_HEADER.pack(-1, False, code) + jute.INT.encode(code) for code in codes]) + jute.MULTI_END


def _node(layer: Layer, path: str) -> Znode:
    node = layer.node(path)
    if node is None:
        raise ZooKeeperError(Err.NO_NODE)
    return node


def _check_version(expected: int, current: int) -> int:
    """The next one; -1 is what a client says for any, so a version skips it."""
    if expected not in (-1, current):
        raise ZooKeeperError(Err.BAD_VERSION)
    after = current + 1 if current < (1 << 31) - 1 else -(1 << 31)
    return after if after != -1 else 0


def _stat(layer: Layer, path: str, node: Znode) -> bytes:
    return jute.STAT.encode(stat_of(node, layer.family(path), layer.child_count(path)))


Verb = Callable[[Layer, int, Any, Caller], Done]
_VERBS: dict[int, Verb] = {
    Op.CREATE: _create,
    Op.CREATE_2: _create,
    Op.CREATE_CONTAINER: _create,
    Op.CREATE_TTL: _create,
    Op.DELETE: _delete,
    Op.SET_DATA: _set_data,
    Op.SET_ACL: _set_acl,
    Op.CHECK: _check,
    Op.RECONFIG: _reconfig,
}
