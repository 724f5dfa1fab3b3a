"""DescribeProducers (61): who writes idempotently or in transactions to a partition."""

from raftka.wire.schema import api, row_classes

DESCRIBE_PRODUCERS = api(
    "DescribeProducers",
    61,
    versions="0",
    flexible="0+",
    request="""
    topics TopicRequest[]
        name                    string
        partition_indexes       int32[]
""",
    response="""
    throttle_time_ms            int32
    topics TopicResponse[]
        name                    string
        partitions PartitionResponse[]
            partition_index     int32
            error_code          int16
            error_message       string?
            active_producers ProducerState[]
                producer_id     int64
                producer_epoch  int32
                last_sequence   int32=-1
                last_timestamp  int64=-1
                coordinator_epoch int32
                current_txn_start_offset int64=-1
""",
)

__getattr__ = row_classes(DESCRIBE_PRODUCERS)
