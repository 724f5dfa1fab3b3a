"""`raftka acls ...`: ACLs, through Kafka's protocol alone, so they work against any Kafka."""

from typing import NamedTuple

from raftka.cli.admin.client import connect, sentence
from raftka.cli.output import CommandFailed, command, show
from raftka.client.blocking.client import check
from raftka.json_values import Json
from raftka.security import acls
from raftka.security.acls import OPERATION_NAMES, Acl, AclFilter
from raftka.wire.messages.acls import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS

TYPES = {
    acls.TOPIC: "topic",
    acls.GROUP: "group",
    acls.CLUSTER: "cluster",
    acls.TRANSACTIONAL_ID: "transactional-id",
    acls.DELEGATION_TOKEN: "delegation-token",
    acls.USER: "user",
}
PATTERNS = {acls.LITERAL: "literal", acls.PREFIXED: "prefixed"}
COLUMNS = ["resource", "name", "pattern", "principal", "host", "operation", "permission"]
FIRST_OPERATION = acls.ALL


class Resource(NamedTuple):
    resource_type: int
    name: str


def _resource(
    topic: str | None, group: str | None, transactional_id: str | None, cluster: bool, delegation_token: str | None, user: str | None
) -> Resource | None:
    """Raises CommandFailed when several are named."""
    named = [
        (acls.TOPIC, topic),
        (acls.GROUP, group),
        (acls.TRANSACTIONAL_ID, transactional_id),
        (acls.CLUSTER, acls.CLUSTER_NAME if cluster else None),
        (acls.DELEGATION_TOKEN, delegation_token),
        (acls.USER, user),
    ]
    given = [Resource(kind, name) for kind, name in named if name is not None]
    if len(given) > 1:
        raise CommandFailed("name one of --topic, --group, --transactional-id, --cluster, --delegation-token and --user")
    return given[0] if given else None


def _shown(acl: Acl) -> dict[str, Json]:
    return {
        "resource": TYPES.get(acl.resource_type, str(acl.resource_type)),
        "name": acl.name,
        "pattern": PATTERNS.get(acl.pattern, str(acl.pattern)),
        "principal": acl.principal,
        "host": acl.host,
        "operation": OPERATION_NAMES[acl.operation - FIRST_OPERATION]
        if acl.operation - FIRST_OPERATION in range(len(OPERATION_NAMES))
        else str(acl.operation),
        "permission": "deny" if acl.permission == acls.DENY else "allow",
    }


def _filters(
    resource: Resource | None, *, prefixed: bool, principal: str | None, host: str | None, operations: tuple[str, ...], deny: bool
) -> list[AclFilter]:
    """One for each operation."""
    pattern = acls.PREFIXED if prefixed else acls.ANY
    kind, name = resource or (acls.ANY, None)
    numbers = [OPERATION_NAMES.index(each.lower()) + FIRST_OPERATION for each in operations] or [acls.ANY]
    permission = acls.DENY if deny else acls.ANY
    return [AclFilter(kind, name, pattern, principal, host, number, permission) for number in numbers]


@command
def list_all(
    topic: str | None,
    group: str | None,
    transactional_id: str | None,
    cluster: bool,
    delegation_token: str | None,
    user: str | None,
    prefixed: bool,
    principal: str | None,
    host: str | None,
    operations: tuple[str, ...],
    deny: bool,
    bootstrap_server: str,
    output: str,
) -> None:
    resource = _resource(topic, group, transactional_id, cluster, delegation_token, user)
    found: dict[Acl, None] = {}
    with connect(bootstrap_server) as client:
        for each in _filters(resource, prefixed=prefixed, principal=principal, host=host, operations=operations, deny=deny):
            row = DESCRIBE_ACLS.request(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.name,
                pattern_type_filter=each.pattern,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            answer = client.ask(DESCRIBE_ACLS, row)
            check(answer.error_code, answer.error_message)
            for told in answer.resources:
                place = (told.resource_type, told.resource_name, told.pattern_type)
                found |= dict.fromkeys(Acl(*place, acl.principal, acl.host, acl.operation, acl.permission_type) for acl in told.acls)
        show([_shown(acl) for acl in sorted(found)], COLUMNS, output)


@command
def create(
    topic: str | None,
    group: str | None,
    transactional_id: str | None,
    cluster: bool,
    delegation_token: str | None,
    user: str | None,
    prefixed: bool,
    principal: str | None,
    host: str | None,
    operations: tuple[str, ...],
    deny: bool,
    bootstrap_server: str,
    output: str,
) -> None:
    resource = _resource(topic, group, transactional_id, cluster, delegation_token, user)
    if resource is None or principal is None or not operations:
        raise CommandFailed("name a resource (--topic, --group, --transactional-id or --cluster), a --principal and an --operation")
    row = CREATE_ACLS.request.creations
    creations = [
        row(
            resource_type=resource.resource_type,
            resource_name=resource.name,
            resource_pattern_type=acls.PREFIXED if prefixed else acls.LITERAL,
            principal=principal,
            host=host or acls.WILDCARD,
            operation=OPERATION_NAMES.index(each.lower()) + FIRST_OPERATION,
            permission_type=acls.DENY if deny else acls.ALLOW,
        )
        for each in operations
    ]
    with connect(bootstrap_server) as client:
        results = client.ask(CREATE_ACLS, CREATE_ACLS.request(creations=creations)).results
    if refused := [sentence(name, each.error_code, each.error_message) for name, each in zip(operations, results, strict=True) if each.error_code]:
        raise CommandFailed("; ".join(refused))


@command
def delete(
    topic: str | None,
    group: str | None,
    transactional_id: str | None,
    cluster: bool,
    delegation_token: str | None,
    user: str | None,
    prefixed: bool,
    principal: str | None,
    host: str | None,
    operations: tuple[str, ...],
    deny: bool,
    bootstrap_server: str,
    output: str,
) -> None:
    resource = _resource(topic, group, transactional_id, cluster, delegation_token, user)
    if resource is None and principal is None:
        raise CommandFailed("name a resource or a --principal: this would delete every ACL")
    row = DELETE_ACLS.request.filters
    filters = [
        row(
            resource_type_filter=each.resource_type,
            resource_name_filter=each.name,
            pattern_type_filter=each.pattern,
            principal_filter=each.principal,
            host_filter=each.host,
            operation=each.operation,
            permission_type=each.permission,
        )
        for each in _filters(resource, prefixed=prefixed, principal=principal, host=host, operations=operations, deny=deny)
    ]
    gone: dict[Acl, None] = {}
    with connect(bootstrap_server) as client:
        for result in client.ask(DELETE_ACLS, DELETE_ACLS.request(filters=filters)).filter_results:
            check(result.error_code, result.error_message)
            for acl in result.matching_acls:
                found = (acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type)
                gone[Acl(*found)] = None
    show([_shown(acl) for acl in sorted(gone)], COLUMNS, output)
