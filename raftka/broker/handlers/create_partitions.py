"""CreatePartitions: v0-3. Answered when the controller has committed the partitions. Brokers open
the logs when they replay the records.
"""

from functools import partial

from raftka.broker.context import MetadataCache
from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.network.access.authorizer import TOPIC
from raftka.broker.network.dispatch import handles
from raftka.broker.network.quotas.mutations import Mutations
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.metadata.commands import CreatePartitions, MorePartitions, TopicResult
from raftka.wire.encoder import EncodedRows
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.partitions import (
    CREATE_PARTITIONS,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

response = CREATE_PARTITIONS.response
STRICT = 3  # from this version on a client knows THROTTLING_QUOTA_EXCEEDED
TOPICS_OF_COMMAND = 100  # the controller decides a command in one piece


@handles(CREATE_PARTITIONS, refused=lambda request, code: _refuse_all(request, code, None))
async def create_partitions(
    request: Request[CreatePartitionsRequest], metadata: MetadataCache, controller: ControllerClient
) -> CreatePartitionsResponse:
    """Send a request for very many topics as several commands; each is committed as a whole."""
    body = request.body
    rows = request.encoded_rows(response.results)
    mutations = Mutations[MorePartitions](
        request.meter, partial(_count_new_partitions, metadata), strictly=request.version >= STRICT
    )
    for wanted in await request.finish(_make_commands(request, rows)):
        topics, throttled = mutations.admit(wanted)
        try:
            command = CreatePartitions(topics, body.validate_only)
            results: tuple[TopicResult, ...] = (
                await controller.ask(command, body.timeout_ms / 1000) if topics else ()
            )
        except KafkaError as error:
            results = tuple(
                [TopicResult(topic.name, int(error.code), error.message) for topic in topics]
            )
        for topic, result in zip(topics, results, strict=True):
            mutations.refused((topic,), result.error)
        for each in (
            *results,
            *[
                TopicResult(topic.name, int(Code.THROTTLING_QUOTA_EXCEEDED), None)
                for topic in throttled
            ],
        ):
            rows.add(
                response.results(name=each.name, error_code=each.error, error_message=each.message)
            )
    return response(results=rows)


def _count_new_partitions(metadata: MetadataCache, topic: MorePartitions) -> int:
    known = metadata.image.topic_named(topic.name)
    return 0 if known is None else max(0, topic.total - len(known.partitions))


def _make_commands(
    request: Request[CreatePartitionsRequest], rows: EncodedRows[CreatePartitionsTopicResult]
) -> Steps[list[tuple[MorePartitions, ...]]]:
    """Return topics by command; add rows for topics that are refused without the controller."""
    times: dict[str, int] = {}
    for topic in request.body.topics:
        times[topic.name] = times.get(topic.name, 0) + 1
        yield
    commands: list[tuple[MorePartitions, ...]] = []
    command: list[MorePartitions] = []
    for topic in request.body.topics:
        yield
        count = times.pop(topic.name, 0)
        if not count:
            continue  # it was named before
        if not request.may("ALTER", (TOPIC, topic.name)):
            rows.add(
                response.results(name=topic.name, error_code=int(Code.TOPIC_AUTHORIZATION_FAILED))
            )
        elif count > 1:
            rows.add(
                response.results(
                    name=topic.name,
                    error_code=int(Code.INVALID_REQUEST),
                    error_message="Duplicate topic name.",
                )
            )
        else:
            command.append(_read_topic(topic))
        if len(command) == TOPICS_OF_COMMAND:
            commands.append(tuple(command))
            command = []
    return [*commands, tuple(command)] if command else commands


def _read_topic(topic: CreatePartitionsTopic) -> MorePartitions:
    given = topic.assignments
    return MorePartitions(
        topic.name,
        topic.count,
        None if given is None else tuple([tuple(each.broker_ids) for each in given]),
    )


def _refuse_all(
    request: Request[CreatePartitionsRequest], code: Code, message: str | None
) -> Steps[CreatePartitionsResponse]:
    rows = request.encoded_rows(response.results)
    for topic in request.body.topics:
        rows.add(response.results(name=topic.name, error_code=int(code), error_message=message))
        yield
    return response(results=rows)
