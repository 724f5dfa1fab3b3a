"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, One, Rows
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

class PartitionData(Row):
    partition_index: int
    error_code: int
    error_message: str | None
    current_leader: One[LeaderIdAndEpoch, LeaderIdAndEpoch]
    def __init__(
        self,
        *,
        partition_index: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        current_leader: LeaderIdAndEpoch = ...,
    ) -> None: ...

class ShareAcknowledgeTopicResponse(Row):
    topic_id: bytes
    partitions: Many[PartitionData, Sequence[PartitionData]]
    def __init__(
        self,
        *,
        topic_id: bytes = ...,
        partitions: Rows[PartitionData] = ...,
    ) -> None: ...

class ShareAcknowledgeResponse(Row):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    acquisition_lock_timeout_ms: int
    responses: Many[ShareAcknowledgeTopicResponse, Sequence[ShareAcknowledgeTopicResponse]]
    node_endpoints: Many[NodeEndpoint, Sequence[NodeEndpoint]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        acquisition_lock_timeout_ms: int = ...,
        responses: Rows[ShareAcknowledgeTopicResponse] = ...,
        node_endpoints: Rows[NodeEndpoint] = ...,
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

class AcknowledgePartition(Row):
    partition_index: int
    acknowledgement_batches: Many[AcknowledgementBatch, Sequence[AcknowledgementBatch]]
    def __init__(
        self,
        *,
        partition_index: int = ...,
        acknowledgement_batches: Rows[AcknowledgementBatch] = ...,
    ) -> None: ...

class AcknowledgeTopic(Row):
    topic_id: bytes
    partitions: Many[AcknowledgePartition, Sequence[AcknowledgePartition]]
    def __init__(
        self,
        *,
        topic_id: bytes = ...,
        partitions: Rows[AcknowledgePartition] = ...,
    ) -> None: ...

class ShareAcknowledgeRequest(Row):
    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    is_renew_ack: bool
    topics: Many[AcknowledgeTopic, Sequence[AcknowledgeTopic]]
    def __init__(
        self,
        *,
        group_id: str | None = ...,
        member_id: str | None = ...,
        share_session_epoch: int = ...,
        is_renew_ack: bool = ...,
        topics: Rows[AcknowledgeTopic] = ...,
    ) -> None: ...

SHARE_ACKNOWLEDGE: Api[ShareAcknowledgeRequest, ShareAcknowledgeResponse]
