"""Consumer groups of the new protocol (KIP-848): ConsumerGroupHeartbeat (68), ConsumerGroupDescribe
(69).
"""

from raftka.wire.schema import api, row_classes

CONSUMER_GROUP_HEARTBEAT = api(
    "ConsumerGroupHeartbeat",
    68,
    versions="0-1",
    flexible="0+",
    request="""
    group_id                    string
    member_id                   string              # version 0: empty, and the coordinator makes one
    member_epoch                int32               # 0 joins, -1 leaves, -2: a static member will be back
    instance_id                 string?             # this and what follows: null is as it was
    rack_id                     string?
    rebalance_timeout_ms        int32=-1
    subscribed_topic_names      string[]?
    subscribed_topic_regex      string?     1+ !
    server_assignor             string?
    topic_partitions OwnedTopicPartitions[]?        # what the member owns
        topic_id                uuid
        partitions              int32[]
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    error_message               string?
    member_id                   string?
    member_epoch                int32
    heartbeat_interval_ms       int32
    assignment Assignment?                          # null: as it was
        topic_partitions TopicPartitions[]
            topic_id            uuid
            partitions          int32[]
""",
)

CONSUMER_GROUP_DESCRIBE = api(
    "ConsumerGroupDescribe",
    69,
    versions="0-1",
    flexible="0+",
    request="""
    group_ids                   string[]
    include_authorized_operations bool
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
        assignor_name           string
        members Member[]
            member_id           string
            instance_id         string?
            rack_id             string?
            member_epoch        int32
            client_id           string
            client_host         string
            subscribed_topic_names string[]
            subscribed_topic_regex string?
            assignment MemberAssignment
                topic_partitions MemberTopicPartitions[]
                    topic_id    uuid
                    topic_name  string
                    partitions  int32[]
            target_assignment   MemberAssignment
            member_type         int8=-1     1+      # 0 speaks the classic protocol, 1 the new one
        authorized_operations   int32=-2147483648
""",
)

__getattr__ = row_classes(CONSUMER_GROUP_HEARTBEAT, CONSUMER_GROUP_DESCRIBE)
