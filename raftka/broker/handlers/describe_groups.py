"""DescribeGroups: v0-6; classic groups with their members. A group that is not there is Dead; from
version 6 on that is an error too.

One that is named twice is described once: an answer is no larger than what there is.
"""

from raftka.broker.handlers.coordinator_request import ask_of_each
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.access.authorizer import GROUP
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator import commands
from raftka.coordinator.commands import DescribeGroup
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.groups import (
    DESCRIBE_GROUPS,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

response = DESCRIBE_GROUPS.response


def _refused(request: Request[DescribeGroupsRequest], code: Code) -> Steps[DescribeGroupsResponse]:
    groups = request.encoded_rows(response.groups)
    for group_id in request.body.groups:
        groups.add(response.groups(group_id=group_id, error_code=int(code)))
        yield
    return response(groups=groups)


@handles(DESCRIBE_GROUPS, refused=_refused)
def describe_groups(
    request: Request[DescribeGroupsRequest], coordinators: CoordinatorParts
) -> Steps[DescribeGroupsResponse | Delayed]:
    return (
        yield from ask_of_each(
            request,
            coordinators,
            dict.fromkeys(request.body.groups),
            "DESCRIBE",
            DescribeGroup,
            _answer,
        )
    )


def _answer(
    request: Request[DescribeGroupsRequest], answers: list[commands.DescribedGroup | KafkaError]
) -> Steps[DescribeGroupsResponse]:
    groups = request.encoded_rows(response.groups)
    for group_id, answer in zip(dict.fromkeys(request.body.groups), answers, strict=True):
        groups.add((yield from _group(request, group_id, answer)))
        yield
    return response(groups=groups)


def _group(
    request: Request[DescribeGroupsRequest],
    group_id: str,
    answer: commands.DescribedGroup | KafkaError,
) -> Steps[DescribedGroup]:
    if isinstance(answer, KafkaError):
        if answer.code is not Code.GROUP_ID_NOT_FOUND:
            return response.groups(
                group_id=group_id, error_code=int(answer.code), error_message=answer.message
            )
        code = int(answer.code) if request.version >= 6 else 0
        row = response.groups(
            group_id=group_id,
            error_code=code,
            error_message=answer.message if code else None,
            group_state="Dead",
        )
    else:
        members = request.encoded_rows(response.groups.members)
        for member in answer.members:
            members.add(_member(member))
            yield
        row = response.groups(
            group_id=group_id,
            group_state=answer.state,
            protocol_type=answer.protocol_type,
            protocol_data=answer.protocol_name,
            members=members,
        )
    if request.body.include_authorized_operations and not row.error_code:
        row.authorized_operations = request.authorized_operations((GROUP, group_id))
    return row


def _member(member: commands.DescribedMember) -> DescribedGroupMember:
    return response.groups.members(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata,
        member_assignment=member.assignment,
    )
