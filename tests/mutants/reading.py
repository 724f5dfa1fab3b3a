"""Planted in what readers are told: records that are not committed, words of a leader that is none
any more, sessions that outlive what they knew.
"""

from typing import Any

from raftka.broker.fetch import reading
from raftka.broker.fetch.fetch import Fetch
from raftka.broker.fetch.sessions import CachedPartition, FetchSession
from raftka.broker.network.connection_quotas import ConnectionQuotas
from raftka.broker.replica.partition import Partition
from tests.mutants.registry import mutant


@mutant(reading, "read_for_consumer")
def shows_what_is_not_committed(read: Any) -> Any:
    """Fetch beyond the high watermark: readers see records that are taken back with the next
    leader.
    """

    def bug(partition: Partition, *given: Any) -> Any:
        leader = partition.leader
        if leader is None:
            return read(partition, *given)
        watermark, leader.high_watermark = leader.high_watermark, partition.log.end_offset
        try:
            spans, size, _, _ = read(partition, *given)
        finally:
            leader.high_watermark = watermark
        return spans, size, watermark, watermark

    return bug


@mutant(Partition, "check_epoch")
def answers_readers_of_another_epoch(_: Any) -> Any:
    """Stale leader read: who knows of a newer leader is answered by the one before (before
    KIP-320).
    """

    def bug(self: Partition, epoch: int) -> None: ...

    return bug


@mutant(Fetch, "_read_for_follower")
def divergence_tells_the_high_watermark(read: Any) -> Any:
    """A follower is told the high watermark when it must cut its log and does not listen; its
    session never says it again.
    """

    def bug(self: Fetch, partition: Partition, wanted: CachedPartition) -> Any:
        row, is_urgent = read(self, partition, wanted)
        if row.diverging_epoch.end_offset >= 0:
            row.high_watermark = row.last_stable_offset = partition.high_watermark
        return row, is_urgent

    return bug


@mutant(FetchSession, "want")
def says_nothing_twice(want: Any) -> Any:
    """A follower that begins anew in its leader's next epoch is not told again what the answer said
    that was under way (once real).
    """

    def bug(self: FetchSession, topics: Any) -> None:
        told = [
            (wanted, wanted.high_watermark, wanted.log_start) for wanted in self.partitions.values()
        ]
        want(self, topics)
        for wanted, high_watermark, log_start in told:
            wanted.high_watermark, wanted.log_start = high_watermark, log_start

    return bug


@mutant(ConnectionQuotas, "acceptor")
def serves_before_it_knows_anything(acceptor: Any) -> Any:
    """A broker that has just started tells clients that their topic is not there, and they believe
    it (once real).
    """

    def bug(self: ConnectionQuotas, listener: str) -> Any:
        accept, metadata = acceptor(self, listener), self._context.metadata

        def at_once() -> Any:
            published, metadata.published = metadata.published, True
            try:
                return accept()
            finally:
                metadata.published = published

        return at_once

    return bug


@mutant(Fetch, "_note_slice")
def interrupted_first_fetch_misses_records(note_slice: Any) -> Any:
    """Records that come between a look at a partition and the watch of a new session are not told
    before others come behind them.
    """

    def bug(self: Fetch) -> None:
        note_slice(self)
        self.began = self.slice

    return bug


@mutant(FetchSession, "want")
def session_change_forgets_what_is_new(_: Any) -> Any:
    """A request notes the partitions that it adds in the list that was there when it began, while
    another is made: they are not read (once real).
    """

    def bug(self: FetchSession, topics: Any) -> Any:
        partitions, dirty = self.partitions, self.dirty
        for topic in topics:
            for row in topic.partitions:
                key = topic.topic_id if self.by_id else topic.topic, row.partition
                cached = partitions.get(key)
                if cached is None:
                    self.turns += 1
                    cached = partitions[key] = CachedPartition(self, topic, row, self.turns)
                cached.fetch_request = row
                dirty[cached] = None
                yield
            yield

    return bug
