"""The partition that a request names. The right of its sender is checked first: a client without it
is not told whether the topic exists. Knows no API.
"""

from raftka.broker.network.access.authorizer import TOPIC
from raftka.broker.network.request import Request
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.partition import Partition
from raftka.wire.errors import Code, KafkaError
from raftka.wire.schema import Row


def find(
    request: Request[Row], replicas: ReplicaManager, operation: str, topic: str | bytes, index: int
) -> Partition:
    """Return the partition, by the topic's name or id. Raises TOPIC_AUTHORIZATION_FAILED, and what
    ReplicaManager.find raises.
    """
    if isinstance(topic, bytes):
        partition = replicas.find_by_id(topic, index)
        check(request, operation, partition.topic)
        return partition
    check(request, operation, topic)
    return replicas.find(topic, index)


def check(request: Request[Row], operation: str, topic: str) -> None:
    """Raise TOPIC_AUTHORIZATION_FAILED if the sender has not the right."""
    if not request.may(operation, (TOPIC, topic)):
        raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
