"""InitProducerId: v0-5, for idempotent producers. Ids come in blocks from the controller, so most requests ask nobody.

Transactional ids are refused until there is a transaction coordinator.
"""

from raftka.broker.handlers.services import Services
from raftka.broker.network.authorizer import THE_CLUSTER, TRANSACTIONAL_ID
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER_ID, NO_PRODUCER_EPOCH = -1, -1
response = INIT_PRODUCER_ID.response


@handles(INIT_PRODUCER_ID, refused=lambda request, code: response(error_code=int(code), producer_id=-1, producer_epoch=-1))
async def init_producer_id(request: Request[InitProducerIdRequest], services: Services) -> InitProducerIdResponse:
    body = request.body
    transactional_id = body.transactional_id
    if transactional_id is not None:
        if not request.may("WRITE", (TRANSACTIONAL_ID, transactional_id)):
            raise KafkaError(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not request.may("IDEMPOTENT_WRITE", THE_CLUSTER):
        raise KafkaError(Code.CLUSTER_AUTHORIZATION_FAILED)
    if (body.producer_id == NO_PRODUCER_ID) != (body.producer_epoch == NO_PRODUCER_EPOCH):
        raise KafkaError(Code.INVALID_REQUEST)
    if transactional_id is not None:
        raise KafkaError(Code.NOT_COORDINATOR if transactional_id else Code.INVALID_REQUEST)
    return response(producer_id=await services.producer_ids.next(), producer_epoch=0)
