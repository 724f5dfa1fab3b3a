"""Transactions: AddPartitionsToTxn (24), AddOffsetsToTxn (25), EndTxn (26), WriteTxnMarkers (27),
TxnOffsetCommit (28), and what tools ask: DescribeTransactions (65), ListTransactions (66). From
AddPartitionsToTxn 4 on brokers ask for their clients, EndTxn 5 gives a new epoch (KIP-890),
TxnOffsetCommit 6 names topics by id (KIP-1319).
"""

from raftka.wire.schema import api, row_classes

ADD_PARTITIONS_TO_TXN = api(
    "AddPartitionsToTxn",
    24,
    versions="0-5",
    flexible="3+",
    request="""
    transactions AddPartitionsToTxnTransaction[]                4+ !
        transactional_id                string
        producer_id                     int64
        producer_epoch                  int16
        verify_only                     bool
        topics AddPartitionsToTxnTopic[]
            name                        string
            partitions                  int32[]
    v3_and_below_transactional_id       string                  0-3 !
    v3_and_below_producer_id            int64                   0-3 !
    v3_and_below_producer_epoch         int16                   0-3 !
    v3_and_below_topics                 AddPartitionsToTxnTopic[] 0-3 !
""",
    response="""
    throttle_time_ms                    int32
    error_code                          int16                   4+
    results_by_transaction AddPartitionsToTxnResult[]           4+ !
        transactional_id                string
        topic_results AddPartitionsToTxnTopicResult[]
            name                        string
            results_by_partition AddPartitionsToTxnPartitionResult[]
                partition_index         int32
                partition_error_code    int16
    results_by_topic_v3_and_below       AddPartitionsToTxnTopicResult[] 0-3 !
""",
)

ADD_OFFSETS_TO_TXN = api(
    "AddOffsetsToTxn",
    25,
    versions="0-4",
    flexible="3+",
    request="""
    transactional_id            string
    producer_id                 int64
    producer_epoch              int16
    group_id                    string
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
""",
)

END_TXN = api(
    "EndTxn",
    26,
    versions="0-5",
    flexible="3+",
    request="""
    transactional_id            string
    producer_id                 int64
    producer_epoch              int16
    committed                   bool
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    producer_id                 int64=-1    5+
    producer_epoch              int16=-1    5+
""",
)

WRITE_TXN_MARKERS = api(
    "WriteTxnMarkers",
    27,
    versions="1-2",
    flexible="1+",
    request="""
    markers WritableTxnMarker[]
        producer_id             int64
        producer_epoch          int16
        transaction_result      bool
        topics WritableTxnMarkerTopic[]
            name                string
            partition_indexes   int32[]
        coordinator_epoch       int32
        transaction_version     int8        2+
""",
    response="""
    markers WritableTxnMarkerResult[]
        producer_id             int64
        topics WritableTxnMarkerTopicResult[]
            name                string
            partitions WritableTxnMarkerPartitionResult[]
                partition_index int32
                error_code      int16
""",
)

TXN_OFFSET_COMMIT = api(
    "TxnOffsetCommit",
    28,
    versions="0-6",
    flexible="3+",
    request="""
    transactional_id            string
    group_id                    string
    producer_id                 int64
    producer_epoch              int16
    generation_id_or_member_epoch int32=-1  3+ !
    member_id                   string      3+ !
    group_instance_id           string?     3+ !
    topics TxnOffsetCommitRequestTopic[]
        name                    string      0-5
        topic_id                uuid        6+
        partitions TxnOffsetCommitRequestPartition[]
            partition_index     int32
            committed_offset    int64
            committed_leader_epoch int32=-1 2+
            committed_metadata  string?
""",
    response="""
    throttle_time_ms            int32
    topics TxnOffsetCommitResponseTopic[]
        name                    string      0-5
        topic_id                uuid        6+
        partitions TxnOffsetCommitResponsePartition[]
            partition_index     int32
            error_code          int16
""",
)

DESCRIBE_TRANSACTIONS = api(
    "DescribeTransactions",
    65,
    versions="0",
    flexible="0+",
    request="""
    transactional_ids           string[]
""",
    response="""
    throttle_time_ms            int32
    transaction_states DescribedTransactionState[]
        error_code              int16
        transactional_id        string
        transaction_state       string
        transaction_timeout_ms  int32
        transaction_start_time_ms int64
        producer_id             int64
        producer_epoch          int16
        topics TopicData[]
            topic               string
            partitions          int32[]
""",
)

LIST_TRANSACTIONS = api(
    "ListTransactions",
    66,
    versions="0-2",
    flexible="0+",
    request="""
    state_filters               string[]
    producer_id_filters         int64[]
    duration_filter             int64=-1    1+ !
    transactional_id_pattern    string?     2+ !
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    unknown_state_filters       string[]
    transaction_states ListedTransactionState[]
        transactional_id        string
        producer_id             int64
        transaction_state       string
""",
)

__getattr__ = row_classes(
    ADD_PARTITIONS_TO_TXN,
    ADD_OFFSETS_TO_TXN,
    END_TXN,
    WRITE_TXN_MARKERS,
    TXN_OFFSET_COMMIT,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
)
