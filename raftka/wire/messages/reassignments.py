"""AlterPartitionReassignments (45) and ListPartitionReassignments (46): KIP-455."""

from raftka.wire.schema import api, row_classes

ALTER_PARTITION_REASSIGNMENTS = api(
    "AlterPartitionReassignments",
    45,
    versions="0-1",
    flexible="0+",
    request="""
    timeout_ms                  int32=60000
    allow_replication_factor_change bool=true 1+ !  # KIP-860
    topics ReassignableTopic[]
        name                    string
        partitions ReassignablePartition[]
            partition_index     int32
            replicas            int32[]?    # null: cancel
""",
    response="""
    throttle_time_ms            int32
    allow_replication_factor_change bool=true 1+
    error_code                  int16
    error_message               string?
    responses ReassignableTopicResponse[]
        name                    string
        partitions ReassignablePartitionResponse[]
            partition_index     int32
            error_code          int16
            error_message       string?
""",
)

LIST_PARTITION_REASSIGNMENTS = api(
    "ListPartitionReassignments",
    46,
    versions="0",
    flexible="0+",
    request="""
    timeout_ms                  int32=60000
    topics ListPartitionReassignmentsTopics[]? # null: all
        name                    string
        partition_indexes       int32[]
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    error_message               string?
    topics OngoingTopicReassignment[]
        name                    string
        partitions OngoingPartitionReassignment[]
            partition_index     int32
            replicas            int32[]
            adding_replicas     int32[]
            removing_replicas   int32[]
""",
)

__getattr__ = row_classes(ALTER_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS)
