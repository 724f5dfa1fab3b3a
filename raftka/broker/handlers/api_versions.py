"""ApiVersions: v0-4; what is announced is what is registered, in Kafka 4.3.1's ranges. Knows no
other API.
"""

from raftka.broker.context import MetadataCache
from raftka.broker.network.dispatch import HANDLERS, handles
from raftka.broker.network.request import Request
from raftka.metadata.controller.features import SUPPORTED
from raftka.wire.errors import Code
from raftka.wire.messages.api_versions import API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse
from raftka.wire.software import is_software


@handles(API_VERSIONS)
def api_versions(
    request: Request[ApiVersionsRequest], metadata: MetadataCache
) -> ApiVersionsResponse:
    body, response = request.body, API_VERSIONS.response
    row = response.api_keys
    if request.version >= 3 and not is_software(
        body.client_software_name, body.client_software_version
    ):
        return response(error_code=int(Code.INVALID_REQUEST))
    return response(
        api_keys=[
            row(
                api_key=key,
                min_version=entry.api.announced.low,
                max_version=entry.api.announced.high,
            )
            for key, entry in sorted(HANDLERS.items())
        ],
        supported_features=[
            response.supported_features(name=name, min_version=low, max_version=high)
            for name, (low, high) in SUPPORTED.items()
            # earlier clients would take a lowest level of 0 for a mistake (KAFKA-17492)
            if low > 0 or request.version >= 4
        ],
        finalized_features_epoch=metadata.image.offset,
        finalized_features=[
            response.finalized_features(name=name, max_version_level=level, min_version_level=level)
            for name, level in metadata.image.features.items()
            if name in SUPPORTED
        ],
    )
