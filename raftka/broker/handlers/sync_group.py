"""SyncGroup: v0-5; the leader brings the assignments, each member waits for its own."""

from raftka.broker.handlers.coordinator_request import ask, check_group
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.commands import Sync, Synced
from raftka.wire.errors import KafkaError
from raftka.wire.messages.groups import SYNC_GROUP, SyncGroupRequest, SyncGroupResponse

response = SYNC_GROUP.response


@handles(SYNC_GROUP)
def sync_group(
    request: Request[SyncGroupRequest], coordinators: CoordinatorParts
) -> Steps[SyncGroupResponse | Delayed]:
    body = request.body
    check_group(request, "READ", body.group_id)
    assignments = []
    for each in body.assignments:
        assignments.append((each.member_id, bytes(each.assignment)))
        yield
    command = Sync(
        group_id=body.group_id,
        generation_id=body.generation_id,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        protocol_type=body.protocol_type,
        protocol_name=body.protocol_name,
        assignments=tuple(assignments),
        needs_protocol=request.version >= 5,
    )
    return ask(request, coordinators, body.group_id, command, _answer, may_wait=True)


def _answer(request: Request[SyncGroupRequest], answer: Synced | KafkaError) -> SyncGroupResponse:
    if isinstance(answer, KafkaError):
        return response(error_code=int(answer.code))
    return response(
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )
