"""OffsetForLeaderEpoch (23): where an epoch of leadership ends in the leader's log (KIP-101,
KIP-320).
"""

from raftka.wire.schema import api, row_classes

OFFSET_FOR_LEADER_EPOCH = api(
    "OffsetForLeaderEpoch",
    23,
    versions="2-4",
    flexible="4+",
    request="""
    replica_id                  int32=-2    3+
    topics OffsetForLeaderTopic[]
        topic                   string
        partitions OffsetForLeaderPartition[]
            partition           int32
            current_leader_epoch int32=-1
            leader_epoch        int32
""",
    response="""
    throttle_time_ms            int32
    topics OffsetForLeaderTopicResult[]
        topic                   string
        partitions EpochEndOffset[]
            error_code          int16
            partition           int32
            leader_epoch        int32=-1
            end_offset          int64=-1
""",
)

__getattr__ = row_classes(OFFSET_FOR_LEADER_EPOCH)
