"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, One, Rows
from raftka.wire.schema import Api, Row

class StreamsGroupTopologyDescriptionUpdateResponse(Row):
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

class PushedGlobalStore(Row):
    source: One[PushedNode, PushedNode]
    processor: One[PushedNode, PushedNode]
    def __init__(
        self,
        *,
        source: PushedNode = ...,
        processor: PushedNode = ...,
    ) -> None: ...

class PushedNode(Row):
    name: str
    node_type: int
    source_topics: Sequence[str]
    sink_topic: str | None
    stores: Sequence[str]
    successors: Sequence[str]
    def __init__(
        self,
        *,
        name: str = ...,
        node_type: int = ...,
        source_topics: Sequence[str] = ...,
        sink_topic: str | None = ...,
        stores: Sequence[str] = ...,
        successors: Sequence[str] = ...,
    ) -> None: ...

class PushedSubtopology(Row):
    subtopology_id: str
    nodes: Many[PushedNode, Sequence[PushedNode]]
    def __init__(
        self,
        *,
        subtopology_id: str = ...,
        nodes: Rows[PushedNode] = ...,
    ) -> None: ...

class PushedTopologyDescription(Row):
    subtopologies: Many[PushedSubtopology, Sequence[PushedSubtopology]]
    global_stores: Many[PushedGlobalStore, Sequence[PushedGlobalStore]]
    def __init__(
        self,
        *,
        subtopologies: Rows[PushedSubtopology] = ...,
        global_stores: Rows[PushedGlobalStore] = ...,
    ) -> None: ...

class StreamsGroupTopologyDescriptionUpdateRequest(Row):
    group_id: str
    member_id: str
    topology_epoch: int
    topology_description: One[PushedTopologyDescription, PushedTopologyDescription]
    def __init__(
        self,
        *,
        group_id: str = ...,
        member_id: str = ...,
        topology_epoch: int = ...,
        topology_description: PushedTopologyDescription = ...,
    ) -> None: ...

class DescriptionGlobalStore(Row):
    source: One[DescriptionNode, DescriptionNode]
    processor: One[DescriptionNode, DescriptionNode]
    def __init__(
        self,
        *,
        source: DescriptionNode = ...,
        processor: DescriptionNode = ...,
    ) -> None: ...

class DescriptionNode(Row):
    name: str
    node_type: int
    source_topics: Sequence[str]
    sink_topic: str | None
    stores: Sequence[str]
    successors: Sequence[str]
    def __init__(
        self,
        *,
        name: str = ...,
        node_type: int = ...,
        source_topics: Sequence[str] = ...,
        sink_topic: str | None = ...,
        stores: Sequence[str] = ...,
        successors: Sequence[str] = ...,
    ) -> None: ...

class DescriptionSubtopology(Row):
    subtopology_id: str
    nodes: Many[DescriptionNode, Sequence[DescriptionNode]]
    def __init__(
        self,
        *,
        subtopology_id: str = ...,
        nodes: Rows[DescriptionNode] = ...,
    ) -> None: ...

class TopologyDescription(Row):
    subtopologies: Many[DescriptionSubtopology, Sequence[DescriptionSubtopology]]
    global_stores: Many[DescriptionGlobalStore, Sequence[DescriptionGlobalStore]]
    def __init__(
        self,
        *,
        subtopologies: Rows[DescriptionSubtopology] = ...,
        global_stores: Rows[DescriptionGlobalStore] = ...,
    ) -> None: ...

class DescribedTaskIds(Row):
    subtopology_id: str
    partitions: Sequence[int]
    def __init__(
        self,
        *,
        subtopology_id: str = ...,
        partitions: Sequence[int] = ...,
    ) -> None: ...

class Assignment(Row):
    active_tasks: Many[DescribedTaskIds, Sequence[DescribedTaskIds]]
    standby_tasks: Many[DescribedTaskIds, Sequence[DescribedTaskIds]]
    warmup_tasks: Many[DescribedTaskIds, Sequence[DescribedTaskIds]]
    def __init__(
        self,
        *,
        active_tasks: Rows[DescribedTaskIds] = ...,
        standby_tasks: Rows[DescribedTaskIds] = ...,
        warmup_tasks: Rows[DescribedTaskIds] = ...,
    ) -> None: ...

