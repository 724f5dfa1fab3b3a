"""StreamsGroupHeartbeat: v0-1 (KIP-1071); all that a member of Kafka Streams asks. The internal
topics that its topology needs are created after the answer.
"""

from collections.abc import Sequence
from functools import partial

from raftka.broker.context import MetadataCache
from raftka.broker.coordinators.topics import INTERNAL_TOPICS
from raftka.broker.handlers.coordinator_request import ask, check_group
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.access.authorizer import THE_CLUSTER, TOPIC
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.streams.commands import (
    EndpointPartitions,
    StreamsBeat,
    StreamsHeartbeat,
)
from raftka.coordinator.streams.configured import MissingTopic, Status, StatusCode
from raftka.coordinator.streams.records import Endpoint
from raftka.coordinator.streams.tasks import Task, TaskMap, Tasks
from raftka.coordinator.streams.topology import (
    CopartitionGroup,
    Subtopology,
    TopicInfo,
    Topology,
)
from raftka.limits import CLIENT_TAGS, TASKS_OF_GROUP, TOPICS_OF_TOPOLOGY
from raftka.metadata.controller.topic_names import check_topic_name
from raftka.versions import STREAMS_VERSION
from raftka.wire.errors import Code, KafkaError, LimitRefused, check_limit
from raftka.wire.messages.streams_groups import (
    STREAMS_GROUP_HEARTBEAT,
    EndpointToPartitions,
    OwnedTaskIds,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    TopicPartition,
)
from raftka.wire.messages.streams_groups import Status as StatusRow
from raftka.wire.messages.streams_groups import Subtopology as SubtopologyRow
from raftka.wire.messages.streams_groups import TopicInfo as TopicInfoRow

response = STREAMS_GROUP_HEARTBEAT.response


@handles(STREAMS_GROUP_HEARTBEAT)
def streams_group_heartbeat(
    request: Request[StreamsGroupHeartbeatRequest],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
) -> Steps[StreamsGroupHeartbeatResponse | Delayed]:
    check_served(metadata)
    check_group(request, "READ", request.body.group_id)
    try:
        command = yield from _read_command(request)
    except LimitRefused:
        raise
    except KafkaError as error:
        return _error_row(error)
    make = partial(_answer, metadata=metadata, coordinators=coordinators)
    return ask(request, coordinators, request.body.group_id, command, make)


def check_served(metadata: MetadataCache) -> None:
    """Raise UNSUPPORTED_VERSION if this cluster does not serve streams groups."""
    if (
        not metadata.image.features.get(STREAMS_VERSION)
        or "streams" not in metadata.settings["group.coordinator.rebalance.protocols"]
    ):
        raise KafkaError(Code.UNSUPPORTED_VERSION)


# the request


def _read_command(request: Request[StreamsGroupHeartbeatRequest]) -> Steps[StreamsHeartbeat]:
    """Raises INVALID_REQUEST and the errors of _check_topics."""
    body, session, topology = request.body, request.session, None
    if body.topology is not None:
        subtopologies, count = [], 0
        for row in body.topology.subtopologies:
            count += _count_texts(row)
            check_limit(TOPICS_OF_TOPOLOGY, count, code=Code.STREAMS_INVALID_TOPOLOGY)
            subtopologies.append(_read_subtopology(row))
            yield
        topology = Topology(body.topology.epoch, tuple(subtopologies))
        yield from _check_topics(request, topology)
    endpoint, tags = body.user_endpoint, body.client_tags
    check_limit(CLIENT_TAGS, len(tags or ()), code=Code.INVALID_REQUEST)
    return StreamsHeartbeat(
        group_id=body.group_id,
        member_id=body.member_id,
        epoch=body.member_epoch,
        endpoint_epoch=body.endpoint_information_epoch,
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        client_id=session.client_id or "",
        client_host=session.java_host,
        rebalance_timeout_ms=body.rebalance_timeout_ms,
        topology=topology,
        owned=_read_owned(body),
        process_id=body.process_id,
        endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        tags=None if tags is None else tuple(sorted({tag.key: tag.value for tag in tags}.items())),
        offsets=_read_offsets(body),
        shutdown=body.shutdown_application,
        knows_missing_tags=request.version >= 1,
        may_be_asked=request.version >= 1,
    )


def _count_texts(row: SubtopologyRow) -> int:
    """Return how many subtopologies, topics and settings of topics these are."""
    topics = [*row.state_changelog_topics, *row.repartition_source_topics]
    return (
        1
        + len(topics)
        + len(row.source_topics)
        + len(row.source_topic_regex)
        + len(row.repartition_sink_topics)
        + sum([len(topic.topic_configs) for topic in topics])
        + sum(
            [
                len(g.source_topics) + len(g.repartition_source_topics)
                for g in row.copartition_groups
            ]
        )
    )


def _read_subtopology(row: SubtopologyRow) -> Subtopology:
    return Subtopology(
        row.subtopology_id,
        tuple(row.source_topics),
        tuple(row.repartition_sink_topics),
        _read_topics(row.repartition_source_topics),
        _read_topics(row.state_changelog_topics),
        tuple(
            [
                CopartitionGroup(tuple(group.source_topics), tuple(group.repartition_source_topics))
                for group in row.copartition_groups
            ]
        ),
        tuple(row.source_topic_regex),
    )


def _read_topics(rows: Sequence[TopicInfoRow]) -> tuple[TopicInfo, ...]:
    return tuple(
        [
            TopicInfo(
                row.name,
                row.partitions,
                row.replication_factor,
                tuple([(each.key, each.value) for each in row.topic_configs]),
            )
            for row in rows
        ]
    )


