"""CreateTopics: v2-7. The controller decides; answers when it has committed, brokers open their logs as they apply the records."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from raftka.broker.authorizer import THE_CLUSTER, TOPIC
from raftka.broker.dispatch import Request, handles
from raftka.metadata.commands import CreatedTopic, CreateTopics, NewTopic, StaticSettings, TopicDefaults
from raftka.metadata.describe import ConfigRow, OfController, Static, TopicRows
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.topics import CREATE_TOPICS
from raftka.wire.schema import ZERO_UUID, Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

response = CREATE_TOPICS.response
DEFAULTS_S = 2.0


@handles(CREATE_TOPICS, refused=lambda request, code: _refused(request, code, None))
async def create_topics(request: Request, node: "Node") -> Row:
    body = request.body
    everything = request.may("CREATE", THE_CLUSTER)
    allowed = [topic for topic in body.topics if everything or request.may("CREATE", (TOPIC, topic.name))]
    command = CreateTopics(tuple([_new_topic(topic) for topic in allowed]), body.validate_only)
    try:
        created: tuple[CreatedTopic, ...] = await node.link.ask(command, body.timeout_ms / 1000)
    except KafkaError as error:
        return _refused(request, error.code, error.message)
    configs = {topic.name: {config.name: config.value for config in topic.configs} for topic in body.topics}
    defaults = await _defaults(node) if request.version >= 5 and any(not topic.error for topic in created) else node.settings
    described = node.topic_rows if defaults is node.settings else TopicRows()
    inherit = partial(described.of_one_with, defaults, node.image)
    rows = [_row(request, topic, configs.get(topic.name, {}), inherit) for topic in created]
    refused = [topic for topic in body.topics if topic not in allowed]
    rows += [response.topics(name=topic.name, error_code=int(Code.TOPIC_AUTHORIZATION_FAILED), configs=None) for topic in refused]
    return response(topics=rows)


async def _defaults(node: "Node") -> Static:
    """Of the node that has created them; our own when it does not answer any more."""
    try:
        told: StaticSettings = await node.link.ask(TopicDefaults(), DEFAULTS_S)
    except KafkaError:
        return node.settings
    return OfController(told.node_id, dict(told.given)) if told.node_id != node.node_id else node.settings


def _new_topic(topic: Row) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple([(a.partition_index, tuple(a.broker_ids)) for a in topic.assignments]),
        tuple([(config.name, config.value) for config in topic.configs]),
    )


def _row(request: Request, topic: CreatedTopic, overrides: dict[str, str | None], inherit: Callable[[dict[str, str]], list[ConfigRow]]) -> Row:
    if topic.error:
        return response.topics(name=topic.name, topic_id=ZERO_UUID, error_code=topic.error, error_message=topic.message, configs=[])
    if not request.may("DESCRIBE_CONFIGS", (TOPIC, topic.name)):
        hidden = int(Code.TOPIC_AUTHORIZATION_FAILED)
        return response.topics(name=topic.name, topic_id=topic.topic_id, topic_config_error_code=hidden, configs=None)
    given = {name: value for name, value in overrides.items() if value is not None}
    configs = [
        response.topics.configs(
            name=entry.name, value=entry.value, read_only=entry.read_only, config_source=int(entry.source), is_sensitive=entry.is_sensitive
        )
        for entry in inherit(given)
    ]
    return response.topics(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=0,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        configs=configs if request.version >= 5 else [],
    )


def _refused(request: Request, code: Code, message: str | None) -> Row:
    return request.answer(
        topics=[response.topics(name=topic.name, error_code=int(code), error_message=message, configs=[]) for topic in request.body.topics]
    )
