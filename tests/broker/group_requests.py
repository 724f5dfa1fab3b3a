"""Requests of group members."""

from typing import Any

from raftka.wire.messages.groups import JOIN_GROUP, JoinGroupRequest
from raftka.wire.messages.offsets import OFFSET_COMMIT, OffsetCommitRequest


def commit(
    group: str, *topics: str, partition: int = 0, offset: int = 1, **fields: Any
) -> OffsetCommitRequest:
    request = OFFSET_COMMIT.request
    partitions = [request.topics.partitions(partition_index=partition, committed_offset=offset)]
    return request(
        group_id=group,
        topics=[request.topics(name=topic, partitions=partitions) for topic in topics or ("t",)],
        **fields,
    )


def join(group: str, member_id: str = "", **fields: Any) -> JoinGroupRequest:
    request = JOIN_GROUP.request
    protocols = [request.protocols(name="range", metadata=b"m")]
    given: dict[str, Any] = {
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": protocols,
    } | fields
    return request(group_id=group, member_id=member_id, **(given | fields))
