"""AlterReplicaLogDirs: v1-2; this broker's replicas are to lie in other directories of its (KIP-113). Answered when that has begun."""

from collections import defaultdict
from typing import TYPE_CHECKING

from raftka.broker.authorizer import THE_CLUSTER
from raftka.broker.dispatch import Request, handles
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.log_dirs import ALTER_REPLICA_LOG_DIRS
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

response = ALTER_REPLICA_LOG_DIRS.response
of_partition = response.results.partitions


def _refused(request: Request, code: Code) -> Row:
    topics: dict[str, list[Row]] = defaultdict(list)
    for _, topic, index in _asked(request):
        topics[topic].append(of_partition(partition_index=index, error_code=int(code)))
    return _answer(topics)


@handles(ALTER_REPLICA_LOG_DIRS, refused=_refused)
def alter_replica_log_dirs(request: Request, node: "Node") -> Row:
    if not request.may("ALTER", THE_CLUSTER):
        return _refused(request, Code.CLUSTER_AUTHORIZATION_FAILED)
    topics: dict[str, list[Row]] = defaultdict(list)
    for path, topic, index in _asked(request):
        topics[topic].append(of_partition(partition_index=index, error_code=int(_alter(node, path, topic, index))))
    return _answer(topics)


def _asked(request: Request) -> list[tuple[str, str, int]]:
    """A partition that is named for two directories is to lie in the last."""
    wanted = {(topic.name, index): each.path for each in request.body.dirs for topic in each.topics for index in topic.partitions}
    return [(path, topic, index) for (topic, index), path in wanted.items()]


def _alter(node: "Node", path: str, topic: str, index: int) -> Code:
    try:
        node.replicas.mover.alter(path, topic, index)
    except KafkaError as error:
        return error.code
    return Code.NONE


def _answer(topics: dict[str, list[Row]]) -> Row:
    return response(results=[response.results(topic_name=name, partitions=rows) for name, rows in topics.items()])
