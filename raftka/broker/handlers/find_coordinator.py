"""FindCoordinator: v0-6. There are no groups and no transactions yet, so every key is answered with COORDINATOR_NOT_AVAILABLE."""

from typing import TYPE_CHECKING

from raftka.broker.dispatch import Request, handles
from raftka.wire.errors import Code
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

KEY_TYPES = (0, 1, 2)  # group, transactional id, share partition
response = FIND_COORDINATOR.response


@handles(FIND_COORDINATOR)
def find_coordinator(request: Request, node: "Node") -> Row:
    body = request.body
    known = body.key_type in KEY_TYPES
    code = int(Code.COORDINATOR_NOT_AVAILABLE if known else Code.INVALID_REQUEST)
    message = "" if known else f"no coordinator of type {body.key_type}"
    if request.version < 4:
        return response(error_code=code, error_message=message, node_id=-1, port=-1)
    rows = [response.coordinators(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message) for key in body.coordinator_keys]
    return response(coordinators=rows)
