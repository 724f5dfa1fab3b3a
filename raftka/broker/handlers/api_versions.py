"""ApiVersions: v0-4; what is announced is what is registered, in Kafka 4.3.1's ranges. Knows no other API."""

import re
from typing import TYPE_CHECKING

from raftka.broker.dispatch import HANDLERS, Request, handles
from raftka.wire.errors import Code
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")  # KIP-511
METADATA_VERSION = "metadata.version"
LOWEST_LEVEL, LEVEL = 7, 30  # as Kafka 4.3 has them; clients switch code paths on other features, so no other is shown


@handles(API_VERSIONS)
def api_versions(request: Request, node: "Node") -> Row:
    body = request.body
    if request.version >= 3 and not (SOFTWARE.fullmatch(body.client_software_name) and SOFTWARE.fullmatch(body.client_software_version)):
        return request.answer(error_code=int(Code.INVALID_REQUEST))
    response = API_VERSIONS.response
    return response(
        api_keys=[
            response.api_keys(api_key=key, min_version=entry.api.announced.low, max_version=entry.api.announced.high)
            for key, entry in sorted(HANDLERS.items())
        ],
        supported_features=[response.supported_features(name=METADATA_VERSION, min_version=LOWEST_LEVEL, max_version=LEVEL)],
        finalized_features_epoch=node.image.offset,
        finalized_features=[response.finalized_features(name=METADATA_VERSION, max_version_level=LEVEL, min_version_level=LEVEL)],
    )
