"""JoinGroup: v0-9; waits for the rebalance. From version 4 on a new member learns its id first
(KIP-394), 5 static members, 9 skip_assignment.
"""

from raftka.broker.handlers.coordinator_request import ask, check_group
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.commands import Join, Joined, JoinRefused, MemberIdRequired, Protocol
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.groups import JOIN_GROUP, JoinGroupRequest, JoinGroupResponse

response = JOIN_GROUP.response


def _refused(
    request: Request[JoinGroupRequest], code: Code, member_id: str = ""
) -> JoinGroupResponse:
    return response(
        error_code=int(code),
        generation_id=-1,
        protocol_name=None if request.version >= 7 else "",
        member_id=member_id,
    )


@handles(JOIN_GROUP, refused=_refused)
def join_group(
    request: Request[JoinGroupRequest], coordinators: CoordinatorParts
) -> Steps[JoinGroupResponse | Delayed]:
    body, version, session = request.body, request.version, request.session
    check_group(request, "READ", body.group_id)
    protocols = []
    for each in body.protocols:
        protocols.append(Protocol(each.name, bytes(each.metadata)))
        yield
    command = Join(
        group_id=body.group_id,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        client_id=session.client_id or "",
        client_host=session.java_host,
        session_timeout_ms=body.session_timeout_ms,
        rebalance_timeout_ms=body.rebalance_timeout_ms if version >= 1 else body.session_timeout_ms,
        protocol_type=body.protocol_type,
        protocols=tuple(protocols),
        needs_member_id=version >= 4,
        may_skip=version >= 9,
    )
    return ask(request, coordinators, body.group_id, command, _answer, may_wait=True)


def _answer(
    request: Request[JoinGroupRequest], answer: Joined | MemberIdRequired | JoinRefused | KafkaError
) -> Steps[JoinGroupResponse]:
    if isinstance(answer, KafkaError):
        return _refused(
            request,
            answer.code,
            request.body.member_id if answer.code is not Code.GROUP_MAX_SIZE_REACHED else "",
        )
    if isinstance(answer, JoinRefused):
        return _refused(request, answer.code)
    if isinstance(answer, MemberIdRequired):
        return _refused(request, Code.MEMBER_ID_REQUIRED, answer.member_id)
    members = request.encoded_rows(response.members)
    for member in answer.members:
        members.add(
            response.members(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
        )
        yield
    return response(
        generation_id=answer.generation_id,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name
        if answer.protocol_name is not None or request.version >= 7
        else "",
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=members,
    )
