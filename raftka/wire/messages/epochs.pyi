"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

class EpochEndOffset(Row):
    error_code: int
    partition: int
    leader_epoch: int
    end_offset: int
    def __init__(
        self,
        *,
        error_code: int = ...,
        partition: int = ...,
        leader_epoch: int = ...,
        end_offset: int = ...,
    ) -> None: ...

class OffsetForLeaderTopicResult(Row):
    topic: str
    partitions: Many[EpochEndOffset, Sequence[EpochEndOffset]]
    def __init__(
        self,
        *,
        topic: str = ...,
        partitions: Rows[EpochEndOffset] = ...,
    ) -> None: ...

class OffsetForLeaderEpochResponse(Row):
    throttle_time_ms: int
    topics: Many[OffsetForLeaderTopicResult, Sequence[OffsetForLeaderTopicResult]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: Rows[OffsetForLeaderTopicResult] = ...,
    ) -> None: ...

class OffsetForLeaderPartition(Row):
    partition: int
    current_leader_epoch: int
    leader_epoch: int
    def __init__(
        self,
        *,
        partition: int = ...,
        current_leader_epoch: int = ...,
        leader_epoch: int = ...,
    ) -> None: ...

class OffsetForLeaderTopic(Row):
    topic: str
    partitions: Many[OffsetForLeaderPartition, Sequence[OffsetForLeaderPartition]]
    def __init__(
        self,
        *,
        topic: str = ...,
        partitions: Rows[OffsetForLeaderPartition] = ...,
    ) -> None: ...

class OffsetForLeaderEpochRequest(Row):
    replica_id: int
    topics: Many[OffsetForLeaderTopic, Sequence[OffsetForLeaderTopic]]
    def __init__(
        self,
        *,
        replica_id: int = ...,
        topics: Rows[OffsetForLeaderTopic] = ...,
    ) -> None: ...

OFFSET_FOR_LEADER_EPOCH: Api[OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse]
