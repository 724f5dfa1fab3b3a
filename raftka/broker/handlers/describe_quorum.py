"""DescribeQuorum: v0-2. The metadata quorum is shown as the log `__cluster_metadata`, partition 0; there is no other quorum."""

from typing import TYPE_CHECKING

from raftka.broker.authorizer import THE_CLUSTER
from raftka.broker.dispatch import Request, handles
from raftka.metadata.commands import DescribeQuorum, QuorumReplica, QuorumState
from raftka.metadata.topics import CLUSTER_METADATA
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.quorum import DESCRIBE_QUORUM
from raftka.wire.schema import Row, Struct

if TYPE_CHECKING:
    from raftka.broker.node import Node

response = DESCRIBE_QUORUM.response
partition = response.topics.partitions


@handles(DESCRIBE_QUORUM)
async def describe_quorum(request: Request, node: "Node") -> Row:
    if not request.may("DESCRIBE", THE_CLUSTER):
        return request.answer(error_code=int(Code.CLUSTER_AUTHORIZATION_FAILED))
    asked = [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.body.topics]
    if asked != [(CLUSTER_METADATA, [0])]:
        return _nothing_here(asked)
    try:
        state: QuorumState = await node.link.ask(DescribeQuorum())
    except KafkaError as error:
        return request.answer(error_code=int(error.code), error_message=error.message)
    row = partition(
        error_message="",
        leader_id=state.leader,
        leader_epoch=state.term,
        high_watermark=state.high_watermark,
        current_voters=[_replica(partition.current_voters, each) for each in state.voters],
        observers=[_replica(partition.observers, each) for each in state.observers],
    )
    return response(
        error_message="",
        topics=[response.topics(topic_name=CLUSTER_METADATA, partitions=[row])],
        nodes=_nodes(node) if request.version >= 2 else [],
    )


def _replica(row: Struct, replica: QuorumReplica) -> Row:
    return row(
        replica_id=replica.node_id,
        replica_directory_id=replica.directory_id,
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=replica.last_fetch_ms,
        last_caught_up_timestamp=replica.last_caught_up_ms,
    )


def _nodes(node: "Node") -> list[Row]:
    name = node.settings["controller.listener.names"][0]
    row = response.nodes
    return [row(node_id=each.node_id, listeners=[row.listeners(name=name, host=each.host, port=each.port)]) for each in node.settings.voters]


def _nothing_here(asked: list[tuple[str, list[int]]]) -> Row:
    """Of every partition that was named, the errors are in its own row."""
    error, text = int(Code.UNKNOWN_TOPIC_OR_PARTITION), "This server does not host this topic-partition."
    topics = [
        response.topics(
            topic_name=name,
            partitions=[partition(partition_index=index, error_code=error, error_message=text) for index in indexes],
        )
        for name, indexes in asked
    ]
    return response(error_message="", topics=topics)
