"""Whether a node serves, in one word and a sentence: what a load balancer or a supervisor asks. Knows no HTTP."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raftka.broker.node import Node


def health(node: "Node") -> dict[str, Any]:
    """`status` is "ok", or "unavailable" with its `reason`."""
    reason = unavailable(node)
    found: dict[str, Any] = {"status": "ok" if reason is None else "unavailable"}
    if reason is not None:
        found["reason"] = reason
    return found | {
        "node": node.node_id,
        "roles": sorted(node.settings.roles),
        "cluster_id": node.image.cluster_id,
        "controller": node.quorum.leader,
        "broker_epoch": node.link.broker_epoch,
        "metadata_offset": node.image.offset,
    }


def unavailable(node: "Node") -> str | None:
    """Why no client should come; None when they may."""
    if node.stopping:
        return "it is stopping"
    if not node.settings.is_broker:
        return None if node.quorum.leader is not None else "no metadata leader is known"
    link = node.link
    if link.withdrawn:
        return "a log can not be written: see the node's log, then start it again"
    if link.broker_epoch < 0:
        return "it is not registered with a controller"
    if not node.image.alive(node.node_id):
        return "it is fenced"
    silent_s = node.runtime.clock.now() - link.answered_at
    if silent_s > node.settings.seconds("broker.session.timeout.ms"):
        return f"no controller has answered for {silent_s:.0f} s"
    return None
