"""The metadata quorum as its leader describes it: voters, observers, and how far each has come."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import Unsupported
from raftka.wire.errors import Code
from raftka.wire.messages.quorum import (
    DESCRIBE_QUORUM,
    DescribeQuorumResponse,
    PartitionData,
    ReplicaState,
)

METADATA_TOPIC = "__cluster_metadata"
LEADER, VOTER, OBSERVER = "leader", "voter", "observer"


class QuorumNode(NamedTuple):
    """`behind`: entries below the high watermark that the node lacks; None: not known. `fetched_ms`
    and `caught_up_ms`: ms since 1970 by the leader's clock, -1 where it does not say.
    """

    node_id: int
    role: str  # LEADER, VOTER or OBSERVER
    log_end_offset: int
    behind: int | None
    fetched_ms: int
    caught_up_ms: int
    directory_id: bytes = bytes(16)  # zeros: not known


class Quorum(NamedTuple):
    leader: int
    epoch: int
    high_watermark: int
    nodes: list[QuorumNode]  # voters first
    # by voter: (listener, host, port); empty where the broker does not say
    endpoints: Mapping[int, list[tuple[str, str, int]]] = MappingProxyType({})


def read_quorum(client: Client) -> Quorum | None:
    """Return None where there is no quorum, as with ZooKeeper, or none that the login may see.
    Raises Unreachable.
    """
    topics = DESCRIBE_QUORUM.request.topics
    asked = DESCRIBE_QUORUM.request(
        topics=[
            topics(topic_name=METADATA_TOPIC, partitions=[topics.partitions(partition_index=0)])
        ]
    )
    try:
        answer = client.ask(DESCRIBE_QUORUM, asked)
        if _is_elsewhere(answer):
            answer = client.ask_controller(DESCRIBE_QUORUM, asked)
    except Unsupported:
        return None
    if answer.error_code or not answer.topics:
        return None
    (partition,) = answer.topics[0].partitions
    if partition.error_code:
        return None
    nodes = [_node(each, VOTER, partition) for each in partition.current_voters]
    nodes += [_node(each, OBSERVER, partition) for each in partition.observers]
    endpoints = {
        node.node_id: [(each.name, each.host, each.port) for each in node.listeners]
        for node in answer.nodes
    }
    return Quorum(
        partition.leader_id, partition.leader_epoch, partition.high_watermark, nodes, endpoints
    )


def _is_elsewhere(answer: DescribeQuorumResponse) -> bool:
    """Return whether a controller has answered that does not lead; brokers ask the leader."""
    return any(
        each.error_code == Code.NOT_LEADER_OR_FOLLOWER
        for topic in answer.topics
        for each in topic.partitions
    )


def _node(row: ReplicaState, role: str, partition: PartitionData) -> QuorumNode:
    end = row.log_end_offset
    return QuorumNode(
        row.replica_id,
        LEADER if row.replica_id == partition.leader_id else role,
        end,
        max(0, partition.high_watermark - end) if end >= 0 else None,
        row.last_fetch_timestamp,
        row.last_caught_up_timestamp,
        row.replica_directory_id,
    )
