"""AlterPartitionReassignments: v0-1; ListPartitionReassignments: v0 (KIP-455). Answered when it has begun, not when the replicas have caught up."""

from typing import TYPE_CHECKING

from raftka.broker.authorizer import THE_CLUSTER
from raftka.broker.dispatch import Request, handles
from raftka.metadata.commands import (
    AlterReassignments,
    ListReassignments,
    Move,
    MovedTopic,
    OngoingTopic,
    TopicPartitions,
    TopicResults,
)
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.reassignments import ALTER_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

altered, listed = ALTER_PARTITION_REASSIGNMENTS.response, LIST_PARTITION_REASSIGNMENTS.response


@handles(ALTER_PARTITION_REASSIGNMENTS)
async def alter_partition_reassignments(request: Request, node: "Node") -> Row:
    body = request.body
    if not request.may("ALTER", THE_CLUSTER):
        return request.answer(error_code=int(Code.CLUSTER_AUTHORIZATION_FAILED))
    command = AlterReassignments(tuple([_moved(topic) for topic in body.topics]), body.allow_replication_factor_change)
    try:
        results: tuple[TopicResults, ...] = await node.link.ask(command, body.timeout_ms / 1000)
    except KafkaError as error:
        return request.answer(error_code=int(error.code), error_message=error.message)
    return altered(allow_replication_factor_change=body.allow_replication_factor_change, responses=[_answer(topic) for topic in results])


def _answer(topic: TopicResults) -> Row:
    row = altered.responses
    rows = [row.partitions(partition_index=index, error_code=error, error_message=message) for index, error, message in topic.partitions]
    return row(name=topic.name, partitions=rows)


def _moved(topic: Row) -> MovedTopic:
    moves = [Move(each.partition_index, None if each.replicas is None else tuple(each.replicas)) for each in topic.partitions]
    return MovedTopic(topic.name, tuple(moves))


@handles(LIST_PARTITION_REASSIGNMENTS)
async def list_partition_reassignments(request: Request, node: "Node") -> Row:
    """By the controller, so that who has just asked for one finds it."""
    body = request.body
    if not request.may("DESCRIBE", THE_CLUSTER):
        return request.answer(error_code=int(Code.CLUSTER_AUTHORIZATION_FAILED))
    topics = None if body.topics is None else tuple([TopicPartitions(each.name, tuple(each.partition_indexes)) for each in body.topics])
    try:
        found: tuple[OngoingTopic, ...] = await node.link.ask(ListReassignments(topics), body.timeout_ms / 1000)
    except KafkaError as error:
        return request.answer(error_code=int(error.code), error_message=error.message)
    row = listed.topics
    return listed(
        topics=[
            row(
                name=topic.name,
                partitions=[
                    row.partitions(partition_index=index, replicas=replicas, adding_replicas=adding, removing_replicas=removing)
                    for index, replicas, adding, removing in topic.partitions
                ],
            )
            for topic in found
        ]
    )
