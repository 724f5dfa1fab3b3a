"""An authorizer with the rights that a test gives."""

from raftka.broker.network.access.acl_authorizer import OPERATIONS, TYPES
from raftka.broker.network.access.authorizer import AllowAll, Resource
from raftka.broker.network.session import Session
from raftka.security.acls import ALLOW, LITERAL, TOPIC, Acl, AclIndex

Right = tuple[str, str, str]  # operation, kind and name of the resource


class Grants(AllowAll):
    """ACLs that allow these to everybody."""

    def __init__(self, *rights: Right) -> None:
        self.index = AclIndex(
            Acl(TYPES[kind], name, LITERAL, "User:*", "*", OPERATIONS[operation], ALLOW)
            for operation, kind, name in rights
        )

    def allowed(self, session: Session, operation: str, resource: Resource) -> bool:
        return bool(
            self.index.decide(
                "User:bob", "here", OPERATIONS[operation], TYPES[resource[0]], resource[1]
            )
        )

    def allowed_any_topic(self, session: Session, operation: str) -> bool:
        return self.index.decide_any("User:bob", "here", OPERATIONS[operation], TOPIC)
