"""OffsetCommit: v2-10; topics by id from version 10 on. What is wrong with the whole group is said
of each partition.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, repeat

from raftka.broker.context import MetadataCache
from raftka.broker.coordinators.commit_plan import remember
from raftka.broker.handlers.coordinator_request import (
    PARTITIONS_OF_COMMAND,
    ask,
    ask_all,
    check_group,
)
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.access.authorizer import TOPIC
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.commands import (
    CommitOffsets,
    CommitPartition,
    CommitTopic,
    OffsetsCommitted,
)
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.offsets import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from raftka.wire.messages.transactions import TxnOffsetCommitRequestTopic
from raftka.wire.schema import Row

response = OFFSET_COMMIT.response
topic_row, partition_row = response.topics, response.topics.partitions


def _refused(request: Request[OffsetCommitRequest], code: Code) -> Steps[OffsetCommitResponse]:
    return (yield from _rows(request, repeat(code), {}))


@handles(OFFSET_COMMIT, refused=_refused)
def offset_commit(
    request: Request[OffsetCommitRequest], metadata: MetadataCache, coordinators: CoordinatorParts
) -> Steps[OffsetCommitResponse | Delayed]:
    """Very many partitions are several commands: what is wrong with the group is then said of the
    partitions of each.
    """
    check_group(request, "READ", request.body.group_id)
    parts, refused = yield from parts_of(
        request,
        request.body.topics,
        (_name(request, metadata, topic) for topic in request.body.topics),
    )
    commands = [_command(request, part) for part in parts]
    if len(commands) == 1:
        if not refused:
            remember(request, commands[0], coordinators.groups.runtime, metadata)
        return ask(
            request,
            coordinators,
            request.body.group_id,
            commands[0],
            lambda request, answer: _answer(refused, commands, request, [answer]),
        )
    questions = [
        (request.body.group_id, command, "READ", PARTITIONS_OF_COMMAND) for command in commands
    ]
    return (
        yield from ask_all(
            request, coordinators, len(questions), questions, partial(_answer, refused, commands)
        )
    )


def parts_of(
    request: Request[Row],
    topics: Iterable[OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic],
    names: Iterable[str | None],
) -> Steps[tuple[list[list[CommitTopic]], dict[int, Code]]]:
    """Return the topics of each command, and the refusals by the topic's place in the request.
    `names`: None for an id of no topic.
    """
    parts: list[list[CommitTopic]] = []
    refused: dict[int, Code] = {}
    part: list[CommitTopic] = []
    room = PARTITIONS_OF_COMMAND
    for place, (topic, name) in enumerate(zip(topics, names, strict=True)):
        if name is not None and not request.may("READ", (TOPIC, name)):
            refused[place] = Code.TOPIC_AUTHORIZATION_FAILED
            continue
        for first in range(0, len(topic.partitions), PARTITIONS_OF_COMMAND):
            partitions = [
                CommitPartition(
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata,
                )
                for each in topic.partitions[first : first + PARTITIONS_OF_COMMAND]
            ]
            if part and len(partitions) > room:
                parts.append(part)
                part, room = [], PARTITIONS_OF_COMMAND
            part.append(CommitTopic(name, tuple(partitions)))
            room -= 1 + len(partitions)
            yield
    return [*parts, part], refused


def _name(
    request: Request[OffsetCommitRequest], metadata: MetadataCache, topic: OffsetCommitRequestTopic
) -> str | None:
    """Return the topic's name; None: the id is of no topic."""
    if request.version < 10:
        return str(topic.name)
    known = metadata.image.topics.get(topic.topic_id)
    return known.name if known is not None else None


def _command(request: Request[OffsetCommitRequest], topics: list[CommitTopic]) -> CommitOffsets:
    body = request.body
    return CommitOffsets(
        body.group_id,
        body.generation_id_or_member_epoch,
        body.member_id,
        body.group_instance_id,
        tuple(topics),
        body.retention_time_ms,
        request.version >= 9,
    )


def _answer(
    refused: dict[int, Code],
    commands: list[CommitOffsets],
    request: Request[OffsetCommitRequest],
    answers: list[OffsetsCommitted | KafkaError],
) -> Steps[OffsetCommitResponse]:
    return (yield from _rows(request, codes_of(commands, answers), refused))


def codes_of(
    commands: Sequence[CommitOffsets], answers: Sequence[OffsetsCommitted | KafkaError]
) -> Iterator[Code]:
    """One for each partition, in the order of the request."""
    for command, answer in zip(commands, answers, strict=True):
        if isinstance(answer, KafkaError):
            yield from repeat(answer.code, sum(len(topic.partitions) for topic in command.topics))
        else:
            yield from chain.from_iterable(answer.errors)


def _rows(
    request: Request[OffsetCommitRequest], codes: Iterator[Code], refused: dict[int, Code]
) -> Steps[OffsetCommitResponse]:
    """`refused`: by the topic's place in the request, those that no coordinator was asked for."""
    topics = request.encoded_rows(topic_row)
    for place, topic in enumerate(request.body.topics):
        partitions = request.encoded_rows(partition_row)
        for each in topic.partitions:
            code = refused[place] if place in refused else next(codes)
            partitions.add(
                partition_row(partition_index=each.partition_index, error_code=int(code))
            )
            yield
        topics.add(topic_row(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
        yield
    return response(topics=topics)
