"""Offsets of groups: OffsetCommit (8), OffsetFetch (9), OffsetDelete (47); topics by id from
version 10 on (KIP-848).
"""

from raftka.wire.schema import api, row_classes

OFFSET_COMMIT = api(
    "OffsetCommit",
    8,
    versions="2-10",
    flexible="8+",
    request="""
    group_id                        string
    generation_id_or_member_epoch   int32=-1
    member_id                       string
    group_instance_id               string?     7+ !
    retention_time_ms               int64=-1    2-4
    topics OffsetCommitRequestTopic[]
        name                        string      0-9
        topic_id                    uuid        10+
        partitions OffsetCommitRequestPartition[]
            partition_index         int32
            committed_offset        int64
            committed_leader_epoch  int32=-1    6+
            committed_metadata      string?
""",
    response="""
    throttle_time_ms                int32       3+
    topics OffsetCommitResponseTopic[]
        name                        string      0-9
        topic_id                    uuid        10+
        partitions OffsetCommitResponsePartition[]
            partition_index         int32
            error_code              int16
""",
)

OFFSET_FETCH = api(
    "OffsetFetch",
    9,
    versions="1-10",
    flexible="6+",
    request="""
    group_id                        string      0-7 !
    topics OffsetFetchRequestTopic[]?2+         0-7 !   # null: all of the group
        name                        string
        partition_indexes           int32[]
    groups OffsetFetchRequestGroup[]            8+ !    # KIP-709
        group_id                    string
        member_id                   string?     9+
        member_epoch                int32=-1    9+
        topics OffsetFetchRequestTopics[]?              # null: all of the group
            name                    string      0-9
            topic_id                uuid        10+
            partition_indexes       int32[]
    require_stable                  bool        7+ !
""",
    response="""
    throttle_time_ms                int32       3+
    topics OffsetFetchResponseTopic[]           0-7 !
        name                        string
        partitions OffsetFetchResponsePartition[]
            partition_index         int32
            committed_offset        int64
            committed_leader_epoch  int32=-1    5+
            metadata                string?
            error_code              int16
    error_code                      int16       2-7
    groups OffsetFetchResponseGroup[]           8+ !
        group_id                    string
        topics OffsetFetchResponseTopics[]
            name                    string      0-9
            topic_id                uuid        10+
            partitions OffsetFetchResponsePartitions[]
                partition_index     int32
                committed_offset    int64
                committed_leader_epoch int32=-1
                metadata            string?
                error_code          int16
        error_code                  int16
""",
)

OFFSET_DELETE = api(
    "OffsetDelete",
    47,
    versions="0",
    flexible=None,
    request="""
    group_id                        string
    topics OffsetDeleteRequestTopic[]
        name                        string
        partitions OffsetDeleteRequestPartition[]
            partition_index         int32
""",
    response="""
    error_code                      int16
    throttle_time_ms                int32
    topics OffsetDeleteResponseTopic[]
        name                        string
        partitions OffsetDeleteResponsePartition[]
            partition_index         int32
            error_code              int16
""",
)

__getattr__ = row_classes(OFFSET_COMMIT, OFFSET_FETCH, OFFSET_DELETE)
