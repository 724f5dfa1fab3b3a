"""DeleteRecords (21): a partition's log starts later from now on."""

from raftka.wire.schema import api

DELETE_RECORDS = api(
    "DeleteRecords",
    21,
    versions="0-2",
    flexible="2+",
    request="""
    topics []
        name                    string
        partitions []
            partition_index     int32
            offset              int64       # the first to stay; -1: the high watermark
    timeout_ms                  int32
""",
    response="""
    throttle_time_ms            int32
    topics []
        name                    string
        partitions []
            partition_index     int32
            low_watermark       int64       # the least log start of all replicas
            error_code          int16
""",
)
