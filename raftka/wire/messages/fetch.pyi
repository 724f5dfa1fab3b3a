"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, One, RecordBytes, Records, Rows
from raftka.wire.schema import Api, Row

READ_UNCOMMITTED: int
READ_COMMITTED: int

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

class AbortedTransaction(Row):
    producer_id: int
    first_offset: int
    def __init__(
        self,
        *,
        producer_id: int = ...,
        first_offset: int = ...,
    ) -> None: ...

class SnapshotId(Row):
    end_offset: int
    epoch: int
    def __init__(
        self,
        *,
        end_offset: int = ...,
        epoch: int = ...,
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

class EpochEndOffset(Row):
    epoch: int
    end_offset: int
    def __init__(
        self,
        *,
        epoch: int = ...,
        end_offset: int = ...,
    ) -> None: ...

class PartitionData(Row):
    partition_index: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    diverging_epoch: One[EpochEndOffset, EpochEndOffset]
    current_leader: One[LeaderIdAndEpoch, LeaderIdAndEpoch]
    snapshot_id: One[SnapshotId, SnapshotId]
    aborted_transactions: Many[AbortedTransaction, Sequence[AbortedTransaction] | None]
    preferred_read_replica: int
    records: Records
    def __init__(
        self,
        *,
        partition_index: int = ...,
        error_code: int = ...,
        high_watermark: int = ...,
        last_stable_offset: int = ...,
        log_start_offset: int = ...,
        diverging_epoch: EpochEndOffset = ...,
        current_leader: LeaderIdAndEpoch = ...,
        snapshot_id: SnapshotId = ...,
        aborted_transactions: Rows[AbortedTransaction] | None = ...,
        preferred_read_replica: int = ...,
        records: RecordBytes | None = ...,
    ) -> None: ...

class FetchableTopicResponse(Row):
    topic: str
    topic_id: bytes
    partitions: Many[PartitionData, Sequence[PartitionData]]
    def __init__(
        self,
        *,
        topic: str = ...,
        topic_id: bytes = ...,
        partitions: Rows[PartitionData] = ...,
    ) -> None: ...

class FetchResponse(Row):
    throttle_time_ms: int
    error_code: int
    session_id: int
    responses: Many[FetchableTopicResponse, Sequence[FetchableTopicResponse]]
    node_endpoints: Many[NodeEndpoint, Sequence[NodeEndpoint]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        session_id: int = ...,
        responses: Rows[FetchableTopicResponse] = ...,
        node_endpoints: Rows[NodeEndpoint] = ...,
    ) -> None: ...

class ForgottenTopic(Row):
    topic: str
    topic_id: bytes
    partitions: Sequence[int]
    def __init__(
        self,
        *,
        topic: str = ...,
        topic_id: bytes = ...,
        partitions: Sequence[int] = ...,
    ) -> None: ...

class FetchPartition(Row):
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int
    replica_directory_id: bytes
    high_watermark: int
    def __init__(
        self,
        *,
        partition: int = ...,
        current_leader_epoch: int = ...,
        fetch_offset: int = ...,
        last_fetched_epoch: int = ...,
        log_start_offset: int = ...,
        partition_max_bytes: int = ...,
        replica_directory_id: bytes = ...,
        high_watermark: int = ...,
    ) -> None: ...

class FetchTopic(Row):
    topic: str
    topic_id: bytes
    partitions: Many[FetchPartition, Sequence[FetchPartition]]
    def __init__(
        self,
        *,
        topic: str = ...,
        topic_id: bytes = ...,
        partitions: Rows[FetchPartition] = ...,
    ) -> None: ...

class ReplicaState(Row):
    replica_id: int
    replica_epoch: int
    def __init__(
        self,
        *,
        replica_id: int = ...,
        replica_epoch: int = ...,
    ) -> None: ...

class FetchRequest(Row):
    cluster_id: str | None
    replica_id: int
    replica_state: One[ReplicaState, ReplicaState]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: Many[FetchTopic, Sequence[FetchTopic]]
    forgotten_topics_data: Many[ForgottenTopic, Sequence[ForgottenTopic]]
    rack_id: str
    def __init__(
        self,
        *,
        cluster_id: str | None = ...,
        replica_id: int = ...,
        replica_state: ReplicaState = ...,
        max_wait_ms: int = ...,
        min_bytes: int = ...,
        max_bytes: int = ...,
        isolation_level: int = ...,
        session_id: int = ...,
        session_epoch: int = ...,
        topics: Rows[FetchTopic] = ...,
        forgotten_topics_data: Rows[ForgottenTopic] = ...,
        rack_id: str = ...,
    ) -> None: ...

FETCH: Api[FetchRequest, FetchResponse]
