"""DeleteRecords (21): a partition's log starts later from now on."""

from raftka.wire.schema import api, row_classes

DELETE_RECORDS = api(
    "DeleteRecords",
    21,
    versions="0-2",
    flexible="2+",
    request="""
    topics DeleteRecordsTopic[]
        name                    string
        partitions DeleteRecordsPartition[]
            partition_index     int32
            offset              int64       # the first to stay; -1: the high watermark
    timeout_ms                  int32
""",
    response="""
    throttle_time_ms            int32
    topics DeleteRecordsTopicResult[]
        name                    string
        partitions DeleteRecordsPartitionResult[]
            partition_index     int32
            low_watermark       int64       # the least log start of all replicas
            error_code          int16
""",
)

__getattr__ = row_classes(DELETE_RECORDS)
