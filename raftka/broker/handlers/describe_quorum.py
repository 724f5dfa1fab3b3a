"""DescribeQuorum: v0-2. The metadata quorum is shown as the log `__cluster_metadata`, partition 0;
there is no other quorum.
"""

from raftka.broker.context import MetadataCache
from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.handlers.by_topic import rows_by_topic
from raftka.broker.network.access.authorizer import CLUSTER, REFUSED, THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.metadata.commands import NO_DIRECTORY, DescribeQuorum, QuorumReplica, QuorumState
from raftka.metadata.controller.topics import CLUSTER_METADATA
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.quorum import (
    DESCRIBE_QUORUM,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Node,
    PartitionData,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
)

response = DESCRIBE_QUORUM.response
partition = response.topics.partitions
ELSEWHERE = (
    "For requests intended only for the leader, this error indicates that the broker is not the "
    "current leader. For requests intended for any replica, this error indicates that the broker "
    "is not a replica of the topic partition."
)


@handles(DESCRIBE_QUORUM)
async def describe_quorum(
    request: Request[DescribeQuorumRequest], metadata: MetadataCache, controller: ControllerClient
) -> DescribeQuorumResponse:
    if not request.may("DESCRIBE", THE_CLUSTER):
        return response(
            error_code=int(Code.CLUSTER_AUTHORIZATION_FAILED), error_message=REFUSED[CLUSTER]
        )
    topics = request.body.topics
    if (
        len(topics) != 1
        or topics[0].topic_name != CLUSTER_METADATA
        or [each.partition_index for each in topics[0].partitions[:2]] != [0]
    ):
        return await request.finish(_nothing_here(request))
    try:
        state: QuorumState = await controller.ask(DescribeQuorum())
    except KafkaError as error:
        if error.code is Code.NOT_CONTROLLER:
            return _leads_not()
        return response(error_code=int(error.code), error_message=error.message)
    row = partition(
        error_message="",
        leader_id=state.leader,
        leader_epoch=state.term,
        high_watermark=state.high_watermark,
        current_voters=[_replica(each, request.version) for each in state.voters],
        observers=[_replica(each, request.version) for each in state.observers],
    )
    return response(
        error_message="",
        topics=[response.topics(topic_name=CLUSTER_METADATA, partitions=[row])],
        nodes=_nodes(metadata, state) if request.version >= 2 else [],
    )


def _leads_not() -> DescribeQuorumResponse:
    """Return the answer of a controller that does not lead."""
    row = partition(error_code=int(Code.NOT_LEADER_OR_FOLLOWER), error_message=ELSEWHERE)
    return response(
        error_message="", topics=[response.topics(topic_name=CLUSTER_METADATA, partitions=[row])]
    )


def _replica(replica: QuorumReplica, version: int) -> ReplicaState:
    return ReplicaState(
        replica_id=replica.node_id,
        replica_directory_id=replica.directory_id if version >= 2 else NO_DIRECTORY,
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=replica.last_fetch_ms,
        last_caught_up_timestamp=replica.last_caught_up_ms,
    )


def _nodes(metadata: MetadataCache, state: QuorumState) -> list[Node]:
    """Return the end points of the voters: as the log has them, or controller.quorum.voters."""
    name = metadata.settings["controller.listener.names"][0]
    row = response.nodes
    if state.nodes:
        return [
            row(
                node_id=node_id,
                listeners=[
                    row.listeners(name=listener, host=host, port=port)
                    for listener, host, port in endpoints
                ],
            )
            for node_id, endpoints in state.nodes
        ]
    return [
        row(
            node_id=each.node_id,
            listeners=[row.listeners(name=name, host=each.host, port=each.port)],
        )
        for each in metadata.settings.voters
    ]


def _nothing_here(request: Request[DescribeQuorumRequest]) -> Steps[DescribeQuorumResponse]:
    """Of every partition that was named, the errors are in its own row."""
    error = int(Code.UNKNOWN_TOPIC_OR_PARTITION)
    text = "This server does not host this topic-partition."

    def row(_: RequestTopicData, asked: RequestPartitionData) -> PartitionData:
        return partition(
            partition_index=asked.partition_index, error_code=error, error_message=text
        )

    topics = yield from rows_by_topic(
        request, response.topics, request.body.topics, row, name="topic_name"
    )
    return response(error_message="", topics=topics)
