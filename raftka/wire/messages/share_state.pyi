"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

class SummaryPartitionResult(Row):
    partition: int
    error_code: int
    error_message: str | None
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    def __init__(
        self,
        *,
        partition: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        state_epoch: int = ...,
        leader_epoch: int = ...,
        start_offset: int = ...,
        delivery_complete_count: int = ...,
    ) -> None: ...

class ReadStateSummaryResult(Row):
    topic_id: bytes
    partitions: Many[SummaryPartitionResult, Sequence[SummaryPartitionResult]]
    def __init__(
        self,
        *,
        topic_id: bytes = ...,
        partitions: Rows[SummaryPartitionResult] = ...,
    ) -> None: ...

class ReadShareGroupStateSummaryResponse(Row):
    results: Many[ReadStateSummaryResult, Sequence[ReadStateSummaryResult]]
    def __init__(
        self,
        *,
        results: Rows[ReadStateSummaryResult] = ...,
    ) -> None: ...

class SummaryPartitionData(Row):
    partition: int
    leader_epoch: int
    def __init__(
        self,
        *,
        partition: int = ...,
        leader_epoch: int = ...,
    ) -> None: ...

class ReadStateSummaryData(Row):
    topic_id: bytes
    partitions: Many[SummaryPartitionData, Sequence[SummaryPartitionData]]
    def __init__(
        self,
        *,
        topic_id: bytes = ...,
        partitions: Rows[SummaryPartitionData] = ...,
    ) -> None: ...

class ReadShareGroupStateSummaryRequest(Row):
    group_id: str
    topics: Many[ReadStateSummaryData, Sequence[ReadStateSummaryData]]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: Rows[ReadStateSummaryData] = ...,
    ) -> None: ...

class DeletePartitionResult(Row):
    partition: int
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        partition: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class DeleteStateResult(Row):
    topic_id: bytes
    partitions: Many[DeletePartitionResult, Sequence[DeletePartitionResult]]
    def __init__(
        self,
        *,
        topic_id: bytes = ...,
        partitions: Rows[DeletePartitionResult] = ...,
    ) -> None: ...

class DeleteShareGroupStateResponse(Row):
    results: Many[DeleteStateResult, Sequence[DeleteStateResult]]
    def __init__(
        self,
        *,
        results: Rows[DeleteStateResult] = ...,
    ) -> None: ...

class DeletePartitionData(Row):
    partition: int
    def __init__(
        self,
        *,
        partition: int = ...,
    ) -> None: ...

class DeleteStateData(Row):
    topic_id: bytes
    partitions: Many[DeletePartitionData, Sequence[DeletePartitionData]]
    def __init__(
        self,
        *,
        topic_id: bytes = ...,
        partitions: Rows[DeletePartitionData] = ...,
    ) -> None: ...

class DeleteShareGroupStateRequest(Row):
    group_id: str
    topics: Many[DeleteStateData, Sequence[DeleteStateData]]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: Rows[DeleteStateData] = ...,
    ) -> None: ...

class WritePartitionResult(Row):
    partition: int
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        partition: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class WriteStateResult(Row):
    topic_id: bytes
    partitions: Many[WritePartitionResult, Sequence[WritePartitionResult]]
    def __init__(
        self,
        *,
        topic_id: bytes = ...,
        partitions: Rows[WritePartitionResult] = ...,
    ) -> None: ...

class WriteShareGroupStateResponse(Row):
    results: Many[WriteStateResult, Sequence[WriteStateResult]]
    def __init__(
        self,
        *,
        results: Rows[WriteStateResult] = ...,
    ) -> None: ...

class WriteStateBatch(Row):
    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int
    def __init__(
        self,
        *,
        first_offset: int = ...,
        last_offset: int = ...,
        delivery_state: int = ...,
        delivery_count: int = ...,
    ) -> None: ...

class WritePartitionData(Row):
    partition: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: Many[WriteStateBatch, Sequence[WriteStateBatch]]
    def __init__(
        self,
        *,
        partition: int = ...,
        state_epoch: int = ...,
        leader_epoch: int = ...,
        start_offset: int = ...,
        delivery_complete_count: int = ...,
        state_batches: Rows[WriteStateBatch] = ...,
    ) -> None: ...

