"""The zoo: mistakes that a broker could make, planted into the running code, so that the simulation can show that it notices each.

with planted("leader_counts_what_is_written"):
    assert live(3, POWER).violations
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from raftka.broker.partition_host import PartitionHost
from raftka.broker.quorum import Quorum
from raftka.broker.replica_fetcher import Follow
from raftka.log.log import Log
from raftka.metadata.directories import DirectoriesHere
from raftka.metadata.journal import Journal
from raftka.metadata.raft import RaftCore
from raftka.metadata.raft_engine import LEADER
from raftka.replication.follower import NOTHING, FollowerFetch, Phase
from raftka.replication.partition import LeaderState

Plant = tuple[type, str, Callable[[Any], Any]]  # class, name, original -> bug


def _leader_counts_what_is_written(flush: Any) -> Any:
    def bug(self: PartitionHost) -> None:
        if self.leader is not None and self.log.failed is None:
            self.apply(self.leader.flushed(self.log.written_offset))
        flush(self)

    return bug


def _follower_claims_what_is_written(_: Any) -> Any:
    def bug(self: FollowerFetch) -> Any:
        self._flushed_offset = self._log_end
        self.phase = Phase.READY
        return NOTHING

    return bug


def _truncates_to_the_high_watermark(start: Any) -> Any:
    """As Kafka did before KIP-101."""

    def bug(self: Follow) -> None:
        log = self.host.log
        if log.end_offset > self.host.high_watermark:
            log.truncate_to(self.host.high_watermark)
            self.fetch = FollowerFetch(
                self.host.follower_state, log.start_offset, log.end_offset, log.flushed_offset, log.latest_epoch, log.epoch_end
            )
        start(self)

    return bug


def _never_truncates(_: Any) -> Any:
    def bug(self: FollowerFetch, epoch: int, leader_end: int) -> int:
        return self._log_end

    return bug


def _high_watermark_ahead_of_the_shrink(ask: Any) -> Any:
    """Who is to leave the ISR is not waited for, although the controller may not have agreed."""

    def bug(self: LeaderState, isr: Any) -> Any:
        isr = tuple(isr)
        effects = ask(self, isr)
        for follower in self._followers.values():
            follower.counts = follower.id in isr
        return effects

    return bug


def _joins_the_isr_too_early(_: Any) -> Any:
    def bug(self: LeaderState, follower: Any) -> bool:
        return True

    return bug


def _acts_before_its_term_has_begun(_: Any) -> Any:
    return property(lambda self: self._voter.state == LEADER)


def _journal_without_flush(_: Any) -> Any:
    def bug(self: Quorum) -> None:
        self._poked = False
        core = self.core
        assert core is not None
        core.step(self.clock.now())
        if core.unsynced:
            core.take_sync()
            core.synced()
        self._ship()

    return bug


def _forgets_its_vote(_: Any) -> Any:
    def bug(self: Journal, term: int, vote: int | None) -> None:
        self.term, self.vote = term, vote

    return bug


def _follower_forgets_producers(append: Any) -> Any:
    def bug(self: Log, batch: memoryview, header: Any) -> None:
        known = dict(self.producers.producers)
        append(self, batch, header)
        self.producers.producers.clear()
        self.producers.producers.update(known)

    return bug


def _believes_every_directory(_: Any) -> Any:
    """Another disk is mounted where one was, and its broker counts on with what it finds: nothing."""

    def bug(self: DirectoriesHere, replica: tuple[bytes, int], *, offline: bool) -> bool:
        return True

    return bug


PLANTS: dict[str, Plant] = {
    "leader_counts_what_is_written": (PartitionHost, "flush", _leader_counts_what_is_written),
    "follower_claims_what_is_written": (FollowerFetch, "_flush_first", _follower_claims_what_is_written),
    "truncates_to_the_high_watermark": (Follow, "start", _truncates_to_the_high_watermark),
    "never_truncates": (FollowerFetch, "_common_end", _never_truncates),
    "high_watermark_ahead_of_the_shrink": (LeaderState, "_ask", _high_watermark_ahead_of_the_shrink),
    "joins_the_isr_too_early": (LeaderState, "_in_sync", _joins_the_isr_too_early),
    "acts_before_its_term_has_begun": (RaftCore, "active", _acts_before_its_term_has_begun),
    "journal_without_flush": (Quorum, "_step", _journal_without_flush),
    "forgets_its_vote": (Journal, "set_vote", _forgets_its_vote),
    "believes_every_directory": (DirectoriesHere, "has", _believes_every_directory),
    "follower_forgets_producers": (Log, "_append_given", _follower_forgets_producers),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    owner, attribute, make = PLANTS[name]
    original = owner.__dict__[attribute]
    setattr(owner, attribute, make(original))
    try:
        yield
    finally:
        setattr(owner, attribute, original)
