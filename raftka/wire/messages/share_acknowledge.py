"""ShareAcknowledge (79): members of a share group are done with records (KIP-932)."""

from raftka.wire.schema import api, row_classes

SHARE_ACKNOWLEDGE = api(
    "ShareAcknowledge",
    79,
    versions="1-2",
    flexible="0+",
    request="""
    group_id                    string?
    member_id                   string?
    share_session_epoch         int32               # -1 closes the session
    is_renew_ack                bool        2+ !    # some acknowledgements renew locks
    topics AcknowledgeTopic[]
        topic_id                uuid
        partitions AcknowledgePartition[]
            partition_index     int32
            acknowledgement_batches AcknowledgementBatch[]
                first_offset    int64
                last_offset     int64
                acknowledge_types int8[]
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    error_message               string?
    acquisition_lock_timeout_ms int32       2+
    responses ShareAcknowledgeTopicResponse[]
        topic_id                uuid
        partitions PartitionData[]
            partition_index     int32
            error_code          int16
            error_message       string?
            current_leader LeaderIdAndEpoch
                leader_id       int32
                leader_epoch    int32
    node_endpoints NodeEndpoint[]
        node_id                 int32
        host                    string
        port                    int32
        rack                    string?
""",
)

__getattr__ = row_classes(SHARE_ACKNOWLEDGE)
