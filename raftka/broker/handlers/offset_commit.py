"""OffsetCommit: v2-10; topics by id from version 10 on. What is wrong with the whole group is said of each partition."""

from functools import partial
from typing import TYPE_CHECKING, Any

from raftka.broker.authorizer import TOPIC
from raftka.broker.dispatch import Pending, Request, handles
from raftka.broker.handlers.asking import ask, check_group
from raftka.coordinator.commands import CommitOffsets, CommitPartition, CommitTopic
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.offsets import OFFSET_COMMIT
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

response = OFFSET_COMMIT.response
topic_row, partition_row = response.topics, response.topics.partitions


def _refused(request: Request, code: Code) -> Row:
    return response(topics=[_all(topic, code) for topic in request.body.topics])


def _all(topic: Row, code: Code) -> Row:
    rows = [partition_row(partition_index=each.partition_index, error_code=int(code)) for each in topic.partitions]
    return topic_row(name=topic.name, topic_id=topic.topic_id, partitions=rows)


@handles(OFFSET_COMMIT, refused=_refused)
def offset_commit(request: Request, node: "Node") -> Row | Pending:
    body, version = request.body, request.version
    check_group(request, "READ", body.group_id)
    topics = []
    denied: set[int] = set()
    for place, topic in enumerate(body.topics):
        name = topic.name
        if version >= 10:
            known = node.image.topics.get(topic.topic_id)
            name = known.name if known is not None else None
        if name is not None and not request.may("READ", (TOPIC, name)):
            denied.add(place)
            continue
        partitions = [
            CommitPartition(each.partition_index, each.committed_offset, each.committed_leader_epoch, each.committed_metadata)
            for each in topic.partitions
        ]
        topics.append(CommitTopic(name, tuple(partitions)))
    command = CommitOffsets(
        body.group_id,
        body.generation_id_or_member_epoch,
        body.member_id,
        body.group_instance_id,
        tuple(topics),
        body.retention_time_ms,
        version >= 9,
    )
    return ask(request, node, body.group_id, command, partial(_answer, denied=denied) if denied else _answer)


def _answer(request: Request, answer: Any, denied: set[int] | None = None) -> Row:
    if isinstance(answer, KafkaError) and not denied:
        return _refused(request, answer.code)
    errors = None if isinstance(answer, KafkaError) else iter(answer.errors)
    rows = []
    for place, topic in enumerate(request.body.topics):
        if denied and place in denied:
            rows.append(_all(topic, Code.TOPIC_AUTHORIZATION_FAILED))
        elif errors is None:
            rows.append(_all(topic, answer.code))
        else:
            partitions = [
                partition_row(partition_index=each.partition_index, error_code=int(code))
                for each, code in zip(topic.partitions, next(errors), strict=True)
            ]
            rows.append(topic_row(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    return response(topics=rows)
