"""ShareGroupDescribe: v1 (KIP-932); share groups with what their members have.

One that is named twice is described once.
"""

from raftka.broker.context import MetadataCache
from raftka.broker.handlers.coordinator_request import ask_of_each
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.handlers.share_group_heartbeat import check_served
from raftka.broker.network.access.authorizer import GROUP, TOPIC
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.consumer.commands import Target
from raftka.coordinator.share.commands import DescribedShareGroup, DescribeShareGroup
from raftka.coordinator.share.group import ASSIGNOR
from raftka.metadata.image import MetadataImage
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.share_groups import (
    SHARE_GROUP_DESCRIBE,
    DescribedGroup,
    MemberAssignment,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

response = SHARE_GROUP_DESCRIBE.response


def _refused(
    request: Request[ShareGroupDescribeRequest], code: Code
) -> Steps[ShareGroupDescribeResponse]:
    groups = request.encoded_rows(response.groups)
    for group_id in request.body.group_ids:
        groups.add(response.groups(group_id=group_id, error_code=int(code)))
        yield
    return response(groups=groups)


@handles(SHARE_GROUP_DESCRIBE, refused=_refused)
def share_group_describe(
    request: Request[ShareGroupDescribeRequest],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
) -> Steps[ShareGroupDescribeResponse | Delayed]:
    check_served(metadata)
    asked = dict.fromkeys(request.body.group_ids)

    def answer(
        request: Request[ShareGroupDescribeRequest],
        answers: list[DescribedShareGroup | KafkaError],
    ) -> Steps[ShareGroupDescribeResponse]:
        groups = request.encoded_rows(response.groups)
        for group_id, found in zip(asked, answers, strict=True):
            groups.add((yield from _group(request, metadata.image, group_id, found)))
            yield
        return response(groups=groups)

    return (yield from ask_of_each(request, coordinators, asked, "DESCRIBE", _command, answer))


def _command(group_id: str) -> DescribeShareGroup:
    """Return the command. Raises INVALID_GROUP_ID."""
    if not group_id:
        raise KafkaError(Code.INVALID_GROUP_ID)
    return DescribeShareGroup(group_id)


def _group(
    request: Request[ShareGroupDescribeRequest],
    image: MetadataImage,
    group_id: str,
    answer: DescribedShareGroup | KafkaError,
) -> Steps[DescribedGroup]:
    if isinstance(answer, KafkaError):
        return response.groups(
            group_id=group_id, error_code=int(answer.code), error_message=answer.message
        )
    for name in answer.topics:
        if not request.may("DESCRIBE", (TOPIC, name)):
            text = "The group has described topic(s) that the client is not authorized to describe."
            return response.groups(
                group_id=group_id,
                error_code=int(Code.TOPIC_AUTHORIZATION_FAILED),
                error_message=text,
            )
        yield
    members = request.encoded_rows(response.groups.members)
    for member in answer.members:
        members.add(
            response.groups.members(
                member_id=member.member_id,
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=list(member.topics),
                assignment=_partitions(image, member.assignment),
            )
        )
        yield
    row = response.groups(
        group_id=group_id,
        group_state=answer.state,
        group_epoch=answer.epoch,
        assignment_epoch=answer.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=members,
    )
    if request.body.include_authorized_operations:
        row.authorized_operations = request.authorized_operations((GROUP, group_id))
    return row


def _partitions(image: MetadataImage, target: Target) -> MemberAssignment:
    """Return the row of an assignment, without topics that are deleted."""
    row = MemberAssignment.topic_partitions
    found = [(image.topics.get(topic_id), partitions) for topic_id, partitions in target.items()]
    return MemberAssignment(
        topic_partitions=[
            row(topic_id=topic.topic_id, topic_name=topic.name, partitions=list(partitions))
            for topic, partitions in found
            if topic is not None
        ]
    )
