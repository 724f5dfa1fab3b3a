"""Metadata (3): brokers, topics, partitions and their leaders."""

from raftka.wire.schema import api, row_classes

UNKNOWN_OPERATIONS = -(2**31)  # the caller did not ask which operations it is allowed

METADATA = api(
    "Metadata",
    3,
    versions="0-13",
    flexible="9+",
    request="""
    topics MetadataRequestTopic[]?1+        # null: all topics; in version 0 an empty array says so
        topic_id                uuid        10+
        name                    string?10+
    allow_auto_topic_creation   bool=true   4+ !
    include_cluster_authorized_operations bool 8-10
    include_topic_authorized_operations bool   8+
""",
    response="""
    throttle_time_ms            int32       3+
    brokers MetadataResponseBroker[]
        node_id                 int32
        host                    string
        port                    int32
        rack                    string?     1+
    cluster_id                  string?     2+
    controller_id               int32=-1    1+
    topics MetadataResponseTopic[]
        error_code              int16
        name                    string?12+
        topic_id                uuid        10+
        is_internal             bool        1+
        partitions MetadataResponsePartition[]
            error_code          int16
            partition_index     int32
            leader_id           int32
            leader_epoch        int32=-1    7+
            replica_nodes       int32[]
            isr_nodes           int32[]
            offline_replicas    int32[]     5+
        topic_authorized_operations int32=-2147483648 8+
    cluster_authorized_operations   int32=-2147483648 8-10
    error_code                  int16       13+
""",
)

__getattr__ = row_classes(METADATA)
