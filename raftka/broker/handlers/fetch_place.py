"""Where a reader of a Fetch stands in a partition's log: whether its log and ours part, and the short way for a follower that has all of it."""

from raftka.broker.replica.fetch_session_cache import CachedPartition, Reader
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.partition import Partition
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.fetch import FetchPartition


def divergence(partition: Partition, fetch_request: FetchPartition) -> tuple[int, int] | None:
    """KIP-320: the epoch and the end offset where the reader's log and ours part, if they do. Raises OFFSET_OUT_OF_RANGE."""
    asked, log = fetch_request.last_fetched_epoch, partition.log
    if asked == log.latest_epoch and fetch_request.fetch_offset <= log.end_offset:
        return None
    epoch, end = log.epoch_end(asked)
    if epoch < 0 or asked > partition.leader_epoch:
        raise KafkaError(Code.OFFSET_OUT_OF_RANGE)
    return None if epoch == asked and end >= fetch_request.fetch_offset else (epoch, end)


def noted(replicas: ReplicaManager, cached: CachedPartition, reader: Reader, now: float) -> bool:
    """Note what a genuine follower has on its disk, where it has all that is written here and the records to come are all that it waits for.

    Then nothing is read: its row is made when it is answered. False: nothing was noted, and the partition is read as any other.
    """
    partition, asked = cached.partition, cached.fetch_request
    if partition is None or replicas.by_id.get((partition.topic_id, asked.partition)) is not partition:
        return False
    leader, log = partition.leader, partition.log
    if (
        leader is None
        or reader.replica not in leader.isr
        or asked.fetch_offset != log.end_offset
        or asked.last_fetched_epoch != log.latest_epoch
        or asked.current_leader_epoch != leader.leader_epoch
        or asked.log_start_offset != log.start_offset
        or cached.log_start != log.start_offset
    ):
        return False
    try:
        effects = leader.fetched(reader.replica, asked.fetch_offset, now, reader.broker_epoch)
    except KafkaError:
        return False
    if effects:
        partition.apply(effects)
    partition.start_told(reader.replica, asked.log_start_offset)
    partition.idle_followers[cached] = None
    return True
