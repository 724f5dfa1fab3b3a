"""LeaveGroup: v0-5; one member, from version 3 on several, each with its own error."""

from typing import TYPE_CHECKING, Any

from raftka.broker.dispatch import Pending, Request, handles
from raftka.broker.handlers.asking import ask, check_group
from raftka.coordinator.commands import Leave, LeavingMember
from raftka.wire.errors import KafkaError
from raftka.wire.messages.groups import LEAVE_GROUP
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

response = LEAVE_GROUP.response


@handles(LEAVE_GROUP)
def leave_group(request: Request, node: "Node") -> Row | Pending:
    body = request.body
    check_group(request, "READ", body.group_id)
    if request.version < 3:
        members: tuple[LeavingMember, ...] = (LeavingMember(body.member_id, None),)
    else:
        members = tuple([LeavingMember(each.member_id, each.group_instance_id) for each in body.members])
    return ask(request, node, body.group_id, Leave(body.group_id, members), _answer)


def _answer(request: Request, answer: Any) -> Row:
    if isinstance(answer, KafkaError):
        return response(error_code=int(answer.code))
    if request.version < 3:
        return response(error_code=int(answer.errors[0]))
    return response(
        members=[
            response.members(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=int(code))
            for each, code in zip(request.body.members, answer.errors, strict=True)
        ]
    )
