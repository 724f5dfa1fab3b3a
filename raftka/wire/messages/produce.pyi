"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, One, OwnedRecords, RecordBytes, Rows
from raftka.wire.schema import Api, Row

class NodeEndpoint(Row):
    node_id: int
    host: str
    port: int
    rack: str | None
    def __init__(
        self,
        *,
        node_id: int = ...,
        host: str = ...,
        port: int = ...,
        rack: str | None = ...,
    ) -> None: ...

class LeaderIdAndEpoch(Row):
    leader_id: int
    leader_epoch: int
    def __init__(
        self,
        *,
        leader_id: int = ...,
        leader_epoch: int = ...,
    ) -> None: ...

class BatchIndexAndErrorMessage(Row):
    batch_index: int
    batch_index_error_message: str | None
    def __init__(
        self,
        *,
        batch_index: int = ...,
        batch_index_error_message: str | None = ...,
    ) -> None: ...

class PartitionProduceResponse(Row):
    index: int
    error_code: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    record_errors: Many[BatchIndexAndErrorMessage, Sequence[BatchIndexAndErrorMessage]]
    error_message: str | None
    current_leader: One[LeaderIdAndEpoch, LeaderIdAndEpoch]
    def __init__(
        self,
        *,
        index: int = ...,
        error_code: int = ...,
        base_offset: int = ...,
        log_append_time_ms: int = ...,
        log_start_offset: int = ...,
        record_errors: Rows[BatchIndexAndErrorMessage] = ...,
        error_message: str | None = ...,
        current_leader: LeaderIdAndEpoch = ...,
    ) -> None: ...

class TopicProduceResponse(Row):
    name: str
    topic_id: bytes
    partition_responses: Many[PartitionProduceResponse, Sequence[PartitionProduceResponse]]
    def __init__(
        self,
        *,
        name: str = ...,
        topic_id: bytes = ...,
        partition_responses: Rows[PartitionProduceResponse] = ...,
    ) -> None: ...

class ProduceResponse(Row):
    responses: Many[TopicProduceResponse, Sequence[TopicProduceResponse]]
    throttle_time_ms: int
    node_endpoints: Many[NodeEndpoint, Sequence[NodeEndpoint]]
    def __init__(
        self,
        *,
        responses: Rows[TopicProduceResponse] = ...,
        throttle_time_ms: int = ...,
        node_endpoints: Rows[NodeEndpoint] = ...,
    ) -> None: ...

class PartitionProduceData(Row):
    index: int
    records: OwnedRecords
    def __init__(
        self,
        *,
        index: int = ...,
        records: RecordBytes | None = ...,
    ) -> None: ...

class TopicProduceData(Row):
    name: str
    topic_id: bytes
    partition_data: Many[PartitionProduceData, Sequence[PartitionProduceData]]
    def __init__(
        self,
        *,
        name: str = ...,
        topic_id: bytes = ...,
        partition_data: Rows[PartitionProduceData] = ...,
    ) -> None: ...

class ProduceRequest(Row):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topic_data: Many[TopicProduceData, Sequence[TopicProduceData]]
    def __init__(
        self,
        *,
        transactional_id: str | None = ...,
        acks: int = ...,
        timeout_ms: int = ...,
        topic_data: Rows[TopicProduceData] = ...,
    ) -> None: ...

PRODUCE: Api[ProduceRequest, ProduceResponse]
