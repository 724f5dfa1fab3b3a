"""One write to what is the cluster's, as its command gets it, and what several commands do to the tree. Knows no command."""

from typing import NamedTuple

from zookeeper_bridge.acl import OPEN
from zookeeper_bridge.operations import Caller, check_room, remove
from zookeeper_bridge.paths import check_new, name_of, parent_of
from zookeeper_bridge.store import NodeKind, Znode
from zookeeper_bridge.tree import Layer


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
    """A new znode in the tree."""
    check_new(path)
    node = Znode(zxid, zxid, wall_ms, wall_ms, 0, 0, 0, 0, NodeKind.PERSISTENT, OPEN, data)
    check_room(layer, node, path)
    layer.set_node(path, node)
    parent = parent_of(path)
    family = layer.family(parent)
    layer.set_family(parent, family._replace(creates=family.creates + 1, pzxid=zxid))


def come_and_go(written: Written) -> None:
    """It is done at once: watchers hear of its znode twice."""
    zxid = written.caller.zxid
    put(written.layer, written.path, written.data, zxid, written.caller.wall_ms)
    remove(written.layer, written.path, zxid)
