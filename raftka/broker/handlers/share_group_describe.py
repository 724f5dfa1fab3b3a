"""ShareGroupDescribe: v1 (KIP-932); share groups with the partitions that their members have."""

from functools import partial

from raftka.broker.context import MetadataCache
from raftka.broker.handlers.modern_groups import (
    MAY_NOT_DESCRIBE,
    assignment_row,
    check_topics,
    describe_each,
    refuse_each,
)
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.handlers.share_group_heartbeat import check_served
from raftka.broker.network.access.authorizer import GROUP
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.share.commands import DescribedShareGroup, DescribeShareGroup
from raftka.coordinator.share.group import ASSIGNOR
from raftka.wire.messages.share_groups import (
    SHARE_GROUP_DESCRIBE,
    DescribedGroup,
    MemberAssignment,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

response = SHARE_GROUP_DESCRIBE.response


@handles(SHARE_GROUP_DESCRIBE, refused=refuse_each)
def share_group_describe(
    request: Request[ShareGroupDescribeRequest],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
) -> Steps[ShareGroupDescribeResponse | Delayed]:
    check_served(metadata)
    row = partial(_group, request, metadata)
    return (yield from describe_each(request, response, coordinators, DescribeShareGroup, row))


def _group(
    request: Request[ShareGroupDescribeRequest],
    metadata: MetadataCache,
    group: DescribedShareGroup,
) -> Steps[DescribedGroup]:
    yield from check_topics(request, group.topics, MAY_NOT_DESCRIBE)
    members = request.encoded_rows(response.groups.members)
    for member in group.members:
        members.add(
            response.groups.members(
                member_id=member.member_id,
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=list(member.topics),
                assignment=assignment_row(MemberAssignment, metadata.image, member.assignment),
            )
        )
        yield
    row = response.groups(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=members,
    )
    if request.body.include_authorized_operations:
        row.authorized_operations = request.authorized_operations((GROUP, group.group_id))
    return row
