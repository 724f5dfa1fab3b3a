"""DescribeCluster (60): brokers or, asked of a controller, controllers (KIP-700, KIP-919,
KIP-1073). UnregisterBroker (64), UnregisterController (94).
"""

from raftka.wire.schema import api, row_classes

DESCRIBE_CLUSTER = api(
    "DescribeCluster",
    60,
    versions="0-2",
    flexible="0+",
    request="""
    include_cluster_authorized_operations bool
    endpoint_type               int8=1      1+ !
    include_fenced_brokers      bool        2+ !
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    error_message               string?
    endpoint_type               int8=1      1+
    cluster_id                  string
    controller_id               int32=-1
    brokers DescribeClusterBroker[]
        broker_id               int32
        host                    string
        port                    int32
        rack                    string?
        is_fenced               bool        2+
    cluster_authorized_operations int32=-2147483648
""",
)

UNREGISTER_BROKER = api(
    "UnregisterBroker",
    64,
    versions="0",
    flexible="0+",
    request="""
    broker_id                   int32
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    error_message               string?
""",
)

UNREGISTER_CONTROLLER = api(
    "UnregisterController",
    94,
    versions="0",
    flexible="0+",
    request="""
    controller_id               int32
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    error_message               string?
""",
)

__getattr__ = row_classes(DESCRIBE_CLUSTER, UNREGISTER_BROKER, UNREGISTER_CONTROLLER)
