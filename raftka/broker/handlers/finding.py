"""The partition that a request names: whether its sender may know of it comes before whether it is there. Knows no API."""

from typing import TYPE_CHECKING

from raftka.broker.network.authorizer import TOPIC
from raftka.broker.network.dispatch import Request
from raftka.broker.replica.partition import Partition
from raftka.wire.errors import Code, KafkaError

if TYPE_CHECKING:
    from raftka.broker.node import Node


def find(request: Request, node: "Node", operation: str, topic: str | bytes, partition: int) -> Partition:
    """By name or by id. Raises TOPIC_AUTHORIZATION_FAILED, and what ReplicaManager.find raises; who may not is not told whether a name exists."""
    if isinstance(topic, bytes):
        host = node.replicas.find_by_id(topic, partition)
        check(request, operation, host.topic)
        return host
    check(request, operation, topic)
    return node.replicas.find(topic, partition)


def check(request: Request, operation: str, topic: str) -> None:
    """Raises TOPIC_AUTHORIZATION_FAILED."""
    if not request.may(operation, (TOPIC, topic)):
        raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
