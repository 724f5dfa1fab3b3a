"""A client that asks for its subscription and pushes metrics, request by request."""

from raftka.wire.errors import Code
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.telemetry import (
    GET_TELEMETRY_SUBSCRIPTIONS,
    PUSH_TELEMETRY,
    GetTelemetrySubscriptionsResponse,
)
from tests.broker.otlp import gauge, push
from tests.broker.stage import Stage, Wire

ZERO = bytes(16)
PUSHED = push(gauge("g", 1.0))


class Client:
    """A client that has said its name."""

    def __init__(self, stage: Stage, software: str = "golden", client_id: str = "golden") -> None:
        self.wire: Wire = stage.wire()
        self.wire.client_id = client_id
        name = API_VERSIONS.request(client_software_name=software, client_software_version="1")
        assert self.wire.ask(API_VERSIONS, name).error_code == 0
        self.instance_id = ZERO
        self.subscription_id = 0

    def ask(self, instance_id: bytes | None = None) -> GetTelemetrySubscriptionsResponse:
        given = self.instance_id if instance_id is None else instance_id
        answer = self.wire.ask(
            GET_TELEMETRY_SUBSCRIPTIONS,
            GET_TELEMETRY_SUBSCRIPTIONS.request(client_instance_id=given),
        )
        if answer.error_code == 0:
            self.instance_id = bytes(answer.client_instance_id)
            self.subscription_id = answer.subscription_id
        return answer

    def push(
        self,
        metrics: bytes = PUSHED,
        *,
        codec: int = 0,
        terminating: bool = False,
        instance_id: bytes | None = None,
        subscription_id: int | None = None,
    ) -> Code:
        request = PUSH_TELEMETRY.request(
            client_instance_id=self.instance_id if instance_id is None else instance_id,
            subscription_id=self.subscription_id if subscription_id is None else subscription_id,
            terminating=terminating,
            compression_type=codec,
            metrics=metrics,
        )
        return Code(self.wire.ask(PUSH_TELEMETRY, request).error_code)


def subscribed(stage: Stage, **fields: str) -> Client:
    client = Client(stage, **fields)
    assert client.ask().error_code == 0
    return client
