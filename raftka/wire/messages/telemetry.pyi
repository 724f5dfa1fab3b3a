"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.schema import Api, Row

class PushTelemetryResponse(Row):
    throttle_time_ms: int
    error_code: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
    ) -> None: ...

class PushTelemetryRequest(Row):
    client_instance_id: bytes
    subscription_id: int
    terminating: bool
    compression_type: int
    metrics: bytes
    def __init__(
        self,
        *,
        client_instance_id: bytes = ...,
        subscription_id: int = ...,
        terminating: bool = ...,
        compression_type: int = ...,
        metrics: bytes = ...,
    ) -> None: ...

class GetTelemetrySubscriptionsResponse(Row):
    throttle_time_ms: int
    error_code: int
    client_instance_id: bytes
    subscription_id: int
    accepted_compression_types: Sequence[int]
    push_interval_ms: int
    telemetry_max_bytes: int
    delta_temporality: bool
    requested_metrics: Sequence[str]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        client_instance_id: bytes = ...,
        subscription_id: int = ...,
        accepted_compression_types: Sequence[int] = ...,
        push_interval_ms: int = ...,
        telemetry_max_bytes: int = ...,
        delta_temporality: bool = ...,
        requested_metrics: Sequence[str] = ...,
    ) -> None: ...

class GetTelemetrySubscriptionsRequest(Row):
    client_instance_id: bytes
    def __init__(
        self,
        *,
        client_instance_id: bytes = ...,
    ) -> None: ...

GET_TELEMETRY_SUBSCRIPTIONS: Api[GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse]
PUSH_TELEMETRY: Api[PushTelemetryRequest, PushTelemetryResponse]
