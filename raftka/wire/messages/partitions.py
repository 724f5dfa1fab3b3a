"""CreatePartitions (37) and ElectLeaders (43, KIP-460)."""

from raftka.wire.schema import api, row_classes

CREATE_PARTITIONS = api(
    "CreatePartitions",
    37,
    versions="0-3",
    flexible="2+",
    request="""
    topics CreatePartitionsTopic[]
        name                    string
        count                   int32       # of all partitions, those that are there included
        assignments CreatePartitionsAssignment[]? # null: the controller places them
            broker_ids          int32[]
    timeout_ms                  int32
    validate_only               bool
""",
    response="""
    throttle_time_ms            int32
    results CreatePartitionsTopicResult[]
        name                    string
        error_code              int16
        error_message           string?
""",
)

ELECT_LEADERS = api(
    "ElectLeaders",
    43,
    versions="0-2",
    flexible="2+",
    request="""
    election_type               int8        1+ !    # 0 preferred, 1 unclean
    topic_partitions TopicPartitions[]?     # null: all
        topic                   string
        partitions              int32[]
    timeout_ms                  int32=60000
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16       1+
    replica_election_results ReplicaElectionResult[]
        topic                   string
        partition_result PartitionResult[]
            partition_id        int32
            error_code          int16
            error_message       string?
""",
)

__getattr__ = row_classes(CREATE_PARTITIONS, ELECT_LEADERS)