class TaskOffset(Row):
    subtopology_id: str
    partition: int
    offset: int
    def __init__(
        self,
        *,
        subtopology_id: str = ...,
        partition: int = ...,
        offset: int = ...,
    ) -> None: ...

class DescribedEndpoint(Row):
    host: str
    port: int
    def __init__(
        self,
        *,
        host: str = ...,
        port: int = ...,
    ) -> None: ...

class DescribedMember(Row):
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topology_epoch: int
    process_id: str
    user_endpoint: One[DescribedEndpoint, DescribedEndpoint | None]
    client_tags: Many[KeyValue, Sequence[KeyValue]]
    task_offsets: Many[TaskOffset, Sequence[TaskOffset]]
    task_end_offsets: Many[TaskOffset, Sequence[TaskOffset]]
    assignment: One[Assignment, Assignment]
    target_assignment: One[Assignment, Assignment]
    is_classic: bool
    def __init__(
        self,
        *,
        member_id: str = ...,
        member_epoch: int = ...,
        instance_id: str | None = ...,
        rack_id: str | None = ...,
        client_id: str = ...,
        client_host: str = ...,
        topology_epoch: int = ...,
        process_id: str = ...,
        user_endpoint: DescribedEndpoint | None = ...,
        client_tags: Rows[KeyValue] = ...,
        task_offsets: Rows[TaskOffset] = ...,
        task_end_offsets: Rows[TaskOffset] = ...,
        assignment: Assignment = ...,
        target_assignment: Assignment = ...,
        is_classic: bool = ...,
    ) -> None: ...

class KeyValue(Row):
    key: str
    value: str
    def __init__(
        self,
        *,
        key: str = ...,
        value: str = ...,
    ) -> None: ...

class DescribedTopicInfo(Row):
    name: str
    partitions: int
    replication_factor: int
    topic_configs: Many[KeyValue, Sequence[KeyValue]]
    def __init__(
        self,
        *,
        name: str = ...,
        partitions: int = ...,
        replication_factor: int = ...,
        topic_configs: Rows[KeyValue] = ...,
    ) -> None: ...

class DescribedSubtopology(Row):
    subtopology_id: str
    source_topics: Sequence[str]
    repartition_sink_topics: Sequence[str]
    state_changelog_topics: Many[DescribedTopicInfo, Sequence[DescribedTopicInfo]]
    repartition_source_topics: Many[DescribedTopicInfo, Sequence[DescribedTopicInfo]]
    def __init__(
        self,
        *,
        subtopology_id: str = ...,
        source_topics: Sequence[str] = ...,
        repartition_sink_topics: Sequence[str] = ...,
        state_changelog_topics: Rows[DescribedTopicInfo] = ...,
        repartition_source_topics: Rows[DescribedTopicInfo] = ...,
    ) -> None: ...

class DescribedTopology(Row):
    epoch: int
    subtopologies: Many[DescribedSubtopology, Sequence[DescribedSubtopology] | None]
    def __init__(
        self,
        *,
        epoch: int = ...,
        subtopologies: Rows[DescribedSubtopology] | None = ...,
    ) -> None: ...

class DescribedGroup(Row):
    error_code: int
    error_message: str | None
    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    topology: One[DescribedTopology, DescribedTopology | None]
    members: Many[DescribedMember, Sequence[DescribedMember]]
    authorized_operations: int
    topology_description: One[TopologyDescription, TopologyDescription | None]
    topology_description_status: int
    assignor_name: str | None
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
        group_id: str = ...,
        group_state: str = ...,
        group_epoch: int = ...,
        assignment_epoch: int = ...,
        topology: DescribedTopology | None = ...,
        members: Rows[DescribedMember] = ...,
        authorized_operations: int = ...,
        topology_description: TopologyDescription | None = ...,
        topology_description_status: int = ...,
        assignor_name: str | None = ...,
    ) -> None: ...

