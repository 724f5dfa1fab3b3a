"""CreateAcls and DeleteAcls in the controller: which ACLs there are from now on. Brokers check what
was asked for.
"""

from raftka.limits import ACLS, ACLS_OF_REQUEST, FILTERED_ACLS
from raftka.metadata.image import MetadataImage
from raftka.metadata.records import AclAdded, AclRemoved, Record
from raftka.metadata.security_commands import CreateAcls, DeleteAcls
from raftka.security.acls import Acl
from raftka.wire.errors import Code, check_limit


def create_acls(image: MetadataImage, command: CreateAcls) -> tuple[list[Record], int]:
    """Raises INVALID_REQUEST beyond a limit."""
    new = dict.fromkeys(acl for acl in command.acls if acl not in image.acls)
    check_limit(ACLS_OF_REQUEST, len(new), code=Code.INVALID_REQUEST)
    check_limit(ACLS, len(image.acls) + len(new), code=Code.INVALID_REQUEST)
    return [AclAdded(*acl) for acl in new], len(new)


def delete_acls(
    image: MetadataImage, command: DeleteAcls
) -> tuple[list[Record], tuple[tuple[Acl, ...], ...]]:
    """Each filter finds what there was before. Raises INVALID_REQUEST beyond a limit."""
    check_limit(
        FILTERED_ACLS,
        sum(each.exact is None for each in command.filters) * len(image.acls),
        code=Code.INVALID_REQUEST,
    )
    found = [each.found_in(image.acls.keys()) for each in command.filters]
    doomed = dict.fromkeys(acl for acls in found for acl in acls)
    check_limit(ACLS_OF_REQUEST, len(doomed), code=Code.INVALID_REQUEST)
    return [AclRemoved(*acl) for acl in doomed], tuple(tuple(acls) for acls in found)
