"""ConsumerGroupDescribe: v0-1 (KIP-848); consumer groups with what their members have and are to
have.

One that is named twice is described once.
"""

from raftka.broker.context import MetadataCache
from raftka.broker.handlers.consumer_group_heartbeat import check_served
from raftka.broker.handlers.coordinator_request import ask_of_each
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.access.authorizer import GROUP, TOPIC
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.consumer.commands import (
    DescribeConsumerGroup,
    DescribedConsumer,
    DescribedConsumerGroup,
    Target,
)
from raftka.metadata.image import MetadataImage
from raftka.wire.errors import Code, KafkaError
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


def _refused(
    request: Request[ConsumerGroupDescribeRequest], code: Code
) -> Steps[ConsumerGroupDescribeResponse]:
    groups = request.encoded_rows(response.groups)
    for group_id in request.body.group_ids:
        groups.add(response.groups(group_id=group_id, error_code=int(code)))
        yield
    return response(groups=groups)


@handles(CONSUMER_GROUP_DESCRIBE, refused=_refused)
def consumer_group_describe(
    request: Request[ConsumerGroupDescribeRequest],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
) -> Steps[ConsumerGroupDescribeResponse | Delayed]:
    check_served(metadata)
    asked = dict.fromkeys(request.body.group_ids)

    def answer(
        request: Request[ConsumerGroupDescribeRequest],
        answers: list[DescribedConsumerGroup | KafkaError],
    ) -> Steps[ConsumerGroupDescribeResponse]:
        groups = request.encoded_rows(response.groups)
        for group_id, found in zip(asked, answers, strict=True):
            groups.add((yield from _group(request, metadata.image, group_id, found)))
            yield
        return response(groups=groups)

    return (yield from ask_of_each(request, coordinators, asked, "DESCRIBE", _command, answer))


def _command(group_id: str) -> DescribeConsumerGroup:
    """Return the command. Raises INVALID_GROUP_ID."""
    if not group_id:
        raise KafkaError(Code.INVALID_GROUP_ID)
    return DescribeConsumerGroup(group_id)


def _group(
    request: Request[ConsumerGroupDescribeRequest],
    image: MetadataImage,
    group_id: str,
    answer: DescribedConsumerGroup | KafkaError,
) -> Steps[DescribedGroup]:
    if isinstance(answer, KafkaError):
        return response.groups(
            group_id=group_id, error_code=int(answer.code), error_message=answer.message
        )
    if not all(request.may("DESCRIBE", (TOPIC, name)) for name in answer.topics):
        text = "The group has described topic(s) that the client is not authorized to describe."
        return response.groups(
            group_id=group_id, error_code=int(Code.TOPIC_AUTHORIZATION_FAILED), error_message=text
        )
    members = request.encoded_rows(response.groups.members)
    for member in answer.members:
        members.add(_member(request, image, member))
        yield
    row = response.groups(
        group_id=group_id,
        group_state=answer.state,
        group_epoch=answer.epoch,
        assignment_epoch=answer.assignment_epoch,
        assignor_name=answer.assignor,
        members=members,
    )
    if request.body.include_authorized_operations:
        row.authorized_operations = request.authorized_operations((GROUP, group_id))
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
        assignment=_partitions(image, member.assignment),
        target_assignment=_partitions(image, member.target),
    )
    if request.version >= 1:
        row.member_type = CLASSIC if member.is_classic else CONSUMER
    return row


def _partitions(image: MetadataImage, target: Target) -> MemberAssignment:
    """Return the row of an assignment, without topics that are deleted."""
    found = [(image.topics.get(topic_id), partitions) for topic_id, partitions in target.items()]
    row = MemberAssignment.topic_partitions
    topics = [
        row(topic_id=t.topic_id, topic_name=t.name, partitions=list(partitions))
        for t, partitions in found
        if t is not None
    ]
    return MemberAssignment(topic_partitions=topics)
