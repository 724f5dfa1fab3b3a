"""ConsumerGroupHeartbeat: v0-1 (KIP-848); all that a consumer of the new protocol asks. From
version 1 on it makes its own member id.
"""

from collections.abc import Sequence

from raftka.broker.context import MetadataCache
from raftka.broker.handlers.coordinator_request import ask, check_group
from raftka.broker.handlers.modern_groups import beat_row, read_subscription
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.consumer.commands import ConsumerBeat, ConsumerHeartbeat
from raftka.versions import GROUP_VERSION
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.consumer_groups import (
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OwnedTopicPartitions,
)

response = CONSUMER_GROUP_HEARTBEAT.response


@handles(CONSUMER_GROUP_HEARTBEAT)
def consumer_group_heartbeat(
    request: Request[ConsumerGroupHeartbeatRequest],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
) -> Steps[ConsumerGroupHeartbeatResponse | Delayed]:
    body, version, session = request.body, request.version, request.session
    check_served(metadata)
    check_group(request, "READ", body.group_id)
    topics = yield from read_subscription(request, body.subscribed_topic_names)
    owned = None if body.topic_partitions is None else (yield from _owned(body.topic_partitions))
    command = ConsumerHeartbeat(
        group_id=body.group_id,
        member_id=body.member_id,
        epoch=body.member_epoch,
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        client_id=session.client_id or "",
        client_host=session.java_host,
        rebalance_timeout_ms=body.rebalance_timeout_ms,
        topics=topics,
        regex=body.subscribed_topic_regex,
        assignor=body.server_assignor,
        owned=owned,
        needs_member_id=version >= 1,
    )
    return ask(request, coordinators, body.group_id, command, _answer)


def _owned(topics: Sequence[OwnedTopicPartitions]) -> Steps[dict[bytes, frozenset[int]]]:
    owned = {}
    for topic in topics:
        owned[topic.topic_id] = frozenset(topic.partitions)
        yield
    return owned


def check_served(metadata: MetadataCache) -> None:
    """Raise UNSUPPORTED_VERSION if this cluster does not serve the new protocol."""
    if (
        not metadata.image.features.get(GROUP_VERSION)
        or "consumer" not in metadata.settings["group.coordinator.rebalance.protocols"]
    ):
        raise KafkaError(Code.UNSUPPORTED_VERSION)


def _answer(
    request: Request[ConsumerGroupHeartbeatRequest], answer: ConsumerBeat | KafkaError
) -> ConsumerGroupHeartbeatResponse:
    return beat_row(response, answer)
