"""FindCoordinator: v0-6; the broker that coordinates a group, a transactional id, or from version
6 on a share partition; the first request creates the topic of offsets, transactions or states.
"""

from raftka.broker.context import MetadataCache
from raftka.broker.handlers.parts import CoordinatorParts, DiscoveryParts
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
from raftka.share.state import SharePartitionKey
from raftka.wire.errors import MALFORMED, Code, KafkaError
from raftka.wire.messages.find_coordinator import (
    FIND_COORDINATOR,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from raftka.wire.schema import Element

OF_GROUP, OF_TRANSACTION, OF_SHARE_PARTITION = 0, 1, 2
SHARE_PARTITIONS_SINCE = 6  # the version
KEY_TYPES = {  # the operation and resource that the client needs, and the refusal
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
    request: Request[FindCoordinatorRequest],
    metadata: MetadataCache,
    discovery: DiscoveryParts,
    coordinators: CoordinatorParts,
) -> Steps[FindCoordinatorResponse | Delayed]:
    return (
        yield from discovery.suspects.answer(
            request, lambda found: _answer(request, metadata, coordinators, found)
        )
    )


def _answer(
    request: Request[FindCoordinatorRequest],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
    found: set[int],
) -> Steps[FindCoordinatorResponse]:
    """Return the answer; add the brokers that it names to `found`."""
    body = request.body
    if request.version >= 4:
        rows = request.encoded_rows(response.coordinators)
        for key in body.coordinator_keys:
            row = _found(
                request,
                metadata,
                coordinators,
                key,
                response.coordinators,
                key=key,
                error_message="",
            )
            found.add(row.node_id)
            rows.add(row)
            yield
        return response(coordinators=rows)
    answer = _found(request, metadata, coordinators, body.key, response, error_message="NONE")
    found.add(answer.node_id)
    return answer


def _found(
    request: Request[FindCoordinatorRequest],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
    wanted: str,
    row: type[Element],
    **fields: str,
) -> Element:
    try:
        return row(**_endpoint(request, metadata, coordinators, wanted), **fields)
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
    request: Request[FindCoordinatorRequest],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
    key: str,
) -> dict[str, str | int]:
    """Return the fields of the coordinator's broker. Raises KafkaError."""
    kind = request.body.key_type
    if kind not in KEY_TYPES:
        raise KafkaError(Code.INVALID_REQUEST, MALFORMED)
    operation, resource, refusal = KEY_TYPES[kind]
    if not request.may(operation, (resource, key) if resource != CLUSTER else THE_CLUSTER):
        raise KafkaError(
            refusal, REFUSED[resource] if request.version < 4 or resource == CLUSTER else ""
        )
    broker = metadata.image.brokers.get(_coordinator(request, coordinators, key))
    if broker is None:
        raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE)
    session = request.session
    endpoint = metadata.endpoint_of(broker, session.listener, session.reached_at)
    if endpoint is None:
        raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE)
    return {"node_id": broker.broker_id, "host": endpoint.host, "port": endpoint.port}


def _coordinator(
    request: Request[FindCoordinatorRequest], coordinators: CoordinatorParts, key: str
) -> int:
    """Return the broker's id. Raises KafkaError."""
    kind = request.body.key_type
    if kind == OF_GROUP:
        return coordinators.groups.coordinator_of(key)
    if kind == OF_TRANSACTION:
        return coordinators.transactions.coordinator_of(key)
    partition = SharePartitionKey.parse(key)
    if request.version < SHARE_PARTITIONS_SINCE or partition is None:
        raise KafkaError(Code.INVALID_REQUEST, "")
    return coordinators.share_states.coordinator_of(partition)
