"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

class BackupDropResponse(Row):
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class BackupDropRequest(Row):
    backup_id: str
    def __init__(
        self,
        *,
        backup_id: str = ...,
    ) -> None: ...

class BackupReadResponse(Row):
    error_code: int
    error_message: str | None
    data: bytes
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
        data: bytes = ...,
    ) -> None: ...

class BackupReadRequest(Row):
    backup_id: str
    path: str
    position: int
    max_bytes: int
    def __init__(
        self,
        *,
        backup_id: str = ...,
        path: str = ...,
        position: int = ...,
        max_bytes: int = ...,
    ) -> None: ...

class BackupMetadataResponse(Row):
    error_code: int
    error_message: str | None
    image: bytes
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
        image: bytes = ...,
    ) -> None: ...

class BackupMetadataRequest(Row): ...

class BackupCutSegment(Row):
    base_offset: int
    size: int
    path: str
    def __init__(
        self,
        *,
        base_offset: int = ...,
        size: int = ...,
        path: str = ...,
    ) -> None: ...

class BackupCutPartitionResult(Row):
    index: int
    error_code: int
    at_least: int
    leader_epoch: int
    start_offset: int
    end_offset: int
    segments: Many[BackupCutSegment, Sequence[BackupCutSegment]]
    def __init__(
        self,
        *,
        index: int = ...,
        error_code: int = ...,
        at_least: int = ...,
        leader_epoch: int = ...,
        start_offset: int = ...,
        end_offset: int = ...,
        segments: Rows[BackupCutSegment] = ...,
    ) -> None: ...

class BackupCutTopicResult(Row):
    name: str
    partitions: Many[BackupCutPartitionResult, Sequence[BackupCutPartitionResult]]
    def __init__(
        self,
        *,
        name: str = ...,
        partitions: Rows[BackupCutPartitionResult] = ...,
    ) -> None: ...

class BackupCutResponse(Row):
    error_code: int
    error_message: str | None
    topics: Many[BackupCutTopicResult, Sequence[BackupCutTopicResult]]
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
        topics: Rows[BackupCutTopicResult] = ...,
    ) -> None: ...

class BackupCutPartition(Row):
    index: int
    at_least: int
    def __init__(
        self,
        *,
        index: int = ...,
        at_least: int = ...,
    ) -> None: ...

class BackupCutTopic(Row):
    name: str
    partitions: Many[BackupCutPartition, Sequence[BackupCutPartition]]
    def __init__(
        self,
        *,
        name: str = ...,
        partitions: Rows[BackupCutPartition] = ...,
    ) -> None: ...

class BackupCutRequest(Row):
    backup_id: str
    topics: Many[BackupCutTopic, Sequence[BackupCutTopic]]
    def __init__(
        self,
        *,
        backup_id: str = ...,
        topics: Rows[BackupCutTopic] = ...,
    ) -> None: ...

class BackupHoldResponse(Row):
    error_code: int
    error_message: str | None
    held: bool
    pending: int
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
        held: bool = ...,
        pending: int = ...,
    ) -> None: ...

class BackupHoldRequest(Row):
    backup_id: str
    hold_ms: int
    def __init__(
        self,
        *,
        backup_id: str = ...,
        hold_ms: int = ...,
    ) -> None: ...

BACKUP_HOLD: Api[BackupHoldRequest, BackupHoldResponse]
BACKUP_CUT: Api[BackupCutRequest, BackupCutResponse]
BACKUP_METADATA: Api[BackupMetadataRequest, BackupMetadataResponse]
BACKUP_READ: Api[BackupReadRequest, BackupReadResponse]
BACKUP_DROP: Api[BackupDropRequest, BackupDropResponse]
