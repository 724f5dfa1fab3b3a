"""OffsetDelete: v0; offsets of topics that no member of the group is subscribed to."""

from functools import partial
from itertools import chain
from typing import Any

from raftka.broker.handlers.coordinator_request import PARTITIONS_OF_COMMAND, ask_all, check_group
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.access.authorizer import TOPIC
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.commands import DeleteOffsets
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.offsets import OFFSET_DELETE, OffsetDeleteRequest, OffsetDeleteResponse

response = OFFSET_DELETE.response


@handles(OFFSET_DELETE)
def offset_delete(
    request: Request[OffsetDeleteRequest], coordinators: CoordinatorParts
) -> Steps[OffsetDeleteResponse | Delayed]:
    body = request.body
    check_group(request, "DELETE", body.group_id)
    allowed: list[bool] = []
    commands: list[DeleteOffsets] = []
    topics: list[tuple[str, tuple[int, ...]]] = []
    room = PARTITIONS_OF_COMMAND
    for topic in body.topics:
        allowed.append(request.may("READ", (TOPIC, topic.name)))
        for first in range(0, len(topic.partitions) if allowed[-1] else 0, PARTITIONS_OF_COMMAND):
            part = tuple(
                [
                    each.partition_index
                    for each in topic.partitions[first : first + PARTITIONS_OF_COMMAND]
                ]
            )
            if topics and len(part) > room:
                commands.append(DeleteOffsets(body.group_id, tuple(topics)))
                topics, room = [], PARTITIONS_OF_COMMAND
            topics.append((topic.name, part))
            room -= 1 + len(part)
            yield
        yield
    if topics or not body.topics:
        commands.append(DeleteOffsets(body.group_id, tuple(topics)))
    questions = [
        (body.group_id, command, "DELETE", sum([1 + len(part) for _, part in command.topics]))
        for command in commands
    ]
    return (
        yield from ask_all(
            request, coordinators, len(questions), questions, partial(_answer, allowed)
        )
    )


def _answer(
    allowed: list[bool], request: Request[OffsetDeleteRequest], answers: list[Any]
) -> Steps[OffsetDeleteResponse]:
    if (
        error := next((each for each in answers if isinstance(each, KafkaError)), None)
    ) is not None:
        return response(error_code=int(error.code))
    codes = chain.from_iterable(codes for answer in answers for codes in answer.errors)
    may = iter(allowed)
    topics = request.encoded_rows(response.topics)
    for topic in request.body.topics:
        known = next(may)
        partitions = request.encoded_rows(response.topics.partitions)
        for each in topic.partitions:
            code = next(codes) if known else Code.TOPIC_AUTHORIZATION_FAILED
            partitions.add(
                response.topics.partitions(
                    partition_index=each.partition_index, error_code=int(code)
                )
            )
            yield
        topics.add(response.topics(name=topic.name, partitions=partitions))
        yield
    return response(topics=topics)
