"""DescribeLogDirs: v1-5; what lies in which directory of this broker, how large it is, how far
behind (KIP-113, KIP-827).
"""

from collections import defaultdict

from raftka.broker.context import BrokerContext, MetadataCache
from raftka.broker.handlers.parts import ReplicaParts
from raftka.broker.network.access.authorizer import THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.wire.encoder import EncodedRows
from raftka.wire.errors import Code
from raftka.wire.messages.log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)

response = DESCRIBE_LOG_DIRS.response
of_directory = response.results
of_partition = of_directory.topics.partitions
Topics = dict[str, EncodedRows[DescribeLogDirsPartition]]


@handles(DESCRIBE_LOG_DIRS)
def describe_log_dirs(
    request: Request[DescribeLogDirsRequest], metadata: MetadataCache, replicas: ReplicaParts
) -> Steps[DescribeLogDirsResponse]:
    if not request.may("DESCRIBE", THE_CLUSTER):
        return response(error_code=int(Code.CLUSTER_AUTHORIZATION_FAILED))
    found = yield from _replicas(request, replicas, (yield from _asked(request, replicas)))
    return response(
        error_code=0,
        results=[
            _directory(replicas, request.dispatcher.context, path, found[path])
            for path in dict.fromkeys(metadata.settings.log_dirs)
        ],
    )


def _directory(
    replicas: ReplicaParts, context: BrokerContext, path: str, topics: Topics
) -> DescribeLogDirsResult:
    row = of_directory(error_code=0, log_dir=path)
    try:
        if path in replicas.logs.offline:
            raise replicas.logs.offline[path]
        row.total_bytes, row.usable_bytes = context.runtime.files.space(path)
    except OSError:
        row.error_code = int(Code.KAFKA_STORAGE_ERROR)
        return row
    row.is_cordoned = replicas.logs.is_cordoned(path)
    row.topics = [of_directory.topics(name=name, partitions=rows) for name, rows in topics.items()]
    return row


def _asked(
    request: Request[DescribeLogDirsRequest], replicas: ReplicaParts
) -> Steps[list[tuple[str, int]]]:
    """The replicas of this broker that the request names; with none named, all."""
    topics, partitions = request.body.topics, replicas.manager.partitions
    if topics is None:
        return list(partitions)
    asked = set()
    for topic in topics:
        for index in topic.partitions:
            if (key := (topic.topic, index)) in partitions:
                asked.add(key)
            yield
        yield
    return sorted(asked)


def _replicas(
    request: Request[DescribeLogDirsRequest], replicas: ReplicaParts, asked: list[tuple[str, int]]
) -> Steps[dict[str, Topics]]:
    found: dict[str, Topics] = defaultdict(
        lambda: defaultdict(lambda: request.encoded_rows(of_partition))
    )
    partitions, moves = replicas.manager.partitions, replicas.housekeeping.mover.moves
    for key in asked:
        yield
        partition = partitions.get(key)
        if partition is None:
            continue  # it was removed meanwhile
        lag = max(0, partition.high_watermark - partition.log.end_offset)
        found[partition.home.path][partition.topic].add(
            _partition(partition.index, partition.log.size_bytes, lag)
        )
        if partition in moves:
            move = moves[partition]
            found[move.target.path][partition.topic].add(
                _partition(partition.index, move.future.size_bytes, move.lag, is_future=True)
            )
    return found


def _partition(
    index: int, size_bytes: int, lag: int, *, is_future: bool = False
) -> DescribeLogDirsPartition:
    return of_partition(
        partition_index=index, partition_size=size_bytes, offset_lag=lag, is_future_key=is_future
    )
