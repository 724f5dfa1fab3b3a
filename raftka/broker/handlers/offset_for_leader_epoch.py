"""OffsetForLeaderEpoch: v2-4; where an epoch ended (KIP-320). A consumer asks after each change of leader, before it reads on."""

from typing import TYPE_CHECKING

from raftka.broker.authorizer import THE_CLUSTER
from raftka.broker.dispatch import Request, handles
from raftka.broker.handlers.finding import find
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.epochs import OFFSET_FOR_LEADER_EPOCH
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

response = OFFSET_FOR_LEADER_EPOCH.response


def _refused(request: Request, code: Code) -> Row:
    topics = []
    for topic in request.body.topics:
        partitions = [response.topics.partitions(partition=p.partition, error_code=int(code)) for p in topic.partitions]
        topics.append(response.topics(topic=topic.topic, partitions=partitions))
    return request.answer(topics=topics)


@handles(OFFSET_FOR_LEADER_EPOCH, refused=_refused)
def offset_for_leader_epoch(request: Request, node: "Node") -> Row:
    return response(
        topics=[
            response.topics(topic=topic.topic, partitions=[_partition(request, node, topic.topic, asked) for asked in topic.partitions])
            for topic in request.body.topics
        ]
    )


def _partition(request: Request, node: "Node", topic: str, asked: Row) -> Row:
    row = response.topics.partitions(partition=asked.partition, error_code=0)
    try:
        of_cluster = request.may("CLUSTER_ACTION", THE_CLUSTER)
        host = node.replicas.find(topic, asked.partition) if of_cluster else find(request, node, "DESCRIBE", topic, asked.partition)
        host.leading()
        host.check_epoch(asked.current_leader_epoch)
        row.leader_epoch, row.end_offset = host.log.epoch_end(asked.leader_epoch)
    except KafkaError as error:
        row.error_code = int(error.code)
    return row
