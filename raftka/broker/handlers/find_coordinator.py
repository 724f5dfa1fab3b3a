"""FindCoordinator: v0-6; the broker that looks after a group or a transactional id, whose topic the
first question creates.
"""

from raftka.broker.handlers.services import Services
from raftka.broker.network.access.authorizer import (
    CLUSTER,
    GROUP,
    REFUSED,
    THE_CLUSTER,
    TRANSACTIONAL_ID,
)
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.find_coordinator import (
    FIND_COORDINATOR,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from raftka.wire.schema import Element

OF_GROUP, OF_TRANSACTION, OF_SHARE_PARTITION = 0, 1, 2
KEY_TYPES = {  # what is asked of the authorizer, and its refusal
    OF_GROUP: ("DESCRIBE", GROUP, Code.GROUP_AUTHORIZATION_FAILED),
    OF_TRANSACTION: ("DESCRIBE", TRANSACTIONAL_ID, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    OF_SHARE_PARTITION: ("CLUSTER_ACTION", CLUSTER, Code.CLUSTER_AUTHORIZATION_FAILED),
}
response = FIND_COORDINATOR.response
# what versions 1 to 3 say, and with an answer: NONE
NOT_AVAILABLE = "The coordinator is not available."


def _refused(
    request: Request[FindCoordinatorRequest], code: Code
) -> Steps[FindCoordinatorResponse]:
    rows = request.encoded_rows(response.coordinators)
    for key in request.body.coordinator_keys:
        rows.add(response.coordinators(key=key, node_id=-1, host="", port=-1, error_code=int(code)))
        yield
    return response(error_code=int(code), node_id=-1, port=-1, coordinators=rows)


@handles(FIND_COORDINATOR, refused=_refused)
def find_coordinator(
    request: Request[FindCoordinatorRequest], services: Services
) -> Steps[FindCoordinatorResponse | Delayed]:
    return (
        yield from services.suspects.answer(
            request, lambda coordinators: _answer(request, services, coordinators)
        )
    )


def _answer(
    request: Request[FindCoordinatorRequest], services: Services, coordinators: set[int]
) -> Steps[FindCoordinatorResponse]:
    """`coordinators`: the brokers that the answer names are added."""
    body = request.body
    if request.version >= 4:
        rows = request.encoded_rows(response.coordinators)
        for key in body.coordinator_keys:
            row = _found(request, services, key, response.coordinators, key=key, error_message="")
            coordinators.add(row.node_id)
            rows.add(row)
            yield
        return response(coordinators=rows)
    found = _found(request, services, body.key, response, error_message="NONE")
    coordinators.add(found.node_id)
    return found


def _found(
    request: Request[FindCoordinatorRequest],
    services: Services,
    wanted: str,
    row: type[Element],
    **fields: str,
) -> Element:
    try:
        return row(**_endpoint(request, services, wanted), **fields)
    except KafkaError as error:
        text = error.message
        if error.code is Code.COORDINATOR_NOT_AVAILABLE:
            text = "" if request.version >= 4 else NOT_AVAILABLE
        return row(
            **{
                **fields,
                "node_id": -1,
                "host": "",
                "port": -1,
                "error_code": int(error.code),
                "error_message": text,
            }
        )


def _endpoint(
    request: Request[FindCoordinatorRequest], services: Services, key: str
) -> dict[str, str | int]:
    """Raises KafkaError."""
    kind = request.body.key_type
    if kind not in KEY_TYPES:
        raise KafkaError(Code.INVALID_REQUEST, f"no coordinator of type {kind}")
    operation, resource, refusal = KEY_TYPES[kind]
    if not request.may(operation, (resource, key) if resource != CLUSTER else THE_CLUSTER):
        raise KafkaError(
            refusal, REFUSED[resource] if request.version < 4 or resource == CLUSTER else ""
        )
    if kind == OF_SHARE_PARTITION:
        raise KafkaError(Code.INVALID_REQUEST, "")
    service = services.groups if kind == OF_GROUP else services.transactions
    broker = services.metadata.image.brokers.get(service.coordinator_of(key))
    endpoint = broker.endpoint(request.session.listener) if broker is not None else None
    if broker is None or endpoint is None:
        raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE)
    return {"node_id": broker.broker_id, "host": endpoint.host, "port": endpoint.port}
