"""Fetch (1): record batches from an offset on; consumers and followers ask alike."""

from raftka.wire.schema import api, row_classes

READ_UNCOMMITTED, READ_COMMITTED = 0, 1  # isolation levels

FETCH = api(
    "Fetch",
    1,
    versions="4-18",
    flexible="12+",
    request="""
    cluster_id                  string?     12+ @0
    replica_id                  int32=-1    0-14
    replica_state ReplicaState              15+ @1
        replica_id              int32=-1
        replica_epoch           int64=-1    # the broker epoch
    max_wait_ms                 int32
    min_bytes                   int32
    max_bytes                   int32=0x7fffffff
    isolation_level             int8
    session_id                  int32       7+
    session_epoch               int32=-1    7+
    topics FetchTopic[]
        topic                   string      0-12
        topic_id                uuid        13+
        partitions FetchPartition[]
            partition           int32
            current_leader_epoch int32=-1   9+
            fetch_offset        int64
            last_fetched_epoch  int32=-1    12+ !
            log_start_offset    int64=-1    5+
            partition_max_bytes int32
            replica_directory_id uuid       17+ @0
            high_watermark      int64=9223372036854775807 18+ @1
    forgotten_topics_data ForgottenTopic[]  7+ !
        topic                   string      7-12
        topic_id                uuid        13+
        partitions              int32[]
    rack_id                     string      11+
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16       7+
    session_id                  int32       7+
    responses FetchableTopicResponse[]
        topic                   string      0-12
        topic_id                uuid        13+
        partitions PartitionData[]
            partition_index     int32
            error_code          int16
            high_watermark      int64
            last_stable_offset  int64=-1
            log_start_offset    int64=-1    5+
            diverging_epoch EpochEndOffset  12+ @0
                epoch           int32=-1
                end_offset      int64=-1
            current_leader LeaderIdAndEpoch 12+ @1
                leader_id       int32=-1
                leader_epoch    int32=-1
            snapshot_id SnapshotId          12+ @2
                end_offset      int64=-1
                epoch           int32=-1
            aborted_transactions AbortedTransaction[]?
                producer_id     int64
                first_offset    int64
            preferred_read_replica int32=-1 11+
            records             records?
    node_endpoints NodeEndpoint[]           16+ @0
        node_id                 int32
        host                    string
        port                    int32
        rack                    string?
""",
)

__getattr__ = row_classes(FETCH)
