"""Planted in replication: what a leader counts as committed, whom it lets in, what a follower
claims and cuts.
"""

from typing import Any

from raftka.broker.fetch import reading
from raftka.broker.replica.fetcher import PartitionFetchState
from raftka.broker.replica.partition import Partition
from raftka.replication.follower import NOTHING, FollowerFetch, Phase
from raftka.replication.partition import AdvanceHighWatermark, Follower, LeaderState
from tests.mutants.registry import mutant, part_of


@mutant(Partition, "flush")
def leader_counts_what_is_written(flush: Any) -> Any:
    """Ack before fsync: the leader counts what is written, not what its disk has."""

    def bug(self: Partition) -> None:
        if self.leader is not None and self.log.failed is None:
            self.apply(self.leader.flushed(self.log.written_offset))
        flush(self)

    return bug


@mutant(Partition, "_check_for_more")
def what_waits_for_more_is_forgotten(look: Any) -> Any:
    """A produce that waits some turns for others goes neither to the disk nor to followers, unless
    others come.
    """

    def bug(self: Partition) -> None:
        self._check_due = False

    return bug


@mutant(LeaderState, "_durable_everywhere")
def leader_does_not_count_itself(everywhere: Any) -> Any:
    """Records that all followers have are committed, also where the leader's own disk has them
    not.
    """

    def bug(self: LeaderState) -> int:
        mine, self.flushed_offset = self.flushed_offset, self.log_end_offset
        try:
            return int(everywhere(self)) if len(self.isr) > 1 else mine
        finally:
            self.flushed_offset = mine

    return bug


@mutant(LeaderState, "_durable_everywhere")
def majority_of_the_isr_is_enough(everywhere: Any) -> Any:
    """Records that most of the ISR has are committed: one of the others may lead next."""

    def bug(self: LeaderState) -> int:
        ends = sorted(
            [
                self.flushed_offset,
                *(each.end_offset for each in self._followers.values() if each.counts),
            ],
            reverse=True,
        )
        return max(ends[len(ends) // 2], int(everywhere(self)))

    return bug


@mutant(LeaderState, "_ask")
def high_watermark_ahead_of_the_shrink(ask: Any) -> Any:
    """The leader does not wait for a replica that is to leave the ISR, although the controller may
    not have agreed.
    """

    def bug(self: LeaderState, isr: Any) -> Any:
        isr = tuple(isr)
        effects = ask(self, isr)
        for follower in self._followers.values():
            follower.counts = follower.id in isr
        return effects

    return bug


@mutant(LeaderState, "_in_sync")
def joins_the_isr_too_early(_: Any) -> Any:
    """A replica that is still catching up is taken into the ISR."""

    def bug(self: LeaderState, follower: Follower) -> bool:
        return True

    return bug


@mutant(LeaderState, "_advance")
def high_watermark_goes_back(_: Any) -> Any:
    """The high watermark follows whoever joins the ISR, also downwards."""

    def bug(self: LeaderState) -> Any:
        if self.under_min_isr:
            return ()
        everywhere = max(0, self._durable_everywhere())
        if everywhere == self.high_watermark:
            return ()
        self.high_watermark = everywhere
        return (AdvanceHighWatermark(everywhere),)

    return bug


@mutant(LeaderState, "_advance")
def commits_while_others_are_eligible(advance: Any) -> Any:
    """A leader goes on below min.insync.replicas, although replicas outside its ISR may lead
    next.
    """

    def bug(self: LeaderState) -> Any:
        kept, self.elr, self.min_isr = (self.elr, self.min_isr), (), 1
        try:
            return advance(self)
        finally:
            self.elr, self.min_isr = kept

    return bug


@mutant(LeaderState, "under_min_isr")
def min_isr_is_not_looked_at(_: Any) -> Any:
    """acks=all is answered whoever is left in the ISR."""
    return property(lambda self: False)


@part_of(min_isr_is_not_looked_at, LeaderState, "_adopt")
def eligible_replicas_are_not_looked_at(adopt: Any) -> Any:
    """Else the leader would wait for an ISR that is large enough."""
    return lambda self, isr, partition_epoch, elr: adopt(self, isr, partition_epoch, ())


@mutant(LeaderState, "knows_its_end")
def tells_its_end_too_early(_: Any) -> Any:
    """A new leader shows its late high watermark as the end (before KIP-207): the end goes back."""
    return property(lambda self: True)


@mutant(LeaderState, "alter_answered")
def late_answer_is_believed(answered: Any) -> Any:
    """An answer about an ISR that the metadata has overtaken is taken for the newest."""

    def bug(self: LeaderState, request: Any, answer: Any, now: float) -> Any:
        pending, self.pending = self.pending, request
        effects = answered(self, request, answer, now)
        self.pending = pending if pending is not request else self.pending
        return effects

    return bug


@mutant(FollowerFetch, "_flush_first")
def follower_claims_what_is_written(_: Any) -> Any:
    """A follower fetches from where it has written, before its disk has it."""

    def bug(self: FollowerFetch) -> Any:
        self._flushed_offset = self._log_end
        self.phase = Phase.READY
        return NOTHING

    return bug


@mutant(PartitionFetchState, "start")
def truncates_to_the_high_watermark(start: Any) -> Any:
    """As Kafka did before KIP-101: a follower cuts its log to what it knows to be committed, and
    loses what it had acknowledged.
    """

    def bug(self: PartitionFetchState) -> None:
        log = self.partition.log
        if log.end_offset > self.partition.high_watermark:
            log.truncate_to(self.partition.high_watermark)
            self.fetch = FollowerFetch(
                self.partition.follower_state,
                log.start_offset,
                log.end_offset,
                log.flushed_offset,
                log.latest_epoch,
                log.epoch_end,
            )
        start(self)

    return bug


@mutant(FollowerFetch, "_common_end")
def never_truncates(_: Any) -> Any:
    """A follower keeps what its leader never had."""

    def bug(self: FollowerFetch, epoch: int, leader_end: int) -> int:
        return self._log_end

    return bug


@mutant(FollowerFetch, "_common_end")
def truncates_one_record_too_few(common_end: Any) -> Any:
    """Off by one: the first record that the leader has otherwise stays."""

    def bug(self: FollowerFetch, epoch: int, leader_end: int) -> int:
        return min(int(common_end(self, epoch, leader_end)) + 1, self._log_end)

    return bug


@mutant(FollowerFetch, "_common_end")
def truncates_by_the_leaders_end_alone(_: Any) -> Any:
    """The follower does not look where its own epoch ends: the leader's end may lie in records of
    another epoch here.
    """

    def bug(self: FollowerFetch, epoch: int, leader_end: int) -> int:
        return min(leader_end, self._log_end)

    return bug


@mutant(reading, "find_divergence")
def divergence_is_not_looked_for(_: Any) -> Any:
    """A leader sends what follows an offset, whatever the follower has before it."""

    def bug(partition: Partition, asked: Any) -> Any:
        return None

    return bug


@mutant(reading, "read_for_follower")
def what_is_sent_to_a_follower_counts_as_flushed(read: Any) -> Any:
    """A leader counts the records that it is about to send as flushed by the follower."""

    def bug(replicas: Any, partition: Partition, cached: Any, reader: Any, *given: Any) -> Any:
        found = read(replicas, partition, cached, reader, *given)
        _, size, *_ = found
        if size and partition.leader is not None:
            replica, broker_epoch = reader
            partition.apply(
                partition.leader.fetched(replica, partition.log.end_offset, 0.0, broker_epoch)
            )
        return found

    return bug
