"""TxnOffsetCommit: v0-6; topics by id from version 6 on. Offsets of a group that count when the
producer's transaction is committed; from version 5 on this broker adds the group's partition of
`__consumer_offsets` to the transaction, until then the producer has done so (AddOffsetsToTxn).
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat

import trio

from raftka.broker.context import MetadataCache
from raftka.broker.coordinators.partition import LOADED
from raftka.broker.handlers.coordinator_request import ask_all, check_group
from raftka.broker.handlers.offset_commit import codes_of, parts_of
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.access.authorizer import TRANSACTIONAL_ID
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.produce.verification import Question, Refused
from raftka.broker.work.long_work import Steps
from raftka.coordinator.commands import CommitOffsets, CommitTopic, OffsetsCommitted
from raftka.log.producers.markers import VERSION_1, VERSION_2
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.transactions import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

response = TXN_OFFSET_COMMIT.response
NAMES_IDS = SAYS_NOT_FOUND = 6
ADDS_PARTITIONS = 5
SAYS_ABORTABLE = 4
SAYS_LOADING = 2
NO_SEQUENCE = -1


def _refused(
    request: Request[TxnOffsetCommitRequest], code: Code
) -> Steps[TxnOffsetCommitResponse]:
    return (yield from _rows(request, repeat(code), {}))


@handles(TXN_OFFSET_COMMIT, refused=_refused)
async def txn_offset_commit(
    request: Request[TxnOffsetCommitRequest],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
) -> TxnOffsetCommitResponse | Delayed:
    body = request.body
    if not request.may("WRITE", (TRANSACTIONAL_ID, body.transactional_id)):
        raise KafkaError(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    check_group(request, "READ", body.group_id)
    parts, refused = await request.finish(
        parts_of(request, body.topics, (_name(request, metadata, topic) for topic in body.topics))
    )
    commands = [_command(request, part) for part in parts]
    try:
        if await request.finish(_names_a_partition(metadata, parts)):
            await _verify(request, coordinators)
        elif not body.group_id:
            raise KafkaError(Code.INVALID_GROUP_ID)
    except KafkaError as error:
        code = (
            Code.COORDINATOR_NOT_AVAILABLE
            if request.version < SAYS_LOADING and error.code is Code.COORDINATOR_LOAD_IN_PROGRESS
            else error.code
        )
        return await request.finish(_rows(request, _codes(metadata, parts, code), refused))
    questions = [
        (body.group_id, command, "READ", sum([1 + len(each.partitions) for each in command.topics]))
        for command in commands
    ]
    return await request.finish(
        ask_all(
            request, coordinators, len(questions), questions, partial(_answer, refused, commands)
        )
    )


def _name(
    request: Request[TxnOffsetCommitRequest],
    metadata: MetadataCache,
    topic: TxnOffsetCommitRequestTopic,
) -> str | None:
    """Return the topic's name; None: the id is of no topic."""
    if request.version < NAMES_IDS:
        return str(topic.name)
    known = metadata.image.topics.get(topic.topic_id)
    return known.name if known is not None else None


def _names_a_partition(
    metadata: MetadataCache, parts: Iterable[Sequence[CommitTopic]]
) -> Steps[bool]:
    """Return whether the request names a partition that exists."""
    image = metadata.image
    for part in parts:
        for topic in part:
            known = image.topic_named(topic.name or "")
            if known is not None and any(
                0 <= each.partition < len(known.partitions) for each in topic.partitions
            ):
                return True
            yield
    return False


async def _verify(request: Request[TxnOffsetCommitRequest], coordinators: CoordinatorParts) -> None:
    """Raises KafkaError unless the transaction's coordinator knows that the group's partition is in
    the transaction.
    """
    body = request.body
    if not body.group_id:
        raise KafkaError(Code.INVALID_GROUP_ID)
    coordinator = coordinators.groups.runtime.find(body.group_id)
    if coordinator.state not in LOADED:
        raise KafkaError(Code.COORDINATOR_LOAD_IN_PROGRESS)
    partition = coordinator.partition
    producers = partition.log.producers
    if not producers.must_verify(body.producer_id, body.producer_epoch):
        return
    version = VERSION_2 if request.version >= ADDS_PARTITIONS else VERSION_1
    question = Question(body.transactional_id, body.producer_id, body.producer_epoch, version)
    now_ms = request.dispatcher.context.runtime.clock.wall_ms()
    question.add(
        partition,
        producers.guard(body.producer_id, body.producer_epoch, NO_SEQUENCE, version, now_ms),
        None,
    )
    answered, outcome = trio.Event(), list[KafkaError]()

    def done(refused: Refused) -> None:
        outcome.extend(refused.values())
        answered.set()

    coordinators.verifier.ask(question, done)
    await answered.wait()
    if outcome:
        raise KafkaError(_as_told(outcome[0].code, request.version))
    if partition.log.producers is not producers:
        # it was made anew, after a truncation, and the answer is lost: the client asks again
        raise KafkaError(Code.NOT_COORDINATOR)


def _as_told(code: Code, version: int) -> Code:
    if code is Code.PRODUCER_FENCED:
        return Code.INVALID_PRODUCER_EPOCH
    if code is Code.TRANSACTION_ABORTABLE and version < SAYS_ABORTABLE:
        return Code.INVALID_TXN_STATE
    return Code.COORDINATOR_LOAD_IN_PROGRESS if code is Code.NETWORK_EXCEPTION else code


def _command(
    request: Request[TxnOffsetCommitRequest], topics: Sequence[CommitTopic]
) -> CommitOffsets:
    body = request.body
    producer = body.producer_id, body.producer_epoch
    return CommitOffsets(
        body.group_id,
        body.generation_id_or_member_epoch,
        body.member_id,
        body.group_instance_id,
        tuple(topics),
        may_say_not_found=request.version >= SAYS_NOT_FOUND,
        producer=producer,
    )


def _codes(
    metadata: MetadataCache, parts: Iterable[Sequence[CommitTopic]], code: Code
) -> Iterator[Code]:
    """Yield the error of the group or the transaction for each partition that exists."""
    for part in parts:
        for topic in part:
            known = metadata.image.topic_named(topic.name or "")
            count = len(known.partitions) if known is not None else 0
            missing = (
                Code.UNKNOWN_TOPIC_ID if topic.name is None else Code.UNKNOWN_TOPIC_OR_PARTITION
            )
            for each in topic.partitions:
                yield code if 0 <= each.partition < count else missing


def _answer(
    refused: dict[int, Code],
    commands: Sequence[CommitOffsets],
    request: Request[TxnOffsetCommitRequest],
    answers: Sequence[OffsetsCommitted | KafkaError],
) -> Steps[TxnOffsetCommitResponse]:
    return (yield from _rows(request, codes_of(commands, answers), refused))


def _rows(
    request: Request[TxnOffsetCommitRequest], codes: Iterator[Code], refused: dict[int, Code]
) -> Steps[TxnOffsetCommitResponse]:
    """`refused`: by the topic's place in the request, those that no coordinator was asked for."""
    row = response.topics
    topics = request.encoded_rows(row)
    for place, topic in enumerate(request.body.topics):
        partitions = request.encoded_rows(row.partitions)
        for each in topic.partitions:
            code = refused[place] if place in refused else next(codes)
            partitions.add(
                row.partitions(partition_index=each.partition_index, error_code=int(code))
            )
            yield
        topics.add(row(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
        yield
    return response(topics=topics)
