"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

UNKNOWN_OPERATIONS: int

class MetadataResponsePartition(Row):
    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: Sequence[int]
    isr_nodes: Sequence[int]
    offline_replicas: Sequence[int]
    def __init__(
        self,
        *,
        error_code: int = ...,
        partition_index: int = ...,
        leader_id: int = ...,
        leader_epoch: int = ...,
        replica_nodes: Sequence[int] = ...,
        isr_nodes: Sequence[int] = ...,
        offline_replicas: Sequence[int] = ...,
    ) -> None: ...

class MetadataResponseTopic(Row):
    error_code: int
    name: str | None
    topic_id: bytes
    is_internal: bool
    partitions: Many[MetadataResponsePartition, Sequence[MetadataResponsePartition]]
    topic_authorized_operations: int
    def __init__(
        self,
        *,
        error_code: int = ...,
        name: str | None = ...,
        topic_id: bytes = ...,
        is_internal: bool = ...,
        partitions: Rows[MetadataResponsePartition] = ...,
        topic_authorized_operations: int = ...,
    ) -> None: ...

class MetadataResponseBroker(Row):
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

class MetadataResponse(Row):
    throttle_time_ms: int
    brokers: Many[MetadataResponseBroker, Sequence[MetadataResponseBroker]]
    cluster_id: str | None
    controller_id: int
    topics: Many[MetadataResponseTopic, Sequence[MetadataResponseTopic]]
    cluster_authorized_operations: int
    error_code: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        brokers: Rows[MetadataResponseBroker] = ...,
        cluster_id: str | None = ...,
        controller_id: int = ...,
        topics: Rows[MetadataResponseTopic] = ...,
        cluster_authorized_operations: int = ...,
        error_code: int = ...,
    ) -> None: ...

class MetadataRequestTopic(Row):
    topic_id: bytes
    name: str | None
    def __init__(
        self,
        *,
        topic_id: bytes = ...,
        name: str | None = ...,
    ) -> None: ...

class MetadataRequest(Row):
    topics: Many[MetadataRequestTopic, Sequence[MetadataRequestTopic] | None]
    allow_auto_topic_creation: bool
    include_cluster_authorized_operations: bool
    include_topic_authorized_operations: bool
    def __init__(
        self,
        *,
        topics: Rows[MetadataRequestTopic] | None = ...,
        allow_auto_topic_creation: bool = ...,
        include_cluster_authorized_operations: bool = ...,
        include_topic_authorized_operations: bool = ...,
    ) -> None: ...

METADATA: Api[MetadataRequest, MetadataResponse]
