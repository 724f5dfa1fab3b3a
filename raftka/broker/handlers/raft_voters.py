"""AddRaftVoter: v0-1, and RemoveRaftVoter: v0 (KIP-853). The leader of the quorum decides."""

from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.network.access.authorizer import CLUSTER, REFUSED, THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.metadata.commands import AddVoter, RemoveVoter, VoterEndpoints
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.quorum import (
    ADD_RAFT_VOTER,
    REMOVE_RAFT_VOTER,
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
)

MOST_ENDPOINTS = 10  # of one controller
REMOVE_S = 30.0  # RemoveRaftVoter has no time-out of its own


@handles(ADD_RAFT_VOTER)
async def add_raft_voter(
    request: Request[AddRaftVoterRequest], controller: ControllerClient
) -> AddRaftVoterResponse:
    body, response = request.body, ADD_RAFT_VOTER.response
    if not request.may("ALTER", THE_CLUSTER):
        return response(
            error_code=int(Code.CLUSTER_AUTHORIZATION_FAILED), error_message=REFUSED[CLUSTER]
        )
    endpoints = await request.finish(read_endpoints(request))
    command = AddVoter(
        body.cluster_id,
        body.voter_id,
        body.voter_directory_id,
        endpoints,
        request.version < 1 or body.ack_when_committed,
    )
    try:
        await controller.ask(command, max(body.timeout_ms, 0) / 1000)
    except KafkaError as error:
        code, message = shown(error)
        return response(error_code=int(code), error_message=message)
    return response()


def shown(error: KafkaError) -> tuple[Code, str | None]:
    """Return code and message. A controller that does not lead refuses as the replica of a
    partition does. The outcome of a change is open when its leader resigns.
    """
    if error.code is Code.NOT_CONTROLLER:
        return Code.NOT_LEADER_OR_FOLLOWER, ""
    if error.code is Code.NETWORK_EXCEPTION:
        return Code.REQUEST_TIMED_OUT, "The request timed out."
    return error.code, error.message


def read_endpoints(
    request: Request[AddRaftVoterRequest] | Request[UpdateRaftVoterRequest],
) -> Steps[VoterEndpoints]:
    """Return the end points, the first of each name and at most MOST_ENDPOINTS: a controller has
    two or three.
    """
    found: dict[str, tuple[str, str, int]] = {}
    for each in request.body.listeners:
        if len(found) < MOST_ENDPOINTS:
            found.setdefault(each.name, (each.name, each.host, each.port))
        yield
    return tuple(found.values())


@handles(REMOVE_RAFT_VOTER)
async def remove_raft_voter(
    request: Request[RemoveRaftVoterRequest], controller: ControllerClient
) -> RemoveRaftVoterResponse:
    body, response = request.body, REMOVE_RAFT_VOTER.response
    if not request.may("ALTER", THE_CLUSTER):
        return response(
            error_code=int(Code.CLUSTER_AUTHORIZATION_FAILED), error_message=REFUSED[CLUSTER]
        )
    command = RemoveVoter(body.cluster_id, body.voter_id, body.voter_directory_id)
    try:
        await controller.ask(command, REMOVE_S)
    except KafkaError as error:
        code, message = shown(error)
        return response(error_code=int(code), error_message=message)
    return response()
