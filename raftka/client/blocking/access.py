"""ACLs, client quotas and SCRAM users of a cluster, as its brokers tell them."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from raftka.client.blocking.client import Client, check
from raftka.json_values import JsonObject
from raftka.security import acls
from raftka.security.acls import Acl, AclFilter
from raftka.wire.messages.acls import DESCRIBE_ACLS
from raftka.wire.messages.client_quotas import DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasEntry
from raftka.wire.messages.scram import (
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    DescribeUserScramCredentialsResult,
)

ScramUser = DescribeUserScramCredentialsResult

RESOURCES = {
    acls.TOPIC: "topic",
    acls.GROUP: "group",
    acls.CLUSTER: "cluster",
    acls.TRANSACTIONAL_ID: "transactional-id",
    acls.DELEGATION_TOKEN: "delegation-token",
    acls.USER: "user",
}
PATTERNS = {acls.LITERAL: "literal", acls.PREFIXED: "prefixed"}
EVERY_ACL = AclFilter(acls.ANY, None, acls.ANY, None, None, acls.ANY, acls.ANY)
EXACT, DEFAULT_NAME = 0, 1  # how DescribeClientQuotas matches a name
Entity = dict[str, str | None]  # names by type: user, client-id, ip; None: the default


class Quota(NamedTuple):
    entity: Entity
    key: str
    value: float  # bytes or mutations a second, percent of a thread


def list_acls(client: Client, filters: Iterable[AclFilter] = (EVERY_ACL,)) -> list[Acl]:
    """Return the ACLs that any of the filters matches, sorted. Raises KafkaError."""
    found: set[Acl] = set()
    for each in filters:
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
            found.update(
                Acl(*place, acl.principal, acl.host, acl.operation, acl.permission_type)
                for acl in told.acls
            )
    return sorted(found)


def shown_acl(acl: Acl) -> JsonObject:
    """Return an ACL in words; a number where a later Kafka has one that has no word here."""
    number = acl.operation - acls.ALL
    is_known = number in range(len(acls.OPERATION_NAMES))
    return {
        "resource": RESOURCES.get(acl.resource_type, str(acl.resource_type)),
        "name": acl.name,
        "pattern": PATTERNS.get(acl.pattern, str(acl.pattern)),
        "principal": acl.principal,
        "host": acl.host,
        "operation": acls.OPERATION_NAMES[number] if is_known else str(acl.operation),
        "permission": "deny" if acl.permission == acls.DENY else "allow",
    }


def find_quotas(
    client: Client, entity: Mapping[str, str | None], *, strict: bool = False
) -> list[DescribeClientQuotasEntry]:
    """Return the quotas of entities with these names; `strict`: of the one that has no other.
    Raises KafkaError.
    """
    request = DESCRIBE_CLIENT_QUOTAS.request
    components = [
        request.components(
            entity_type=kind, match_type=DEFAULT_NAME if name is None else EXACT, match=name
        )
        for kind, name in entity.items()
    ]
    answer = client.ask(DESCRIBE_CLIENT_QUOTAS, request(components=components, strict=strict))
    check(answer.error_code, answer.error_message)
    return list(answer.entries or ())


def list_quotas(client: Client) -> list[Quota]:
    """Return all quotas. Raises KafkaError."""
    return [
        Quota({each.entity_type: each.entity_name for each in entry.entity}, value.key, value.value)
        for entry in find_quotas(client, {})
        for value in entry.values
    ]


def list_scram_users(client: Client, name: str | None = None) -> list[ScramUser]:
    """Return all users with SCRAM credentials, or that one; one that is not there has an error.
    Raises KafkaError.
    """
    request = DESCRIBE_USER_SCRAM_CREDENTIALS.request
    answer = client.ask(
        DESCRIBE_USER_SCRAM_CREDENTIALS,
        request(users=None if name is None else [request.users(name=name)]),
    )
    check(answer.error_code, answer.error_message)
    return sorted(answer.results, key=lambda each: each.user)
