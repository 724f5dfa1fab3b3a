"""ShareGroupHeartbeat: v1 (KIP-932); all that a share consumer asks its group coordinator."""

from raftka.broker.context import MetadataCache
from raftka.broker.handlers.coordinator_request import ask, check_group
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.access.authorizer import TOPIC
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.share.commands import ShareBeat, ShareHeartbeat
from raftka.limits import SUBSCRIBED_NAMES
from raftka.versions import SHARE_VERSION
from raftka.wire.errors import Code, KafkaError, check_limit
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
    check_limit(SUBSCRIBED_NAMES, len(body.subscribed_topic_names or ()), code=Code.INVALID_REQUEST)
    for name in body.subscribed_topic_names or ():
        if not request.may("DESCRIBE", (TOPIC, name)):
            raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
        yield
    command = ShareHeartbeat(
        group_id=body.group_id,
        member_id=body.member_id,
        epoch=body.member_epoch,
        rack_id=body.rack_id,
        client_id=session.client_id or "",
        client_host="/" + session.peer.rpartition(":")[0].strip("[]"),  # as Java writes an address
        topics=None if body.subscribed_topic_names is None else tuple(body.subscribed_topic_names),
    )
    return ask(request, coordinators, body.group_id, command, _answer)


def check_served(metadata: MetadataCache) -> None:
    """Raise UNSUPPORTED_VERSION if this cluster does not serve share groups."""
    if not metadata.image.features.get(SHARE_VERSION):
        raise KafkaError(Code.UNSUPPORTED_VERSION)


def _answer(
    request: Request[ShareGroupHeartbeatRequest], answer: ShareBeat | KafkaError
) -> ShareGroupHeartbeatResponse:
    if isinstance(answer, KafkaError):
        return response(error_code=int(answer.code), error_message=answer.message)
    row = response(
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.interval_ms,
    )
    if answer.assignment is not None:
        topic_row = response.assignment.topic_partitions
        topics = [
            topic_row(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in answer.assignment.items()
        ]
        row.assignment = response.assignment(topic_partitions=topics)
    return row
