"""ConsumerGroupDescribe: v0-1 (KIP-848); consumer groups with the partitions that their members
have and are to have.
"""

from functools import partial

from raftka.broker.context import MetadataCache
from raftka.broker.handlers.consumer_group_heartbeat import check_served
from raftka.broker.handlers.modern_groups import (
    MAY_NOT_DESCRIBE,
    assignment_row,
    check_topics,
    describe_each,
    refuse_each,
)
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.access.authorizer import GROUP
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.consumer.commands import (
    DescribeConsumerGroup,
    DescribedConsumer,
    DescribedConsumerGroup,
)
from raftka.metadata.image import MetadataImage
from raftka.wire.messages.consumer_groups import (
    CONSUMER_GROUP_DESCRIBE,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    MemberAssignment,
)

response = CONSUMER_GROUP_DESCRIBE.response
CLASSIC, CONSUMER = 0, 1


@handles(CONSUMER_GROUP_DESCRIBE, refused=refuse_each)
def consumer_group_describe(
    request: Request[ConsumerGroupDescribeRequest],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
) -> Steps[ConsumerGroupDescribeResponse | Delayed]:
    check_served(metadata)
    row = partial(_group, request, metadata)
    return (yield from describe_each(request, response, coordinators, DescribeConsumerGroup, row))


def _group(
    request: Request[ConsumerGroupDescribeRequest],
    metadata: MetadataCache,
    group: DescribedConsumerGroup,
) -> Steps[DescribedGroup]:
    yield from check_topics(request, group.topics, MAY_NOT_DESCRIBE)
    members = request.encoded_rows(response.groups.members)
    for member in group.members:
        members.add(_member(request, metadata.image, member))
        yield
    row = response.groups(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=members,
    )
    if request.body.include_authorized_operations:
        row.authorized_operations = request.authorized_operations((GROUP, group.group_id))
    return row


def _member(
    request: Request[ConsumerGroupDescribeRequest], image: MetadataImage, member: DescribedConsumer
) -> Member:
    row = response.groups.members(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=assignment_row(MemberAssignment, image, member.assignment),
        target_assignment=assignment_row(MemberAssignment, image, member.target),
    )
    if request.version >= 1:
        row.member_type = CLASSIC if member.is_classic else CONSUMER
    return row
