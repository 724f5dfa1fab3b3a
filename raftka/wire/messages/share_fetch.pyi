"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, One, RecordBytes, Records, Rows
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

class AcquiredRecords(Row):
    first_offset: int
    last_offset: int
    delivery_count: int
    def __init__(
        self,
        *,
        first_offset: int = ...,
        last_offset: int = ...,
        delivery_count: int = ...,
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

class PartitionData(Row):
    partition_index: int
    error_code: int
    error_message: str | None
    acknowledge_error_code: int
    acknowledge_error_message: str | None
    current_leader: One[LeaderIdAndEpoch, LeaderIdAndEpoch]
    records: Records
    acquired_records: Many[AcquiredRecords, Sequence[AcquiredRecords]]
    def __init__(
        self,
        *,
        partition_index: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        acknowledge_error_code: int = ...,
        acknowledge_error_message: str | None = ...,
        current_leader: LeaderIdAndEpoch = ...,
        records: RecordBytes | None = ...,
        acquired_records: Rows[AcquiredRecords] = ...,
    ) -> None: ...

class ShareFetchableTopicResponse(Row):
    topic_id: bytes
    partitions: Many[PartitionData, Sequence[PartitionData]]
    def __init__(
        self,
        *,
        topic_id: bytes = ...,
        partitions: Rows[PartitionData] = ...,
    ) -> None: ...

class ShareFetchResponse(Row):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    acquisition_lock_timeout_ms: int
    responses: Many[ShareFetchableTopicResponse, Sequence[ShareFetchableTopicResponse]]
    node_endpoints: Many[NodeEndpoint, Sequence[NodeEndpoint]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        acquisition_lock_timeout_ms: int = ...,
        responses: Rows[ShareFetchableTopicResponse] = ...,
        node_endpoints: Rows[NodeEndpoint] = ...,
    ) -> None: ...

class ForgottenTopic(Row):
    topic_id: bytes
    partitions: Sequence[int]
    def __init__(
        self,
        *,
        topic_id: bytes = ...,
        partitions: Sequence[int] = ...,
    ) -> None: ...

class AcknowledgementBatch(Row):
    first_offset: int
    last_offset: int
    acknowledge_types: Sequence[int]
    def __init__(
        self,
        *,
        first_offset: int = ...,
        last_offset: int = ...,
        acknowledge_types: Sequence[int] = ...,
    ) -> None: ...

class FetchPartition(Row):
    partition_index: int
    acknowledgement_batches: Many[AcknowledgementBatch, Sequence[AcknowledgementBatch]]
    def __init__(
        self,
        *,
        partition_index: int = ...,
        acknowledgement_batches: Rows[AcknowledgementBatch] = ...,
    ) -> None: ...

class FetchTopic(Row):
    topic_id: bytes
    partitions: Many[FetchPartition, Sequence[FetchPartition]]
    def __init__(
        self,
        *,
        topic_id: bytes = ...,
        partitions: Rows[FetchPartition] = ...,
    ) -> None: ...

class ShareFetchRequest(Row):
    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    share_acquire_mode: int
    is_renew_ack: bool
    topics: Many[FetchTopic, Sequence[FetchTopic]]
    forgotten_topics_data: Many[ForgottenTopic, Sequence[ForgottenTopic]]
    def __init__(
        self,
        *,
        group_id: str | None = ...,
        member_id: str | None = ...,
        share_session_epoch: int = ...,
        max_wait_ms: int = ...,
        min_bytes: int = ...,
        max_bytes: int = ...,
        max_records: int = ...,
        batch_size: int = ...,
        share_acquire_mode: int = ...,
        is_renew_ack: bool = ...,
        topics: Rows[FetchTopic] = ...,
        forgotten_topics_data: Rows[ForgottenTopic] = ...,
    ) -> None: ...

SHARE_FETCH: Api[ShareFetchRequest, ShareFetchResponse]
