"""GetTelemetrySubscriptions (71), PushTelemetry (72): metrics of clients (KIP-714)."""

from raftka.wire.schema import api, row_classes

GET_TELEMETRY_SUBSCRIPTIONS = api(
    "GetTelemetrySubscriptions",
    71,
    versions="0",
    flexible="0+",
    request="""
    client_instance_id          uuid        # zero: the broker gives one
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    client_instance_id          uuid
    subscription_id             int32
    accepted_compression_types  int8[]
    push_interval_ms            int32
    telemetry_max_bytes         int32
    delta_temporality           bool
    requested_metrics           string[]    # prefixes of names; `*`: all
""",
)

PUSH_TELEMETRY = api(
    "PushTelemetry",
    72,
    versions="0",
    flexible="0+",
    request="""
    client_instance_id          uuid
    subscription_id             int32
    terminating                 bool
    compression_type            int8
    metrics                     bytes       # OTLP's MetricsData, in Protobuf
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
""",
)

__getattr__ = row_classes(GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY)
