"""An authorizer that denies chosen operations."""

from raftka.broker.network.access.authorizer import AllowAll, Resource
from raftka.broker.network.session import Session


class Deny(AllowAll):
    """Denies these operations, or everything; remembers what it was asked."""

    def __init__(self, *operations: str) -> None:
        self.operations = operations
        self.asked: list[tuple[str, Resource]] = []

    def allowed(self, session: Session, operation: str, resource: Resource) -> bool:
        self.asked.append((operation, resource))
        return bool(self.operations) and operation not in self.operations

    def allowed_any_topic(self, session: Session, operation: str) -> bool:
        return False
