"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, One, Rows
from raftka.wire.schema import Api, Row

class CurrentLeader(Row):
    leader_id: int
    leader_epoch: int
    host: str
    port: int
    def __init__(
        self,
        *,
        leader_id: int = ...,
        leader_epoch: int = ...,
        host: str = ...,
        port: int = ...,
    ) -> None: ...

class UpdateRaftVoterResponse(Row):
    throttle_time_ms: int
    error_code: int
    current_leader: One[CurrentLeader, CurrentLeader]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        current_leader: CurrentLeader = ...,
    ) -> None: ...

class KRaftVersionFeature(Row):
    min_supported_version: int
    max_supported_version: int
    def __init__(
        self,
        *,
        min_supported_version: int = ...,
        max_supported_version: int = ...,
    ) -> None: ...

class VoterListener(Row):
    name: str
    host: str
    port: int
    def __init__(
        self,
        *,
        name: str = ...,
        host: str = ...,
        port: int = ...,
    ) -> None: ...

class UpdateRaftVoterRequest(Row):
    cluster_id: str | None
    current_leader_epoch: int
    voter_id: int
    voter_directory_id: bytes
    listeners: Many[VoterListener, Sequence[VoterListener]]
    k_raft_version_feature: One[KRaftVersionFeature, KRaftVersionFeature]
    def __init__(
        self,
        *,
        cluster_id: str | None = ...,
        current_leader_epoch: int = ...,
        voter_id: int = ...,
        voter_directory_id: bytes = ...,
        listeners: Rows[VoterListener] = ...,
        k_raft_version_feature: KRaftVersionFeature = ...,
    ) -> None: ...

class RemoveRaftVoterResponse(Row):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class RemoveRaftVoterRequest(Row):
    cluster_id: str | None
    voter_id: int
    voter_directory_id: bytes
    def __init__(
        self,
        *,
        cluster_id: str | None = ...,
        voter_id: int = ...,
        voter_directory_id: bytes = ...,
    ) -> None: ...

class AddRaftVoterResponse(Row):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class Endpoint(Row):
    name: str
    host: str
    port: int
    def __init__(
        self,
        *,
        name: str = ...,
        host: str = ...,
        port: int = ...,
    ) -> None: ...

class AddRaftVoterRequest(Row):
    cluster_id: str | None
    timeout_ms: int
    voter_id: int
    voter_directory_id: bytes
    listeners: Many[Endpoint, Sequence[Endpoint]]
    ack_when_committed: bool
    def __init__(
        self,
        *,
        cluster_id: str | None = ...,
        timeout_ms: int = ...,
        voter_id: int = ...,
        voter_directory_id: bytes = ...,
        listeners: Rows[Endpoint] = ...,
        ack_when_committed: bool = ...,
    ) -> None: ...

class UpdatableFeatureResult(Row):
    feature: str
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        feature: str = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class UpdateFeaturesResponse(Row):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    results: Many[UpdatableFeatureResult, Sequence[UpdatableFeatureResult]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        results: Rows[UpdatableFeatureResult] = ...,
    ) -> None: ...

class FeatureUpdateKey(Row):
    feature: str
    max_version_level: int
    allow_downgrade: bool
    upgrade_type: int
    def __init__(
        self,
        *,
        feature: str = ...,
        max_version_level: int = ...,
        allow_downgrade: bool = ...,
        upgrade_type: int = ...,
    ) -> None: ...

class UpdateFeaturesRequest(Row):
    timeout_ms: int
    feature_updates: Many[FeatureUpdateKey, Sequence[FeatureUpdateKey]]
    validate_only: bool
    def __init__(
        self,
        *,
        timeout_ms: int = ...,
        feature_updates: Rows[FeatureUpdateKey] = ...,
        validate_only: bool = ...,
    ) -> None: ...

class Listener(Row):
    name: str
    host: str
    port: int
    def __init__(
        self,
        *,
        name: str = ...,
        host: str = ...,
        port: int = ...,
    ) -> None: ...

class Node(Row):
    node_id: int
    listeners: Many[Listener, Sequence[Listener]]
    def __init__(
        self,
        *,
        node_id: int = ...,
        listeners: Rows[Listener] = ...,
    ) -> None: ...

class ReplicaState(Row):
    replica_id: int
    replica_directory_id: bytes
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int
    def __init__(
        self,
        *,
        replica_id: int = ...,
        replica_directory_id: bytes = ...,
        log_end_offset: int = ...,
        last_fetch_timestamp: int = ...,
        last_caught_up_timestamp: int = ...,
    ) -> None: ...

class PartitionData(Row):
    partition_index: int
    error_code: int
    error_message: str | None
    leader_id: int
    leader_epoch: int
    high_watermark: int
    current_voters: Many[ReplicaState, Sequence[ReplicaState]]
    observers: Many[ReplicaState, Sequence[ReplicaState]]
    def __init__(
        self,
        *,
        partition_index: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        leader_id: int = ...,
        leader_epoch: int = ...,
        high_watermark: int = ...,
        current_voters: Rows[ReplicaState] = ...,
        observers: Rows[ReplicaState] = ...,
    ) -> None: ...

class TopicData(Row):
    topic_name: str
    partitions: Many[PartitionData, Sequence[PartitionData]]
    def __init__(
        self,
        *,
        topic_name: str = ...,
        partitions: Rows[PartitionData] = ...,
    ) -> None: ...

class DescribeQuorumResponse(Row):
    error_code: int
    error_message: str | None
    topics: Many[TopicData, Sequence[TopicData]]
    nodes: Many[Node, Sequence[Node]]
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
        topics: Rows[TopicData] = ...,
        nodes: Rows[Node] = ...,
    ) -> None: ...

class RequestPartitionData(Row):
    partition_index: int
    def __init__(
        self,
        *,
        partition_index: int = ...,
    ) -> None: ...

class RequestTopicData(Row):
    topic_name: str
    partitions: Many[RequestPartitionData, Sequence[RequestPartitionData]]
    def __init__(
        self,
        *,
        topic_name: str = ...,
        partitions: Rows[RequestPartitionData] = ...,
    ) -> None: ...

class DescribeQuorumRequest(Row):
    topics: Many[RequestTopicData, Sequence[RequestTopicData]]
    def __init__(
        self,
        *,
        topics: Rows[RequestTopicData] = ...,
    ) -> None: ...

DESCRIBE_QUORUM: Api[DescribeQuorumRequest, DescribeQuorumResponse]
UPDATE_FEATURES: Api[UpdateFeaturesRequest, UpdateFeaturesResponse]
ADD_RAFT_VOTER: Api[AddRaftVoterRequest, AddRaftVoterResponse]
REMOVE_RAFT_VOTER: Api[RemoveRaftVoterRequest, RemoveRaftVoterResponse]
UPDATE_RAFT_VOTER: Api[UpdateRaftVoterRequest, UpdateRaftVoterResponse]
