"""/kafka-acl and /kafka-acl-extended: a write to a resource's znode replaces all its ACLs.
For super and sasl:kafka alone.
"""

from raftka.metadata.security_commands import CreateAcls, DeleteAcls
from raftka.security.acls import Acl, AclFilter, fault_of_acl
from zookeeper_bridge.machine.writes.parse import bad, fields_of
from zookeeper_bridge.machine.writes.write_request import Written
from zookeeper_bridge.protocol.errors import Err, ZooKeeperError
from zookeeper_bridge.tree import acl
from zookeeper_bridge.tree.kafka_acls import (
    OPERATIONS,
    PERMISSIONS,
    Resource,
    index_of,
    resource_of_path,
)


def create(written: Written) -> None:
    _check(written)
    resource = _resource(written)
    acls = _acls(written.data, resource)
    if not acls:
        raise bad("no ACLs")
    _replace(written, resource, acls)


def replace(written: Written) -> None:
    _check(written)
    resource = _resource(written)
    _replace(written, resource, _acls(written.data, resource))


def remove(written: Written) -> None:
    _check(written)
    _replace(written, _resource(written), {})


def _check(written: Written) -> None:
    """Raises NO_AUTH; also where nothing would enforce the ACLs."""
    acl.check(acl.PRIVATE, acl.WRITE, written.caller.identities)
    if not written.caller.controls.draft.environment.settings["authorizer.class.name"]:
        raise ZooKeeperError(Err.NO_AUTH, "there is no authorizer")


def _resource(written: Written) -> Resource:
    resource = resource_of_path(written.path[1:].split("/"))
    if resource is None or not resource.name:
        raise ZooKeeperError(Err.NO_AUTH)
    return resource


def _acls(data: bytes | None, resource: Resource) -> dict[Acl, None]:
    rows = fields_of(data).get("acls")
    if not isinstance(rows, list):
        raise bad("no list of ACLs")
    found: dict[Acl, None] = {}
    for row in rows:
        if not isinstance(row, dict):
            raise bad("an ACL that is no object")
        principal, host = row.get("principal"), row.get("host")
        operation, permission = row.get("operation"), row.get("permissionType")
        if (
            not isinstance(principal, str)
            or not isinstance(host, str)
            or not isinstance(operation, str)
            or not isinstance(permission, str)
        ):
            raise bad("an ACL without principal, host, operation or permissionType")
        if operation not in OPERATIONS or permission not in PERMISSIONS:
            raise bad("an operation or a permission that there is not")
        each = Acl(
            resource.kind,
            resource.name,
            resource.pattern,
            principal,
            host,
            OPERATIONS[operation],
            PERMISSIONS[permission],
        )
        fault = fault_of_acl(each)
        if fault is not None:
            raise bad(fault)
        found[each] = None
    return found


def _replace(written: Written, resource: Resource, acls: dict[Acl, None]) -> None:
    controls = written.caller.controls
    before = index_of(controls.draft.image.acls).of(resource)
    gone = tuple(AclFilter(*each) for each in before if each not in acls)
    new = tuple(each for each in acls if each not in before)
    if gone:
        controls.decide(DeleteAcls(gone), lambda reply: [])
    if new:
        controls.decide(CreateAcls(new), lambda reply: [])
