"""Share groups (KIP-932): ShareGroupHeartbeat (76), ShareGroupDescribe (77)."""

from raftka.wire.schema import api, row_classes

SHARE_GROUP_HEARTBEAT = api(
    "ShareGroupHeartbeat",
    76,
    versions="1",
    flexible="0+",
    request="""
    group_id                    string
    member_id                   string              # the client makes it
    member_epoch                int32               # 0 joins, -1 leaves
    rack_id                     string?             # this and what follows: null is as it was
    subscribed_topic_names      string[]?
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

SHARE_GROUP_DESCRIBE = api(
    "ShareGroupDescribe",
    77,
    versions="1",
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
            rack_id             string?
            member_epoch        int32
            client_id           string
            client_host         string
            subscribed_topic_names string[]
            assignment MemberAssignment
                topic_partitions MemberTopicPartitions[]
                    topic_id    uuid
                    topic_name  string
                    partitions  int32[]
        authorized_operations   int32=-2147483648
""",
)

__getattr__ = row_classes(SHARE_GROUP_HEARTBEAT, SHARE_GROUP_DESCRIBE)
