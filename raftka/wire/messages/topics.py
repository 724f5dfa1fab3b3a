"""CreateTopics (19) and DeleteTopics (20)."""

from raftka.wire.schema import api, row_classes

CREATE_TOPICS = api(
    "CreateTopics",
    19,
    versions="2-7",
    flexible="5+",
    request="""
    topics CreatableTopic[]
        name                    string
        num_partitions          int32       # -1: the broker's default
        replication_factor      int16       # -1: the broker's default
        assignments CreatableReplicaAssignment[]
            partition_index     int32
            broker_ids          int32[]
        configs CreatableTopicConfig[]
            name                string
            value               string?
    timeout_ms                  int32=60000
    validate_only               bool
""",
    response="""
    throttle_time_ms            int32
    topics CreatableTopicResult[]
        name                    string
        topic_id                uuid        7+
        error_code              int16
        error_message           string?
        topic_config_error_code int16       5+ @0
        num_partitions          int32=-1    5+
        replication_factor      int16=-1    5+
        configs CreatableTopicConfigs[]?    5+
            name                string
            value               string?
            read_only           bool
            config_source       int8=-1
            is_sensitive        bool
""",
)

DELETE_TOPICS = api(
    "DeleteTopics",
    20,
    versions="1-6",
    flexible="4+",
    request="""
    topics DeleteTopicState[]               6+ !
        name                    string?
        topic_id                uuid
    topic_names                 string[]    0-5
    timeout_ms                  int32
""",
    response="""
    throttle_time_ms            int32
    responses DeletableTopicResult[]
        name                    string?6+
        topic_id                uuid        6+
        error_code              int16
        error_message           string?     5+
""",
)

__getattr__ = row_classes(CREATE_TOPICS, DELETE_TOPICS)
