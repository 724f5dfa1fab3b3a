"""ShareFetch (78): members of a share group acquire records at the leader (KIP-932)."""

from raftka.wire.schema import api, row_classes

SHARE_FETCH = api(
    "ShareFetch",
    78,
    versions="1-2",
    flexible="0+",
    request="""
    group_id                    string?
    member_id                   string?
    share_session_epoch         int32               # 0 opens a session, -1 closes it
    max_wait_ms                 int32
    min_bytes                   int32
    max_bytes                   int32=0x7fffffff
    max_records                 int32       1+
    batch_size                  int32       1+      # records of a range of acquired_records
    share_acquire_mode          int8        2+      # 0: whole batches; 1: exactly max_records
    is_renew_ack                bool        2+ !    # some acknowledgements renew locks
    topics FetchTopic[]
        topic_id                uuid
        partitions FetchPartition[]
            partition_index     int32
            acknowledgement_batches AcknowledgementBatch[]
                first_offset    int64
                last_offset     int64
                acknowledge_types int8[]
    forgotten_topics_data ForgottenTopic[]
        topic_id                uuid
        partitions              int32[]
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    error_message               string?
    acquisition_lock_timeout_ms int32       1+
    responses ShareFetchableTopicResponse[]
        topic_id                uuid
        partitions PartitionData[]
            partition_index     int32
            error_code          int16
            error_message       string?
            acknowledge_error_code int16
            acknowledge_error_message string?
            current_leader LeaderIdAndEpoch
                leader_id       int32
                leader_epoch    int32
            records             records
            acquired_records AcquiredRecords[]
                first_offset    int64
                last_offset     int64
                delivery_count  int16
    node_endpoints NodeEndpoint[]
        node_id                 int32
        host                    string
        port                    int32
        rack                    string?
""",
)

__getattr__ = row_classes(SHARE_FETCH)
