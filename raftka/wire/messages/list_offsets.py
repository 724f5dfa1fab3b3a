"""ListOffsets (2): the offset of a timestamp, or of one of the special points below zero."""

from raftka.wire.schema import api, row_classes

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

LIST_OFFSETS = api(
    "ListOffsets",
    2,
    versions="1-11",
    flexible="6+",
    request="""
    replica_id                  int32=-1
    isolation_level             int8        2+ !
    topics ListOffsetsTopic[]
        name                    string
        partitions ListOffsetsPartition[]
            partition_index     int32
            current_leader_epoch int32=-1   4+
            timestamp           int64
    timeout_ms                  int32       10+
""",
    response="""
    throttle_time_ms            int32       2+
    topics ListOffsetsTopicResponse[]
        name                    string
        partitions ListOffsetsPartitionResponse[]
            partition_index     int32
            error_code          int16
            timestamp           int64=-1
            offset              int64=-1
            leader_epoch        int32=-1    4+
""",
)

__getattr__ = row_classes(LIST_OFFSETS)
