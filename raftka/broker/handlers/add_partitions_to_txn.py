"""AddPartitionsToTxn: v0-3 from producers before they write, v4-5 from the leaders of partitions,
for several transactions, which may only ask whether their partitions are in them (KIP-890). All
partitions of a transaction are added, or none.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from raftka.broker.context import MetadataCache
from raftka.broker.coordinators.runtime import Gathered
from raftka.broker.handlers.coordinator_request import (
    CoordinatorRequest,
    ask_transaction,
    check_transactional_id,
)
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.access.authorizer import THE_CLUSTER, TOPIC
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.transactions.commands import SHORT_HOLD_MS, AddPartitions
from raftka.wire.encoder import EncodedRows
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.transactions import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)

SAYS_FENCED = 2
OF_BROKERS = 4
response = ADD_PARTITIONS_TO_TXN.response
topic_row = response.results_by_topic_v3_and_below
partition_row = topic_row.results_by_partition

Key = tuple[str, int]
Codes = Mapping[Key, Code] | Code  # one for all


def _refused(
    request: Request[AddPartitionsToTxnRequest], code: Code
) -> Steps[AddPartitionsToTxnResponse]:
    if request.version >= OF_BROKERS:
        return response(error_code=int(code))
    return response(
        results_by_topic_v3_and_below=(
            yield from _topics(request, request.body.v3_and_below_topics, code)
        )
    )


@handles(ADD_PARTITIONS_TO_TXN, refused=_refused)
def add_partitions_to_txn(
    request: Request[AddPartitionsToTxnRequest],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
) -> Steps[AddPartitionsToTxnResponse | Delayed]:
    if request.version >= OF_BROKERS:
        return (yield from _of_brokers(request, metadata, coordinators))
    body = request.body
    transactional_id = body.v3_and_below_transactional_id
    check_transactional_id(request, transactional_id)
    codes: dict[Key, Code] = {}
    for topic in body.v3_and_below_topics:
        may_write = request.may("WRITE", (TOPIC, topic.name))
        count = _partitions(metadata, topic.name)
        for index in topic.partitions:
            codes[topic.name, index] = _code(may_write=may_write, is_there=0 <= index < count)
            yield
    if any(codes.values()):
        return response(
            results_by_topic_v3_and_below=(
                yield from _topics(request, body.v3_and_below_topics, _not_attempted(codes))
            )
        )
    command = AddPartitions(
        transactional_id,
        body.v3_and_below_producer_id,
        body.v3_and_below_producer_epoch,
        tuple(codes),
    )
    return ask_transaction(request, coordinators, transactional_id, command, _answer)


def _partitions(metadata: MetadataCache, topic: str) -> int:
    known = metadata.image.topic_named(topic)
    return len(known.partitions) if known is not None else 0


def _not_attempted(codes: Mapping[Key, Code]) -> Mapping[Key, Code]:
    """Return the codes when a partition cannot be added: the others are not attempted either."""
    return {key: code or Code.OPERATION_NOT_ATTEMPTED for key, code in codes.items()}


def _code(*, may_write: bool, is_there: bool) -> Code:
    if not may_write:
        return Code.TOPIC_AUTHORIZATION_FAILED
    return Code.NONE if is_there else Code.UNKNOWN_TOPIC_OR_PARTITION


def _answer(
    request: Request[AddPartitionsToTxnRequest], answer: KafkaError | None
) -> Steps[AddPartitionsToTxnResponse]:
    code = Code.NONE if answer is None else answer.code
    if code is Code.PRODUCER_FENCED and request.version < SAYS_FENCED:
        code = Code.INVALID_PRODUCER_EPOCH
    return (yield from _refused(request, code))


def _of_brokers(
    request: Request[AddPartitionsToTxnRequest],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
) -> Steps[AddPartitionsToTxnResponse | Delayed]:
    """Ask for each transaction; the answer comes when the last one is decided."""
    if not request.may("CLUSTER_ACTION", THE_CLUSTER):
        raise KafkaError(Code.CLUSTER_AUTHORIZATION_FAILED)
    asking: CoordinatorRequest[AddPartitionsToTxnRequest, AddPartitionsToTxnResponse]
    asking = CoordinatorRequest(request, request.dispatcher.long_work, _answer_brokers)
    request.stays = True
    transactions = request.body.transactions
    gathered = Gathered(len(transactions), asking)
    for place, asked in enumerate(transactions):
        codes: dict[Key, Code] = {}
        for topic in asked.topics:
            count = _partitions(metadata, topic.name)
            for index in topic.partitions:
                codes[topic.name, index] = _code(may_write=True, is_there=0 <= index < count)
                yield
        if any(codes.values()):
            _place(gathered, place, _not_attempted(codes))
            continue
        coordinators.transactions.add_partitions(
            asked.transactional_id,
            (asked.producer_id, asked.producer_epoch),
            tuple(codes),
            partial(_place, gathered, place),
            verify_only=asked.verify_only,
            hold_ms=SHORT_HOLD_MS,
        )
        yield
    return asking.result()


def _place(gathered: Gathered, place: int, answer: Mapping[Key, Code] | KafkaError) -> None:
    gathered.place(place)(answer)


def _answer_brokers(
    request: Request[AddPartitionsToTxnRequest], answers: list[Mapping[Key, Code] | KafkaError]
) -> Steps[AddPartitionsToTxnResponse]:
    results = request.encoded_rows(response.results_by_transaction)
    for asked, answer in zip(request.body.transactions, answers, strict=True):
        topics = yield from _topics(
            request, asked.topics, answer.code if isinstance(answer, KafkaError) else answer
        )
        results.add(
            response.results_by_transaction(
                transactional_id=asked.transactional_id, topic_results=topics
            )
        )
        yield
    return response(results_by_transaction=results)


def _topics(
    request: Request[AddPartitionsToTxnRequest],
    asked: Sequence[AddPartitionsToTxnTopic],
    codes: Codes,
) -> Steps[EncodedRows[AddPartitionsToTxnTopicResult]]:
    rows = request.encoded_rows(topic_row)
    for topic in asked:
        partitions = request.encoded_rows(partition_row)
        for index in topic.partitions:
            code = codes if isinstance(codes, Code) else codes[topic.name, index]
            partitions.add(partition_row(partition_index=index, partition_error_code=int(code)))
            yield
        rows.add(topic_row(name=topic.name, results_by_partition=partitions))
        yield
    return rows
