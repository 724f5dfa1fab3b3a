"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

class AlterReplicaLogDirPartitionResult(Row):
    partition_index: int
    error_code: int
    def __init__(
        self,
        *,
        partition_index: int = ...,
        error_code: int = ...,
    ) -> None: ...

class AlterReplicaLogDirTopicResult(Row):
    topic_name: str
    partitions: Many[AlterReplicaLogDirPartitionResult, Sequence[AlterReplicaLogDirPartitionResult]]
    def __init__(
        self,
        *,
        topic_name: str = ...,
        partitions: Rows[AlterReplicaLogDirPartitionResult] = ...,
    ) -> None: ...

class AlterReplicaLogDirsResponse(Row):
    throttle_time_ms: int
    results: Many[AlterReplicaLogDirTopicResult, Sequence[AlterReplicaLogDirTopicResult]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        results: Rows[AlterReplicaLogDirTopicResult] = ...,
    ) -> None: ...

class AlterReplicaLogDirTopic(Row):
    name: str
    partitions: Sequence[int]
    def __init__(
        self,
        *,
        name: str = ...,
        partitions: Sequence[int] = ...,
    ) -> None: ...

class AlterReplicaLogDir(Row):
    path: str
    topics: Many[AlterReplicaLogDirTopic, Sequence[AlterReplicaLogDirTopic]]
    def __init__(
        self,
        *,
        path: str = ...,
        topics: Rows[AlterReplicaLogDirTopic] = ...,
    ) -> None: ...

class AlterReplicaLogDirsRequest(Row):
    dirs: Many[AlterReplicaLogDir, Sequence[AlterReplicaLogDir]]
    def __init__(
        self,
        *,
        dirs: Rows[AlterReplicaLogDir] = ...,
    ) -> None: ...

class DescribeLogDirsPartition(Row):
    partition_index: int
    partition_size: int
    offset_lag: int
    is_future_key: bool
    def __init__(
        self,
        *,
        partition_index: int = ...,
        partition_size: int = ...,
        offset_lag: int = ...,
        is_future_key: bool = ...,
    ) -> None: ...

class DescribeLogDirsTopic(Row):
    name: str
    partitions: Many[DescribeLogDirsPartition, Sequence[DescribeLogDirsPartition]]
    def __init__(
        self,
        *,
        name: str = ...,
        partitions: Rows[DescribeLogDirsPartition] = ...,
    ) -> None: ...

class DescribeLogDirsResult(Row):
    error_code: int
    log_dir: str
    topics: Many[DescribeLogDirsTopic, Sequence[DescribeLogDirsTopic]]
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool
    def __init__(
        self,
        *,
        error_code: int = ...,
        log_dir: str = ...,
        topics: Rows[DescribeLogDirsTopic] = ...,
        total_bytes: int = ...,
        usable_bytes: int = ...,
        is_cordoned: bool = ...,
    ) -> None: ...

class DescribeLogDirsResponse(Row):
    throttle_time_ms: int
    error_code: int
    results: Many[DescribeLogDirsResult, Sequence[DescribeLogDirsResult]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        results: Rows[DescribeLogDirsResult] = ...,
    ) -> None: ...

class DescribableLogDirTopic(Row):
    topic: str
    partitions: Sequence[int]
    def __init__(
        self,
        *,
        topic: str = ...,
        partitions: Sequence[int] = ...,
    ) -> None: ...

class DescribeLogDirsRequest(Row):
    topics: Many[DescribableLogDirTopic, Sequence[DescribableLogDirTopic] | None]
    def __init__(
        self,
        *,
        topics: Rows[DescribableLogDirTopic] | None = ...,
    ) -> None: ...

DESCRIBE_LOG_DIRS: Api[DescribeLogDirsRequest, DescribeLogDirsResponse]
ALTER_REPLICA_LOG_DIRS: Api[AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse]
