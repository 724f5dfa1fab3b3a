"""DescribeTopicPartitions (75): Metadata a page at a time (KIP-966)."""

from raftka.wire.schema import api, row_classes

DESCRIBE_TOPIC_PARTITIONS = api(
    "DescribeTopicPartitions",
    75,
    versions="0",
    flexible="0+",
    request="""
    topics TopicRequest[]                   # none: all
        name                    string
    response_partition_limit    int32=2000
    cursor Cursor?
        topic_name              string
        partition_index         int32
""",
    response="""
    throttle_time_ms            int32
    topics DescribeTopicPartitionsResponseTopic[]
        error_code              int16
        name                    string?
        topic_id                uuid
        is_internal             bool
        partitions DescribeTopicPartitionsResponsePartition[]
            error_code          int16
            partition_index     int32
            leader_id           int32
            leader_epoch        int32=-1
            replica_nodes       int32[]
            isr_nodes           int32[]
            eligible_leader_replicas int32[]?=null
            last_known_elr      int32[]?=null
            offline_replicas    int32[]
        topic_authorized_operations int32=-2147483648
    next_cursor NextCursor?
        topic_name              string
        partition_index         int32
""",
)

__getattr__ = row_classes(DESCRIBE_TOPIC_PARTITIONS)
