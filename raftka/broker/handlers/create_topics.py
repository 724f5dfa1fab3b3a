"""CreateTopics: v2-7. The controller decides; answers when it has committed, brokers open their
logs as they apply the records.
"""

from collections.abc import Callable
from functools import partial

from raftka.broker.handlers.services import Services
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
from raftka.metadata.controller.topics import check_topic_name
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
# more are several commands: the controller decides on a command in one go
TOPICS_OF_COMMAND, PARTITIONS_OF_COMMAND = 100, 500
STRICT = 6  # from this version on a client knows THROTTLING_QUOTA_EXCEEDED
DEFAULTS_S = 2.0
# all settings of a topic that sets these itself
Inherit = Callable[[dict[str, str]], list[ConfigRow]]


@handles(CREATE_TOPICS, refused=lambda request, code: _refused(request, code, None))
async def create_topics(
    request: Request[CreateTopicsRequest], services: Services
) -> CreateTopicsResponse:
    """A request for very many topics is several commands, each of which is committed as a whole."""
    body = request.body
    rows = request.encoded_rows(response.topics)
    inherit: Inherit = partial(
        services.metadata.topic_rows.of_one_with,
        services.metadata.settings,
        services.metadata.image,
    )
    asked = False  # whose settings the topics have
    mutations = Mutations[NewTopic](
        request.meter, partial(_costs, services), strictly=request.version >= STRICT
    )
    for wanted in await request.finish(_commands(request, services, rows)):
        topics, throttled = mutations.admit(wanted)
        created = await _created(services, body, topics)
        for topic, result in zip(topics, created, strict=True):
            mutations.refused((topic,), result.error)
        created += tuple(
            [
                CreatedTopic(topic.name, ZERO_UUID, int(Code.THROTTLING_QUOTA_EXCEEDED), None)
                for topic in throttled
            ]
        )
        if not asked and request.version >= 5 and any(not topic.error for topic in created):
            asked, inherit = True, await _inherited(services)
        await request.finish(_add_created(request, rows, topics, created, inherit))
    return response(topics=rows)


async def _created(
    services: Services, body: CreateTopicsRequest, topics: tuple[NewTopic, ...]
) -> tuple[CreatedTopic, ...]:
    """A result for each of the topics, in order."""
    try:
        created: tuple[CreatedTopic, ...] = ()
        if topics:
            created = await services.controller.ask(
                CreateTopics(topics, body.validate_only), body.timeout_ms / 1000
            )
    except KafkaError as error:
        created = tuple(
            [
                CreatedTopic(topic.name, ZERO_UUID, int(error.code), error.message)
                for topic in topics
            ]
        )
    return created


def _costs(services: Services, topic: NewTopic) -> int:
    return (
        0
        if services.metadata.image.topic_named(topic.name) is not None
        else _partitions_asked(services, topic)
    )


def _commands(
    request: Request[CreateTopicsRequest],
    services: Services,
    rows: EncodedRows[CreatableTopicResult],
) -> Steps[list[tuple[NewTopic, ...]]]:
    """What the controller is asked for. Topics that are refused without it go to `rows`."""
    times: dict[str, int] = {}
    asked = 0
    for topic in request.body.topics:
        times[topic.name] = times.get(topic.name, 0) + 1
        asked += _partitions_asked(services, topic)
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
            check_limit(
                PARTITIONS_OF_REQUEST, asked, "Excessively large number of partitions per request."
            )
            check_topic_name(topic.name)
        except KafkaError as error:
            for limit in limit_of(error):
                services.context.metrics.hit(limit)
            rows.add(_not_created(topic.name, error))
            continue
        more = _partitions_asked(services, topic)
        if command and (
            len(command) == TOPICS_OF_COMMAND or partitions + more > PARTITIONS_OF_COMMAND
        ):
            commands.append(tuple(command))
            command, partitions = [], 0
        command.append(_new_topic(topic))
        partitions += more
    return [*commands, tuple(command)] if command else commands


def _partitions_asked(services: Services, topic: CreatableTopic | NewTopic) -> int:
    """At least one: also a request that asks for none has to be decided."""
    if topic.assignments:
        return len(topic.assignments)
    return max(
        1,
        int(services.metadata.settings["num.partitions"])
        if topic.num_partitions == -1
        else topic.num_partitions,
    )


def _add_created(
    request: Request[CreateTopicsRequest],
    rows: EncodedRows[CreatableTopicResult],
    topics: tuple[NewTopic, ...],
    created: tuple[CreatedTopic, ...],
    inherit: Inherit,
) -> Steps[None]:
    configs = {topic.name: dict(topic.configs) for topic in topics}
    for topic in created:
        rows.add(_row(request, topic, configs.get(topic.name, {}), inherit))
        yield


async def _inherited(services: Services) -> Inherit:
    """All settings of a new topic, given its own: as the node has them that has created it."""
    defaults = await _defaults(services)
    described = (
        services.metadata.topic_rows if defaults is services.metadata.settings else TopicRows()
    )
    return partial(described.of_one_with, defaults, services.metadata.image)


async def _defaults(services: Services) -> Static:
    """Of the node that has created them; our own when it does not answer any more."""
    try:
        told: StaticSettings = await services.controller.ask(TopicDefaults(), DEFAULTS_S)
    except KafkaError:
        return services.metadata.settings
    return (
        OfController(told.node_id, dict(told.given))
        if told.node_id != services.context.node_id
        else services.metadata.settings
    )


def _not_created(name: str, error: KafkaError) -> CreatableTopicResult:
    return response.topics(
        name=name, error_code=int(error.code), error_message=error.message, configs=[]
    )


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple([(a.partition_index, tuple(a.broker_ids)) for a in topic.assignments]),
        tuple([(config.name, config.value) for config in topic.configs]),
    )


def _row(
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


def _refused(
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
