"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, One, Rows
from raftka.wire.schema import Api, Row

class NextCursor(Row):
    topic_name: str
    partition_index: int
    def __init__(
        self,
        *,
        topic_name: str = ...,
        partition_index: int = ...,
    ) -> None: ...

class DescribeTopicPartitionsResponsePartition(Row):
    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: Sequence[int]
    isr_nodes: Sequence[int]
    eligible_leader_replicas: Sequence[int] | None
    last_known_elr: Sequence[int] | None
    offline_replicas: Sequence[int]
    def __init__(
        self,
        *,
        error_code: int = ...,
        partition_index: int = ...,
        leader_id: int = ...,
        leader_epoch: int = ...,
        replica_nodes: Sequence[int] = ...,
        isr_nodes: Sequence[int] = ...,
        eligible_leader_replicas: Sequence[int] | None = ...,
        last_known_elr: Sequence[int] | None = ...,
        offline_replicas: Sequence[int] = ...,
    ) -> None: ...

class DescribeTopicPartitionsResponseTopic(Row):
    error_code: int
    name: str | None
    topic_id: bytes
    is_internal: bool
    partitions: Many[DescribeTopicPartitionsResponsePartition, Sequence[DescribeTopicPartitionsResponsePartition]]
    topic_authorized_operations: int
    def __init__(
        self,
        *,
        error_code: int = ...,
        name: str | None = ...,
        topic_id: bytes = ...,
        is_internal: bool = ...,
        partitions: Rows[DescribeTopicPartitionsResponsePartition] = ...,
        topic_authorized_operations: int = ...,
    ) -> None: ...

class DescribeTopicPartitionsResponse(Row):
    throttle_time_ms: int
    topics: Many[DescribeTopicPartitionsResponseTopic, Sequence[DescribeTopicPartitionsResponseTopic]]
    next_cursor: One[NextCursor, NextCursor | None]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: Rows[DescribeTopicPartitionsResponseTopic] = ...,
        next_cursor: NextCursor | None = ...,
    ) -> None: ...

class Cursor(Row):
    topic_name: str
    partition_index: int
    def __init__(
        self,
        *,
        topic_name: str = ...,
        partition_index: int = ...,
    ) -> None: ...

class TopicRequest(Row):
    name: str
    def __init__(
        self,
        *,
        name: str = ...,
    ) -> None: ...

class DescribeTopicPartitionsRequest(Row):
    topics: Many[TopicRequest, Sequence[TopicRequest]]
    response_partition_limit: int
    cursor: One[Cursor, Cursor | None]
    def __init__(
        self,
        *,
        topics: Rows[TopicRequest] = ...,
        response_partition_limit: int = ...,
        cursor: Cursor | None = ...,
    ) -> None: ...

DESCRIBE_TOPIC_PARTITIONS: Api[DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse]
