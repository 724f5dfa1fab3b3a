"""CreatePartitions: v0-3. Answers when the controller has committed; brokers open the logs as they apply the record."""

from typing import TYPE_CHECKING

from raftka.broker.authorizer import TOPIC
from raftka.broker.dispatch import Request, handles
from raftka.metadata.commands import CreatePartitions, MorePartitions, TopicResult
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.partitions import CREATE_PARTITIONS
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

response = CREATE_PARTITIONS.response


@handles(CREATE_PARTITIONS, refused=lambda request, code: _refused(request, code, None))
async def create_partitions(request: Request, node: "Node") -> Row:
    body = request.body
    allowed = [topic for topic in body.topics if request.may("ALTER", (TOPIC, topic.name))]
    command = CreatePartitions(tuple([_more(topic) for topic in allowed]), body.validate_only)
    try:
        results: tuple[TopicResult, ...] = await node.link.ask(command, body.timeout_ms / 1000)
    except KafkaError as error:
        return _refused(request, error.code, error.message)
    rows = [response.results(name=each.name, error_code=each.error, error_message=each.message) for each in results]
    denied = dict.fromkeys(topic.name for topic in body.topics if topic not in allowed)
    return response(results=rows + [response.results(name=name, error_code=int(Code.TOPIC_AUTHORIZATION_FAILED)) for name in denied])


def _more(topic: Row) -> MorePartitions:
    given = topic.assignments
    return MorePartitions(topic.name, topic.count, None if given is None else tuple([tuple(each.broker_ids) for each in given]))


def _refused(request: Request, code: Code, message: str | None) -> Row:
    return request.answer(results=[response.results(name=t.name, error_code=int(code), error_message=message) for t in request.body.topics])
