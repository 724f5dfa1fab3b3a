"""Reads of one partition for a Fetch. Every way that a Fetch takes reads here: `read_for_follower`
for replicas, `read_for_consumer` for clients.

A follower reads everything that is written, and its fetch offset says what it has on its disk. A
consumer reads what is committed.
"""

from collections.abc import Sequence

from raftka.broker.fetch.sessions import CachedPartition, Reader
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.partition import Partition
from raftka.log.log import Log
from raftka.metadata.image import MetadataImage
from raftka.runtime.interfaces import FileSpan
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.fetch import FetchPartition

NO_RECORDS: tuple[Sequence[FileSpan], int] = ((), 0)
Divergence = tuple[int, int]  # an epoch of this log, and the offset where it ends
# The records and their bytes; True if the answer should not wait; the divergence, if there is one.
FollowerRead = tuple[Sequence[FileSpan], int, bool, Divergence | None]
# The records and their bytes, the high watermark, the last stable offset.
ConsumerRead = tuple[Sequence[FileSpan], int, int, int]


class AbortedUnknown(Exception):
    """The aborted transactions have to be read from files first (`AbortedTransactions.load`)."""

    def __init__(self, log: Log) -> None:
        self.log = log


def is_registered(image: MetadataImage, reader: Reader) -> bool:
    """Return whether this is a replica as the controller knows it. Any client can claim to be one;
    a false one would move the high watermark.
    """
    broker = image.brokers.get(reader.replica)
    return broker is not None and broker.epoch == reader.broker_epoch


# one function, because it is the hot path of replication
def read_for_follower(
    replicas: ReplicaManager,
    partition: Partition,
    cached: CachedPartition,
    reader: Reader,
    now: float,
    limit: int,
    at_least_one: bool,
) -> FollowerRead:
    """Read at most `limit` bytes for a follower, and note that it has everything before its fetch
    offset on its disk. Raises KafkaError, OSError.

    The offset is noted last: after the checks of the follower, its epoch and a divergence of the
    logs, because without them it says nothing about this log; and after the read, because an error
    must not count as a fetch. A negative `limit` is an error if there is something to read.
    """
    asked, log, (replica, broker_epoch) = cached.fetch_request, partition.log, reader
    epoch, last_epoch, offset = (
        asked.current_leader_epoch,
        asked.last_fetched_epoch,
        asked.fetch_offset,
    )
    if epoch >= 0 and epoch != partition.image.leader_epoch:
        partition.check_epoch(epoch)
    leader = partition.leader or partition.leading()
    broker = replicas.context.metadata.image.brokers.get(replica)
    if broker is None or broker.epoch != broker_epoch:  # as `is_registered`, without its call
        raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER)
    if last_epoch >= 0 and (last_epoch != log.latest_epoch or offset > log.end_offset):
        divergence = find_divergence(partition, asked)
        if divergence is not None:
            return (), 0, True, divergence

    spans, size = NO_RECORDS
    throttle = None if replica in leader.isr else replicas.throttles.sends(partition)
    if throttle is None or throttle.free_at <= now:
        if offset < log.start_offset:
            raise KafkaError(Code.OFFSET_OUT_OF_RANGE)
        if offset < log.end_offset:
            if limit < 0:
                raise KafkaError(Code.UNKNOWN_SERVER_ERROR)  # Kafka's own answer
            if limit or at_least_one:
                spans, size = log.read(offset, limit, log.end_offset, at_least_one)
            if not size:
                cached.session.dirty[cached] = None  # what did not fit comes with the next answer
        if throttle is not None:
            throttle.passed(size, now)

    if effects := leader.fetched(replica, offset, now, broker_epoch):
        partition.apply(effects)
    partition.start_told(replica, asked.log_start_offset)
    if replica not in leader.isr:
        cached.session.dirty[cached] = None  # each of its fetches may be the one that lets it in
    return (
        spans,
        size,
        # DeleteRecords may wait for the follower's log start, its consumers for the high watermark
        0 <= asked.log_start_offset < log.start_offset
        or (
            replicas.prefers_racks
            and cached.session.lasting
            and leader.high_watermark > cached.high_watermark
        ),
        None,
    )


def read_for_consumer(
    partition: Partition,
    offset: int,
    limit: int,
    isolated: bool,
    at_least_one: bool,
    may_pause: bool = True,
) -> ConsumerRead:
    """Read at most `limit` bytes up to the high watermark; with `isolated` up to the last stable
    offset. For consumers, held batches at the end are not there. Raises KafkaError, OSError.

    With `may_pause` it raises AbortedUnknown where `isolated` would need a long look into files. A
    negative `limit` is an error if there is something to read.
    """
    leader, log = partition.leader, partition.log
    high_watermark = (
        leader.high_watermark if leader is not None else partition.follower_state.high_watermark
    )
    stable = log.last_stable_offset(high_watermark)
    if log.held is not None:
        high_watermark, stable = log.visible_end(high_watermark), log.visible_end(stable)
    readable = stable if isolated else high_watermark
    if offset < log.start_offset or (offset >= readable and offset > log.end_offset):
        raise KafkaError(Code.OFFSET_OUT_OF_RANGE)
    if offset >= readable:
        return (), 0, high_watermark, stable
    if limit < 0:
        raise KafkaError(Code.UNKNOWN_SERVER_ERROR)  # Kafka's own answer
    if isolated and may_pause and offset < log.aborted.known_from:
        raise AbortedUnknown(log)
    spans, size = (
        log.read_for_consumer(offset, limit, readable, at_least_one)
        if limit or at_least_one
        else NO_RECORDS
    )
    return spans, size, high_watermark, stable


def find_divergence(partition: Partition, asked: FetchPartition) -> Divergence | None:
    """Return the end of the reader's last epoch in this log, if its log parts from this one before
    its fetch offset (KIP-320). Raises OFFSET_OUT_OF_RANGE.
    """
    log, last_epoch = partition.log, asked.last_fetched_epoch
    if last_epoch == log.latest_epoch and asked.fetch_offset <= log.end_offset:
        return None
    epoch, end = log.epoch_end(last_epoch)
    if epoch < 0 or last_epoch > partition.leader_epoch:
        raise KafkaError(Code.OFFSET_OUT_OF_RANGE)
    return None if epoch == last_epoch and end >= asked.fetch_offset else (epoch, end)
