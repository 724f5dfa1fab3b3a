"""The partition that a request names: whether its sender may know of it comes before whether it is
there. Knows no API.
"""

from raftka.broker.handlers.services import Services
from raftka.broker.network.access.authorizer import TOPIC
from raftka.broker.network.request import Request
from raftka.broker.replica.partition import Partition
from raftka.wire.errors import Code, KafkaError
from raftka.wire.schema import Row


def find(
    request: Request[Row], services: Services, operation: str, topic: str | bytes, index: int
) -> Partition:
    """By name or by id. Raises TOPIC_AUTHORIZATION_FAILED, and what ReplicaManager.find raises; who
    may not is not told whether a name exists.
    """
    if isinstance(topic, bytes):
        partition = services.replicas.find_by_id(topic, index)
        check(request, operation, partition.topic)
        return partition
    check(request, operation, topic)
    return services.replicas.find(topic, index)


def check(request: Request[Row], operation: str, topic: str) -> None:
    """Raises TOPIC_AUTHORIZATION_FAILED."""
    if not request.may(operation, (TOPIC, topic)):
        raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
