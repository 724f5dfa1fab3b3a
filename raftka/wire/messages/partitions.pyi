"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

class PartitionResult(Row):
    partition_id: int
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        partition_id: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class ReplicaElectionResult(Row):
    topic: str
    partition_result: Many[PartitionResult, Sequence[PartitionResult]]
    def __init__(
        self,
        *,
        topic: str = ...,
        partition_result: Rows[PartitionResult] = ...,
    ) -> None: ...

class ElectLeadersResponse(Row):
    throttle_time_ms: int
    error_code: int
    replica_election_results: Many[ReplicaElectionResult, Sequence[ReplicaElectionResult]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        replica_election_results: Rows[ReplicaElectionResult] = ...,
    ) -> None: ...

class TopicPartitions(Row):
    topic: str
    partitions: Sequence[int]
    def __init__(
        self,
        *,
        topic: str = ...,
        partitions: Sequence[int] = ...,
    ) -> None: ...

class ElectLeadersRequest(Row):
    election_type: int
    topic_partitions: Many[TopicPartitions, Sequence[TopicPartitions] | None]
    timeout_ms: int
    def __init__(
        self,
        *,
        election_type: int = ...,
        topic_partitions: Rows[TopicPartitions] | None = ...,
        timeout_ms: int = ...,
    ) -> None: ...

class CreatePartitionsTopicResult(Row):
    name: str
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        name: str = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class CreatePartitionsResponse(Row):
    throttle_time_ms: int
    results: Many[CreatePartitionsTopicResult, Sequence[CreatePartitionsTopicResult]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        results: Rows[CreatePartitionsTopicResult] = ...,
    ) -> None: ...

class CreatePartitionsAssignment(Row):
    broker_ids: Sequence[int]
    def __init__(
        self,
        *,
        broker_ids: Sequence[int] = ...,
    ) -> None: ...

class CreatePartitionsTopic(Row):
    name: str
    count: int
    assignments: Many[CreatePartitionsAssignment, Sequence[CreatePartitionsAssignment] | None]
    def __init__(
        self,
        *,
        name: str = ...,
        count: int = ...,
        assignments: Rows[CreatePartitionsAssignment] | None = ...,
    ) -> None: ...

class CreatePartitionsRequest(Row):
    topics: Many[CreatePartitionsTopic, Sequence[CreatePartitionsTopic]]
    timeout_ms: int
    validate_only: bool
    def __init__(
        self,
        *,
        topics: Rows[CreatePartitionsTopic] = ...,
        timeout_ms: int = ...,
        validate_only: bool = ...,
    ) -> None: ...

CREATE_PARTITIONS: Api[CreatePartitionsRequest, CreatePartitionsResponse]
ELECT_LEADERS: Api[ElectLeadersRequest, ElectLeadersResponse]
