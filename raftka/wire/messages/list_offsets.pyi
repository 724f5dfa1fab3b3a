"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

LATEST: int
EARLIEST: int
MAX_TIMESTAMP: int
EARLIEST_LOCAL: int
LATEST_TIERED: int
EARLIEST_PENDING_UPLOAD: int

class ListOffsetsPartitionResponse(Row):
    partition_index: int
    error_code: int
    timestamp: int
    offset: int
    leader_epoch: int
    def __init__(
        self,
        *,
        partition_index: int = ...,
        error_code: int = ...,
        timestamp: int = ...,
        offset: int = ...,
        leader_epoch: int = ...,
    ) -> None: ...

class ListOffsetsTopicResponse(Row):
    name: str
    partitions: Many[ListOffsetsPartitionResponse, Sequence[ListOffsetsPartitionResponse]]
    def __init__(
        self,
        *,
        name: str = ...,
        partitions: Rows[ListOffsetsPartitionResponse] = ...,
    ) -> None: ...

class ListOffsetsResponse(Row):
    throttle_time_ms: int
    topics: Many[ListOffsetsTopicResponse, Sequence[ListOffsetsTopicResponse]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: Rows[ListOffsetsTopicResponse] = ...,
    ) -> None: ...

class ListOffsetsPartition(Row):
    partition_index: int
    current_leader_epoch: int
    timestamp: int
    def __init__(
        self,
        *,
        partition_index: int = ...,
        current_leader_epoch: int = ...,
        timestamp: int = ...,
    ) -> None: ...

class ListOffsetsTopic(Row):
    name: str
    partitions: Many[ListOffsetsPartition, Sequence[ListOffsetsPartition]]
    def __init__(
        self,
        *,
        name: str = ...,
        partitions: Rows[ListOffsetsPartition] = ...,
    ) -> None: ...

class ListOffsetsRequest(Row):
    replica_id: int
    isolation_level: int
    topics: Many[ListOffsetsTopic, Sequence[ListOffsetsTopic]]
    timeout_ms: int
    def __init__(
        self,
        *,
        replica_id: int = ...,
        isolation_level: int = ...,
        topics: Rows[ListOffsetsTopic] = ...,
        timeout_ms: int = ...,
    ) -> None: ...

LIST_OFFSETS: Api[ListOffsetsRequest, ListOffsetsResponse]
