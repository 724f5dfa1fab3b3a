"""UnregisterController: v0. The leader forgets the controller's features; its vote stays."""

from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.network.access.authorizer import CLUSTER, REFUSED, THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.metadata.commands import UnregisterController
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.cluster import (
    UNREGISTER_CONTROLLER,
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)

response = UNREGISTER_CONTROLLER.response


@handles(UNREGISTER_CONTROLLER)
async def unregister_controller(
    request: Request[UnregisterControllerRequest], controller: ControllerClient
) -> UnregisterControllerResponse:
    if not request.may("ALTER", THE_CLUSTER):
        return response(
            error_code=int(Code.CLUSTER_AUTHORIZATION_FAILED), error_message=REFUSED[CLUSTER]
        )
    try:
        await controller.ask(UnregisterController(request.body.controller_id))
    except KafkaError as error:
        return response(error_code=int(error.code), error_message=error.message)
    return response(error_message="")
