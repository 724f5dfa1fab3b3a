"""DescribeQuorum (55, KIP-595, KIP-836, KIP-853), UpdateFeatures (57, KIP-584), AddRaftVoter,
RemoveRaftVoter and UpdateRaftVoter (80-82, KIP-853).
"""

from raftka.wire.schema import api, row_classes

DESCRIBE_QUORUM = api(
    "DescribeQuorum",
    55,
    versions="0-2",
    flexible="0+",
    request="""
    topics RequestTopicData[]
        topic_name              string
        partitions RequestPartitionData[]
            partition_index     int32
""",
    response="""
    error_code                  int16
    error_message               string?     2+
    topics TopicData[]
        topic_name              string
        partitions PartitionData[]
            partition_index     int32
            error_code          int16
            error_message       string?     2+
            leader_id           int32
            leader_epoch        int32
            high_watermark      int64
            current_voters ReplicaState[]
                replica_id          int32
                replica_directory_id uuid   2+ !
                log_end_offset      int64
                last_fetch_timestamp int64=-1 1+
                last_caught_up_timestamp int64=-1 1+
            observers           ReplicaState[]
    nodes Node[]                            2+ !
        node_id                 int32
        listeners Listener[]
            name                string
            host                string
            port                uint16
""",
)

UPDATE_FEATURES = api(
    "UpdateFeatures",
    57,
    versions="0-2",
    flexible="0+",
    request="""
    timeout_ms                  int32=60000
    feature_updates FeatureUpdateKey[]
        feature                 string
        max_version_level       int16
        allow_downgrade         bool        0 !
        upgrade_type            int8=1      1+ !    # 1 upgrade, 2 safe downgrade, 3 unsafe downgrade
    validate_only               bool        1+ !
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    error_message               string?
    results UpdatableFeatureResult[]        0-1
        feature                 string
        error_code              int16
        error_message           string?
""",
)

ADD_RAFT_VOTER = api(
    "AddRaftVoter",
    80,
    versions="0-1",
    flexible="0+",
    request="""
    cluster_id                  string?
    timeout_ms                  int32
    voter_id                    int32
    voter_directory_id          uuid
    listeners Endpoint[]
        name                    string
        host                    string
        port                    uint16
    ack_when_committed          bool=true   1+ !
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    error_message               string?
""",
)

REMOVE_RAFT_VOTER = api(
    "RemoveRaftVoter",
    81,
    versions="0",
    flexible="0+",
    request="""
    cluster_id                  string?
    voter_id                    int32
    voter_directory_id          uuid
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    error_message               string?
""",
)

UPDATE_RAFT_VOTER = api(
    "UpdateRaftVoter",
    82,
    versions="0",
    flexible="0+",
    request="""
    cluster_id                  string?
    current_leader_epoch        int32
    voter_id                    int32
    voter_directory_id          uuid
    listeners VoterListener[]
        name                    string
        host                    string
        port                    uint16
    k_raft_version_feature KRaftVersionFeature
        min_supported_version   int16
        max_supported_version   int16
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    current_leader CurrentLeader        @0
        leader_id               int32=-1
        leader_epoch            int32=-1
        host                    string
        port                    int32
""",
)

__getattr__ = row_classes(
    DESCRIBE_QUORUM, UPDATE_FEATURES, ADD_RAFT_VOTER, REMOVE_RAFT_VOTER, UPDATE_RAFT_VOTER
)
