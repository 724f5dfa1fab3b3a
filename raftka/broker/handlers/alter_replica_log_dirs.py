"""AlterReplicaLogDirs: v1-2 (KIP-113). Move replicas of this broker to other log directories of it.
Answered when the moves have begun.
"""

from collections.abc import Callable
from functools import partial

from raftka.broker.handlers.parts import ReplicaParts
from raftka.broker.network.access.authorizer import THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)

response = ALTER_REPLICA_LOG_DIRS.response
of_partition = response.results.partitions


def _refuse_all(
    request: Request[AlterReplicaLogDirsRequest], code: Code
) -> Steps[AlterReplicaLogDirsResponse]:
    return (yield from _move_replicas(request, lambda path, topic, index: code))


@handles(ALTER_REPLICA_LOG_DIRS, refused=_refuse_all)
def alter_replica_log_dirs(
    request: Request[AlterReplicaLogDirsRequest], replicas: ReplicaParts
) -> Steps[AlterReplicaLogDirsResponse]:
    if not request.may("ALTER", THE_CLUSTER):
        raise KafkaError(Code.CLUSTER_AUTHORIZATION_FAILED)
    return (yield from _move_replicas(request, partial(_move_replica, replicas)))


def _move_replicas(
    request: Request[AlterReplicaLogDirsRequest], move: Callable[[str, str, int], Code]
) -> Steps[AlterReplicaLogDirsResponse]:
    """Call `move` for each partition. Of a partition with two directories the last one counts."""
    wanted: dict[str, dict[int, str]] = {}
    for each in request.body.dirs:
        for topic in each.topics:
            of_topic = wanted.setdefault(topic.name, {})
            for index in topic.partitions:
                of_topic[index] = each.path
                yield
            yield
    results = request.encoded_rows(response.results)
    for name, paths in wanted.items():
        rows = request.encoded_rows(of_partition)
        for index, path in paths.items():
            rows.add(of_partition(partition_index=index, error_code=int(move(path, name, index))))
            yield
        results.add(response.results(topic_name=name, partitions=rows))
        yield
    return response(results=results)


def _move_replica(replicas: ReplicaParts, path: str, topic: str, index: int) -> Code:
    try:
        replicas.housekeeping.mover.alter(path, topic, index)
    except KafkaError as error:
        return error.code
    return Code.NONE
