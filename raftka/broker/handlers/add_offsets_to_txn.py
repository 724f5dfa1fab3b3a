"""AddOffsetsToTxn: v0-4; the partition of __consumer_offsets with a group's offsets joins a
transaction. Newer clients have TxnOffsetCommit do it.
"""

from raftka.broker.context import MetadataCache
from raftka.broker.coordinators.group_service import TOPIC
from raftka.broker.coordinators.runtime import partition_for
from raftka.broker.handlers.coordinator_request import (
    ask_transaction,
    check_group,
    check_transactional_id,
)
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.coordinator.transactions.commands import AddPartitions
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.transactions import (
    ADD_OFFSETS_TO_TXN,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)

SAYS_FENCED = 2
response = ADD_OFFSETS_TO_TXN.response


@handles(ADD_OFFSETS_TO_TXN)
def add_offsets_to_txn(
    request: Request[AddOffsetsToTxnRequest],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
) -> AddOffsetsToTxnResponse | Delayed:
    body = request.body
    check_transactional_id(request, body.transactional_id)
    check_group(request, "READ", body.group_id)
    topic = metadata.image.topic_named(TOPIC)
    # before there is one: as many as it is going to have
    count = (
        len(topic.partitions)
        if topic is not None
        else metadata.settings["offsets.topic.num.partitions"]
    )
    partition = (TOPIC, partition_for(body.group_id, count))
    command = AddPartitions(
        body.transactional_id, body.producer_id, body.producer_epoch, (partition,)
    )
    return ask_transaction(request, coordinators, body.transactional_id, command, _answer)


def _answer(
    request: Request[AddOffsetsToTxnRequest], answer: KafkaError | None
) -> AddOffsetsToTxnResponse:
    code = Code.NONE if answer is None else answer.code
    if code is Code.PRODUCER_FENCED and request.version < SAYS_FENCED:
        code = Code.INVALID_PRODUCER_EPOCH
    return response(error_code=int(code))
