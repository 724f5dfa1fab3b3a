"""Decide by the ACLs of the metadata what a client may do, as Kafka's StandardAuthorizer does.

A session keeps the decisions about it until an ACL changes, so a request costs one look-up.
Refusals are logged, at most ten a second. With raftka.log.level=debug permissions are logged too,
once for each decision that a session keeps.
"""

from ipaddress import IPv6Address, ip_address

from raftka.broker.context import BrokerContext
from raftka.broker.network.access.authorizer import (
    CLUSTER,
    DELEGATION_TOKEN,
    GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    USER,
    Resource,
)
from raftka.broker.network.session import Session
from raftka.broker.telemetry.event_log import BoundedRate
from raftka.limits import DECISIONS_OF_SESSION
from raftka.metadata.image import Delta, MetadataImage
from raftka.security import acls
from raftka.security.acls import AclIndex

TYPES = {
    TOPIC: acls.TOPIC,
    GROUP: acls.GROUP,
    CLUSTER: acls.CLUSTER,
    TRANSACTIONAL_ID: acls.TRANSACTIONAL_ID,
    DELEGATION_TOKEN: acls.DELEGATION_TOKEN,
    USER: acls.USER,
}
OPERATIONS = {
    "READ": acls.READ,
    "WRITE": acls.WRITE,
    "CREATE": acls.CREATE,
    "DELETE": acls.DELETE,
    "ALTER": acls.ALTER,
    "DESCRIBE": acls.DESCRIBE,
    "CLUSTER_ACTION": acls.CLUSTER_ACTION,
    "DESCRIBE_CONFIGS": acls.DESCRIBE_CONFIGS,
    "ALTER_CONFIGS": acls.ALTER_CONFIGS,
    "IDEMPOTENT_WRITE": acls.IDEMPOTENT_WRITE,
    "CREATE_TOKENS": acls.CREATE_TOKENS,
    "DESCRIBE_TOKENS": acls.DESCRIBE_TOKENS,
}


class AclAuthorizer:
    def __init__(self, context: BrokerContext) -> None:
        settings = context.metadata.settings
        self._context = context
        self._supers = frozenset(
            filter(None, (each.strip() for each in settings["super.users"].split(";")))
        )
        self._otherwise: bool = settings["allow.everyone.if.no.acl.found"]
        self._index = AclIndex()
        self._epoch = 0  # moves with every change of ACLs
        self._refused = BoundedRate(
            context.events.info, "authorization_refused", context.runtime.clock.now
        )

    def on_image(self, image: MetadataImage, delta: Delta) -> bool:
        """Return whether ACLs have changed."""
        if delta.reloaded:
            self._index = AclIndex(image.acls)
        elif not delta.acls_changed:
            return False
        for acl in delta.acls_changed:
            if acl in image.acls:
                self._index.add(acl)
            else:
                self._index.remove(acl)
        self._epoch += 1
        return True

    def allowed(self, session: Session, operation: str, resource: Resource) -> bool:
        if session.decided_at != self._epoch:
            session.decisions.clear()
            session.decided_at = self._epoch
        decision = session.decisions.get((operation, resource))
        if decision is None:
            if len(session.decisions) >= DECISIONS_OF_SESSION.value:
                session.decisions.clear()
                self._context.metrics.hit(DECISIONS_OF_SESSION)
            decision = session.decisions[operation, resource] = self._decide(
                session, operation, resource
            )
            if decision and self._context.events.level == "debug":
                self._context.events.debug(
                    "authorization_allowed", **_line(session, operation, resource)
                )
        if not decision:
            self._refused(**_line(session, operation, resource))
        return decision

    def allowed_any_topic(self, session: Session, operation: str) -> bool:
        """Return whether the client may do it with some topic, also one that is not there yet."""
        return session.principal in self._supers or self._index.decide_any(
            session.principal, _host(session), OPERATIONS[operation], acls.TOPIC
        )

    def _decide(self, session: Session, operation: str, resource: Resource) -> bool:
        if session.principal in self._supers:
            return True
        kind, name = resource
        decision = self._index.decide(
            session.principal, _host(session), OPERATIONS[operation], TYPES[kind], name
        )
        return self._otherwise if decision is None else decision


def _line(session: Session, operation: str, resource: Resource) -> dict[str, str | None]:
    """Return the fields of a line of the log."""
    kind, name = resource
    of_client = {
        "principal": session.principal,
        "host": _host(session),
        "client": session.client_id,
    }
    return {**of_client, "operation": operation, "resource": kind, "name": name}


def _host(session: Session) -> str:
    """Return the client's address as Java writes it: IPv6 in full, IPv4 as it is."""
    host = session.host
    try:
        address = ip_address(host)
    except ValueError:  # a simulated network has names, no addresses
        return host
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int.from_bytes(address.packed[at : at + 2]):x}" for at in range(0, 16, 2))
