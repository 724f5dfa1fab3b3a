"""EndTxn: v0-5; commits or aborts a transaction. From version 5 on the end raises the producer's
epoch (KIP-890).

The answer comes when the decision is committed; the markers in the partitions follow it.
"""

from raftka.broker.context import BrokerContext
from raftka.broker.handlers.coordinator_request import ask_transaction, check_transactional_id
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.coordinator.transactions.commands import VERSION_1, VERSION_2, EndTransaction, Producer
from raftka.coordinator.transactions.records import NO_PRODUCER_ID
from raftka.coordinator.transactions.transaction import LAST_EPOCH
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.transactions import END_TXN, EndTxnRequest, EndTxnResponse

SAYS_FENCED = 2
RAISES_EPOCH = 5
response = END_TXN.response


@handles(END_TXN)
def end_txn(
    request: Request[EndTxnRequest], coordinators: CoordinatorParts
) -> EndTxnResponse | Delayed:
    body = request.body
    check_transactional_id(request, body.transactional_id)
    version = VERSION_2 if request.version >= RAISES_EPOCH else VERSION_1
    fresh_id = NO_PRODUCER_ID
    if version == VERSION_2 and body.producer_epoch >= LAST_EPOCH:
        fresh_id = _fresh_id(coordinators, request.dispatcher.context)
    command = EndTransaction(
        body.transactional_id,
        body.producer_id,
        body.producer_epoch,
        body.committed,
        version,
        fresh_id,
    )
    return ask_transaction(request, coordinators, body.transactional_id, command, _answer)


def _fresh_id(coordinators: CoordinatorParts, context: BrokerContext) -> int:
    """Raises COORDINATOR_LOAD_IN_PROGRESS: the client asks again, when there are some."""
    fresh_id = coordinators.producer_ids.take()
    if fresh_id is None:
        context.runtime.spawn(coordinators.producer_ids.fill, "producer ids")
        raise KafkaError(Code.COORDINATOR_LOAD_IN_PROGRESS)
    return fresh_id


def _answer(request: Request[EndTxnRequest], answer: Producer | KafkaError) -> EndTxnResponse:
    if isinstance(answer, Producer):
        return response(producer_id=answer.producer_id, producer_epoch=answer.epoch)
    code = answer.code
    if code is Code.PRODUCER_FENCED and request.version < SAYS_FENCED:
        code = Code.INVALID_PRODUCER_EPOCH
    return response(error_code=int(code))
