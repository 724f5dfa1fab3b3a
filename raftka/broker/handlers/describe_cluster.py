"""DescribeCluster: v0-2, at a broker: it lists brokers. Controllers are listed at their own
listener (controllers.py).
"""

from raftka.broker.context import MetadataCache
from raftka.broker.handlers.parts import DiscoveryParts
from raftka.broker.network.access.authorizer import THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.wire.errors import Code
from raftka.wire.messages.cluster import (
    DESCRIBE_CLUSTER,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS, CONTROLLERS = 1, 2
NAMES = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}
response = DESCRIBE_CLUSTER.response


@handles(DESCRIBE_CLUSTER)
def describe_cluster(
    request: Request[DescribeClusterRequest], metadata: MetadataCache, discovery: DiscoveryParts
) -> DescribeClusterResponse:
    body = request.body
    fault = find_fault(body, BROKERS)
    if fault is not None:
        return fault
    rows, session = [], request.session
    for broker in metadata.image.brokers.values():
        endpoint = metadata.endpoint_of(broker, session.listener, session.reached_at)
        if endpoint is not None and (not broker.fenced or body.include_fenced_brokers):
            rows.append(
                response.brokers(
                    broker_id=broker.broker_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=broker.rack,
                    is_fenced=broker.fenced,
                )
            )
    row = response(
        cluster_id=metadata.image.cluster_id or "",
        controller_id=discovery.controller_for_clients(),
        brokers=rows,
    )
    if body.include_cluster_authorized_operations:
        row.cluster_authorized_operations = request.authorized_operations(THE_CLUSTER)
    return row


def find_fault(body: DescribeClusterRequest, here: int) -> DescribeClusterResponse | None:
    """Return the refusal of a request that wants end points of another type than those `here`."""
    wanted = body.endpoint_type
    if wanted == here:
        return None
    if wanted not in NAMES:
        return response(
            error_code=int(Code.UNSUPPORTED_ENDPOINT_TYPE),
            error_message=f"Unsupported endpoint type {wanted}",
        )
    return response(
        error_code=int(Code.MISMATCHED_ENDPOINT_TYPE),
        error_message=f"The request was sent to an endpoint of type {NAMES[here]}, but we wanted "
        f"an endpoint of type {NAMES[wanted]}",
    )
