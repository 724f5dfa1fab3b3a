"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

class OngoingPartitionReassignment(Row):
    partition_index: int
    replicas: Sequence[int]
    adding_replicas: Sequence[int]
    removing_replicas: Sequence[int]
    def __init__(
        self,
        *,
        partition_index: int = ...,
        replicas: Sequence[int] = ...,
        adding_replicas: Sequence[int] = ...,
        removing_replicas: Sequence[int] = ...,
    ) -> None: ...

class OngoingTopicReassignment(Row):
    name: str
    partitions: Many[OngoingPartitionReassignment, Sequence[OngoingPartitionReassignment]]
    def __init__(
        self,
        *,
        name: str = ...,
        partitions: Rows[OngoingPartitionReassignment] = ...,
    ) -> None: ...

class ListPartitionReassignmentsResponse(Row):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    topics: Many[OngoingTopicReassignment, Sequence[OngoingTopicReassignment]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        topics: Rows[OngoingTopicReassignment] = ...,
    ) -> None: ...

class ListPartitionReassignmentsTopics(Row):
    name: str
    partition_indexes: Sequence[int]
    def __init__(
        self,
        *,
        name: str = ...,
        partition_indexes: Sequence[int] = ...,
    ) -> None: ...

class ListPartitionReassignmentsRequest(Row):
    timeout_ms: int
    topics: Many[ListPartitionReassignmentsTopics, Sequence[ListPartitionReassignmentsTopics] | None]
    def __init__(
        self,
        *,
        timeout_ms: int = ...,
        topics: Rows[ListPartitionReassignmentsTopics] | None = ...,
    ) -> None: ...

class ReassignablePartitionResponse(Row):
    partition_index: int
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        partition_index: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class ReassignableTopicResponse(Row):
    name: str
    partitions: Many[ReassignablePartitionResponse, Sequence[ReassignablePartitionResponse]]
    def __init__(
        self,
        *,
        name: str = ...,
        partitions: Rows[ReassignablePartitionResponse] = ...,
    ) -> None: ...

class AlterPartitionReassignmentsResponse(Row):
    throttle_time_ms: int
    allow_replication_factor_change: bool
    error_code: int
    error_message: str | None
    responses: Many[ReassignableTopicResponse, Sequence[ReassignableTopicResponse]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        allow_replication_factor_change: bool = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        responses: Rows[ReassignableTopicResponse] = ...,
    ) -> None: ...

class ReassignablePartition(Row):
    partition_index: int
    replicas: Sequence[int] | None
    def __init__(
        self,
        *,
        partition_index: int = ...,
        replicas: Sequence[int] | None = ...,
    ) -> None: ...

class ReassignableTopic(Row):
    name: str
    partitions: Many[ReassignablePartition, Sequence[ReassignablePartition]]
    def __init__(
        self,
        *,
        name: str = ...,
        partitions: Rows[ReassignablePartition] = ...,
    ) -> None: ...

class AlterPartitionReassignmentsRequest(Row):
    timeout_ms: int
    allow_replication_factor_change: bool
    topics: Many[ReassignableTopic, Sequence[ReassignableTopic]]
    def __init__(
        self,
        *,
        timeout_ms: int = ...,
        allow_replication_factor_change: bool = ...,
        topics: Rows[ReassignableTopic] = ...,
    ) -> None: ...

ALTER_PARTITION_REASSIGNMENTS: Api[AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse]
LIST_PARTITION_REASSIGNMENTS: Api[ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse]
