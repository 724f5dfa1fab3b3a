"""ApiVersions (18): what the other side can do; the first request on a connection (KIP-35, KIP-511,
KIP-584). From version 5 on a client may name the node that it means (KIP-1242).
"""

from raftka.wire.schema import api, row_classes

API_VERSIONS = api(
    "ApiVersions",
    18,
    versions="0-5",
    flexible="3+",
    request="""
    client_software_name        string  3+
    client_software_version     string  3+
    cluster_id                  string? 5+
    node_id                     int32=-1 5+
""",
    response="""
    error_code                  int16
    api_keys ApiVersion[]
        api_key                 int16
        min_version             int16
        max_version             int16
    throttle_time_ms            int32       1+
    supported_features SupportedFeatureKey[] 3+ @0
        name                    string
        min_version             int16
        max_version             int16
    finalized_features_epoch    int64=-1    3+ @1
    finalized_features FinalizedFeatureKey[] 3+ @2
        name                    string
        max_version_level       int16
        min_version_level       int16
    zk_migration_ready          bool        3+ @3
""",
)

__getattr__ = row_classes(API_VERSIONS)
