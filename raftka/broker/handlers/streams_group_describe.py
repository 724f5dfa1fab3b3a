"""StreamsGroupDescribe: v0-1 (KIP-1071, KIP-1331); streams groups with their topology and the tasks
that their members have and are to have.
"""

from collections.abc import Sequence
from functools import partial

from raftka.broker.context import MetadataCache
from raftka.broker.handlers.modern_groups import check_topics, describe_each, refuse_each
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.handlers.streams_group_heartbeat import check_served
from raftka.broker.network.access.authorizer import GROUP
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
    TopologyDescription,
)

response = STREAMS_GROUP_DESCRIBE.response
NOT_STORED, STORED = 1, 3  # status of a topology description that is asked for


@handles(STREAMS_GROUP_DESCRIBE, refused=refuse_each)
def streams_group_describe(
    request: Request[StreamsGroupDescribeRequest],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
) -> Steps[StreamsGroupDescribeResponse | Delayed]:
    check_served(metadata)
    row = partial(_group, request)
    return (yield from describe_each(request, response, coordinators, DescribeStreamsGroup, row))


def _group(
    request: Request[StreamsGroupDescribeRequest], group: DescribedStreamsGroup
) -> Steps[DescribedGroup]:
    topology = group.topology
    if topology is not None:
        text = "The described group uses topics that the client is not authorized to describe."
        yield from check_topics(request, topology.required_topics(), text)
    members = request.encoded_rows(response.groups.members)
    for member in group.members:
        members.add(_member(member))
        yield
    row = response.groups(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=None if topology is None else _topology(topology, group.counts),
        members=members,
    )
    if request.version >= 1:
        row.assignor_name = group.assignor
        if request.body.include_topology_description:
            row.topology_description_status = NOT_STORED
            if isinstance(group.description, TopologyDescription):
                row.topology_description = group.description
                row.topology_description_status = STORED
    if request.body.include_authorized_operations:
        row.authorized_operations = request.authorized_operations((GROUP, group.group_id))
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
