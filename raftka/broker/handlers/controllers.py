"""The controllers' listener alone: DescribeCluster lists controllers there (KIP-919), and
UpdateRaftVoter: v0 (KIP-853) tells the leader of a voter's new end points.
"""

from raftka.broker.context import MetadataCache
from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.handlers.describe_cluster import CONTROLLERS, find_fault, response
from raftka.broker.handlers.parts import DiscoveryParts
from raftka.broker.handlers.raft_voters import read_endpoints, shown
from raftka.broker.network.access.authorizer import THE_CLUSTER
from raftka.broker.network.dispatch import CONTROLLER_HANDLERS, handles
from raftka.broker.network.request import Request
from raftka.metadata.commands import UpdateVoter
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.cluster import (
    DESCRIBE_CLUSTER,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from raftka.wire.messages.quorum import (
    UPDATE_RAFT_VOTER,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)


@handles(DESCRIBE_CLUSTER, table=CONTROLLER_HANDLERS)
def describe_controllers(
    request: Request[DescribeClusterRequest], metadata: MetadataCache, discovery: DiscoveryParts
) -> DescribeClusterResponse:
    fault = find_fault(request.body, CONTROLLERS)
    if fault is not None:
        return fault
    quorum = discovery.quorum
    row = response(
        endpoint_type=CONTROLLERS,
        cluster_id=metadata.image.cluster_id or "",
        controller_id=-1 if quorum.leader is None else quorum.leader,
        brokers=[
            response.brokers(broker_id=each.node_id, host=each.host, port=each.port)
            for each in quorum.controllers_at(request.session.listener)
        ],
    )
    if request.body.include_cluster_authorized_operations:
        row.cluster_authorized_operations = request.authorized_operations(THE_CLUSTER)
    return row


@handles(UPDATE_RAFT_VOTER, table=CONTROLLER_HANDLERS)
async def update_raft_voter(
    request: Request[UpdateRaftVoterRequest],
    controller: ControllerClient,
    discovery: DiscoveryParts,
) -> UpdateRaftVoterResponse:
    body, response = request.body, UPDATE_RAFT_VOTER.response
    if not request.may("CLUSTER_ACTION", THE_CLUSTER):
        return response(error_code=int(Code.CLUSTER_AUTHORIZATION_FAILED))
    command = UpdateVoter(
        body.cluster_id,
        body.voter_id,
        body.voter_directory_id,
        await request.finish(read_endpoints(request)),
        body.k_raft_version_feature.min_supported_version,
        body.k_raft_version_feature.max_supported_version,
        body.current_leader_epoch,
        moves=False,
    )
    code = Code.NONE
    try:
        await controller.ask(command)
    except KafkaError as error:
        code, _ = shown(error)
    quorum = discovery.quorum
    row = response(error_code=int(code))
    if quorum.leader is not None:
        host, port = quorum.address_of(quorum.leader)
        row.current_leader = response.current_leader(
            leader_id=quorum.leader, leader_epoch=quorum.term, host=host, port=port
        )
    return row
