"""ShareGroupHeartbeat: v1 (KIP-932); all that a share consumer asks its group coordinator."""

from raftka.broker.context import MetadataCache
from raftka.broker.handlers.coordinator_request import ask, check_group
from raftka.broker.handlers.modern_groups import beat_row, read_subscription
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.share.commands import ShareBeat, ShareHeartbeat
from raftka.versions import SHARE_VERSION
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.share_groups import (
    SHARE_GROUP_HEARTBEAT,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

response = SHARE_GROUP_HEARTBEAT.response


@handles(SHARE_GROUP_HEARTBEAT)
def share_group_heartbeat(
    request: Request[ShareGroupHeartbeatRequest],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
) -> Steps[ShareGroupHeartbeatResponse | Delayed]:
    body, session = request.body, request.session
    check_served(metadata)
    check_group(request, "READ", body.group_id)
    topics = yield from read_subscription(request, body.subscribed_topic_names)
    command = ShareHeartbeat(
        group_id=body.group_id,
        member_id=body.member_id,
        epoch=body.member_epoch,
        rack_id=body.rack_id,
        client_id=session.client_id or "",
        client_host=session.java_host,
        topics=topics,
    )
    return ask(request, coordinators, body.group_id, command, _answer)


def check_served(metadata: MetadataCache) -> None:
    """Raise UNSUPPORTED_VERSION if this cluster does not serve share groups."""
    if not metadata.image.features.get(SHARE_VERSION):
        raise KafkaError(Code.UNSUPPORTED_VERSION)


def _answer(
    request: Request[ShareGroupHeartbeatRequest], answer: ShareBeat | KafkaError
) -> ShareGroupHeartbeatResponse:
    return beat_row(response, answer)