def _check_topics(
    request: Request[StreamsGroupHeartbeatRequest], topology: Topology
) -> Steps[None]:
    """Raise STREAMS_INVALID_TOPOLOGY for names that no application may use, and
    TOPIC_AUTHORIZATION_FAILED.
    """
    names = dict.fromkeys(topology.named_topics())
    internal = [name for name in names if name in INTERNAL_TOPICS]
    if internal:
        raise KafkaError(
            Code.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is "
            "prohibited.",
        )
    for name in names:
        try:
            check_topic_name(name)
        except KafkaError:
            raise KafkaError(
                Code.STREAMS_INVALID_TOPOLOGY, f"Topic names {name} are not valid topic names."
            ) from None
        if not request.may("DESCRIBE", (TOPIC, name)):
            raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
        yield


def _read_owned(body: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """Raises INVALID_REQUEST."""
    given = (body.active_tasks, body.standby_tasks, body.warmup_tasks)
    if all(rows is None for rows in given):
        return None
    if any(rows is None for rows in given):
        raise KafkaError(
            Code.INVALID_REQUEST, "If one task-type is non-null, all must be non-null."
        )
    count = sum(1 + len(row.partitions) for rows in given for row in rows or ())
    check_limit(TASKS_OF_GROUP, count, code=Code.INVALID_REQUEST)
    return Tasks(*[_read_tasks(rows or ()) for rows in given])


def _read_tasks(rows: Sequence[OwnedTaskIds]) -> TaskMap:
    return {row.subtopology_id: tuple(sorted(row.partitions)) for row in rows if row.partitions}


def _read_offsets(body: StreamsGroupHeartbeatRequest) -> dict[Task, int] | None:
    rows = body.task_offsets
    if rows is None:
        return None
    check_limit(TASKS_OF_GROUP, len(rows), code=Code.INVALID_REQUEST)
    return {(row.subtopology_id, row.partition): row.offset for row in rows}


# the answer


def _answer(
    request: Request[StreamsGroupHeartbeatRequest],
    answer: StreamsBeat | KafkaError,
    *,
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
) -> Steps[StreamsGroupHeartbeatResponse]:
    if isinstance(answer, KafkaError):
        return _error_row(answer)
    refused = yield from _create_topics(request, answer.missing, metadata, coordinators)
    row = response(
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.interval_ms,
        task_offset_interval_ms=answer.task_offset_interval_ms,
        acceptable_recovery_lag=answer.acceptable_recovery_lag,
        status=[_status_row(status, refused, answer, coordinators) for status in answer.status],
        endpoint_information_epoch=answer.endpoint_epoch,
    )
    if request.version >= 1:
        row.topology_description_required = answer.asks_for_description
    if answer.tasks is not None:
        row.active_tasks = _task_rows(answer.tasks.active)
        row.standby_tasks = _task_rows(answer.tasks.standby)
        row.warmup_tasks = _task_rows(answer.tasks.warmup)
    if answer.endpoints is not None:
        endpoints = []
        for each in answer.endpoints:
            endpoints.append(_endpoint_row(each))
            yield
        row.partitions_by_user_endpoint = endpoints
    return row


def _error_row(error: KafkaError) -> StreamsGroupHeartbeatResponse:
    return response(error_code=int(error.code), error_message=error.message)


def _create_topics(
    request: Request[StreamsGroupHeartbeatRequest],
    missing: Sequence[MissingTopic],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
) -> Steps[list[str]]:
    """Have the topics created; return the names of those that the client may not create."""
    topics, refused = coordinators.groups.streams_topics, []
    everything = bool(missing) and request.may("CREATE", THE_CLUSTER)
    for topic in missing:
        if topics.is_wanted(topic.name) or metadata.image.topic_named(topic.name) is not None:
            pass
        elif not everything and not request.may("CREATE", (TOPIC, topic.name)):
            refused.append(topic.name)
        elif request.meter is None or request.meter.may_create(topic.partitions):
            topics.create(topic)
        yield
    return refused


def _status_row(
    status: Status, refused: Sequence[str], answer: StreamsBeat, coordinators: CoordinatorParts
) -> StatusRow:
    text = status.text
    if status.code is StatusCode.MISSING_INTERNAL_TOPICS:
        if refused:
            text += f"; Unauthorized to CREATE on topics {', '.join(refused)}."
        failures = coordinators.groups.streams_topics.failures_of(
            [topic.name for topic in answer.missing]
        )
        if failures:
            listed = ", ".join(f"{name} ({why})" for name, why in failures.items())
            text += f"; Creation failed: {listed}."
    return response.status(status_code=int(status.code), status_detail=text)


def _task_rows(tasks: TaskMap) -> list[TaskIds]:
    return [
        response.active_tasks(subtopology_id=name, partitions=list(partitions))
        for name, partitions in tasks.items()
    ]


def _endpoint_row(found: EndpointPartitions) -> EndpointToPartitions:
    make = response.partitions_by_user_endpoint
    return make(
        user_endpoint=make.user_endpoint(host=found.endpoint.host, port=found.endpoint.port),
        active_partitions=_partition_rows(found.active),
        standby_partitions=_partition_rows(found.standby),
    )


def _partition_rows(topics: dict[str, tuple[int, ...]]) -> list[TopicPartition]:
    make = response.partitions_by_user_endpoint.active_partitions
    return [make(topic=name, partitions=list(found)) for name, found in topics.items()]
