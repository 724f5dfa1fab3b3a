"""OffsetDelete: v0; offsets of topics that no member of the group is subscribed to."""

from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any

from raftka.broker.authorizer import TOPIC
from raftka.broker.dispatch import Pending, Request, handles
from raftka.broker.handlers.asking import ask, check_group
from raftka.coordinator.commands import DeleteOffsets
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.offsets import OFFSET_DELETE
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

response = OFFSET_DELETE.response


@handles(OFFSET_DELETE)
def offset_delete(request: Request, node: "Node") -> Row | Pending:
    body = request.body
    check_group(request, "DELETE", body.group_id)
    allowed = [request.may("READ", (TOPIC, topic.name)) for topic in body.topics]
    topics = [(topic.name, tuple([each.partition_index for each in topic.partitions])) for topic in compress(body.topics, allowed)]
    return ask(request, node, body.group_id, DeleteOffsets(body.group_id, tuple(topics)), partial(_answer, allowed))


def _answer(allowed: list[bool], request: Request, answer: Any) -> Row:
    if isinstance(answer, KafkaError):
        return response(error_code=int(answer.code))
    errors = iter(answer.errors)
    rows = []
    for topic, may in zip(request.body.topics, allowed, strict=True):
        codes = next(errors) if may else [Code.TOPIC_AUTHORIZATION_FAILED] * len(topic.partitions)
        partitions = [
            response.topics.partitions(partition_index=each.partition_index, error_code=int(code))
            for each, code in zip(topic.partitions, codes, strict=True)
        ]
        rows.append(response.topics(name=topic.name, partitions=partitions))
    return response(topics=rows)
