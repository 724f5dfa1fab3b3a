"""AlterShareGroupOffsets: v0 (KIP-932); new start offsets of a share group without members, which
is made if it is not there. All that was acknowledged from the new offset on counts no more.
"""

from functools import partial

from raftka.broker.context import MetadataCache
from raftka.broker.handlers.coordinator_request import ask, check_group
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.access.authorizer import TOPIC
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.share.commands import AlterShareOffsets
from raftka.metadata.image import MetadataImage
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.share_offsets import (
    ALTER_SHARE_GROUP_OFFSETS,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from raftka.wire.rows import ZERO_UUID

response = ALTER_SHARE_GROUP_OFFSETS.response
Errors = dict[tuple[str, int], KafkaError]


@handles(ALTER_SHARE_GROUP_OFFSETS)
def alter_share_group_offsets(
    request: Request[AlterShareGroupOffsetsRequest],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
) -> Steps[AlterShareGroupOffsetsResponse | Delayed]:
    """Of a partition that is named twice the last offset counts."""
    body = request.body
    check_group(request, "READ", body.group_id)
    topics: dict[str, dict[int, int]] = {}
    refused: set[str] = set()
    for topic in body.topics:
        if request.may("READ", (TOPIC, topic.topic_name)):
            starts = topics.setdefault(topic.topic_name, {})
            for each in topic.partitions:
                starts[each.partition_index] = each.start_offset
                yield
        else:
            refused.add(topic.topic_name)
        yield
    command = AlterShareOffsets(body.group_id, topics)
    answer = partial(_answer, metadata.image, refused)
    return ask(request, coordinators, body.group_id, command, answer)


def _answer(
    image: MetadataImage,
    refused: set[str],
    request: Request[AlterShareGroupOffsetsRequest],
    answer: Errors | KafkaError,
) -> AlterShareGroupOffsetsResponse | Steps[AlterShareGroupOffsetsResponse]:
    if isinstance(answer, KafkaError):
        return response(error_code=int(answer.code), error_message=answer.message)
    return _rows(image, refused, request, answer)


def _rows(
    image: MetadataImage,
    refused: set[str],
    request: Request[AlterShareGroupOffsetsRequest],
    errors: Errors,
) -> Steps[AlterShareGroupOffsetsResponse]:
    row = response.responses
    denied = KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
    topics = request.encoded_rows(row)
    for topic in request.body.topics:
        name = topic.topic_name
        partitions = request.encoded_rows(row.partitions)
        for each in topic.partitions:
            error = denied if name in refused else errors.get((name, each.partition_index))
            partitions.add(
                row.partitions(
                    partition_index=each.partition_index,
                    error_code=int(error.code) if error is not None else 0,
                    error_message=error.message if error is not None else None,
                )
            )
            yield
        topic_id = ZERO_UUID if name in refused else image.topic_ids.get(name, ZERO_UUID)
        topics.add(row(topic_name=name, topic_id=topic_id, partitions=partitions))
        yield
    return response(responses=topics)
