"""CreateTopics: v2-7. Answered when the controller has committed the topics. Brokers open the logs
when they replay the records.
"""

from collections.abc import Callable
from functools import partial

from raftka.broker.context import BrokerContext, MetadataCache
from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.network.access.authorizer import THE_CLUSTER, TOPIC
from raftka.broker.network.dispatch import handles
from raftka.broker.network.quotas.mutations import Mutations
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.limits import PARTITIONS_OF_REQUEST
from raftka.metadata.commands import (
    CreatedTopic,
    CreateTopics,
    NewTopic,
    StaticSettings,
    TopicDefaults,
)
from raftka.metadata.configs.describe import ConfigRow, OfController, Static, TopicRows
from raftka.metadata.controller.topic_names import check_topic_name
from raftka.metadata.controller.topics import TOO_MANY_PARTITIONS, count_partitions
from raftka.wire.encoder import EncodedRows
from raftka.wire.errors import Code, KafkaError, check_limit, limit_of
from raftka.wire.messages.topics import (
    CREATE_TOPICS,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from raftka.wire.schema import ZERO_UUID

response = CREATE_TOPICS.response
# the controller decides a command in one piece
TOPICS_OF_COMMAND, PARTITIONS_OF_COMMAND = 100, 500
STRICT = 6  # from this version on a client knows THROTTLING_QUOTA_EXCEEDED
DEFAULTS_S = 2.0
# returns all settings of a topic, given those that it sets itself
Inherit = Callable[[dict[str, str]], list[ConfigRow]]


@handles(CREATE_TOPICS, refused=lambda request, code: _refuse_all(request, code, None))
async def create_topics(
    request: Request[CreateTopicsRequest], metadata: MetadataCache, controller: ControllerClient
) -> CreateTopicsResponse:
    """Send a request for very many topics as several commands; each is committed as a whole."""
    body = request.body
    rows = request.encoded_rows(response.topics)
    inherit: Inherit = partial(
        metadata.topic_rows.of_one_with,
        metadata.settings,
        metadata.image,
    )
    defaults_known = False  # the controller's defaults have been fetched for this request
    mutations = Mutations[NewTopic](
        request.meter, partial(_count_new_partitions, metadata), strictly=request.version >= STRICT
    )
    for wanted in await request.finish(_make_commands(request, metadata, rows)):
        topics, throttled = mutations.admit(wanted)
        created = await _create(controller, body, topics)
        for topic, result in zip(topics, created, strict=True):
            mutations.refused((topic,), result.error)
        created += tuple(
            [
                CreatedTopic(topic.name, ZERO_UUID, int(Code.THROTTLING_QUOTA_EXCEEDED), None)
                for topic in throttled
            ]
        )
        if (
            not defaults_known
            and request.version >= 5
            and any(not topic.error for topic in created)
        ):
            defaults_known, inherit = (
                True,
                await _fetch_defaults(metadata, controller, request.dispatcher.context),
            )
        await request.finish(_add_rows(request, rows, topics, created, inherit))
    return response(topics=rows)


async def _create(
    controller: ControllerClient, body: CreateTopicsRequest, topics: tuple[NewTopic, ...]
) -> tuple[CreatedTopic, ...]:
    """Ask the controller; return a result for each of the topics, in order."""
    if not topics:
        return ()
    command = CreateTopics(topics, body.validate_only)
    try:
        created: tuple[CreatedTopic, ...] = await controller.ask(command, body.timeout_ms / 1000)
    except KafkaError as error:
        return tuple(
            [
                CreatedTopic(topic.name, ZERO_UUID, int(error.code), error.message)
                for topic in topics
            ]
        )
    return created


def _count_new_partitions(metadata: MetadataCache, topic: NewTopic) -> int:
    if metadata.image.topic_named(topic.name) is not None:
        return 0
    return _count_partitions(metadata, topic)


def _make_commands(
    request: Request[CreateTopicsRequest],
    metadata: MetadataCache,
    rows: EncodedRows[CreatableTopicResult],
) -> Steps[list[tuple[NewTopic, ...]]]:
    """Return topics by command; add rows for topics that are refused without the controller."""
    times: dict[str, int] = {}
    wanted = 0  # partitions of the request
    for topic in request.body.topics:
        times[topic.name] = times.get(topic.name, 0) + 1
        wanted += _count_partitions(metadata, _read_topic(topic))
        yield
    everything = request.may("CREATE", THE_CLUSTER)
    commands: list[tuple[NewTopic, ...]] = []
    command: list[NewTopic] = []
    partitions = 0
    for topic in request.body.topics:
        yield
        count = times.pop(topic.name, 0)
        if not count:
            continue  # it was named before
        try:
            if not everything and not request.may("CREATE", (TOPIC, topic.name)):
                raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
            if count > 1:
                raise KafkaError(Code.INVALID_REQUEST, "Duplicate topic name.")
            check_limit(PARTITIONS_OF_REQUEST, wanted, TOO_MANY_PARTITIONS)
            check_topic_name(topic.name)
        except KafkaError as error:
            for limit in limit_of(error):
                request.dispatcher.metrics.hit(limit)
            rows.add(_make_refused_row(topic.name, error))
            continue
        new_topic = _read_topic(topic)
        more = _count_partitions(metadata, new_topic)
        if command and (
            len(command) == TOPICS_OF_COMMAND or partitions + more > PARTITIONS_OF_COMMAND
        ):
            commands.append(tuple(command))
            command, partitions = [], 0
        command.append(new_topic)
        partitions += more
    return [*commands, tuple(command)] if command else commands


def _count_partitions(metadata: MetadataCache, topic: NewTopic) -> int:
    """Return at least one: the controller decides an invalid number too."""
    return max(1, count_partitions(topic, metadata.settings))


def _add_rows(
    request: Request[CreateTopicsRequest],
    rows: EncodedRows[CreatableTopicResult],
    topics: tuple[NewTopic, ...],
    created: tuple[CreatedTopic, ...],
    inherit: Inherit,
) -> Steps[None]:
    configs = {topic.name: dict(topic.configs) for topic in topics}
    for topic in created:
        rows.add(_make_row(request, topic, configs.get(topic.name, {}), inherit))
        yield


async def _fetch_defaults(
    metadata: MetadataCache, controller: ControllerClient, context: BrokerContext
) -> Inherit:
    """Return an Inherit with the defaults of the controller, which has created the topics."""
    defaults = await _ask_for_defaults(metadata, controller, context)
    described = metadata.topic_rows if defaults is metadata.settings else TopicRows()
    return partial(described.of_one_with, defaults, metadata.image)


async def _ask_for_defaults(
    metadata: MetadataCache, controller: ControllerClient, context: BrokerContext
) -> Static:
    """Return the controller's defaults, or this node's when the controller does not answer."""
    try:
        reply: StaticSettings = await controller.ask(TopicDefaults(), DEFAULTS_S)
    except KafkaError:
        return metadata.settings
    return (
        OfController(reply.node_id, dict(reply.given))
        if reply.node_id != context.node_id
        else metadata.settings
    )


def _make_refused_row(name: str, error: KafkaError) -> CreatableTopicResult:
    return response.topics(
        name=name, error_code=int(error.code), error_message=error.message, configs=[]
    )


def _read_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple([(a.partition_index, tuple(a.broker_ids)) for a in topic.assignments]),
        tuple([(config.name, config.value) for config in topic.configs]),
    )


def _make_row(
    request: Request[CreateTopicsRequest],
    topic: CreatedTopic,
    overrides: dict[str, str | None],
    inherit: Inherit,
) -> CreatableTopicResult:
    if topic.error:
        return response.topics(
            name=topic.name,
            topic_id=ZERO_UUID,
            error_code=topic.error,
            error_message=topic.message,
            configs=[],
        )
    if not request.may("DESCRIBE_CONFIGS", (TOPIC, topic.name)):
        hidden = int(Code.TOPIC_AUTHORIZATION_FAILED)
        return response.topics(
            name=topic.name, topic_id=topic.topic_id, topic_config_error_code=hidden, configs=[]
        )
    given = {name: value for name, value in overrides.items() if value is not None}
    configs = [
        response.topics.configs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=int(entry.source),
            is_sensitive=entry.is_sensitive,
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


def _refuse_all(
    request: Request[CreateTopicsRequest], code: Code, message: str | None
) -> Steps[CreateTopicsResponse]:
    rows = request.encoded_rows(response.topics)
    for topic in request.body.topics:
        rows.add(
            response.topics(
                name=topic.name, error_code=int(code), error_message=message, configs=[]
            )
        )
        yield
    return response(topics=rows)
