"""DeleteTopics: v1-6; by name until v5, by name or id from v6 (KIP-516).

Answers when the controller has committed, not when the logs are gone: every broker unlinks by
itself as it applies the records.
"""

from collections.abc import Iterator
from functools import partial

from raftka.broker.handlers.services import Services
from raftka.broker.network.access.authorizer import REFUSED, THE_CLUSTER, TOPIC
from raftka.broker.network.dispatch import handles
from raftka.broker.network.quotas.mutations import Mutations
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.metadata.commands import DeletedTopic, DeleteTopics, DoomedTopic
from raftka.metadata.controller.topics import wrongly_named
from raftka.metadata.image import TopicImage
from raftka.wire.encoder import EncodedRows
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.topics import (
    DELETE_TOPICS,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from raftka.wire.schema import ZERO_UUID

response = DELETE_TOPICS.response
STRICT = 5  # from this version on a client knows THROTTLING_QUOTA_EXCEEDED
ABSENT = "This server does not host this topic-partition."  # Kafka's words
TOPICS_OF_COMMAND = 100  # more are several commands: the controller decides on a command in one go


@handles(DELETE_TOPICS, refused=lambda request, code: _refused(request, code, None))
async def delete_topics(
    request: Request[DeleteTopicsRequest], services: Services
) -> DeleteTopicsResponse:
    """A request for very many topics is several commands, each of which is committed as a whole."""
    rows = request.encoded_rows(response.responses)
    mutations = Mutations[DoomedTopic](
        request.meter, partial(_costs, services), strictly=request.version >= STRICT
    )
    for wanted in await request.finish(_commands(request, services, rows)):
        topics, throttled = mutations.admit(wanted)
        for each in throttled:
            rows.add(_throttled(services, each))
        by_name: dict[str | None, list[DoomedTopic]] = {}
        for each in topics:
            by_name.setdefault(_name(services, each), []).append(each)
        try:
            deleted: tuple[DeletedTopic, ...] = ()
            if topics:
                deleted = await services.controller.ask(
                    DeleteTopics(topics), request.body.timeout_ms / 1000
                )
        except KafkaError as error:
            deleted = tuple(
                [
                    DeletedTopic(
                        each.name or "", each.topic_id or ZERO_UUID, int(error.code), error.message
                    )
                    for each in topics
                ]
            )
        for topic in deleted:
            mutations.refused(by_name.get(topic.name, ()), topic.error)
            rows.add(
                response.responses(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    error_code=topic.error,
                    error_message=topic.message,
                )
            )
    return response(responses=rows)


def _known(services: Services, doomed: DoomedTopic) -> TopicImage | None:
    name = _name(services, doomed)
    return None if name is None else services.metadata.image.topic_named(name)


def _costs(services: Services, doomed: DoomedTopic) -> int:
    known = _known(services, doomed)
    return 0 if known is None else len(known.partitions)


def _throttled(services: Services, doomed: DoomedTopic) -> DeletableTopicResult:
    known = _known(services, doomed)
    name, topic_id = (doomed.name, ZERO_UUID) if known is None else (known.name, known.topic_id)
    return response.responses(
        name=name, topic_id=topic_id, error_code=int(Code.THROTTLING_QUOTA_EXCEEDED)
    )


def _commands(
    request: Request[DeleteTopicsRequest],
    services: Services,
    rows: EncodedRows[DeletableTopicResult],
) -> Steps[list[tuple[DoomedTopic, ...]]]:
    """What the controller is asked for. Topics that are refused without it go to `rows`.

    The controller refuses a topic that one command names twice; all namings of a topic are in one
    command.
    """
    times: dict[DoomedTopic, int] = {}
    for doomed in _doomed(request):
        times[doomed] = times.get(doomed, 0) + 1
        yield
    by_topic: dict[object, list[DoomedTopic]] = {}
    for doomed, count in times.items():
        name = _name(services, doomed)
        if (
            name is not None
            and not request.may("DELETE", THE_CLUSTER)
            and not request.may("DELETE", (TOPIC, name))
        ):
            rows.add(_denied(request, services, doomed, name))
        elif (wrong := wrongly_named(doomed)) is not None:
            yield from _add_wrong(rows, doomed, wrong, count)
        else:
            by_topic.setdefault(name or doomed, []).extend([doomed] * min(count, 2))
        yield
    commands: list[tuple[DoomedTopic, ...]] = []
    command: list[DoomedTopic] = []
    for namings in by_topic.values():
        command += namings
        if len(command) >= TOPICS_OF_COMMAND:
            commands.append(tuple(command))
            command = []
        yield
    return [*commands, tuple(command)] if command else commands


def _add_wrong(
    rows: EncodedRows[DeletableTopicResult], doomed: DoomedTopic, wrong: str, count: int
) -> Steps[None]:
    """One answer for each time that it was named."""
    topic_id, code = doomed.topic_id or ZERO_UUID, int(Code.INVALID_REQUEST)
    for _ in range(count):
        rows.add(
            response.responses(
                name=doomed.name, topic_id=topic_id, error_code=code, error_message=wrong
            )
        )
        yield


def _doomed(request: Request[DeleteTopicsRequest]) -> Iterator[DoomedTopic]:
    if request.version < 6:
        return (DoomedTopic(name) for name in request.body.topic_names)
    return (
        DoomedTopic(topic.name, None if topic.topic_id == ZERO_UUID else topic.topic_id)
        for topic in request.body.topics
    )


def _name(services: Services, topic: DoomedTopic) -> str | None:
    """None: an id that is nobody's."""
    known = (
        services.metadata.image.topics.get(topic.topic_id) if topic.topic_id is not None else None
    )
    return topic.name or (known.name if known is not None else None)


def _denied(
    request: Request[DeleteTopicsRequest], services: Services, topic: DoomedTopic, name: str
) -> DeletableTopicResult:
    """A client that may not DESCRIBE the name is told neither the name of an id nor whether the
    name is there.
    """
    code, text, told = Code.TOPIC_AUTHORIZATION_FAILED, REFUSED[TOPIC], topic.name
    if request.may("DESCRIBE", (TOPIC, name)):
        told = name
        if topic.topic_id is None and services.metadata.image.topic_named(name) is None:
            code, text = Code.UNKNOWN_TOPIC_OR_PARTITION, ABSENT
    return response.responses(
        name=told, topic_id=topic.topic_id or ZERO_UUID, error_code=int(code), error_message=text
    )


def _refused(
    request: Request[DeleteTopicsRequest], code: Code, message: str | None
) -> Steps[DeleteTopicsResponse]:
    rows = request.encoded_rows(response.responses)
    for topic in _doomed(request):
        rows.add(
            response.responses(
                name=topic.name or "",
                topic_id=topic.topic_id or ZERO_UUID,
                error_code=int(code),
                error_message=message,
            )
        )
        yield
    return response(responses=rows)
