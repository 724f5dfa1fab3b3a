"""LeaveGroup: v0-5; one member, from version 3 on several, each with its own error."""

from raftka.broker.handlers.coordinator_request import ask, ask_all, check_group
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.commands import Leave, LeavingMember, Left
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.groups import LEAVE_GROUP, LeaveGroupRequest, LeaveGroupResponse

response = LEAVE_GROUP.response
MEMBERS_OF_COMMAND = 100


@handles(LEAVE_GROUP)
def leave_group(
    request: Request[LeaveGroupRequest], coordinators: CoordinatorParts
) -> Steps[LeaveGroupResponse | Delayed]:
    """Very many members leave by several commands."""
    body = request.body
    check_group(request, "READ", body.group_id)
    if request.version < 3:
        return ask(
            request,
            coordinators,
            body.group_id,
            Leave(body.group_id, (LeavingMember(body.member_id, None),)),
            _one,
        )
    questions = []
    for first in range(0, len(body.members), MEMBERS_OF_COMMAND) or (0,):
        part = body.members[first : first + MEMBERS_OF_COMMAND]
        members = tuple([LeavingMember(each.member_id, each.group_instance_id) for each in part])
        questions.append((body.group_id, Leave(body.group_id, members), "READ", len(members)))
        yield
    return (yield from ask_all(request, coordinators, len(questions), questions, _all))


def _one(request: Request[LeaveGroupRequest], answer: Left | KafkaError) -> LeaveGroupResponse:
    return response(
        error_code=int(answer.code if isinstance(answer, KafkaError) else answer.errors[0])
    )


def _all(
    request: Request[LeaveGroupRequest], answers: list[Left | KafkaError]
) -> Steps[LeaveGroupResponse]:
    codes: list[Code] = []
    for answer in answers:
        if isinstance(answer, KafkaError):
            return response(error_code=int(answer.code))
        codes += answer.errors
    rows = request.encoded_rows(response.members)
    for member, code in zip(request.body.members, codes, strict=True):
        rows.add(
            response.members(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=int(code),
            )
        )
        yield
    return response(members=rows)
