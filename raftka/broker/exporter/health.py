"""The health of a node, as a word and a sentence, for load balancers and supervisors. Knows no
HTTP.
"""

from raftka.broker.handlers.services import Services
from raftka.json_values import JsonObject


def health(services: Services) -> dict[str, object]:
    """Return `status`, "ok" or "unavailable" with its `reason`, and the node's place in its
    cluster.
    """
    reason = reason_to_stay_away(services)
    found: JsonObject = {"status": "ok" if reason is None else "unavailable"}
    if reason is not None:
        found["reason"] = reason
    return found | {
        "node": services.context.node_id,
        "roles": sorted(services.metadata.settings.roles),
        "cluster_id": services.metadata.image.cluster_id,
        "controller": services.quorum.leader,
        "broker_epoch": services.lifecycle.broker_epoch,
        "metadata_offset": services.metadata.image.offset,
    }


def reason_to_stay_away(services: Services) -> str | None:
    """Return why clients should use another node; None when they may use this one."""
    if services.context.stopping:
        return "it is stopping"
    if not services.metadata.settings.is_broker:
        return None if services.quorum.leader is not None else "no metadata leader is known"
    lifecycle = services.lifecycle
    if lifecycle.withdrawn:
        return "a log can not be written: see the node's log, then start it again"
    if lifecycle.broker_epoch < 0:
        return "it is not registered with a controller"
    if not services.metadata.image.alive(services.context.node_id):
        return "it is fenced"
    waits_for = services.starting_topics.reason_to_wait()
    if waits_for is not None:
        return waits_for
    silent_s = services.context.runtime.clock.now() - lifecycle.answered_at
    if silent_s > services.metadata.settings.seconds("broker.session.timeout.ms"):
        return f"no controller has answered for {silent_s:.0f} s"
    return None
