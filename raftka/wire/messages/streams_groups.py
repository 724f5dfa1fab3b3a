"""Streams groups (KIP-1071, KIP-1331): StreamsGroupHeartbeat (88), StreamsGroupDescribe (89),
StreamsGroupTopologyDescriptionUpdate (93).
"""

from raftka.wire.schema import api, row_classes

STREAMS_GROUP_HEARTBEAT = api(
    "StreamsGroupHeartbeat",
    88,
    versions="0-1",
    flexible="0+",
    request="""
    group_id                    string
    member_id                   string              # the client's own
    member_epoch                int32               # 0 joins, -1 leaves, -2: a static member will be back
    endpoint_information_epoch  int32               # of the end points that the client knows
    instance_id                 string?             # this and what follows: null is as it was
    rack_id                     string?
    rebalance_timeout_ms        int32=-1
    topology Topology?                              # when joining
        epoch                   int32
        subtopologies Subtopology[]
            subtopology_id      string
            source_topics       string[]
            source_topic_regex  string[]
            state_changelog_topics TopicInfo[]
                name            string
                partitions      int32               # 0: as the topology needs
                replication_factor int16            # 0: the broker's default
                topic_configs TopicConfig[]
                    key         string
                    value       string
            repartition_sink_topics string[]
            repartition_source_topics TopicInfo[]
            copartition_groups CopartitionGroup[]   # places in the lists above
                source_topics   int16[]
                source_topic_regex int16[]
                repartition_source_topics int16[]
    active_tasks OwnedTaskIds[]?=null               # what the member owns
        subtopology_id          string
        partitions              int32[]
    standby_tasks               OwnedTaskIds[]?=null
    warmup_tasks                OwnedTaskIds[]?=null
    process_id                  string?
    user_endpoint MemberEndpoint?
        host                    string
        port                    uint16
    client_tags ClientTag[]?=null
        key                     string
        value                   string
    task_offsets OwnedTaskOffset[]?=null
        subtopology_id          string
        partition               int32
        offset                  int64
    task_end_offsets            OwnedTaskOffset[]?=null
    shutdown_application        bool
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    error_message               string?
    member_id                   string
    member_epoch                int32
    heartbeat_interval_ms       int32
    acceptable_recovery_lag_legacy int32    0
    task_offset_interval_ms     int32
    acceptable_recovery_lag     int64=-1    1+
    status Status[]?
        status_code             int8
        status_detail           string
    active_tasks TaskIds[]?=null                    # null: as it was
        subtopology_id          string
        partitions              int32[]
    standby_tasks               TaskIds[]?=null
    warmup_tasks                TaskIds[]?=null
    topology_description_required bool      1+ !
    endpoint_information_epoch  int32
    partitions_by_user_endpoint EndpointToPartitions[]?=null
        user_endpoint Endpoint
            host                string
            port                uint16
        active_partitions TopicPartition[]
            topic               string
            partitions          int32[]
        standby_partitions      TopicPartition[]
""",
)

STREAMS_GROUP_DESCRIBE = api(
    "StreamsGroupDescribe",
    89,
    versions="0-1",
    flexible="0+",
    request="""
    group_ids                   string[]
    include_authorized_operations bool
    include_topology_description bool       1+ !
""",
    response="""
    throttle_time_ms            int32
    groups DescribedGroup[]
        error_code              int16
        error_message           string?
        group_id                string
        group_state             string
        group_epoch             int32
        assignment_epoch        int32
        topology DescribedTopology?
            epoch               int32
            subtopologies DescribedSubtopology[]?=null
                subtopology_id  string
                source_topics   string[]
                repartition_sink_topics string[]
                state_changelog_topics DescribedTopicInfo[]
                    name        string
                    partitions  int32
                    replication_factor int16
                    topic_configs KeyValue[]
                        key     string
                        value   string
                repartition_source_topics DescribedTopicInfo[]
        members DescribedMember[]
            member_id           string
            member_epoch        int32
            instance_id         string?
            rack_id             string?
            client_id           string
            client_host         string
            topology_epoch      int32
            process_id          string
            user_endpoint DescribedEndpoint?
                host            string
                port            uint16
            client_tags         KeyValue[]
            task_offsets TaskOffset[]
                subtopology_id  string
                partition       int32
                offset          int64
            task_end_offsets    TaskOffset[]
            assignment Assignment
                active_tasks DescribedTaskIds[]
                    subtopology_id string
                    partitions  int32[]
                standby_tasks   DescribedTaskIds[]
                warmup_tasks    DescribedTaskIds[]
            target_assignment   Assignment
            is_classic          bool
        authorized_operations   int32=-2147483648
        topology_description TopologyDescription?   1+ !
            subtopologies DescriptionSubtopology[]
                subtopology_id  string
                nodes DescriptionNode[]
                    name        string
                    node_type   int8                # 1 source, 2 processor, 3 sink
                    source_topics string[]
                    sink_topic  string?
                    stores      string[]
                    successors  string[]
            global_stores DescriptionGlobalStore[]
                source          DescriptionNode
                processor       DescriptionNode
        topology_description_status int8    1+ !    # 0 not asked for, 1 none, 2 error, 3 there
        assignor_name           string?     1+
""",
)

STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = api(
    "StreamsGroupTopologyDescriptionUpdate",
    93,
    versions="0",
    flexible="0+",
    request="""
    group_id                    string
    member_id                   string
    topology_epoch              int32
    topology_description PushedTopologyDescription
        subtopologies PushedSubtopology[]
            subtopology_id      string
            nodes PushedNode[]
                name            string
                node_type       int8
                source_topics   string[]
                sink_topic      string?
                stores          string[]
                successors      string[]
        global_stores PushedGlobalStore[]
            source              PushedNode
            processor           PushedNode
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    error_message               string?
""",
)

__getattr__ = row_classes(
    STREAMS_GROUP_HEARTBEAT,
    STREAMS_GROUP_DESCRIBE,
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
)
