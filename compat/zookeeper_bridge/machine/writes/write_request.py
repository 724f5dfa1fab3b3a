"""One write to what is the cluster's, as its command gets it, and what several commands do to the
tree. Knows no command.
"""

from typing import NamedTuple

from zookeeper_bridge.machine.operations import Caller, check_room, remove
from zookeeper_bridge.protocol.paths import check_new, name_of, parent_of
from zookeeper_bridge.tree.acl import OPEN
from zookeeper_bridge.tree.store import NodeKind, Znode
from zookeeper_bridge.tree.tree import Layer


class Written(NamedTuple):
    layer: Layer
    path: str
    data: bytes | None  # None as well: it is a delete
    node: Znode | None  # as it was; None: it is a create
    caller: Caller

    @property
    def name(self) -> str:
        return name_of(self.path)


def put(layer: Layer, path: str, data: bytes | None, zxid: int, wall_ms: int) -> None:
    """A new znode in the tree. Raises ZooKeeperError when there is no room."""
    node = _new(data, zxid, wall_ms)
    check_new(path)
    check_room(layer, node, path)
    _set(layer, path, node, zxid)


def _new(data: bytes | None, zxid: int, wall_ms: int) -> Znode:
    return Znode(zxid, zxid, wall_ms, wall_ms, 0, 0, 0, 0, NodeKind.PERSISTENT, OPEN, data)


def _set(layer: Layer, path: str, node: Znode, zxid: int) -> None:
    layer.set_node(path, node)
    parent = parent_of(path)
    family = layer.family(parent)
    layer.set_family(parent, family._replace(creates=family.creates + 1, pzxid=zxid))


def come_and_go(written: Written) -> None:
    """Create the znode and remove it at once: watchers hear of it twice. It takes no room, and
    needs none.
    """
    zxid = written.caller.zxid
    check_new(written.path)
    _set(written.layer, written.path, _new(written.data, zxid, written.caller.wall_ms), zxid)
    remove(written.layer, written.path, zxid)