class StreamsGroupDescribeResponse(Row):
    throttle_time_ms: int
    groups: Many[DescribedGroup, Sequence[DescribedGroup]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        groups: Rows[DescribedGroup] = ...,
    ) -> None: ...

class StreamsGroupDescribeRequest(Row):
    group_ids: Sequence[str]
    include_authorized_operations: bool
    include_topology_description: bool
    def __init__(
        self,
        *,
        group_ids: Sequence[str] = ...,
        include_authorized_operations: bool = ...,
        include_topology_description: bool = ...,
    ) -> None: ...

class TopicPartition(Row):
    topic: str
    partitions: Sequence[int]
    def __init__(
        self,
        *,
        topic: str = ...,
        partitions: Sequence[int] = ...,
    ) -> None: ...

class Endpoint(Row):
    host: str
    port: int
    def __init__(
        self,
        *,
        host: str = ...,
        port: int = ...,
    ) -> None: ...

class EndpointToPartitions(Row):
    user_endpoint: One[Endpoint, Endpoint]
    active_partitions: Many[TopicPartition, Sequence[TopicPartition]]
    standby_partitions: Many[TopicPartition, Sequence[TopicPartition]]
    def __init__(
        self,
        *,
        user_endpoint: Endpoint = ...,
        active_partitions: Rows[TopicPartition] = ...,
        standby_partitions: Rows[TopicPartition] = ...,
    ) -> None: ...

class TaskIds(Row):
    subtopology_id: str
    partitions: Sequence[int]
    def __init__(
        self,
        *,
        subtopology_id: str = ...,
        partitions: Sequence[int] = ...,
    ) -> None: ...

class Status(Row):
    status_code: int
    status_detail: str
    def __init__(
        self,
        *,
        status_code: int = ...,
        status_detail: str = ...,
    ) -> None: ...

class StreamsGroupHeartbeatResponse(Row):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    acceptable_recovery_lag_legacy: int
    task_offset_interval_ms: int
    acceptable_recovery_lag: int
    status: Many[Status, Sequence[Status] | None]
    active_tasks: Many[TaskIds, Sequence[TaskIds] | None]
    standby_tasks: Many[TaskIds, Sequence[TaskIds] | None]
    warmup_tasks: Many[TaskIds, Sequence[TaskIds] | None]
    topology_description_required: bool
    endpoint_information_epoch: int
    partitions_by_user_endpoint: Many[EndpointToPartitions, Sequence[EndpointToPartitions] | None]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        member_id: str = ...,
        member_epoch: int = ...,
        heartbeat_interval_ms: int = ...,
        acceptable_recovery_lag_legacy: int = ...,
        task_offset_interval_ms: int = ...,
        acceptable_recovery_lag: int = ...,
        status: Rows[Status] | None = ...,
        active_tasks: Rows[TaskIds] | None = ...,
        standby_tasks: Rows[TaskIds] | None = ...,
        warmup_tasks: Rows[TaskIds] | None = ...,
        topology_description_required: bool = ...,
        endpoint_information_epoch: int = ...,
        partitions_by_user_endpoint: Rows[EndpointToPartitions] | None = ...,
    ) -> None: ...

class OwnedTaskOffset(Row):
    subtopology_id: str
    partition: int
    offset: int
    def __init__(
        self,
        *,
        subtopology_id: str = ...,
        partition: int = ...,
        offset: int = ...,
    ) -> None: ...

class ClientTag(Row):
    key: str
    value: str
    def __init__(
        self,
        *,
        key: str = ...,
        value: str = ...,
    ) -> None: ...

class MemberEndpoint(Row):
    host: str
    port: int
    def __init__(
        self,
        *,
        host: str = ...,
        port: int = ...,
    ) -> None: ...

class OwnedTaskIds(Row):
    subtopology_id: str
    partitions: Sequence[int]
    def __init__(
        self,
        *,
        subtopology_id: str = ...,
        partitions: Sequence[int] = ...,
    ) -> None: ...

