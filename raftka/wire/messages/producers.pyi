"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

class ProducerState(Row):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int
    def __init__(
        self,
        *,
        producer_id: int = ...,
        producer_epoch: int = ...,
        last_sequence: int = ...,
        last_timestamp: int = ...,
        coordinator_epoch: int = ...,
        current_txn_start_offset: int = ...,
    ) -> None: ...

class PartitionResponse(Row):
    partition_index: int
    error_code: int
    error_message: str | None
    active_producers: Many[ProducerState, Sequence[ProducerState]]
    def __init__(
        self,
        *,
        partition_index: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        active_producers: Rows[ProducerState] = ...,
    ) -> None: ...

class TopicResponse(Row):
    name: str
    partitions: Many[PartitionResponse, Sequence[PartitionResponse]]
    def __init__(
        self,
        *,
        name: str = ...,
        partitions: Rows[PartitionResponse] = ...,
    ) -> None: ...

class DescribeProducersResponse(Row):
    throttle_time_ms: int
    topics: Many[TopicResponse, Sequence[TopicResponse]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: Rows[TopicResponse] = ...,
    ) -> None: ...

class TopicRequest(Row):
    name: str
    partition_indexes: Sequence[int]
    def __init__(
        self,
        *,
        name: str = ...,
        partition_indexes: Sequence[int] = ...,
    ) -> None: ...

class DescribeProducersRequest(Row):
    topics: Many[TopicRequest, Sequence[TopicRequest]]
    def __init__(
        self,
        *,
        topics: Rows[TopicRequest] = ...,
    ) -> None: ...

DESCRIBE_PRODUCERS: Api[DescribeProducersRequest, DescribeProducersResponse]
