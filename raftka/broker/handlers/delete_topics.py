"""DeleteTopics: v1-6; by name until v5, by name or id from v6 (KIP-516).

Answered when the controller has committed the deletion. Each broker removes its logs later, when it
replays the records.
"""

from collections.abc import Iterator
from functools import partial

from raftka.broker.context import MetadataCache
from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.network.access.authorizer import REFUSED, THE_CLUSTER, TOPIC
from raftka.broker.network.dispatch import handles
from raftka.broker.network.quotas.mutations import Mutations
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.metadata.commands import DeletedTopic, DeleteTopics, DoomedTopic
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
TOPICS_OF_COMMAND = 100  # the controller decides a command in one piece


@handles(DELETE_TOPICS, refused=lambda request, code: _refuse_all(request, code, None))
async def delete_topics(
    request: Request[DeleteTopicsRequest], metadata: MetadataCache, controller: ControllerClient
) -> DeleteTopicsResponse:
    """Send a request for very many topics as several commands; each is committed as a whole."""
    rows = request.encoded_rows(response.responses)
    mutations = Mutations[DoomedTopic](
        request.meter, partial(_count_partitions, metadata), strictly=request.version >= STRICT
    )
    for wanted in await request.finish(_make_commands(request, metadata, rows)):
        topics, throttled = mutations.admit(wanted)
        for each in throttled:
            rows.add(_make_throttled_row(metadata, each))
        by_name: dict[str | None, list[DoomedTopic]] = {}
        for each in topics:
            by_name.setdefault(_name_of(metadata, each), []).append(each)
        try:
            deleted: tuple[DeletedTopic, ...] = ()
            if topics:
                deleted = await controller.ask(DeleteTopics(topics), request.body.timeout_ms / 1000)
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


def _find_topic(metadata: MetadataCache, doomed: DoomedTopic) -> TopicImage | None:
    name = _name_of(metadata, doomed)
    return None if name is None else metadata.image.topic_named(name)


def _count_partitions(metadata: MetadataCache, doomed: DoomedTopic) -> int:
    known = _find_topic(metadata, doomed)
    return 0 if known is None else len(known.partitions)


def _make_throttled_row(metadata: MetadataCache, doomed: DoomedTopic) -> DeletableTopicResult:
    known = _find_topic(metadata, doomed)
    name, topic_id = (doomed.name, ZERO_UUID) if known is None else (known.name, known.topic_id)
    return response.responses(
        name=name, topic_id=topic_id, error_code=int(Code.THROTTLING_QUOTA_EXCEEDED)
    )


def _make_commands(
    request: Request[DeleteTopicsRequest],
    metadata: MetadataCache,
    rows: EncodedRows[DeletableTopicResult],
) -> Steps[list[tuple[DoomedTopic, ...]]]:
    """Return topics by command; add rows for topics that are refused without the controller.

    The controller refuses a topic that a command names twice, by its name or its id. So all
    mentions of a topic go into one command.
    """
    times: dict[DoomedTopic, int] = {}
    for doomed in _read_topics(request):
        times[doomed] = times.get(doomed, 0) + 1
        yield
    by_topic: dict[object, list[DoomedTopic]] = {}
    for doomed, count in times.items():
        name = _name_of(metadata, doomed)
        if (
            name is not None
            and not request.may("DELETE", THE_CLUSTER)
            and not request.may("DELETE", (TOPIC, name))
        ):
            rows.add(_make_denied_row(request, metadata, doomed, name))
        elif (fault := _find_fault(doomed)) is not None:
            yield from _add_faulty(rows, doomed, fault, count)
        else:
            by_topic.setdefault(name or doomed, []).extend([doomed] * min(count, 2))
        yield
    commands: list[tuple[DoomedTopic, ...]] = []
    command: list[DoomedTopic] = []
    for mentions in by_topic.values():
        command += mentions
        if len(command) >= TOPICS_OF_COMMAND:
            commands.append(tuple(command))
            command = []
        yield
    return [*commands, tuple(command)] if command else commands


def _find_fault(doomed: DoomedTopic) -> str | None:
    """Return Kafka's words for an entry with both a name and an id, or with neither."""
    by_id = doomed.topic_id is not None
    if by_id is not (doomed.name is not None):
        return None
    return (
        "You may not specify both topic name and topic id."
        if by_id
        else "Neither topic name nor id were specified."
    )


def _add_faulty(
    rows: EncodedRows[DeletableTopicResult], doomed: DoomedTopic, fault: str, count: int
) -> Steps[None]:
    """Add a row for each time that the entry was named."""
    topic_id, code = doomed.topic_id or ZERO_UUID, int(Code.INVALID_REQUEST)
    for _ in range(count):
        rows.add(
            response.responses(
                name=doomed.name, topic_id=topic_id, error_code=code, error_message=fault
            )
        )
        yield


def _read_topics(request: Request[DeleteTopicsRequest]) -> Iterator[DoomedTopic]:
    if request.version < 6:
        return (DoomedTopic(name) for name in request.body.topic_names)
    return (
        DoomedTopic(topic.name, None if topic.topic_id == ZERO_UUID else topic.topic_id)
        for topic in request.body.topics
    )


def _name_of(metadata: MetadataCache, topic: DoomedTopic) -> str | None:
    """Return the topic's name; None for an unknown id."""
    known = metadata.image.topics.get(topic.topic_id) if topic.topic_id is not None else None
    return topic.name or (known.name if known is not None else None)


def _make_denied_row(
    request: Request[DeleteTopicsRequest], metadata: MetadataCache, topic: DoomedTopic, name: str
) -> DeletableTopicResult:
    """Refuse the deletion. Without the right to DESCRIBE the topic, the client learns neither the
    name of an id nor whether the name exists.
    """
    code, text, shown = Code.TOPIC_AUTHORIZATION_FAILED, REFUSED[TOPIC], topic.name
    if request.may("DESCRIBE", (TOPIC, name)):
        shown = name
        if topic.topic_id is None and metadata.image.topic_named(name) is None:
            code, text = Code.UNKNOWN_TOPIC_OR_PARTITION, ABSENT
    return response.responses(
        name=shown, topic_id=topic.topic_id or ZERO_UUID, error_code=int(code), error_message=text
    )


def _refuse_all(
    request: Request[DeleteTopicsRequest], code: Code, message: str | None
) -> Steps[DeleteTopicsResponse]:
    rows = request.encoded_rows(response.responses)
    for topic in _read_topics(request):
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
