"""InitProducerId: v0-5; the producer id and epoch of an idempotent producer, or of a transactional
id, which its coordinator remembers.

Ids come in blocks from the controller, so most requests need no other node.
"""

from functools import partial

from raftka.broker.context import MetadataCache
from raftka.broker.handlers.coordinator_request import ask_transaction, check_transactional_id
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.access.authorizer import THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.coordinator.transactions.commands import InitProducer, Producer
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.producer_ids import (
    INIT_PRODUCER_ID,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

NO_PRODUCER_ID, NO_PRODUCER_EPOCH = -1, -1
SAYS_FENCED = 4  # the version from which on a producer knows PRODUCER_FENCED
# refused by the coordinator's rules
NOTHING_WRITTEN = frozenset({Code.PRODUCER_FENCED, Code.CONCURRENT_TRANSACTIONS})
response = INIT_PRODUCER_ID.response


def _refused(request: Request[InitProducerIdRequest], code: Code) -> InitProducerIdResponse:
    if code is Code.PRODUCER_FENCED and request.version < SAYS_FENCED:
        code = Code.INVALID_PRODUCER_EPOCH
    return response(
        error_code=int(code), producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )


@handles(INIT_PRODUCER_ID, refused=_refused)
async def init_producer_id(
    request: Request[InitProducerIdRequest], metadata: MetadataCache, coordinators: CoordinatorParts
) -> InitProducerIdResponse | Delayed:
    body = request.body
    transactional_id = body.transactional_id
    if transactional_id is not None:
        check_transactional_id(request, transactional_id)
    elif not request.may("IDEMPOTENT_WRITE", THE_CLUSTER) and not request.may_with_any_topic(
        "WRITE"
    ):
        raise KafkaError(Code.CLUSTER_AUTHORIZATION_FAILED)
    if (body.producer_id == NO_PRODUCER_ID) != (body.producer_epoch == NO_PRODUCER_EPOCH):
        raise KafkaError(Code.INVALID_REQUEST)
    if transactional_id is None:
        return response(producer_id=await coordinators.producer_ids.next(), producer_epoch=0)
    if not transactional_id:
        raise KafkaError(Code.INVALID_REQUEST)
    if not 0 < body.transaction_timeout_ms <= metadata.settings["transaction.max.timeout.ms"]:
        raise KafkaError(Code.INVALID_TRANSACTION_TIMEOUT)
    coordinators.transactions.runtime.find(
        transactional_id
    )  # else an id would be taken for nothing
    fresh_id = await coordinators.producer_ids.next()
    command = InitProducer(
        transactional_id,
        body.transaction_timeout_ms,
        fresh_id,
        body.producer_id,
        body.producer_epoch,
    )
    return ask_transaction(
        request, coordinators, transactional_id, command, partial(_answer, coordinators, fresh_id)
    )


def _answer(
    coordinators: CoordinatorParts,
    fresh_id: int,
    request: Request[InitProducerIdRequest],
    answer: Producer | KafkaError,
) -> InitProducerIdResponse:
    if isinstance(answer, KafkaError):
        if answer.code in NOTHING_WRITTEN:
            coordinators.producer_ids.give_back(fresh_id)
        return _refused(request, answer.code)
    if answer.producer_id != fresh_id:
        coordinators.producer_ids.give_back(fresh_id)
    return response(producer_id=answer.producer_id, producer_epoch=answer.epoch)
