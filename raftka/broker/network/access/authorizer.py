"""Authorization: the question that dispatch and handlers ask. Knows no ACLs: acl_authorizer.py
does.
"""

from typing import Protocol

from raftka.broker.network.session import Session

CLUSTER, TOPIC, GROUP, TRANSACTIONAL_ID = "cluster", "topic", "group", "transactional-id"
DELEGATION_TOKEN, USER = "delegation-token", "user"
Resource = tuple[str, str]  # kind, name
THE_CLUSTER: Resource = (CLUSTER, "kafka-cluster")

# Kafka's numbers of operations: the bits of `authorized_operations`.
TOPIC_OPERATIONS = {
    "READ": 3,
    "WRITE": 4,
    "CREATE": 5,
    "DELETE": 6,
    "ALTER": 7,
    "DESCRIBE": 8,
    "DESCRIBE_CONFIGS": 10,
    "ALTER_CONFIGS": 11,
}
GROUP_OPERATIONS = {
    "READ": 3,
    "DELETE": 6,
    "DESCRIBE": 8,
    "DESCRIBE_CONFIGS": 10,
    "ALTER_CONFIGS": 11,
}
CLUSTER_OPERATIONS = {
    "CREATE": 5,
    "ALTER": 7,
    "DESCRIBE": 8,
    "CLUSTER_ACTION": 9,
    "DESCRIBE_CONFIGS": 10,
    "ALTER_CONFIGS": 11,
    "IDEMPOTENT_WRITE": 12,
}
REFUSED = {  # what a refusal says, in Kafka's words
    CLUSTER: "Cluster authorization failed.",
    TOPIC: "Topic authorization failed.",
    GROUP: "Group authorization failed.",
    TRANSACTIONAL_ID: "Transactional Id authorization failed.",
}
OPERATIONS = {CLUSTER: CLUSTER_OPERATIONS, TOPIC: TOPIC_OPERATIONS, GROUP: GROUP_OPERATIONS}


class Authorizer(Protocol):
    def allowed(self, session: Session, operation: str, resource: Resource) -> bool: ...

    def allowed_any_topic(self, session: Session, operation: str) -> bool:
        """Return whether there is a topic, or might be, with which the client may do it."""


class AllowAll:
    """Without `authorizer.class.name`."""

    def allowed(self, session: Session, operation: str, resource: Resource) -> bool:
        return True

    def allowed_any_topic(self, session: Session, operation: str) -> bool:
        return True


def authorized_operations(authorizer: Authorizer, session: Session, resource: Resource) -> int:
    """The allowed operations on a topic, a group or the cluster, as bits (KIP-430)."""
    return sum(
        1 << bit
        for operation, bit in OPERATIONS[resource[0]].items()
        if authorizer.allowed(session, operation, resource)
    )
