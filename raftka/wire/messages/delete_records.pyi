"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

class DeleteRecordsPartitionResult(Row):
    partition_index: int
    low_watermark: int
    error_code: int
    def __init__(
        self,
        *,
        partition_index: int = ...,
        low_watermark: int = ...,
        error_code: int = ...,
    ) -> None: ...

class DeleteRecordsTopicResult(Row):
    name: str
    partitions: Many[DeleteRecordsPartitionResult, Sequence[DeleteRecordsPartitionResult]]
    def __init__(
        self,
        *,
        name: str = ...,
        partitions: Rows[DeleteRecordsPartitionResult] = ...,
    ) -> None: ...

class DeleteRecordsResponse(Row):
    throttle_time_ms: int
    topics: Many[DeleteRecordsTopicResult, Sequence[DeleteRecordsTopicResult]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: Rows[DeleteRecordsTopicResult] = ...,
    ) -> None: ...

class DeleteRecordsPartition(Row):
    partition_index: int
    offset: int
    def __init__(
        self,
        *,
        partition_index: int = ...,
        offset: int = ...,
    ) -> None: ...

class DeleteRecordsTopic(Row):
    name: str
    partitions: Many[DeleteRecordsPartition, Sequence[DeleteRecordsPartition]]
    def __init__(
        self,
        *,
        name: str = ...,
        partitions: Rows[DeleteRecordsPartition] = ...,
    ) -> None: ...

class DeleteRecordsRequest(Row):
    topics: Many[DeleteRecordsTopic, Sequence[DeleteRecordsTopic]]
    timeout_ms: int
    def __init__(
        self,
        *,
        topics: Rows[DeleteRecordsTopic] = ...,
        timeout_ms: int = ...,
    ) -> None: ...

DELETE_RECORDS: Api[DeleteRecordsRequest, DeleteRecordsResponse]
