"""ApiVersions: v0-5; it announces the registered APIs in Kafka 4.4.0's ranges, below
`raftka.api.ceiling`. Knows no other API.
"""

import sys

from raftka.broker.client_metrics.receiver import receives_client_metrics
from raftka.broker.context import MetadataCache
from raftka.broker.network.dispatch import handles
from raftka.broker.network.greeting import NAMES_SOFTWARE, find_fault
from raftka.broker.network.request import Request
from raftka.broker.network.session import OTHER_SOFTWARE, Software
from raftka.limits import CLIENT_SOFTWARE_CHARACTERS
from raftka.versions import SUPPORTED
from raftka.wire.messages.api_versions import API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse
from raftka.wire.messages.telemetry import GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY
from raftka.wire.rows import NO_VERSION

# announced where clients' metrics are received
TELEMETRY = (GET_TELEMETRY_SUBSCRIPTIONS.key, PUSH_TELEMETRY.key)


@handles(API_VERSIONS)
def api_versions(
    request: Request[ApiVersionsRequest], metadata: MetadataCache
) -> ApiVersionsResponse:
    response = API_VERSIONS.response
    fault = find_fault(request.body, request.version, metadata)
    if fault is not None:
        return response(error_code=int(fault))
    if request.version >= NAMES_SOFTWARE:
        request.session.software = _software(request)
    levels = _highest_levels(request)
    return response(
        api_keys=[
            response.api_keys(api_key=api.key, min_version=shown.low, max_version=shown.high)
            for api in request.dispatcher.apis(request.session)
            if (shown := request.dispatcher.announced(api, request.session)) != NO_VERSION
            and (api.key not in TELEMETRY or receives_client_metrics(metadata.settings))
        ],
        supported_features=[
            response.supported_features(name=name, min_version=low, max_version=levels[name])
            for name, (low, _) in SUPPORTED.items()
            # earlier clients would take a lowest level of 0 for a mistake (KAFKA-17492)
            if name in levels and (low > 0 or request.version >= 4)
        ],
        finalized_features_epoch=metadata.image.offset,
        finalized_features=[
            response.finalized_features(name=name, max_version_level=level, min_version_level=level)
            for name, finalized in metadata.image.features.items()
            if name in levels
            for level in (min(finalized, levels[name]),)
        ],
    )


def _software(request: Request[ApiVersionsRequest]) -> Software:
    """Return name and version as the session keeps them. Those too long for a label are "other"."""
    name, version = request.body.client_software_name, request.body.client_software_version
    if max(len(name), len(version)) > CLIENT_SOFTWARE_CHARACTERS.value:
        request.dispatcher.metrics.hit(CLIENT_SOFTWARE_CHARACTERS)
        return OTHER_SOFTWARE
    return sys.intern(name), sys.intern(version)  # thousands of connections have the same


def _highest_levels(request: Request[ApiVersionsRequest]) -> dict[str, int]:
    """Return the highest level of each feature that this client is shown, by name."""
    levels = {name: high for name, (_, high) in SUPPORTED.items()}
    ceiling = request.dispatcher.ceiling
    if ceiling is None or request.session.is_raftka:
        return levels
    theirs = ceiling.features
    return {
        name: min(high, theirs[name])
        for name, high in levels.items()
        if theirs.get(name, -1) >= SUPPORTED[name][0]
    }
