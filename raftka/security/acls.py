"""ACLs as Kafka's StandardAuthorizer has them: values, filters, and the index that decides. Knows
no metadata log and no connection.

A name matches literally, by `*`, or by a prefix. Of all ACLs that match, one that denies wins; else
one that allows; else the answer depends on whether any ACL reaches the resource. A decision costs
as many look-ups as there are lengths of prefixes, whatever the number of ACLs.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from raftka.security.networks import Address, Network, is_network, read_address, read_network

ANY, UNKNOWN = 1, 0
# types of resources, Kafka's numbers
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = 2, 3, 4, 5, 6, 7
MATCH, LITERAL, PREFIXED = 2, 3, 4  # patterns
(
    ALL,
    READ,
    WRITE,
    CREATE,
    DELETE,
    ALTER,
    DESCRIBE,
    CLUSTER_ACTION,
    DESCRIBE_CONFIGS,
    ALTER_CONFIGS,
    IDEMPOTENT_WRITE,
) = range(2, 13)
CREATE_TOKENS, DESCRIBE_TOKENS, TWO_PHASE_COMMIT = 13, 14, 15
OPERATION_NAMES = (
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster-action",
    "describe-configs",
    "alter-configs",
    "idempotent-write",
    "create-tokens",
    "describe-tokens",
    "two-phase-commit",
)  # in the order of Kafka's numbers, from 2 on
DENY, ALLOW = 2, 3
WILDCARD, ANYBODY, CLUSTER_NAME = "*", "User:*", "kafka-cluster"
# an ACL that allows one of these allows the operation too; one that denies denies itself alone
IMPLIED_BY = {
    DESCRIBE: frozenset({READ, WRITE, DELETE, ALTER}),
    DESCRIBE_CONFIGS: frozenset({ALTER_CONFIGS}),
}


class Acl(NamedTuple):
    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


class AclFilter(NamedTuple):
    """None, or ANY, for what may be anything."""

    resource_type: int
    name: str | None
    pattern: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, acl.permission)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern not in (ANY, MATCH, acl.pattern):
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern != MATCH:
            return False
        return acl.name == WILDCARD if acl.pattern == LITERAL else self.name.startswith(acl.name)

    @property
    def exact(self) -> Acl | None:
        """The only ACL that it can match; None: there may be several."""
        if ANY in (self.resource_type, self.operation, self.permission) or self.pattern not in (
            LITERAL,
            PREFIXED,
        ):
            return None
        if self.name is None or self.principal is None or self.host is None:
            return None
        return Acl(
            self.resource_type,
            self.name,
            self.pattern,
            self.principal,
            self.host,
            self.operation,
            self.permission,
        )

    def found_in(self, acls: Collection[Acl]) -> list[Acl]:
        """`acls`: a set or the keys of a mapping. One look-up for an exact filter, else all are
        looked at.
        """
        exact = self.exact
        if exact is not None:
            return [exact] if exact in acls else []
        return [acl for acl in acls if self.matches(acl)]


def fault_of_acl(acl: Acl) -> str | None:
    """Return the reason why the ACL cannot be created; None: it can."""
    if not TOPIC <= acl.resource_type <= USER:
        return f"Invalid resource type {acl.resource_type}"
    if acl.pattern not in (LITERAL, PREFIXED):
        return f"Invalid pattern type {acl.pattern}"
    if not ALL <= acl.operation <= TWO_PHASE_COMMIT:
        return f"Invalid operation {acl.operation}"
    if acl.permission not in (DENY, ALLOW):
        return f"Invalid permission type {acl.permission}"
    if not acl.name:
        return "Invalid empty resource name"
    if acl.resource_type == CLUSTER and acl.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if (fault := _fault_of_host(acl.host)) is not None:
        return fault
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal:.200}` (no colon is present "
            "separating the principal type from the principal name)"
        )
    return None


def _fault_of_host(host: str) -> str | None:
    if not host:
        return "Host pattern cannot be null or empty"
    if is_network(host):
        try:
            read_network(host)
        except ValueError as error:
            return f"Invalid CIDR notation '{host:.200}': {error!s:.400}"
    return None


Bucket = dict[Acl, None]


class AclIndex:
    """ACLs by type and name, to be asked for every request."""

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._literal: dict[tuple[int, str], Bucket] = {}
        self._prefixed: dict[tuple[int, str], Bucket] = {}
        # of the prefixes, by type: how many buckets have it
        self._lengths: dict[int, Counter[int]] = {}
        # of the hosts in CIDR notation: each is read once, and not for a decision
        self._networks: dict[str, Network] = {}
        self._uses: Counter[str] = Counter()  # of these hosts, by ACLs
        for acl in acls:
            self.add(acl)

    def add(self, acl: Acl) -> None:
        key = (acl.resource_type, acl.name)
        buckets = self._literal if acl.pattern == LITERAL else self._prefixed
        if key not in buckets:
            buckets[key] = {}
            if acl.pattern == PREFIXED:
                self._lengths.setdefault(acl.resource_type, Counter())[len(acl.name)] += 1
        if is_network(acl.host) and acl not in buckets[key]:
            self._add_network(acl.host)
        buckets[key][acl] = None

    def remove(self, acl: Acl) -> None:
        key = (acl.resource_type, acl.name)
        buckets = self._literal if acl.pattern == LITERAL else self._prefixed
        bucket = buckets.get(key, {})
        if is_network(acl.host) and acl in bucket:
            self._remove_network(acl.host)
        if bucket.pop(acl, ...) is None and not bucket:
            del buckets[key]
            if acl.pattern == PREFIXED:
                lengths = self._lengths[acl.resource_type]
                lengths[len(acl.name)] -= 1
                if not lengths[len(acl.name)]:
                    del lengths[len(acl.name)]

    def _add_network(self, host: str) -> None:
        self._uses[host] += 1
        if host not in self._networks:
            try:
                self._networks[host] = read_network(host)
            except ValueError:  # of a release that refused none: it is the host of no client
                return

    def _remove_network(self, host: str) -> None:
        self._uses[host] -= 1
        if not self._uses[host]:
            del self._uses[host]
            self._networks.pop(host, None)

    def _is_within(self, host: str, address: Address | None) -> bool:
        """Return whether the host of an ACL is a network with that address."""
        network = self._networks.get(host)
        return network is not None and network.has(address)

    def reaching(self, resource_type: int, name: str) -> Iterator[Acl]:
        """All ACLs that reach the resource, of any principal."""
        for key in (
            ((resource_type, name), (resource_type, WILDCARD))
            if name != WILDCARD
            else ((resource_type, name),)
        ):
            yield from self._literal.get(key, ())
        for length in self._lengths.get(resource_type, ()):
            if length <= len(name):
                yield from self._prefixed.get((resource_type, name[:length]), ())

    def decide(
        self, principal: str, host: str, operation: int, resource_type: int, name: str
    ) -> bool | None:
        """None: no ACL at all reaches the resource."""
        allowing = (operation, ALL, *IMPLIED_BY.get(operation, ()))
        address = read_address(host) if self._networks else None
        reached = allowed = False
        for acl in self.reaching(resource_type, name):
            reached = True
            if acl.principal not in (principal, ANYBODY):
                continue
            if acl.host not in (host, WILDCARD) and not self._is_within(acl.host, address):
                continue
            if acl.permission == DENY and acl.operation in (operation, ALL):
                return False
            allowed = allowed or (acl.permission == ALLOW and acl.operation in allowing)
        return allowed if reached else None

    def decide_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Return whether there is a name of that type for which the operation is allowed, by an ACL
        that no denial covers.
        """

        address = read_address(host) if self._networks else None

        def mine(bucket: Mapping[Acl, None], permission: int) -> bool:
            operations = (
                (operation, ALL)
                if permission == DENY
                else (operation, ALL, *IMPLIED_BY.get(operation, ()))
            )
            return any(
                acl.permission == permission
                and acl.operation in operations
                and acl.principal in (principal, ANYBODY)
                and (acl.host in (host, WILDCARD) or self._is_within(acl.host, address))
                for acl in bucket
            )

        everything = self._literal.get((resource_type, WILDCARD), {})
        if mine(everything, DENY):
            return False
        if mine(everything, ALLOW):
            return True
        denied = {
            name
            for (kind, name), bucket in self._prefixed.items()
            if kind == resource_type and mine(bucket, DENY)
        }
        lengths = {len(name) for name in denied}

        def free(name: str) -> bool:
            return not any(name[:length] in denied for length in lengths if length <= len(name))

        for (kind, name), bucket in self._literal.items():
            if (
                kind == resource_type
                and mine(bucket, ALLOW)
                and not mine(bucket, DENY)
                and free(name)
            ):
                return True
        return any(
            kind == resource_type and mine(bucket, ALLOW) and free(name)
            for (kind, name), bucket in self._prefixed.items()
        )
