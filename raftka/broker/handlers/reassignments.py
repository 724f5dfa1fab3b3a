"""AlterPartitionReassignments: v0-1; ListPartitionReassignments: v0 (KIP-455). An alteration is
answered when it has begun, not when the replicas have caught up.
"""

from collections.abc import Sequence

from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.handlers.by_topic import PARTITIONS_OF_COMMAND, partition_commands
from raftka.broker.network.access.authorizer import CLUSTER, REFUSED, THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.metadata.commands import (
    AlterReassignments,
    ListReassignments,
    Move,
    MovedTopic,
    OngoingPartition,
    OngoingTopic,
    PartitionResult,
    TopicPartitions,
    TopicResults,
)
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

altered, listed = ALTER_PARTITION_REASSIGNMENTS.response, LIST_PARTITION_REASSIGNMENTS.response


@handles(ALTER_PARTITION_REASSIGNMENTS)
async def alter_partition_reassignments(
    request: Request[AlterPartitionReassignmentsRequest], controller: ControllerClient
) -> AlterPartitionReassignmentsResponse:
    """Send a request for very many partitions as several commands; each is committed as a whole."""
    body = request.body
    if not request.may("ALTER", THE_CLUSTER):
        return altered(
            error_code=int(Code.CLUSTER_AUTHORIZATION_FAILED), error_message=REFUSED[CLUSTER]
        )
    results: dict[str, list[PartitionResult]] = {}
    for topics in await request.finish(_make_commands(request)):
        try:
            command = AlterReassignments(topics, body.allow_replication_factor_change)
            found: tuple[TopicResults, ...] = await controller.ask(command, body.timeout_ms / 1000)
        except KafkaError as error:
            return altered(error_code=int(error.code), error_message=error.message)
        for topic in found:
            results.setdefault(topic.name, []).extend(topic.partitions)
    return await request.finish(_make_altered(request, results))


def _make_commands(
    request: Request[AlterPartitionReassignmentsRequest],
) -> Steps[list[tuple[MovedTopic, ...]]]:
    commands: list[tuple[MovedTopic, ...]] = []
    command: list[MovedTopic] = []
    room = PARTITIONS_OF_COMMAND
    for topic in request.body.topics:
        for first in range(0, len(topic.partitions), PARTITIONS_OF_COMMAND) or (0,):
            moves = []
            for each in topic.partitions[first : first + PARTITIONS_OF_COMMAND]:
                moves.append(
                    Move(
                        each.partition_index,
                        None if each.replicas is None else tuple(each.replicas),
                    )
                )
                yield
            if command and len(moves) > room:
                commands.append(tuple(command))
                command, room = [], PARTITIONS_OF_COMMAND
            command.append(MovedTopic(topic.name, tuple(moves)))
            room -= 1 + len(moves)
    return [*commands, tuple(command)]


def _make_altered(
    request: Request[AlterPartitionReassignmentsRequest], results: dict[str, list[PartitionResult]]
) -> Steps[AlterPartitionReassignmentsResponse]:
    row = altered.responses
    topics = request.encoded_rows(row)
    for name, found in results.items():
        partitions = request.encoded_rows(row.partitions)
        for index, error, message in found:
            partitions.add(
                row.partitions(partition_index=index, error_code=error, error_message=message)
            )
            yield
        topics.add(row(name=name, partitions=partitions))
        yield
    return altered(
        allow_replication_factor_change=request.body.allow_replication_factor_change,
        responses=topics,
    )


@handles(LIST_PARTITION_REASSIGNMENTS)
async def list_partition_reassignments(
    request: Request[ListPartitionReassignmentsRequest], controller: ControllerClient
) -> ListPartitionReassignmentsResponse:
    """Ask the controller, so that a client sees the reassignment that it has just begun."""
    body = request.body
    if not request.may("DESCRIBE", THE_CLUSTER):
        return listed(
            error_code=int(Code.CLUSTER_AUTHORIZATION_FAILED), error_message=REFUSED[CLUSTER]
        )
    ongoing: dict[str, list[OngoingPartition]] = {}
    commands: Sequence[tuple[TopicPartitions, ...] | None] = (None,)
    if body.topics is not None:
        commands = await request.finish(
            partition_commands((each.name, each.partition_indexes) for each in body.topics)
        )
    for topics in commands:
        try:
            found: tuple[OngoingTopic, ...] = await controller.ask(
                ListReassignments(topics), body.timeout_ms / 1000
            )
        except KafkaError as error:
            return listed(error_code=int(error.code), error_message=error.message)
        for topic in found:
            ongoing.setdefault(topic.name, []).extend(topic.partitions)
    return await request.finish(_make_listed(request, ongoing))


def _make_listed(
    request: Request[ListPartitionReassignmentsRequest], ongoing: dict[str, list[OngoingPartition]]
) -> Steps[ListPartitionReassignmentsResponse]:
    row = listed.topics
    topics = request.encoded_rows(row)
    for name, found in ongoing.items():
        partitions = request.encoded_rows(row.partitions)
        for index, replicas, adding, removing in found:
            partitions.add(
                row.partitions(
                    partition_index=index,
                    replicas=replicas,
                    adding_replicas=adding,
                    removing_replicas=removing,
                )
            )
            yield
        topics.add(row(name=name, partitions=partitions))
        yield
    return listed(topics=topics)
