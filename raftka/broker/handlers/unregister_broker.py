"""UnregisterBroker: v0. For a broker that is gone for good; a living broker registers again."""

from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.network.access.authorizer import CLUSTER, REFUSED, THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.metadata.commands import UnregisterBroker
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.cluster import (
    UNREGISTER_BROKER,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

response = UNREGISTER_BROKER.response


@handles(UNREGISTER_BROKER)
async def unregister_broker(
    request: Request[UnregisterBrokerRequest], controller: ControllerClient
) -> UnregisterBrokerResponse:
    if not request.may("ALTER", THE_CLUSTER):
        return response(
            error_code=int(Code.CLUSTER_AUTHORIZATION_FAILED), error_message=REFUSED[CLUSTER]
        )
    try:
        await controller.ask(UnregisterBroker(request.body.broker_id))
    except KafkaError as error:
        return response(error_code=int(error.code), error_message=error.message)
    return response()