class CopartitionGroup(Row):
    source_topics: Sequence[int]
    source_topic_regex: Sequence[int]
    repartition_source_topics: Sequence[int]
    def __init__(
        self,
        *,
        source_topics: Sequence[int] = ...,
        source_topic_regex: Sequence[int] = ...,
        repartition_source_topics: Sequence[int] = ...,
    ) -> None: ...

class TopicConfig(Row):
    key: str
    value: str
    def __init__(
        self,
        *,
        key: str = ...,
        value: str = ...,
    ) -> None: ...

class TopicInfo(Row):
    name: str
    partitions: int
    replication_factor: int
    topic_configs: Many[TopicConfig, Sequence[TopicConfig]]
    def __init__(
        self,
        *,
        name: str = ...,
        partitions: int = ...,
        replication_factor: int = ...,
        topic_configs: Rows[TopicConfig] = ...,
    ) -> None: ...

class Subtopology(Row):
    subtopology_id: str
    source_topics: Sequence[str]
    source_topic_regex: Sequence[str]
    state_changelog_topics: Many[TopicInfo, Sequence[TopicInfo]]
    repartition_sink_topics: Sequence[str]
    repartition_source_topics: Many[TopicInfo, Sequence[TopicInfo]]
    copartition_groups: Many[CopartitionGroup, Sequence[CopartitionGroup]]
    def __init__(
        self,
        *,
        subtopology_id: str = ...,
        source_topics: Sequence[str] = ...,
        source_topic_regex: Sequence[str] = ...,
        state_changelog_topics: Rows[TopicInfo] = ...,
        repartition_sink_topics: Sequence[str] = ...,
        repartition_source_topics: Rows[TopicInfo] = ...,
        copartition_groups: Rows[CopartitionGroup] = ...,
    ) -> None: ...

class Topology(Row):
    epoch: int
    subtopologies: Many[Subtopology, Sequence[Subtopology]]
    def __init__(
        self,
        *,
        epoch: int = ...,
        subtopologies: Rows[Subtopology] = ...,
    ) -> None: ...

class StreamsGroupHeartbeatRequest(Row):
    group_id: str
    member_id: str
    member_epoch: int
    endpoint_information_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topology: One[Topology, Topology | None]
    active_tasks: Many[OwnedTaskIds, Sequence[OwnedTaskIds] | None]
    standby_tasks: Many[OwnedTaskIds, Sequence[OwnedTaskIds] | None]
    warmup_tasks: Many[OwnedTaskIds, Sequence[OwnedTaskIds] | None]
    process_id: str | None
    user_endpoint: One[MemberEndpoint, MemberEndpoint | None]
    client_tags: Many[ClientTag, Sequence[ClientTag] | None]
    task_offsets: Many[OwnedTaskOffset, Sequence[OwnedTaskOffset] | None]
    task_end_offsets: Many[OwnedTaskOffset, Sequence[OwnedTaskOffset] | None]
    shutdown_application: bool
    def __init__(
        self,
        *,
        group_id: str = ...,
        member_id: str = ...,
        member_epoch: int = ...,
        endpoint_information_epoch: int = ...,
        instance_id: str | None = ...,
        rack_id: str | None = ...,
        rebalance_timeout_ms: int = ...,
        topology: Topology | None = ...,
        active_tasks: Rows[OwnedTaskIds] | None = ...,
        standby_tasks: Rows[OwnedTaskIds] | None = ...,
        warmup_tasks: Rows[OwnedTaskIds] | None = ...,
        process_id: str | None = ...,
        user_endpoint: MemberEndpoint | None = ...,
        client_tags: Rows[ClientTag] | None = ...,
        task_offsets: Rows[OwnedTaskOffset] | None = ...,
        task_end_offsets: Rows[OwnedTaskOffset] | None = ...,
        shutdown_application: bool = ...,
    ) -> None: ...

STREAMS_GROUP_HEARTBEAT: Api[StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse]
STREAMS_GROUP_DESCRIBE: Api[StreamsGroupDescribeRequest, StreamsGroupDescribeResponse]
STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: Api[StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse]
