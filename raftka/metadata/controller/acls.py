"""Decisions on ACLs: CreateAcls and DeleteAcls.

The handler has checked each ACL and each filter, and has bounded their number.
"""

from raftka.limits import ACLS, ACLS_OF_REQUEST, FILTERED_ACLS
from raftka.metadata.controller.decision import Decision
from raftka.metadata.controller.draft import Draft
from raftka.metadata.records import AclAdded, AclRemoved
from raftka.metadata.security_commands import CreateAcls, DeleteAcls
from raftka.security.networks import is_network
from raftka.versions import METADATA_VERSION, NETWORKS_IN_ACLS
from raftka.wire.errors import Code, KafkaError, check_limit


def decide_create_acls(draft: Draft, command: CreateAcls) -> Decision:
    """Add the ACLs that are not there yet; the reply is their number.

    Raises UNSUPPORTED_VERSION for a network as host below its metadata.version, in Kafka's words;
    INVALID_REQUEST when the command adds too many, or the cluster would have too many. The handler
    checks the number for its clients; commands of the bridge have no handler.
    """
    known = draft.image.acls
    new = dict.fromkeys(acl for acl in command.acls if acl not in known)
    check_limit(ACLS_OF_REQUEST, len(new), code=Code.INVALID_REQUEST)
    level = draft.image.features.get(METADATA_VERSION, 0)
    if level < NETWORKS_IN_ACLS and any(is_network(acl.host) for acl in new):
        raise KafkaError(
            Code.UNSUPPORTED_VERSION,
            "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher.",
        )
    check_limit(ACLS, len(known) + len(new), code=Code.INVALID_REQUEST)
    return [AclAdded(*acl) for acl in new], len(new)


def decide_delete_acls(draft: Draft, command: DeleteAcls) -> Decision:
    """Remove the ACLs that any of the filters matches; the reply has the matches of each filter.

    Raises INVALID_REQUEST when the filters compare or match too many.
    """
    comparisons = sum(each.exact is None for each in command.filters) * len(draft.image.acls)
    check_limit(FILTERED_ACLS, comparisons, code=Code.INVALID_REQUEST)
    found = [each.found_in(draft.image.acls.keys()) for each in command.filters]
    removed = dict.fromkeys(acl for acls in found for acl in acls)
    check_limit(ACLS_OF_REQUEST, len(removed), code=Code.INVALID_REQUEST)
    return [AclRemoved(*acl) for acl in removed], tuple(tuple(acls) for acls in found)
