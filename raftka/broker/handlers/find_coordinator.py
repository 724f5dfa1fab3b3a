"""FindCoordinator: v0-6. There are no groups and no transactions yet, so every key is answered with COORDINATOR_NOT_AVAILABLE."""

from typing import TYPE_CHECKING

from raftka.broker.authorizer import CLUSTER, GROUP, THE_CLUSTER, TRANSACTIONAL_ID
from raftka.broker.dispatch import Request, handles
from raftka.wire.errors import Code
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

KEY_TYPES = {  # what is asked of the authorizer, and its refusal
    0: ("DESCRIBE", GROUP, Code.GROUP_AUTHORIZATION_FAILED),
    1: ("DESCRIBE", TRANSACTIONAL_ID, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    2: ("CLUSTER_ACTION", CLUSTER, Code.CLUSTER_AUTHORIZATION_FAILED),  # a share partition
}
response = FIND_COORDINATOR.response


def _refused(request: Request, code: Code) -> Row:
    rows = [response.coordinators(key=key, node_id=-1, host="", port=-1, error_code=int(code)) for key in request.body.coordinator_keys]
    return response(error_code=int(code), node_id=-1, port=-1, coordinators=rows)


@handles(FIND_COORDINATOR, refused=_refused)
def find_coordinator(request: Request, node: "Node") -> Row:
    body = request.body
    if request.version < 4:
        code, message = _found(request, body.key)
        return response(error_code=int(code), error_message=message, node_id=-1, port=-1)
    rows = []
    for key in body.coordinator_keys:
        code, message = _found(request, key)
        rows.append(response.coordinators(key=key, node_id=-1, host="", port=-1, error_code=int(code), error_message=message))
    return response(coordinators=rows)


def _found(request: Request, key: str) -> tuple[Code, str | None]:
    kind = request.body.key_type
    if kind not in KEY_TYPES:
        return Code.INVALID_REQUEST, f"no coordinator of type {kind}"
    operation, resource, refusal = KEY_TYPES[kind]
    if not request.may(operation, (resource, key) if resource != CLUSTER else THE_CLUSTER):
        return refusal, None
    return Code.COORDINATOR_NOT_AVAILABLE, ""
