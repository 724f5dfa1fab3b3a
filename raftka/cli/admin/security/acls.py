"""`raftka acls ...`: ACLs, through Kafka's protocol alone, so they work against any Kafka."""

from dataclasses import dataclass
from typing import NamedTuple

from raftka.cli.admin.client import connect, finish, sentence
from raftka.cli.options import Option
from raftka.cli.output import CommandFailed, command, show
from raftka.client.blocking.access import list_acls, shown_acl
from raftka.client.blocking.client import check
from raftka.security import acls
from raftka.security.acls import OPERATION_NAMES, Acl, AclFilter
from raftka.wire.messages.acls import CREATE_ACLS, DELETE_ACLS

COLUMNS = ["resource", "name", "pattern", "principal", "host", "operation", "permission"]
FIRST_OPERATION = acls.ALL


class Resource(NamedTuple):
    resource_type: int
    name: str


@dataclass(frozen=True, slots=True)
class AclOptions:
    """The options of ACLs on a command line."""

    topic: str | None
    group: str | None
    transactional_id: str | None
    cluster: bool
    delegation_token: str | None
    user: str | None
    prefixed: bool
    principal: str | None
    host: str | None
    operations: tuple[str, ...]
    deny: bool

    @property
    def resource(self) -> Resource | None:
        """Raises CommandFailed when several are named."""
        named = [
            (acls.TOPIC, self.topic),
            (acls.GROUP, self.group),
            (acls.TRANSACTIONAL_ID, self.transactional_id),
            (acls.CLUSTER, acls.CLUSTER_NAME if self.cluster else None),
            (acls.DELEGATION_TOKEN, self.delegation_token),
            (acls.USER, self.user),
        ]
        given = [Resource(kind, name) for kind, name in named if name is not None]
        if len(given) > 1:
            raise CommandFailed(
                "name one of --topic, --group, --transactional-id, --cluster, --delegation-token "
                "and --user"
            )
        return given[0] if given else None

    def filters(self) -> list[AclFilter]:
        """One for each operation."""
        pattern = acls.PREFIXED if self.prefixed else acls.ANY
        kind, name = self.resource or (acls.ANY, None)
        numbers = [
            OPERATION_NAMES.index(each.lower()) + FIRST_OPERATION for each in self.operations
        ] or [acls.ANY]
        permission = acls.DENY if self.deny else acls.ANY
        return [
            AclFilter(kind, name, pattern, self.principal, self.host, number, permission)
            for number in numbers
        ]


@command
def list_all(bootstrap_server: str, output: str, **options: Option) -> None:
    asked = AclOptions(**options)
    with connect(bootstrap_server) as client:
        found = list_acls(client, asked.filters())
        show([shown_acl(acl) for acl in found], COLUMNS, output)


@command
def create(bootstrap_server: str, output: str, **options: Option) -> None:
    asked = AclOptions(**options)
    resource = asked.resource
    if resource is None or asked.principal is None or not asked.operations:
        raise CommandFailed(
            "name a resource (--topic, --group, --transactional-id or --cluster), a --principal "
            "and an --operation"
        )
    wanted = [
        Acl(
            resource.resource_type,
            resource.name,
            acls.PREFIXED if asked.prefixed else acls.LITERAL,
            asked.principal,
            asked.host or acls.WILDCARD,
            OPERATION_NAMES.index(each.lower()) + FIRST_OPERATION,
            acls.DENY if asked.deny else acls.ALLOW,
        )
        for each in dict.fromkeys(asked.operations)
    ]
    row = CREATE_ACLS.request.creations
    creations = [
        row(
            resource_type=acl.resource_type,
            resource_name=acl.name,
            resource_pattern_type=acl.pattern,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in wanted
    ]
    with connect(bootstrap_server) as client:
        results = client.ask(CREATE_ACLS, CREATE_ACLS.request(creations=creations)).results
    answers = list(zip(wanted, results, strict=True))
    finish(
        [shown_acl(acl) for acl, each in answers if not each.error_code],
        COLUMNS,
        output,
        [
            sentence(str(shown_acl(acl)["operation"]), each.error_code, each.error_message)
            for acl, each in answers
            if each.error_code
        ],
    )


@command
def delete(bootstrap_server: str, output: str, **options: Option) -> None:
    asked = AclOptions(**options)
    if asked.resource is None and asked.principal is None:
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
        for each in asked.filters()
    ]
    gone: dict[Acl, None] = {}
    with connect(bootstrap_server) as client:
        for result in client.ask(DELETE_ACLS, DELETE_ACLS.request(filters=filters)).filter_results:
            check(result.error_code, result.error_message)
            for acl in result.matching_acls:
                found = (
                    acl.resource_type,
                    acl.resource_name,
                    acl.pattern_type,
                    acl.principal,
                    acl.host,
                    acl.operation,
                    acl.permission_type,
                )
                gone[Acl(*found)] = None
    show([shown_acl(acl) for acl in sorted(gone)], COLUMNS, output)
