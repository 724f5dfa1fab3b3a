"""StreamsGroupDescribe: v0-1 (KIP-1071, KIP-1331); streams groups with their topology and the tasks
that their members have and are to have. There are no topology descriptions: they need a plugin.

One that is named twice is described once.
"""

from collections.abc import Sequence

from raftka.broker.context import MetadataCache
from raftka.broker.handlers.coordinator_request import ask_of_each
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.handlers.streams_group_heartbeat import check_served
from raftka.broker.network.access.authorizer import GROUP, TOPIC
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.streams.commands import (
    DescribedStreamsGroup,
    DescribedStreamsMember,
    DescribeStreamsGroup,
)
from raftka.coordinator.streams.configured import Counts
from raftka.coordinator.streams.tasks import TaskMap, Tasks
from raftka.coordinator.streams.topology import TopicInfo, Topology
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.streams_groups import (
    STREAMS_GROUP_DESCRIBE,
    Assignment,
    DescribedGroup,
    DescribedMember,
    DescribedTaskIds,
    DescribedTopicInfo,
    DescribedTopology,
    KeyValue,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

response = STREAMS_GROUP_DESCRIBE.response
NOT_STORED = 1  # status of a topology description that is asked for


def _refused(
    request: Request[StreamsGroupDescribeRequest], code: Code
) -> Steps[StreamsGroupDescribeResponse]:
    groups = request.encoded_rows(response.groups)
    for group_id in request.body.group_ids:
        groups.add(response.groups(group_id=group_id, error_code=int(code)))
        yield
    return response(groups=groups)


@handles(STREAMS_GROUP_DESCRIBE, refused=_refused)
def streams_group_describe(
    request: Request[StreamsGroupDescribeRequest],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
) -> Steps[StreamsGroupDescribeResponse | Delayed]:
    check_served(metadata)
    asked = dict.fromkeys(request.body.group_ids)

    def answer(
        request: Request[StreamsGroupDescribeRequest],
        answers: list[DescribedStreamsGroup | KafkaError],
    ) -> Steps[StreamsGroupDescribeResponse]:
        groups = request.encoded_rows(response.groups)
        for group_id, found in zip(asked, answers, strict=True):
            groups.add((yield from _group(request, group_id, found)))
            yield
        return response(groups=groups)

    return (yield from ask_of_each(request, coordinators, asked, "DESCRIBE", _command, answer))


def _command(group_id: str) -> DescribeStreamsGroup:
    """Return the command. Raises INVALID_GROUP_ID."""
    if not group_id:
        raise KafkaError(Code.INVALID_GROUP_ID)
    return DescribeStreamsGroup(group_id)


def _group(
    request: Request[StreamsGroupDescribeRequest],
    group_id: str,
    answer: DescribedStreamsGroup | KafkaError,
) -> Steps[DescribedGroup]:
    if isinstance(answer, KafkaError):
        return response.groups(
            group_id=group_id, error_code=int(answer.code), error_message=answer.message
        )
    topics = answer.topology.required_topics() if answer.topology is not None else ()
    for name in topics:
        if not request.may("DESCRIBE", (TOPIC, name)):
            text = "The described group uses topics that the client is not authorized to describe."
            return response.groups(
                group_id=group_id,
                error_code=int(Code.TOPIC_AUTHORIZATION_FAILED),
                error_message=text,
            )
        yield
    members = request.encoded_rows(response.groups.members)
    for member in answer.members:
        members.add(_member(member))
        yield
    row = response.groups(
        group_id=group_id,
        group_state=answer.state,
        group_epoch=answer.epoch,
        assignment_epoch=answer.assignment_epoch,
        topology=None if answer.topology is None else _topology(answer.topology, answer.counts),
        members=members,
    )
    if request.version >= 1:
        row.assignor_name = answer.assignor
        asked = request.body.include_topology_description
        row.topology_description_status = NOT_STORED if asked else 0
    if request.body.include_authorized_operations:
        row.authorized_operations = request.authorized_operations((GROUP, group_id))
    return row


def _topology(topology: Topology, counts: Counts) -> DescribedTopology:
    make = response.groups.topology.subtopologies
    subtopologies = [
        make(
            subtopology_id=each.id,
            source_topics=list(each.source_topics),
            repartition_sink_topics=list(each.repartition_sink_topics),
            state_changelog_topics=_topic_rows(each.changelog_topics, counts),
            repartition_source_topics=_topic_rows(each.repartition_source_topics, counts),
        )
        for each in topology.subtopologies
    ]
    return response.groups.topology(epoch=topology.epoch, subtopologies=subtopologies)


def _topic_rows(topics: Sequence[TopicInfo], counts: Counts) -> list[DescribedTopicInfo]:
    return [
        DescribedTopicInfo(
            name=topic.name,
            partitions=counts.get(topic.name, topic.partitions),
            replication_factor=topic.replication_factor,
            topic_configs=_pairs(topic.configs),
        )
        for topic in topics
    ]


def _member(member: DescribedStreamsMember) -> DescribedMember:
    make, endpoint = response.groups.members, member.endpoint
    return make(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None
        if endpoint is None
        else make.user_endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=_pairs(member.tags),
        assignment=_assignment(member.assignment),
        target_assignment=_assignment(member.target),
    )


def _assignment(tasks: Tasks) -> Assignment:
    return Assignment(
        active_tasks=_task_rows(tasks.active),
        standby_tasks=_task_rows(tasks.standby),
        warmup_tasks=_task_rows(tasks.warmup),
    )


def _task_rows(tasks: TaskMap) -> list[DescribedTaskIds]:
    return [
        DescribedTaskIds(subtopology_id=name, partitions=list(partitions))
        for name, partitions in tasks.items()
    ]


def _pairs(pairs: Sequence[tuple[str, str]]) -> list[KeyValue]:
    return [KeyValue(key=key, value=value) for key, value in pairs]
