"""ListOffsets: v1-11; the ends of a partition, or the first offset at or after a timestamp. Reads
the log, never waits.
"""

from raftka.broker.fetch.list_offsets_plan import remember
from raftka.broker.handlers.by_topic import rows_by_topic
from raftka.broker.handlers.parts import ReplicaParts
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.replica.finding import check
from raftka.broker.replica.partition import Partition
from raftka.broker.work.long_work import Steps
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.fetch import READ_COMMITTED
from raftka.wire.messages.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    LIST_OFFSETS,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

response = LIST_OFFSETS.response
# versions
SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
CONSUMER, DEBUGGER = -1, -2  # replica ids; others are those of followers
Found = tuple[int, int, int]  # timestamp, offset, leader epoch
NOT_FOUND: Found = (-1, -1, -1)


def _refused(request: Request[ListOffsetsRequest], code: Code) -> Steps[ListOffsetsResponse]:
    def partition(_: ListOffsetsTopic, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        return response.topics.partitions(
            partition_index=asked.partition_index, error_code=int(code)
        )

    return response(
        topics=(yield from rows_by_topic(request, response.topics, request.body.topics, partition))
    )


@handles(LIST_OFFSETS, refused=_refused)
def list_offsets(
    request: Request[ListOffsetsRequest], replicas: ReplicaParts
) -> Steps[ListOffsetsResponse]:
    """Answer each partition. One that a topic names twice is refused, once."""
    topics = request.encoded_rows(response.topics)
    for topic in request.body.topics:
        times: dict[int, int] = {}
        for partition in topic.partitions:
            times[partition.partition_index] = times.get(partition.partition_index, 0) + 1
            yield
        rows = request.encoded_rows(response.topics.partitions)
        for partition in topic.partitions:
            if (count := times.pop(partition.partition_index, 0)) > 0:
                rows.add(
                    (
                        yield from _partition(
                            request, replicas, topic.name, partition, repeated=count > 1
                        )
                    )
                )
            yield
        topics.add(response.topics(name=topic.name, partitions=rows))
        yield
    return response(topics=topics)


def _partition(
    request: Request[ListOffsetsRequest],
    replicas: ReplicaParts,
    topic: str,
    partition: ListOffsetsPartition,
    *,
    repeated: bool,
) -> Steps[ListOffsetsPartitionResponse]:
    row = response.topics.partitions(partition_index=partition.partition_index, error_code=0)
    try:
        if repeated:
            raise KafkaError(Code.INVALID_REQUEST)
        row.timestamp, row.offset, row.leader_epoch = yield from _find(
            request, replicas, topic, partition
        )
    except KafkaError as error:
        row.error_code = int(error.code)
        if request.version < 5 and error.code is Code.OFFSET_NOT_AVAILABLE:
            row.error_code = int(Code.LEADER_NOT_AVAILABLE)
    return row


def _find(
    request: Request[ListOffsetsRequest],
    replicas: ReplicaParts,
    topic: str,
    asked: ListOffsetsPartition,
) -> Steps[Found]:
    timestamp: int = asked.timestamp
    check(request, "DESCRIBE", topic)
    if timestamp < 0 and SINCE.get(timestamp, 99) > request.version:
        raise KafkaError(Code.UNSUPPORTED_VERSION)  # also where there is no such partition
    partition = replicas.manager.find(topic, asked.partition_index)
    if request.body.replica_id != DEBUGGER:
        partition.leading()
    partition.check_epoch(asked.current_leader_epoch)
    consumer = request.body.replica_id == CONSUMER
    if (
        consumer
        and timestamp in (LATEST, EARLIEST)
        and len(request.body.topics) == len(request.body.topics[0].partitions) == 1
    ):
        remember(request, partition)
    if (
        consumer
        and not partition.leading().knows_its_end
        and timestamp not in (EARLIEST, EARLIEST_LOCAL)
    ):
        raise KafkaError(Code.OFFSET_NOT_AVAILABLE)
    log, isolation_level = partition.log, request.body.isolation_level
    end = (
        partition.readable_end(is_isolated=isolation_level == READ_COMMITTED)
        if consumer
        else log.end_offset
    )
    try:
        steps = _find_offset(partition, timestamp, end)
        while True:
            next(steps)
            yield
            if (
                replicas.manager.find(topic, asked.partition_index) is not partition
                or partition.log is not log
            ):
                raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER)  # its log may be closed by now
            if request.body.replica_id != DEBUGGER:
                partition.leading()
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    except OSError as error:
        replicas.housekeeping.directories.failed(partition.home, error)
        raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(error)) from error


def _find_offset(partition: Partition, timestamp: int, end: int) -> Steps[Found]:
    log = partition.log
    if timestamp == LATEST:
        return -1, end, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.start_offset, _epoch(partition, log.start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOT_FOUND
    found = yield from (
        log.search_largest(end) if timestamp == MAX_TIMESTAMP else log.search_time(timestamp, end)
    )
    return NOT_FOUND if found is None else found


def _epoch(partition: Partition, offset: int) -> int:
    """Return the leader epoch in which the record at `offset` was (or, at the end of the log, will
    be) written.
    """
    epoch = partition.log.epoch_of(offset)
    return epoch if epoch >= 0 else partition.leader_epoch
