"""Groups of the new protocol (KIP-848), which kafka-python cannot describe yet: asked by our own client, on a connection of its own."""

from collections.abc import Mapping
from typing import Any

from raftka.cluster.ask import call
from raftka.json_values import Json, JsonObject
from raftka.wire.messages.consumer_groups import CONSUMER_GROUP_DESCRIBE
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR

BY_KEYS, BY_NAME = 4, 0  # versions: the first with several keys, and the first at all


def described(bootstrap_server: str, group_id: str) -> Mapping[str, Json] | None:
    """As kafka-python describes a classic one; None: there is no such group, or nobody here knows the protocol."""
    for address in bootstrap_server.split(","):
        host, _, port = address.strip().rpartition(":")
        try:
            asked = FIND_COORDINATOR.request(coordinator_keys=[group_id])
            found = call((host.strip("[]"), int(port)), FIND_COORDINATOR, asked, version=BY_KEYS).coordinators[0]
            if found.error_code:
                return None
            request = CONSUMER_GROUP_DESCRIBE.request(group_ids=[group_id])
            group = call((found.host, found.port), CONSUMER_GROUP_DESCRIBE, request, version=BY_NAME).groups[0]
        except OSError:
            continue  # also an older Kafka, which closes the connection
        return None if group.error_code else {"group_state": group.group_state, "members": [_member(each) for each in group.members]}
    return None


def _member(row: Any) -> JsonObject:
    topics = [{"topic": each.topic_name, "partitions": list(each.partitions)} for each in row.assignment.topic_partitions]
    return {"member_id": row.member_id, "client_host": row.client_host, "member_assignment": {"assigned_partitions": topics}}
