"""Permissions on znodes: ACLs as ZooKeeper's server checks and completes them. Knows no tree and no
connection.

An identity is (scheme, id): a connection has its address as `ip`, and what it has shown itself as
by auth packets.
"""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha1
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from zookeeper_bridge.limits import ACL_ENTRIES
from zookeeper_bridge.protocol.errors import Err, ZooKeeperError, beyond
from zookeeper_bridge.protocol.jute import ACLS, Acl

READ, WRITE, CREATE, DELETE, ADMIN, ALL = 1, 2, 4, 8, 16, 31
Identity = tuple[str, str]
SUPER: Identity = ("super", "")
ANYONE = Acl(ALL, "world", "anyone")
OPEN = ACLS.encode([ANYONE])  # as it is stored
READABLE = ACLS.encode([Acl(READ, "world", "anyone")])
KAFKA = Acl(ALL, "sasl", "kafka")
# as a secured Kafka has its secrets: for super and for that user of SASL
PRIVATE = ACLS.encode([KAFKA])
GUARDED = ACLS.encode([KAFKA, Acl(READ, "world", "anyone")])  # as a secured Kafka has all else
SCHEMES = frozenset(("world", "digest", "ip"))  # of identities that every server knows


class Rights(NamedTuple):
    """The settings of permissions, for the controller's decisions too."""

    schemes: frozenset[str] = SCHEMES
    guarded: bool = False  # what is the cluster's is written by super and sasl:kafka alone


@lru_cache(1024)
def entries_of(stored: bytes) -> tuple[Acl, ...]:
    return tuple(ACLS.decode(stored))


def check(stored: bytes, permission: int, identities: Sequence[Identity]) -> None:
    """Raises NO_AUTH."""
    if stored != OPEN and not allows(stored, permission, identities):
        raise ZooKeeperError(Err.NO_AUTH)


def allows(stored: bytes, permission: int, identities: Sequence[Identity]) -> bool:
    """One of the permissions is enough."""
    if SUPER in identities:
        return True
    return any(acl.perms & permission and _matches(acl, identities) for acl in entries_of(stored))


def _matches(acl: Acl, identities: Sequence[Identity]) -> bool:
    if acl.scheme == "world":
        return True
    if acl.scheme == "ip":
        return any(scheme == "ip" and _within(id, acl.id or "") for scheme, id in identities)
    return (acl.scheme, acl.id) in identities


def _within(address: str, network: str) -> bool:
    try:
        return ip_address(address) in ip_network(network, strict=False)
    except ValueError:
        return False


def completed(
    acl: Iterable[Acl] | None, identities: Sequence[Identity], schemes: frozenset[str] = SCHEMES
) -> bytes:
    """As it is stored: `auth` becomes whom the caller has shown himself to be. Raises
    INVALID_ACL.
    """
    found: dict[Acl, None] = {}
    for each in acl or ():
        if each.scheme == "auth":
            shown = [
                Acl(each.perms, *identity)
                for identity in identities
                if identity[0] not in ("ip", "super")
            ]
            found.update(dict.fromkeys(shown))
            if not shown:
                raise ZooKeeperError(Err.INVALID_ACL, "this connection has not authenticated")
        elif each.scheme in schemes and _is_valid(each):
            found[each] = None
        else:
            raise ZooKeeperError(Err.INVALID_ACL, f"{each.scheme}:{each.id}")
    if not found:
        raise ZooKeeperError(Err.INVALID_ACL, "an ACL is needed")
    if len(found) > ACL_ENTRIES.value:
        raise beyond(ACL_ENTRIES, Err.INVALID_ACL)
    return OPEN if len(found) == 1 and ANYONE in found else ACLS.encode(list(found))


def _is_valid(acl: Acl) -> bool:
    match acl.scheme:
        case "world":
            return acl.id == "anyone"
        case "digest":
            return (acl.id or "").count(":") == 1
        case "ip":
            return _is_network(acl.id or "")
        case "sasl" | "x509":
            return bool(acl.id)
    return False


def _is_network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def hidden(stored: bytes) -> list[Acl]:
    """For who may read but not administer: whose password it is, without its digest."""
    return [
        each._replace(id=f"{(each.id or '').partition(':')[0]}:x")
        if each.scheme == "digest"
        else each
        for each in entries_of(stored)
    ]


def digest_of(user_and_password: bytes) -> Identity:
    """Return the identity of `user:password` in ACLs."""
    user = user_and_password.partition(b":")[0].decode("utf-8", "replace")
    return "digest", f"{user}:{b64encode(sha1(user_and_password).digest()).decode()}"
