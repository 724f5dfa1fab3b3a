"""The cluster's ACLs as Kafka kept them in ZooKeeper: /kafka-acl/TYPE/NAME and /kafka-acl-extended/prefixed/TYPE/NAME, one znode a resource.

A znode's version follows from its content, for the metadata have none: a write with the version that was read fails when the content is another.
"""

import json
from collections.abc import Collection, Mapping
from typing import NamedTuple
from zlib import crc32

from raftka.security.acls import ALLOW, DENY, LITERAL, OPERATION_NAMES, PREFIXED, Acl
from zookeeper_bridge.protocol.errors import ZooKeeperError
from zookeeper_bridge.protocol.paths import check_path

LITERAL_FOLDER, PREFIXED_FOLDER = "/kafka-acl", "/kafka-acl-extended/prefixed"
ACL_CHANGES = ("/kafka-acl-changes", "/kafka-acl-extended-changes")
KINDS = {"Topic": 2, "Group": 3, "Cluster": 4, "TransactionalId": 5, "DelegationToken": 6}
KIND_NAMES = {number: name for name, number in KINDS.items()}
OPERATIONS = {"".join(part.capitalize() for part in name.split("-")): number for number, name in enumerate(OPERATION_NAMES, 2)}
NAMES_OF_OPERATIONS = {number: name for name, number in OPERATIONS.items()}
PERMISSIONS = {"Allow": ALLOW, "Deny": DENY}
NAMES_OF_PERMISSIONS = {number: name for name, number in PERMISSIONS.items()}
MOST = (1 << 31) - 1


class Resource(NamedTuple):
    pattern: int
    kind: int
    name: str

    @property
    def path(self) -> str:
        return f"{LITERAL_FOLDER if self.pattern == LITERAL else PREFIXED_FOLDER}/{KIND_NAMES[self.kind]}/{self.name}"


Index = Mapping[tuple[int, int], Mapping[str, Collection[Acl]]]  # by pattern and type, then by name
_latest: tuple[object, Index] = (None, {})


def index_of(acls: Mapping[Acl, None]) -> Index:
    """Made once for a state of the metadata, which never changes: all ACLs are looked at."""
    global _latest
    if _latest[0] is not acls:
        found: dict[tuple[int, int], dict[str, list[Acl]]] = {}
        for acl in acls:
            found.setdefault((acl.pattern, acl.resource_type), {}).setdefault(acl.name, []).append(acl)
        _latest = acls, found
    return _latest[1]


def resource_of_path(parts: list[str]) -> Resource | None:
    """Of a znode's path, in its parts; without a name: of the folder. None: no ACLs can be there."""
    match parts:
        case ["kafka-acl", kind, *name] if kind in KINDS and len(name) < 2:
            return Resource(LITERAL, KINDS[kind], *(name or [""]))
        case ["kafka-acl-extended", "prefixed", kind, *name] if kind in KINDS and len(name) < 2:
            return Resource(PREFIXED, KINDS[kind], *(name or [""]))
    return None


def shown(acl: Acl) -> Resource | None:
    """None: the name cannot be a part of a path, or Kafka of ZooKeeper's time had no such type."""
    if acl.resource_type not in KIND_NAMES or "/" in acl.name:
        return None
    resource = Resource(acl.pattern, acl.resource_type, acl.name)
    try:
        check_path(resource.path)
    except ZooKeeperError:
        return None
    return resource


def names_of(acls: Mapping[Acl, None], folder: Resource) -> list[str]:
    found = index_of(acls).get((folder.pattern, folder.kind), {})
    return sorted(name for name, of_name in found.items() if shown(next(iter(of_name))) is not None)


def resources_of(acls: Mapping[Acl, None]) -> int:
    """How many znodes there are."""
    return sum(shown(next(iter(of_name))) is not None for names in index_of(acls).values() for of_name in names.values())


def data_of(acls: Mapping[Acl, None], resource: Resource) -> bytes | None:
    """None: no ACL is about it."""
    found = index_of(acls).get((resource.pattern, resource.kind), {}).get(resource.name)
    if not found:
        return None
    rows = [
        {
            "principal": each.principal,
            "permissionType": NAMES_OF_PERMISSIONS[each.permission],
            "operation": NAMES_OF_OPERATIONS[each.operation],
            "host": each.host,
        }
        for each in sorted(found)
    ]
    return json.dumps({"version": 1, "acls": rows}, separators=(",", ":")).encode()


def version_of(data: bytes) -> int:
    return crc32(data) & MOST
