"""The cluster's ACLs as Kafka kept them in ZooKeeper: /kafka-acl/TYPE/NAME and
/kafka-acl-extended/prefixed/TYPE/NAME, one znode a resource.

A znode's version follows from its content, for the metadata have none: a write with the version
that was read fails when the content is another.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

from raftka.security.acls import ALLOW, DENY, LITERAL, OPERATION_NAMES, PREFIXED, Acl
from zookeeper_bridge.protocol.errors import ZooKeeperError
from zookeeper_bridge.protocol.paths import check_path

LITERAL_FOLDER, PREFIXED_FOLDER = "/kafka-acl", "/kafka-acl-extended/prefixed"
ACL_CHANGES = ("/kafka-acl-changes", "/kafka-acl-extended-changes")
KINDS = {"Topic": 2, "Group": 3, "Cluster": 4, "TransactionalId": 5, "DelegationToken": 6}
KIND_NAMES = {number: name for name, number in KINDS.items()}
OPERATIONS = {
    "".join(part.capitalize() for part in name.split("-")): number
    for number, name in enumerate(OPERATION_NAMES, 2)
}
NAMES_OF_OPERATIONS = {number: name for name, number in OPERATIONS.items()}
PERMISSIONS = {"Allow": ALLOW, "Deny": DENY}
NAMES_OF_PERMISSIONS = {number: name for name, number in PERMISSIONS.items()}
MOST = (1 << 31) - 1
_PLAIN = re.compile(r"[0-9A-Za-z_-][0-9A-Za-z._-]*")  # nearly all names: one look is enough


class Resource(NamedTuple):
    pattern: int
    kind: int
    name: str

    @property
    def path(self) -> str:
        return (
            f"{LITERAL_FOLDER if self.pattern == LITERAL else PREFIXED_FOLDER}/"
            f"{KIND_NAMES[self.kind]}/{self.name}"
        )

    @property
    def is_path(self) -> bool:
        """Return whether the name can be a part of a path."""
        try:
            return "/" not in self.name and check_path(self.path) != ""
        except ZooKeeperError:
            return False


class Index:
    """The ACLs of one state of the metadata, by resource. What is asked for twice is worked out
    once: small requests could ask for much.
    """

    def __init__(self, acls: Iterable[Acl]) -> None:
        self._acls: dict[tuple[int, int, str], list[Acl]] = {}
        for acl in acls:
            kind, name, pattern, *_ = acl
            self._acls.setdefault((pattern, kind, name), []).append(acl)
        self._folders: dict[tuple[int, int], list[str]] | None = None
        self._data: dict[Resource, bytes] = {}

    @property
    def count(self) -> int:
        """Of znodes."""
        return sum(map(len, self._by_folder().values()))

    def of(self, resource: Resource) -> Sequence[Acl]:
        return self._acls.get(resource, ())

    def names(self, folder: Resource) -> Sequence[str]:
        return self._by_folder().get((folder.pattern, folder.kind), ())

    def _by_folder(self) -> dict[tuple[int, int], list[str]]:
        """The names that can be parts of paths. Nobody may have asked for them, so they are looked
        at with the first question.
        """
        if self._folders is None:
            self._folders = {}
            for pattern, kind, name in self._acls:
                if kind in KIND_NAMES and (
                    _PLAIN.fullmatch(name) or Resource(pattern, kind, name).is_path
                ):
                    self._folders.setdefault((pattern, kind), []).append(name)
        return self._folders

    def data(self, resource: Resource) -> bytes | None:
        """None: no ACL is about it."""
        found = self._acls.get(resource)
        if found is None:
            return None
        if resource not in self._data:
            self._data[resource] = _written(found)
        return self._data[resource]


_latest: tuple[object, Index] = (None, Index(()))


def index_of(acls: Mapping[Acl, None]) -> Index:
    """`acls`: of a state of the metadata, which never changes. The last one that was asked for is
    kept.
    """
    global _latest
    if _latest[0] is not acls:
        _latest = acls, Index(acls)
    return _latest[1]


def resource_of_path(parts: list[str]) -> Resource | None:
    """Of a znode's path, in its parts; without a name: of the folder. None: no ACLs can be
    there.
    """
    match parts:
        case ["kafka-acl", kind, *name] if kind in KINDS and len(name) < 2:
            return Resource(LITERAL, KINDS[kind], *(name or [""]))
        case ["kafka-acl-extended", "prefixed", kind, *name] if kind in KINDS and len(name) < 2:
            return Resource(PREFIXED, KINDS[kind], *(name or [""]))
    return None


def _written(acls: Iterable[Acl]) -> bytes:
    rows = [
        {
            "principal": each.principal,
            "permissionType": NAMES_OF_PERMISSIONS[each.permission],
            "operation": NAMES_OF_OPERATIONS[each.operation],
            "host": each.host,
        }
        for each in sorted(acls)
    ]
    return json.dumps({"version": 1, "acls": rows}, separators=(",", ":")).encode()


def version_of(data: bytes) -> int:
    return crc32(data) & MOST
