"""Faults of an ApiVersions request: a client's bad name, or a node that the client did not mean.

The handler of ApiVersions asks, and the gate of a login, which must know whether the handler will
answer in full. Knows no connection.
"""

from raftka.broker.context import MetadataCache
from raftka.wire.errors import Code
from raftka.wire.messages.api_versions import ApiVersionsRequest
from raftka.wire.software import is_software

NAMES_SOFTWARE, NAMES_NODE = 3, 5  # the versions from which on a client does
NO_NODE = -1


def find_fault(body: ApiVersionsRequest, version: int, metadata: MetadataCache) -> Code | None:
    """Return INVALID_REQUEST or REBOOTSTRAP_REQUIRED, or None: the request is answered in full.

    A client that names a node names its cluster too (KIP-1242).
    """
    if version >= NAMES_SOFTWARE and not is_software(
        body.client_software_name, body.client_software_version
    ):
        return Code.INVALID_REQUEST
    if version < NAMES_NODE:
        return None
    if (body.cluster_id is None) != (body.node_id == NO_NODE):
        return Code.INVALID_REQUEST
    if body.cluster_id is None:
        return None
    # a node that has just started may not know its cluster yet: its own id it knows
    cluster_id = metadata.image.cluster_id
    if body.node_id != metadata.settings.node_id or cluster_id not in (None, body.cluster_id):
        return Code.REBOOTSTRAP_REQUIRED
    return None
