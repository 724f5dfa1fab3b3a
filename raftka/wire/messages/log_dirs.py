"""DescribeLogDirs (35) and AlterReplicaLogDirs (34): the replicas in each log directory of a
broker, and moving them to others.
"""

from raftka.wire.schema import api, row_classes

DESCRIBE_LOG_DIRS = api(
    "DescribeLogDirs",
    35,
    versions="1-5",
    flexible="2+",
    request="""
    topics DescribableLogDirTopic[]?            # null: all
        topic                   string
        partitions              int32[]
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16       3+
    results DescribeLogDirsResult[]
        error_code              int16
        log_dir                 string
        topics DescribeLogDirsTopic[]
            name                string
            partitions DescribeLogDirsPartition[]
                partition_index int32
                partition_size  int64           # bytes
                offset_lag      int64           # behind the high watermark, or of a future replica behind the present one
                is_future_key   bool
        total_bytes             int64=-1    4+
        usable_bytes            int64=-1    4+
        is_cordoned             bool        5+
""",
)

ALTER_REPLICA_LOG_DIRS = api(
    "AlterReplicaLogDirs",
    34,
    versions="1-2",
    flexible="2+",
    request="""
    dirs AlterReplicaLogDir[]
        path                    string
        topics AlterReplicaLogDirTopic[]
            name                string
            partitions          int32[]
""",
    response="""
    throttle_time_ms            int32
    results AlterReplicaLogDirTopicResult[]
        topic_name              string
        partitions AlterReplicaLogDirPartitionResult[]
            partition_index     int32
            error_code          int16
""",
)

__getattr__ = row_classes(DESCRIBE_LOG_DIRS, ALTER_REPLICA_LOG_DIRS)
