"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

class DeletableTopicResult(Row):
    name: str | None
    topic_id: bytes
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        name: str | None = ...,
        topic_id: bytes = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class DeleteTopicsResponse(Row):
    throttle_time_ms: int
    responses: Many[DeletableTopicResult, Sequence[DeletableTopicResult]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        responses: Rows[DeletableTopicResult] = ...,
    ) -> None: ...

class DeleteTopicState(Row):
    name: str | None
    topic_id: bytes
    def __init__(
        self,
        *,
        name: str | None = ...,
        topic_id: bytes = ...,
    ) -> None: ...

class DeleteTopicsRequest(Row):
    topics: Many[DeleteTopicState, Sequence[DeleteTopicState]]
    topic_names: Sequence[str]
    timeout_ms: int
    def __init__(
        self,
        *,
        topics: Rows[DeleteTopicState] = ...,
        topic_names: Sequence[str] = ...,
        timeout_ms: int = ...,
    ) -> None: ...

class CreatableTopicConfigs(Row):
    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool
    def __init__(
        self,
        *,
        name: str = ...,
        value: str | None = ...,
        read_only: bool = ...,
        config_source: int = ...,
        is_sensitive: bool = ...,
    ) -> None: ...

class CreatableTopicResult(Row):
    name: str
    topic_id: bytes
    error_code: int
    error_message: str | None
    topic_config_error_code: int
    num_partitions: int
    replication_factor: int
    configs: Many[CreatableTopicConfigs, Sequence[CreatableTopicConfigs] | None]
    def __init__(
        self,
        *,
        name: str = ...,
        topic_id: bytes = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        topic_config_error_code: int = ...,
        num_partitions: int = ...,
        replication_factor: int = ...,
        configs: Rows[CreatableTopicConfigs] | None = ...,
    ) -> None: ...

class CreateTopicsResponse(Row):
    throttle_time_ms: int
    topics: Many[CreatableTopicResult, Sequence[CreatableTopicResult]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: Rows[CreatableTopicResult] = ...,
    ) -> None: ...

class CreatableTopicConfig(Row):
    name: str
    value: str | None
    def __init__(
        self,
        *,
        name: str = ...,
        value: str | None = ...,
    ) -> None: ...

class CreatableReplicaAssignment(Row):
    partition_index: int
    broker_ids: Sequence[int]
    def __init__(
        self,
        *,
        partition_index: int = ...,
        broker_ids: Sequence[int] = ...,
    ) -> None: ...

class CreatableTopic(Row):
    name: str
    num_partitions: int
    replication_factor: int
    assignments: Many[CreatableReplicaAssignment, Sequence[CreatableReplicaAssignment]]
    configs: Many[CreatableTopicConfig, Sequence[CreatableTopicConfig]]
    def __init__(
        self,
        *,
        name: str = ...,
        num_partitions: int = ...,
        replication_factor: int = ...,
        assignments: Rows[CreatableReplicaAssignment] = ...,
        configs: Rows[CreatableTopicConfig] = ...,
    ) -> None: ...

class CreateTopicsRequest(Row):
    topics: Many[CreatableTopic, Sequence[CreatableTopic]]
    timeout_ms: int
    validate_only: bool
    def __init__(
        self,
        *,
        topics: Rows[CreatableTopic] = ...,
        timeout_ms: int = ...,
        validate_only: bool = ...,
    ) -> None: ...

CREATE_TOPICS: Api[CreateTopicsRequest, CreateTopicsResponse]
DELETE_TOPICS: Api[DeleteTopicsRequest, DeleteTopicsResponse]
