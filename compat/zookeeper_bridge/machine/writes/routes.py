"""The commands of writes, by their paths; a write to another path is refused. Knows no command
itself.
"""

from collections.abc import Callable

from zookeeper_bridge.machine.operations import CREATES, Caller, Done, check_version
from zookeeper_bridge.machine.writes import acls, admin, configs, topics
from zookeeper_bridge.machine.writes.write_request import Written
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err, ZooKeeperError
from zookeeper_bridge.protocol.opcodes import Op
from zookeeper_bridge.protocol.paths import ROOT, check_path, parent_of
from zookeeper_bridge.tree import acl
from zookeeper_bridge.tree.rules import Rule
from zookeeper_bridge.tree.store import NodeKind, Znode
from zookeeper_bridge.tree.tree import Layer

Verb = Callable[[Written], None]
COMMANDS: dict[str, dict[str, Verb]] = {
    "/brokers/topics/*": {"create": topics.create, "set": topics.grow},
    "/config/topics/*": {
        "create": configs.keep_for_later,
        "set": configs.replace_topics,
        "delete": configs.remove_config,
    },
    "/config/brokers/*": {
        "create": configs.create_brokers,
        "set": configs.replace_brokers,
        "delete": configs.clear_brokers,
    },
    "/admin/delete_topics/*": {"create": topics.delete},
    "/admin/reassign_partitions": {
        "create": admin.move,
        "set": admin.move_more,
        "delete": admin.call_off,
    },
    "/admin/preferred_replica_election": {"create": admin.elect},
    "/latest_producer_id_block": {"set": admin.take_producer_ids},
    "/controller": {"delete": admin.hand_over},
    "/kafka-acl/*/*": {"create": acls.create, "set": acls.replace, "delete": acls.remove},
    "/kafka-acl-extended/prefixed/*/*": {
        "create": acls.create,
        "set": acls.replace,
        "delete": acls.remove,
    },
}


def write(rule: Rule, layer: Layer, opcode: int, request: jute.Value, caller: Caller) -> Done:
    verb = (
        "create"
        if opcode in CREATES
        else {Op.SET_DATA: "set", Op.DELETE: "delete", Op.CHECK: "check"}.get(Op(opcode), "acl")
    )
    path = check_path(request.path)
    projection = caller.controls.projection(layer)
    node = projection.node(path)
    command = COMMANDS.get(rule.pattern, {}).get(verb)
    if verb == "check":
        return _check(node, request.version, caller)
    if verb == "create":
        if parent_of(path) != ROOT:  # which is the clients' own
            _check_guard(caller)
        if node is not None:
            raise ZooKeeperError(Err.NODE_EXISTS)
        # has to be one, and is not kept
        acl.completed(request.acl, caller.identities, caller.rights.schemes)
    elif node is None:
        raise ZooKeeperError(Err.NO_NODE)
    _check_guard(caller)
    if command is None:
        raise ZooKeeperError(Err.NO_AUTH)
    if verb == "create" and request.flags != 0:
        raise ZooKeeperError(
            Err.BAD_ARGUMENTS,
            f"flags {request.flags}: what is the cluster's is no client's ephemeral, and has its "
            "own name",
        )
    if verb in ("set", "delete") and node is not None:
        check_version(request.version, node.version)
    command(Written(layer, path, None if verb == "delete" else request.data, node, caller))
    return _answer(verb, opcode, path, layer, caller)


def _check_guard(caller: Caller) -> None:
    """Raises NO_AUTH."""
    if caller.rights.guarded:
        acl.check(acl.GUARDED, acl.WRITE, caller.identities)


def _check(node: Znode | None, version: int, caller: Caller) -> Done:
    if node is None:
        raise ZooKeeperError(Err.NO_NODE)
    acl.check(node.acl, acl.READ, caller.identities)
    check_version(version, node.version)
    return Op.CHECK, b""


def _answer(verb: str, opcode: int, path: str, layer: Layer, caller: Caller) -> Done:
    if verb == "delete":
        return Op.DELETE, b""
    if opcode == Op.CREATE:
        return Op.CREATE, jute.STRING.encode(path)
    projection = caller.controls.projection(layer)
    node = projection.node(path)
    if node is None:  # a marker, that was there for a moment
        node = Znode(
            caller.zxid,
            caller.zxid,
            caller.wall_ms,
            caller.wall_ms,
            0,
            0,
            0,
            0,
            NodeKind.PERSISTENT,
            acl.OPEN,
            None,
        )
    stat = projection.stat(path, node)
    return (
        (Op.SET_DATA, jute.STAT.encode(stat))
        if verb == "set"
        else (Op.CREATE_2, jute.PATH_STAT.encode((path, stat)))
    )
