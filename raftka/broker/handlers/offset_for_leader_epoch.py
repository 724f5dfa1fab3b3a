"""OffsetForLeaderEpoch: v2-4; where an epoch ended (KIP-320). A consumer asks after each change of
leader, before it reads on.
"""

from collections.abc import Callable

from raftka.broker.handlers.by_topic import rows_by_topic
from raftka.broker.handlers.parts import ReplicaParts
from raftka.broker.network.access.authorizer import THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.replica.finding import find
from raftka.broker.work.long_work import Steps
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.epochs import (
    OFFSET_FOR_LEADER_EPOCH,
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

response = OFFSET_FOR_LEADER_EPOCH.response


def _refused(
    request: Request[OffsetForLeaderEpochRequest], code: Code
) -> Steps[OffsetForLeaderEpochResponse]:
    row = response.topics.partitions
    return (
        yield from _answer(
            request, lambda _, asked: row(partition=asked.partition, error_code=int(code))
        )
    )


@handles(OFFSET_FOR_LEADER_EPOCH, refused=_refused)
def offset_for_leader_epoch(
    request: Request[OffsetForLeaderEpochRequest], replicas: ReplicaParts
) -> Steps[OffsetForLeaderEpochResponse]:
    return (
        yield from _answer(
            request, lambda topic, asked: _partition(request, replicas, topic.topic, asked)
        )
    )


def _answer(
    request: Request[OffsetForLeaderEpochRequest],
    partition: Callable[[OffsetForLeaderTopic, OffsetForLeaderPartition], EpochEndOffset],
) -> Steps[OffsetForLeaderEpochResponse]:
    return response(
        topics=(
            yield from rows_by_topic(
                request, response.topics, request.body.topics, partition, name="topic"
            )
        )
    )


def _partition(
    request: Request[OffsetForLeaderEpochRequest],
    replicas: ReplicaParts,
    topic: str,
    asked: OffsetForLeaderPartition,
) -> EpochEndOffset:
    row = response.topics.partitions(partition=asked.partition, error_code=0)
    try:
        of_cluster = request.may("CLUSTER_ACTION", THE_CLUSTER)
        partition = (
            replicas.manager.find(topic, asked.partition)
            if of_cluster
            else find(request, replicas.manager, "DESCRIBE", topic, asked.partition)
        )
        partition.leading()
        partition.check_epoch(asked.current_leader_epoch)
        row.leader_epoch, row.end_offset = partition.log.epoch_end(asked.leader_epoch)
    except KafkaError as error:
        row.error_code = int(error.code)
    return row
