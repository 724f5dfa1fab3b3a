"""DeleteTopics: v1-6; by name until v5, by name or id from v6 (KIP-516).

Answers when the controller has committed, not when the logs are gone: every broker unlinks by itself as it applies the records.
"""

from typing import TYPE_CHECKING

from raftka.broker.authorizer import TOPIC
from raftka.broker.dispatch import Request, handles
from raftka.metadata.commands import DeletedTopic, DeleteTopics, DoomedTopic
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.topics import DELETE_TOPICS
from raftka.wire.schema import ZERO_UUID, Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

response = DELETE_TOPICS.response


@handles(DELETE_TOPICS, refused=lambda request, code: _refused(request, code, None))
async def delete_topics(request: Request, node: "Node") -> Row:
    doomed = _doomed(request)
    allowed = [topic for topic in doomed if (name := _name(node, topic)) is None or request.may("DELETE", (TOPIC, name))]
    try:
        deleted: tuple[DeletedTopic, ...] = await node.link.ask(DeleteTopics(tuple(allowed)), request.body.timeout_ms / 1000)
    except KafkaError as error:
        return _refused(request, error.code, error.message)
    rows = [response.responses(name=t.name, topic_id=t.topic_id, error_code=t.error, error_message=t.message) for t in deleted]
    denied = [topic for topic in doomed if topic not in allowed]
    rows += [_denied(topic) for topic in denied]
    return response(responses=rows)


def _doomed(request: Request) -> list[DoomedTopic]:
    if request.version < 6:
        return [DoomedTopic(name) for name in request.body.topic_names]
    return [DoomedTopic(topic.name, None if topic.topic_id == ZERO_UUID else topic.topic_id) for topic in request.body.topics]


def _name(node: "Node", topic: DoomedTopic) -> str | None:
    """None: an id that is nobody's."""
    known = node.image.topics.get(topic.topic_id) if topic.topic_id is not None else None
    return topic.name or (known.name if known is not None else None)


def _denied(topic: DoomedTopic) -> Row:
    """A name that may not be seen is not told apart from one that is not there."""
    return response.responses(name=topic.name, topic_id=topic.topic_id or ZERO_UUID, error_code=int(Code.TOPIC_AUTHORIZATION_FAILED))


def _refused(request: Request, code: Code, message: str | None) -> Row:
    rows = [
        response.responses(name=topic.name or "", topic_id=topic.topic_id or ZERO_UUID, error_code=int(code), error_message=message)
        for topic in _doomed(request)
    ]
    return request.answer(responses=rows)
