"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

class OffsetDeleteResponsePartition(Row):
    partition_index: int
    error_code: int
    def __init__(
        self,
        *,
        partition_index: int = ...,
        error_code: int = ...,
    ) -> None: ...

class OffsetDeleteResponseTopic(Row):
    name: str
    partitions: Many[OffsetDeleteResponsePartition, Sequence[OffsetDeleteResponsePartition]]
    def __init__(
        self,
        *,
        name: str = ...,
        partitions: Rows[OffsetDeleteResponsePartition] = ...,
    ) -> None: ...

class OffsetDeleteResponse(Row):
    error_code: int
    throttle_time_ms: int
    topics: Many[OffsetDeleteResponseTopic, Sequence[OffsetDeleteResponseTopic]]
    def __init__(
        self,
        *,
        error_code: int = ...,
        throttle_time_ms: int = ...,
        topics: Rows[OffsetDeleteResponseTopic] = ...,
    ) -> None: ...

class OffsetDeleteRequestPartition(Row):
    partition_index: int
    def __init__(
        self,
        *,
        partition_index: int = ...,
    ) -> None: ...

class OffsetDeleteRequestTopic(Row):
    name: str
    partitions: Many[OffsetDeleteRequestPartition, Sequence[OffsetDeleteRequestPartition]]
    def __init__(
        self,
        *,
        name: str = ...,
        partitions: Rows[OffsetDeleteRequestPartition] = ...,
    ) -> None: ...

class OffsetDeleteRequest(Row):
    group_id: str
    topics: Many[OffsetDeleteRequestTopic, Sequence[OffsetDeleteRequestTopic]]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: Rows[OffsetDeleteRequestTopic] = ...,
    ) -> None: ...

class OffsetFetchResponsePartitions(Row):
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str | None
    error_code: int
    def __init__(
        self,
        *,
        partition_index: int = ...,
        committed_offset: int = ...,
        committed_leader_epoch: int = ...,
        metadata: str | None = ...,
        error_code: int = ...,
    ) -> None: ...

class OffsetFetchResponseTopics(Row):
    name: str
    topic_id: bytes
    partitions: Many[OffsetFetchResponsePartitions, Sequence[OffsetFetchResponsePartitions]]
    def __init__(
        self,
        *,
        name: str = ...,
        topic_id: bytes = ...,
        partitions: Rows[OffsetFetchResponsePartitions] = ...,
    ) -> None: ...

class OffsetFetchResponseGroup(Row):
    group_id: str
    topics: Many[OffsetFetchResponseTopics, Sequence[OffsetFetchResponseTopics]]
    error_code: int
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: Rows[OffsetFetchResponseTopics] = ...,
        error_code: int = ...,
    ) -> None: ...

class OffsetFetchResponsePartition(Row):
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str | None
    error_code: int
    def __init__(
        self,
        *,
        partition_index: int = ...,
        committed_offset: int = ...,
        committed_leader_epoch: int = ...,
        metadata: str | None = ...,
        error_code: int = ...,
    ) -> None: ...

class OffsetFetchResponseTopic(Row):
    name: str
    partitions: Many[OffsetFetchResponsePartition, Sequence[OffsetFetchResponsePartition]]
    def __init__(
        self,
        *,
        name: str = ...,
        partitions: Rows[OffsetFetchResponsePartition] = ...,
    ) -> None: ...

class OffsetFetchResponse(Row):
    throttle_time_ms: int
    topics: Many[OffsetFetchResponseTopic, Sequence[OffsetFetchResponseTopic]]
    error_code: int
    groups: Many[OffsetFetchResponseGroup, Sequence[OffsetFetchResponseGroup]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: Rows[OffsetFetchResponseTopic] = ...,
        error_code: int = ...,
        groups: Rows[OffsetFetchResponseGroup] = ...,
    ) -> None: ...

class OffsetFetchRequestTopics(Row):
    name: str
    topic_id: bytes
    partition_indexes: Sequence[int]
    def __init__(
        self,
        *,
        name: str = ...,
        topic_id: bytes = ...,
        partition_indexes: Sequence[int] = ...,
    ) -> None: ...

class OffsetFetchRequestGroup(Row):
    group_id: str
    member_id: str | None
    member_epoch: int
    topics: Many[OffsetFetchRequestTopics, Sequence[OffsetFetchRequestTopics] | None]
    def __init__(
        self,
        *,
        group_id: str = ...,
        member_id: str | None = ...,
        member_epoch: int = ...,
        topics: Rows[OffsetFetchRequestTopics] | None = ...,
    ) -> None: ...

class OffsetFetchRequestTopic(Row):
    name: str
    partition_indexes: Sequence[int]
    def __init__(
        self,
        *,
        name: str = ...,
        partition_indexes: Sequence[int] = ...,
    ) -> None: ...

class OffsetFetchRequest(Row):
    group_id: str
    topics: Many[OffsetFetchRequestTopic, Sequence[OffsetFetchRequestTopic] | None]
    groups: Many[OffsetFetchRequestGroup, Sequence[OffsetFetchRequestGroup]]
    require_stable: bool
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: Rows[OffsetFetchRequestTopic] | None = ...,
        groups: Rows[OffsetFetchRequestGroup] = ...,
        require_stable: bool = ...,
    ) -> None: ...

class OffsetCommitResponsePartition(Row):
    partition_index: int
    error_code: int
    def __init__(
        self,
        *,
        partition_index: int = ...,
        error_code: int = ...,
    ) -> None: ...

class OffsetCommitResponseTopic(Row):
    name: str
    topic_id: bytes
    partitions: Many[OffsetCommitResponsePartition, Sequence[OffsetCommitResponsePartition]]
    def __init__(
        self,
        *,
        name: str = ...,
        topic_id: bytes = ...,
        partitions: Rows[OffsetCommitResponsePartition] = ...,
    ) -> None: ...

class OffsetCommitResponse(Row):
    throttle_time_ms: int
    topics: Many[OffsetCommitResponseTopic, Sequence[OffsetCommitResponseTopic]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: Rows[OffsetCommitResponseTopic] = ...,
    ) -> None: ...

class OffsetCommitRequestPartition(Row):
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None
    def __init__(
        self,
        *,
        partition_index: int = ...,
        committed_offset: int = ...,
        committed_leader_epoch: int = ...,
        committed_metadata: str | None = ...,
    ) -> None: ...

class OffsetCommitRequestTopic(Row):
    name: str
    topic_id: bytes
    partitions: Many[OffsetCommitRequestPartition, Sequence[OffsetCommitRequestPartition]]
    def __init__(
        self,
        *,
        name: str = ...,
        topic_id: bytes = ...,
        partitions: Rows[OffsetCommitRequestPartition] = ...,
    ) -> None: ...

class OffsetCommitRequest(Row):
    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    retention_time_ms: int
    topics: Many[OffsetCommitRequestTopic, Sequence[OffsetCommitRequestTopic]]
    def __init__(
        self,
        *,
        group_id: str = ...,
        generation_id_or_member_epoch: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        retention_time_ms: int = ...,
        topics: Rows[OffsetCommitRequestTopic] = ...,
    ) -> None: ...

OFFSET_COMMIT: Api[OffsetCommitRequest, OffsetCommitResponse]
OFFSET_FETCH: Api[OffsetFetchRequest, OffsetFetchResponse]
OFFSET_DELETE: Api[OffsetDeleteRequest, OffsetDeleteResponse]
