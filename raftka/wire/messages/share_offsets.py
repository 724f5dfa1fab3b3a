"""The start offsets of share groups, for administrators (KIP-932): DescribeShareGroupOffsets (90),
AlterShareGroupOffsets (91), DeleteShareGroupOffsets (92).
"""

from raftka.wire.schema import api, row_classes

DESCRIBE_SHARE_GROUP_OFFSETS = api(
    "DescribeShareGroupOffsets",
    90,
    versions="0-1",
    flexible="0+",
    request="""
    groups DescribeShareGroupOffsetsRequestGroup[]
        group_id                string
        topics DescribeShareGroupOffsetsRequestTopic[]? # null: all
            topic_name          string
            partitions          int32[]
""",
    response="""
    throttle_time_ms            int32
    groups DescribeShareGroupOffsetsResponseGroup[]
        group_id                string
        topics DescribeShareGroupOffsetsResponseTopic[]
            topic_name          string
            topic_id            uuid
            partitions DescribeShareGroupOffsetsResponsePartition[]
                partition_index int32
                start_offset    int64
                leader_epoch    int32
                lag             int64=-1    1+
                error_code      int16
                error_message   string?
        error_code              int16
        error_message           string?
""",
)

ALTER_SHARE_GROUP_OFFSETS = api(
    "AlterShareGroupOffsets",
    91,
    versions="0",
    flexible="0+",
    request="""
    group_id                    string
    topics AlterShareGroupOffsetsRequestTopic[]
        topic_name              string
        partitions AlterShareGroupOffsetsRequestPartition[]
            partition_index     int32
            start_offset        int64
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    error_message               string?
    responses AlterShareGroupOffsetsResponseTopic[]
        topic_name              string
        topic_id                uuid
        partitions AlterShareGroupOffsetsResponsePartition[]
            partition_index     int32
            error_code          int16
            error_message       string?
""",
)

DELETE_SHARE_GROUP_OFFSETS = api(
    "DeleteShareGroupOffsets",
    92,
    versions="0",
    flexible="0+",
    request="""
    group_id                    string
    topics DeleteShareGroupOffsetsRequestTopic[]
        topic_name              string
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    error_message               string?
    responses DeleteShareGroupOffsetsResponseTopic[]
        topic_name              string
        topic_id                uuid
        error_code              int16
        error_message           string?
""",
)

__getattr__ = row_classes(
    DESCRIBE_SHARE_GROUP_OFFSETS, ALTER_SHARE_GROUP_OFFSETS, DELETE_SHARE_GROUP_OFFSETS
)
