"""Heartbeat: v0-4; a member of a classic group is there."""

from raftka.broker.handlers.coordinator_request import ask, check_group
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.coordinator.commands import Heartbeat
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.groups import HEARTBEAT, HeartbeatRequest, HeartbeatResponse

response = HEARTBEAT.response


@handles(HEARTBEAT)
def heartbeat(
    request: Request[HeartbeatRequest], coordinators: CoordinatorParts
) -> HeartbeatResponse | Delayed:
    body = request.body
    check_group(request, "READ", body.group_id)
    return ask(
        request,
        coordinators,
        body.group_id,
        Heartbeat(body.group_id, body.generation_id, body.member_id, body.group_instance_id),
        _answer,
    )


def _answer(request: Request[HeartbeatRequest], answer: object) -> HeartbeatResponse:
    if (
        isinstance(answer, KafkaError) and answer.code is not Code.COORDINATOR_LOAD_IN_PROGRESS
    ):  # then all sessions begin anew, as if it had been heard
        return response(error_code=int(answer.code))
    return response()
