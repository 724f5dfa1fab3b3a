"""GetTelemetrySubscriptions (71), PushTelemetry (72): v0; the metrics that a client is to push,
and its pushes (KIP-714). As in Kafka no right is needed.
"""

from collections.abc import Callable

from raftka.broker.client_metrics.instances import ACCEPTED
from raftka.broker.client_metrics.otlp import InvalidPush, Point, read_points
from raftka.broker.client_metrics.receiver import ClientMetrics, fields_of
from raftka.broker.context import MetadataCache
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps, counted_as
from raftka.limits import (
    CLIENT_METRICS_PUSH_BYTES,
    CLIENT_METRICS_SERIES_OF_CLIENT,
    Limit,
    LimitExceeded,
)
from raftka.wire.compression import decompress
from raftka.wire.errors import Code, KafkaError, LimitRefused, ProtocolError
from raftka.wire.messages.telemetry import (
    GET_TELEMETRY_SUBSCRIPTIONS,
    PUSH_TELEMETRY,
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)

BYTES_OF_STEP = 4096  # that are decompressed in some 20 us
PUSHES = "raftka_client_metrics_pushes_total"
REFUSALS = {
    Code.THROTTLING_QUOTA_EXCEEDED: "raftka_client_metrics_throttled_total",
    Code.UNKNOWN_SUBSCRIPTION_ID: "raftka_client_metrics_unknown_subscriptions_total",
    Code.INVALID_RECORD: "raftka_client_metrics_invalid_pushes_total",
}


def _count_refusal(client_metrics: ClientMetrics, error: KafkaError) -> None:
    if error.code in REFUSALS:
        client_metrics.count(REFUSALS[error.code])


@handles(GET_TELEMETRY_SUBSCRIPTIONS)
def get_telemetry_subscriptions(
    request: Request[GetTelemetrySubscriptionsRequest],
    metadata: MetadataCache,
    client_metrics: ClientMetrics,
) -> GetTelemetrySubscriptionsResponse:
    asked_id = bytes(request.body.client_instance_id)
    try:
        instance = client_metrics.instances.ask(
            asked_id,
            lambda instance_id: fields_of(request.session, instance_id),
            request.connection,
            client_metrics.now(),
        )
    except KafkaError as error:
        _count_refusal(client_metrics, error)
        raise
    client_metrics.watch_expiry()
    return GET_TELEMETRY_SUBSCRIPTIONS.response(
        client_instance_id=instance.instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(ACCEPTED),
        push_interval_ms=instance.requested.interval_ms,
        telemetry_max_bytes=metadata.settings["telemetry.max.bytes"],
        delta_temporality=True,
        requested_metrics=list(instance.requested.metrics),
    )


@handles(PUSH_TELEMETRY)
def push_telemetry(
    request: Request[PushTelemetryRequest],
    metadata: MetadataCache,
    client_metrics: ClientMetrics,
) -> Steps[PushTelemetryResponse]:
    body, now = request.body, client_metrics.now()
    instance_id = bytes(body.client_instance_id)
    try:
        instance = client_metrics.instances.push(
            instance_id,
            lambda instance_id: fields_of(request.session, instance_id),
            request.connection,
            now,
            subscription_id=body.subscription_id,
            is_terminating=body.terminating,
            codec=body.compression_type,
            size_bytes=len(body.metrics),
            most_bytes=metadata.settings["telemetry.max.bytes"],
        )
        client_metrics.watch_expiry()
        if len(body.metrics):
            try:
                data, points = yield from _read(
                    body.compression_type, bytes(body.metrics), client_metrics.hit
                )
            except KafkaError as error:
                instance.last_error = error.code
                raise
            yield from client_metrics.take(instance, data, points)
            client_metrics.count(PUSHES)
            client_metrics.watch_expiry()
    except KafkaError as error:
        _count_refusal(client_metrics, error)
        raise
    return PUSH_TELEMETRY.response()


def _read(
    codec: int, pushed: bytes, hit: Callable[[Limit], None]
) -> Steps[tuple[bytes, list[Point]]]:
    """Return the push without compression, and its numbers, but for more than the series that a
    client may have. Raises INVALID_RECORD, the code with which Kafka answers when a reporter does
    not take a push.
    """
    points: list[Point] = []
    limit = CLIENT_METRICS_SERIES_OF_CLIENT
    try:
        data = bytes(decompress(codec, pushed, CLIENT_METRICS_PUSH_BYTES.value))
        yield from counted_as(len(data) // BYTES_OF_STEP)
        for point in read_points(data):
            if point is not None and len(points) <= limit.value:
                points.append(point)
            yield
    except LimitExceeded as error:
        raise LimitRefused(error.limit, error.asked, code=Code.INVALID_RECORD) from None
    except ProtocolError as error:
        if error.limit is None:
            raise KafkaError(Code.INVALID_RECORD, str(error)) from None
        raise LimitRefused(
            CLIENT_METRICS_PUSH_BYTES,
            CLIENT_METRICS_PUSH_BYTES.value + 1,
            code=Code.INVALID_RECORD,
        ) from None
    except InvalidPush as error:
        raise KafkaError(Code.INVALID_RECORD, str(error)) from None
    if len(points) > limit.value:
        hit(limit)
        points.pop()
    return data, points
