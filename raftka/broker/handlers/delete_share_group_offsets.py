"""DeleteShareGroupOffsets: v0 (KIP-932); the state of all share partitions of topics, in a group
without members.
"""

from functools import partial

from raftka.broker.context import MetadataCache
from raftka.broker.handlers.coordinator_request import ask, check_group
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.access.authorizer import TOPIC
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.share.commands import DeleteShareOffsets
from raftka.metadata.image import MetadataImage
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.share_offsets import (
    DELETE_SHARE_GROUP_OFFSETS,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from raftka.wire.rows import ZERO_UUID

response = DELETE_SHARE_GROUP_OFFSETS.response


@handles(DELETE_SHARE_GROUP_OFFSETS)
def delete_share_group_offsets(
    request: Request[DeleteShareGroupOffsetsRequest],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
) -> Steps[DeleteShareGroupOffsetsResponse | Delayed]:
    body = request.body
    check_group(request, "DELETE", body.group_id)
    allowed: dict[str, bool] = {}
    for topic in body.topics:
        allowed[topic.topic_name] = request.may("READ", (TOPIC, topic.topic_name))
        yield
    names = tuple([name for name, may in allowed.items() if may])
    command = DeleteShareOffsets(body.group_id, names)
    answer = partial(_answer, metadata.image, allowed)
    return ask(request, coordinators, body.group_id, command, answer)


def _answer(
    image: MetadataImage,
    allowed: dict[str, bool],
    request: Request[DeleteShareGroupOffsetsRequest],
    answer: dict[str, KafkaError] | KafkaError,
) -> DeleteShareGroupOffsetsResponse | Steps[DeleteShareGroupOffsetsResponse]:
    if isinstance(answer, KafkaError):
        return response(error_code=int(answer.code), error_message=answer.message)
    return _rows(image, allowed, request, answer)


def _rows(
    image: MetadataImage,
    allowed: dict[str, bool],
    request: Request[DeleteShareGroupOffsetsRequest],
    errors: dict[str, KafkaError],
) -> Steps[DeleteShareGroupOffsetsResponse]:
    """Return one row for each topic; a topic that is refused has no id in it."""
    denied = KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
    topics = request.encoded_rows(response.responses)
    for name, may in allowed.items():
        error = errors.get(name) if may else denied
        row = response.responses(topic_name=name, topic_id=ZERO_UUID)
        if error is not None:
            row.error_code, row.error_message = int(error.code), error.message
        else:
            row.topic_id = image.topic_ids.get(name, ZERO_UUID)
        topics.add(row)
        yield
    return response(responses=topics)
