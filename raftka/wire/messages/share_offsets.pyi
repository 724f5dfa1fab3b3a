"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

class DeleteShareGroupOffsetsResponseTopic(Row):
    topic_name: str
    topic_id: bytes
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        topic_name: str = ...,
        topic_id: bytes = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class DeleteShareGroupOffsetsResponse(Row):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    responses: Many[DeleteShareGroupOffsetsResponseTopic, Sequence[DeleteShareGroupOffsetsResponseTopic]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        responses: Rows[DeleteShareGroupOffsetsResponseTopic] = ...,
    ) -> None: ...

class DeleteShareGroupOffsetsRequestTopic(Row):
    topic_name: str
    def __init__(
        self,
        *,
        topic_name: str = ...,
    ) -> None: ...

class DeleteShareGroupOffsetsRequest(Row):
    group_id: str
    topics: Many[DeleteShareGroupOffsetsRequestTopic, Sequence[DeleteShareGroupOffsetsRequestTopic]]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: Rows[DeleteShareGroupOffsetsRequestTopic] = ...,
    ) -> None: ...

class AlterShareGroupOffsetsResponsePartition(Row):
    partition_index: int
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        partition_index: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class AlterShareGroupOffsetsResponseTopic(Row):
    topic_name: str
    topic_id: bytes
    partitions: Many[AlterShareGroupOffsetsResponsePartition, Sequence[AlterShareGroupOffsetsResponsePartition]]
    def __init__(
        self,
        *,
        topic_name: str = ...,
        topic_id: bytes = ...,
        partitions: Rows[AlterShareGroupOffsetsResponsePartition] = ...,
    ) -> None: ...

class AlterShareGroupOffsetsResponse(Row):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    responses: Many[AlterShareGroupOffsetsResponseTopic, Sequence[AlterShareGroupOffsetsResponseTopic]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        responses: Rows[AlterShareGroupOffsetsResponseTopic] = ...,
    ) -> None: ...

class AlterShareGroupOffsetsRequestPartition(Row):
    partition_index: int
    start_offset: int
    def __init__(
        self,
        *,
        partition_index: int = ...,
        start_offset: int = ...,
    ) -> None: ...

class AlterShareGroupOffsetsRequestTopic(Row):
    topic_name: str
    partitions: Many[AlterShareGroupOffsetsRequestPartition, Sequence[AlterShareGroupOffsetsRequestPartition]]
    def __init__(
        self,
        *,
        topic_name: str = ...,
        partitions: Rows[AlterShareGroupOffsetsRequestPartition] = ...,
    ) -> None: ...

class AlterShareGroupOffsetsRequest(Row):
    group_id: str
    topics: Many[AlterShareGroupOffsetsRequestTopic, Sequence[AlterShareGroupOffsetsRequestTopic]]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: Rows[AlterShareGroupOffsetsRequestTopic] = ...,
    ) -> None: ...

class DescribeShareGroupOffsetsResponsePartition(Row):
    partition_index: int
    start_offset: int
    leader_epoch: int
    lag: int
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        partition_index: int = ...,
        start_offset: int = ...,
        leader_epoch: int = ...,
        lag: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class DescribeShareGroupOffsetsResponseTopic(Row):
    topic_name: str
    topic_id: bytes
    partitions: Many[DescribeShareGroupOffsetsResponsePartition, Sequence[DescribeShareGroupOffsetsResponsePartition]]
    def __init__(
        self,
        *,
        topic_name: str = ...,
        topic_id: bytes = ...,
        partitions: Rows[DescribeShareGroupOffsetsResponsePartition] = ...,
    ) -> None: ...

class DescribeShareGroupOffsetsResponseGroup(Row):
    group_id: str
    topics: Many[DescribeShareGroupOffsetsResponseTopic, Sequence[DescribeShareGroupOffsetsResponseTopic]]
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: Rows[DescribeShareGroupOffsetsResponseTopic] = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class DescribeShareGroupOffsetsResponse(Row):
    throttle_time_ms: int
    groups: Many[DescribeShareGroupOffsetsResponseGroup, Sequence[DescribeShareGroupOffsetsResponseGroup]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        groups: Rows[DescribeShareGroupOffsetsResponseGroup] = ...,
    ) -> None: ...

class DescribeShareGroupOffsetsRequestTopic(Row):
    topic_name: str
    partitions: Sequence[int]
    def __init__(
        self,
        *,
        topic_name: str = ...,
        partitions: Sequence[int] = ...,
    ) -> None: ...

class DescribeShareGroupOffsetsRequestGroup(Row):
    group_id: str
    topics: Many[DescribeShareGroupOffsetsRequestTopic, Sequence[DescribeShareGroupOffsetsRequestTopic] | None]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: Rows[DescribeShareGroupOffsetsRequestTopic] | None = ...,
    ) -> None: ...

class DescribeShareGroupOffsetsRequest(Row):
    groups: Many[DescribeShareGroupOffsetsRequestGroup, Sequence[DescribeShareGroupOffsetsRequestGroup]]
    def __init__(
        self,
        *,
        groups: Rows[DescribeShareGroupOffsetsRequestGroup] = ...,
    ) -> None: ...

DESCRIBE_SHARE_GROUP_OFFSETS: Api[DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse]
ALTER_SHARE_GROUP_OFFSETS: Api[AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse]
DELETE_SHARE_GROUP_OFFSETS: Api[DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse]