class WriteStateData(Row):
    topic_id: bytes
    partitions: Many[WritePartitionData, Sequence[WritePartitionData]]
    def __init__(
        self,
        *,
        topic_id: bytes = ...,
        partitions: Rows[WritePartitionData] = ...,
    ) -> None: ...

class WriteShareGroupStateRequest(Row):
    group_id: str
    topics: Many[WriteStateData, Sequence[WriteStateData]]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: Rows[WriteStateData] = ...,
    ) -> None: ...

class ReadStateBatch(Row):
    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int
    def __init__(
        self,
        *,
        first_offset: int = ...,
        last_offset: int = ...,
        delivery_state: int = ...,
        delivery_count: int = ...,
    ) -> None: ...

class ReadPartitionResult(Row):
    partition: int
    error_code: int
    error_message: str | None
    state_epoch: int
    start_offset: int
    state_batches: Many[ReadStateBatch, Sequence[ReadStateBatch]]
    def __init__(
        self,
        *,
        partition: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        state_epoch: int = ...,
        start_offset: int = ...,
        state_batches: Rows[ReadStateBatch] = ...,
    ) -> None: ...

class ReadStateResult(Row):
    topic_id: bytes
    partitions: Many[ReadPartitionResult, Sequence[ReadPartitionResult]]
    def __init__(
        self,
        *,
        topic_id: bytes = ...,
        partitions: Rows[ReadPartitionResult] = ...,
    ) -> None: ...

class ReadShareGroupStateResponse(Row):
    results: Many[ReadStateResult, Sequence[ReadStateResult]]
    def __init__(
        self,
        *,
        results: Rows[ReadStateResult] = ...,
    ) -> None: ...

class ReadPartitionData(Row):
    partition: int
    leader_epoch: int
    def __init__(
        self,
        *,
        partition: int = ...,
        leader_epoch: int = ...,
    ) -> None: ...

class ReadStateData(Row):
    topic_id: bytes
    partitions: Many[ReadPartitionData, Sequence[ReadPartitionData]]
    def __init__(
        self,
        *,
        topic_id: bytes = ...,
        partitions: Rows[ReadPartitionData] = ...,
    ) -> None: ...

class ReadShareGroupStateRequest(Row):
    group_id: str
    topics: Many[ReadStateData, Sequence[ReadStateData]]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: Rows[ReadStateData] = ...,
    ) -> None: ...

class InitializePartitionResult(Row):
    partition: int
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        partition: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class InitializeStateResult(Row):
    topic_id: bytes
    partitions: Many[InitializePartitionResult, Sequence[InitializePartitionResult]]
    def __init__(
        self,
        *,
        topic_id: bytes = ...,
        partitions: Rows[InitializePartitionResult] = ...,
    ) -> None: ...

class InitializeShareGroupStateResponse(Row):
    results: Many[InitializeStateResult, Sequence[InitializeStateResult]]
    def __init__(
        self,
        *,
        results: Rows[InitializeStateResult] = ...,
    ) -> None: ...

class InitializePartitionData(Row):
    partition: int
    state_epoch: int
    start_offset: int
    def __init__(
        self,
        *,
        partition: int = ...,
        state_epoch: int = ...,
        start_offset: int = ...,
    ) -> None: ...

class InitializeStateData(Row):
    topic_id: bytes
    partitions: Many[InitializePartitionData, Sequence[InitializePartitionData]]
    def __init__(
        self,
        *,
        topic_id: bytes = ...,
        partitions: Rows[InitializePartitionData] = ...,
    ) -> None: ...

class InitializeShareGroupStateRequest(Row):
    group_id: str
    topics: Many[InitializeStateData, Sequence[InitializeStateData]]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: Rows[InitializeStateData] = ...,
    ) -> None: ...

INITIALIZE_SHARE_GROUP_STATE: Api[InitializeShareGroupStateRequest, InitializeShareGroupStateResponse]
READ_SHARE_GROUP_STATE: Api[ReadShareGroupStateRequest, ReadShareGroupStateResponse]
WRITE_SHARE_GROUP_STATE: Api[WriteShareGroupStateRequest, WriteShareGroupStateResponse]
DELETE_SHARE_GROUP_STATE: Api[DeleteShareGroupStateRequest, DeleteShareGroupStateResponse]
READ_SHARE_GROUP_STATE_SUMMARY: Api[ReadShareGroupStateSummaryRequest, ReadShareGroupStateSummaryResponse]
