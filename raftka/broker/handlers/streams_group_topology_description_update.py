"""StreamsGroupTopologyDescriptionUpdate: v0 (KIP-1331). Descriptions go to a plugin, which is a
Java class: there is none here, and no member is asked for one.
"""

from raftka.broker.context import MetadataCache
from raftka.broker.handlers.coordinator_request import check_group
from raftka.broker.handlers.streams_group_heartbeat import check_served
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.wire.errors import Code
from raftka.wire.messages.streams_groups import (
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)


@handles(STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE)
def streams_group_topology_description_update(
    request: Request[StreamsGroupTopologyDescriptionUpdateRequest], metadata: MetadataCache
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    check_served(metadata)
    check_group(request, "READ", request.body.group_id)
    return STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE.response(
        error_code=int(Code.UNSUPPORTED_VERSION),
        error_message="The broker has no streams group topology description plugin configured.",
    )
