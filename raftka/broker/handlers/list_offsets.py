"""ListOffsets: v1-11; the ends of a partition, or the first offset at or after a timestamp. Reads the log, never waits."""

from typing import TYPE_CHECKING

from raftka.broker.dispatch import Request, handles
from raftka.broker.handlers.finding import check
from raftka.broker.handlers.list_offsets_plan import remember
from raftka.broker.partition_host import PartitionHost
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    LIST_OFFSETS,
    MAX_TIMESTAMP,
)
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

response = LIST_OFFSETS.response
SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}  # versions
CONSUMER, DEBUGGER = -1, -2  # replica ids; others are those of followers
Found = tuple[int, int, int]  # timestamp, offset, leader epoch
NOT_FOUND: Found = (-1, -1, -1)


def _refused(request: Request, code: Code) -> Row:
    rows = []
    for topic in request.body.topics:
        partitions = [response.topics.partitions(partition_index=p.partition_index, error_code=int(code)) for p in topic.partitions]
        rows.append(response.topics(name=topic.name, partitions=partitions))
    return request.answer(topics=rows)


@handles(LIST_OFFSETS, refused=_refused)
def list_offsets(request: Request, node: "Node") -> Row:
    return response(topics=[response.topics(name=topic.name, partitions=_partitions(request, node, topic)) for topic in request.body.topics])


def _partitions(request: Request, node: "Node", topic: Row) -> list[Row]:
    asked = [partition.partition_index for partition in topic.partitions]
    rows: dict[int, Row] = {}
    for partition in topic.partitions:
        index = partition.partition_index
        row = response.topics.partitions(partition_index=index, error_code=0)
        try:
            if asked.count(index) > 1 if len(asked) < 100 else index in rows:
                raise KafkaError(Code.INVALID_REQUEST)
            row.timestamp, row.offset, row.leader_epoch = _find(request, node, topic.name, partition)
        except KafkaError as error:
            row.error_code = int(error.code)
            if request.version < 5 and error.code is Code.OFFSET_NOT_AVAILABLE:
                row.error_code = int(Code.LEADER_NOT_AVAILABLE)
        rows[index] = row
    return list(rows.values())


def _find(request: Request, node: "Node", topic: str, partition: Row) -> Found:
    timestamp: int = partition.timestamp
    check(request, "DESCRIBE", topic)
    if timestamp < 0 and SINCE.get(timestamp, 99) > request.version:
        raise KafkaError(Code.UNSUPPORTED_VERSION)  # whether or not there is such a partition
    host = node.replicas.find(topic, partition.partition_index)
    if request.body.replica_id != DEBUGGER:
        host.leading()
    host.check_epoch(partition.current_leader_epoch)
    if request.body.replica_id != CONSUMER:
        return _special(host, timestamp, host.log.end_offset)
    if timestamp in (LATEST, EARLIEST) and len(request.body.topics) == len(request.body.topics[0].partitions) == 1:
        remember(request, host)
    if not host.leading().knows_its_end and timestamp not in (EARLIEST, EARLIEST_LOCAL):
        raise KafkaError(Code.OFFSET_NOT_AVAILABLE)
    return _special(host, timestamp, host.high_watermark)


def _special(host: PartitionHost, timestamp: int, end: int) -> Found:
    log = host.log
    if timestamp == LATEST:
        return -1, end, host.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.start_offset, _epoch(host, log.start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOT_FOUND
    found = log.max_timestamp_offset(end) if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp, end)
    return NOT_FOUND if found is None else found


def _epoch(host: PartitionHost, offset: int) -> int:
    """The leader epoch in which the record at `offset` was (or, at the end of the log, will be) written."""
    epoch = host.log.epoch_of(offset)
    return epoch if epoch >= 0 else host.leader_epoch
