"""ListConfigResources: v0-1; what there is of which settings can be described, and in v0 client
metrics alone (KIP-1142).
"""

from collections.abc import Callable

from raftka.broker.context import MetadataCache
from raftka.broker.network.access.authorizer import THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.metadata.image import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, MetadataImage
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.configs import (
    LIST_CONFIG_RESOURCES,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

response = LIST_CONFIG_RESOURCES.response


def _configured(kind: int) -> Callable[[MetadataImage], list[str]]:
    return lambda image: [name for each, name in image.configs if each == kind]


def _brokers(image: MetadataImage) -> list[str]:
    return [str(broker.broker_id) for broker in image.brokers.values() if not broker.fenced]


LISTED: dict[int, Callable[[MetadataImage], list[str]]] = {
    GROUP: _configured(GROUP),
    CLIENT_METRICS: _configured(CLIENT_METRICS),
    BROKER_LOGGER: _brokers,
    BROKER: _brokers,
    TOPIC: lambda image: list(image.topic_ids),
}


@handles(LIST_CONFIG_RESOURCES)
def list_config_resources(
    request: Request[ListConfigResourcesRequest], metadata: MetadataCache
) -> Steps[ListConfigResourcesResponse]:
    if not request.may("DESCRIBE_CONFIGS", THE_CLUSTER):
        raise KafkaError(Code.CLUSTER_AUTHORIZATION_FAILED)
    asked = set()
    for kind in [CLIENT_METRICS] if request.version == 0 else request.body.resource_types or LISTED:
        if kind not in LISTED:
            raise KafkaError(Code.UNSUPPORTED_VERSION)
        asked.add(kind)
        yield
    rows = request.encoded_rows(response.config_resources)
    for kind, listed in LISTED.items():
        for name in listed(metadata.image) if kind in asked else ():
            rows.add(response.config_resources(resource_type=kind, resource_name=name))
            yield
    return response(config_resources=rows)
