"""One replica's view of its partition: as leader the high watermark and the ISR, as follower what
the leader told.

Pure: methods take offsets and the time and return effects, which the broker carries out. *Durable*
offsets alone count: the leader's own flushed offset, and of a follower its fetch offset, because a
follower fetches from where it has flushed. Knows no log, no request, no image.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

from raftka.wire.errors import Code, KafkaError

RETRY_S = 0.1  # between two AlterPartitions of a partition, when the first was refused or got lost


@dataclass(frozen=True, slots=True)
class AdvanceHighWatermark:
    """Everything below `offset` is committed: parked produces and fetches may go on."""

    offset: int


@dataclass(frozen=True, slots=True)
class AlterIsr:
    """Ask the controller for this ISR; its answer goes to `LeaderState.alter_answered` together
    with this very object.
    """

    isr: tuple[tuple[int, int], ...]  # (replica, its broker epoch or -1)
    leader_epoch: int
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class Altered:
    """The controller's answer to an AlterIsr that it carried out."""

    isr: tuple[int, ...]
    partition_epoch: int
    elr: tuple[int, ...] = ()


Effect = AdvanceHighWatermark | AlterIsr
Effects = tuple[Effect, ...]
NOTHING: Effects = ()

# surely not carried out
BACK_TO_COMMITTED = frozenset({Code.OPERATION_NOT_ATTEMPTED, Code.INELIGIBLE_REPLICA})
# the controller knows better; what we asked for may yet stand in the image that comes
WAIT_FOR_IMAGE = frozenset(
    {
        Code.INVALID_UPDATE_VERSION,
        Code.FENCED_LEADER_EPOCH,
        Code.NEW_LEADER_ELECTED,
        Code.INVALID_REQUEST,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
    }
)


class PartitionView(Protocol):
    """The metadata image's partition, as replication uses it."""

    @property
    def replicas(self) -> Sequence[int]: ...
    @property
    def isr(self) -> Sequence[int]: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def partition_epoch(self) -> int: ...
    @property
    def elr(self) -> Sequence[int]: ...


class Follower:
    """A follower, as the leader knows it."""

    __slots__ = (
        "broker_epoch",
        "caught_up",
        "counts",
        "end_offset",
        "fetch_log_end",
        "fetch_time",
        "id",
        "log_start",
    )

    def __init__(self, replica: int, caught_up: float) -> None:
        self.id = replica
        # where it last fetched: all below is durable there; -1: has not fetched in this leader
        # epoch
        self.end_offset = -1
        self.caught_up = caught_up  # when it last had everything
        self.fetch_time = -inf
        self.fetch_log_end = -1  # the leader's log end when it last fetched
        # None: has not fetched; -1: a fetch without one (before v15)
        self.broker_epoch: int | None = None
        self.counts = False  # in the ISR, or asked to be: the high watermark waits for it
        self.log_start = -1  # as its last fetch said


class LeaderState:
    """The leader of one partition in one leader epoch; a new epoch is a new LeaderState.

    Read `high_watermark` after construction: a leader that is alone in its ISR advances at once.
    """

    __slots__ = (
        "_followers",
        "_live",
        "_min_isr",
        "_not_before",
        "_now",
        "elr",
        "epoch_start_offset",
        "flushed_offset",
        "high_watermark",
        "isr",
        "lag_time_max_s",
        "leader_epoch",
        "log_end_offset",
        "me",
        "min_isr",
        "partition_epoch",
        "pending",
    )

    def __init__(
        self,
        me: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Sequence[int],
        isr: Sequence[int],
        epoch_start_offset: int,
        flushed_offset: int,
        high_watermark: int,
        now: float,
        lag_time_max_s: float = 30.0,
        min_isr: int = 1,
        live: Mapping[int, int] | None = None,
        elr: Sequence[int] = (),
    ) -> None:
        """`epoch_start_offset`: the log end at election. `high_watermark`: the checkpointed or last
        told one. `live`: see on_image.
        """
        self.me = me
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.epoch_start_offset = self.log_end_offset = epoch_start_offset
        self.flushed_offset = flushed_offset
        # a checkpoint may be ahead of a log whose tail was lost
        self.high_watermark = min(high_watermark, epoch_start_offset)
        self.lag_time_max_s = lag_time_max_s
        self.pending: AlterIsr | None = None
        self._live: Mapping[int, int] = live or {}
        self._now = now
        self._not_before = -inf  # no AlterIsr earlier than that
        self._followers: dict[int, Follower] = {}
        self._min_isr = min_isr
        self.isr = tuple(isr)
        self._assign(replicas)
        self._adopt(isr, partition_epoch, elr)
        self._advance()

    # -- what the log and the followers report: the hot path
    # ------------------------------------------------------------------

    def appended(self, log_end: int) -> Effects:
        """The log grew; nothing is durable by that."""
        self.log_end_offset = log_end
        return NOTHING

    def flushed(self, offset: int) -> Effects:
        """Everything below `offset` is on the leader's disk."""
        if offset <= self.flushed_offset:
            return NOTHING
        self.flushed_offset = offset
        return self._advance()

    def fetched(
        self, replica: int, fetch_offset: int, now: float, broker_epoch: int = -1
    ) -> Effects:
        """A follower asks for `fetch_offset`, so it has flushed all below. Only after the read
        found no divergence: else the claim is not ours.

        Raises NOT_LEADER_OR_FOLLOWER for who is no replica, and for an earlier incarnation of one
        (KIP-903); OFFSET_OUT_OF_RANGE beyond the log end.
        """
        follower = self._followers.get(replica)
        if follower is None or broker_epoch != follower.broker_epoch:
            follower = self._introduced(replica, broker_epoch)
        self._now = now
        log_end = self.log_end_offset
        if fetch_offset >= log_end:
            if fetch_offset > log_end:
                raise KafkaError(
                    Code.OFFSET_OUT_OF_RANGE,
                    f"replica {replica} has {fetch_offset}, the leader {log_end}",
                )
            follower.caught_up = now
        elif fetch_offset >= follower.fetch_log_end > -1:
            # it has all there was when it asked before: under steady load no fetch ever meets the
            # log end
            follower.caught_up = follower.fetch_time
        follower.fetch_time = now
        follower.fetch_log_end = log_end
        if fetch_offset == follower.end_offset and follower.counts:
            return NOTHING
        follower.end_offset = fetch_offset
        return self._expand(follower) + self._advance()

    def was_there(self, replica: int, when: float) -> None:
        """Called when the log grows beyond its fetch offset: its session asked at `when` without a
        word of this partition, so it still had all.
        """
        follower = self._followers.get(replica)
        if (
            follower is not None
            and follower.end_offset == follower.fetch_log_end
            and when > follower.fetch_time
        ):
            follower.caught_up = follower.fetch_time = when

    def start_told(self, replica: int, log_start: int) -> bool:
        """Note where a follower's log starts, of a fetch that `fetched` has believed; return
        whether that is news.
        """
        follower = self._followers[replica]
        before, follower.log_start = follower.log_start, log_start
        return before != log_start

    # -- time, the controller's answers, the image
    # ----------------------------------------------------------------------------

    def deadline(self) -> float:
        """Return when tick() has work to do, if nothing is reported until then; an append may bring
        it nearer.
        """
        if self.pending is not None:
            return self._not_before
        lagging = (
            f.caught_up
            for f in self._followers.values()
            if f.counts and f.end_offset != self.log_end_offset
        )
        return max(min(lagging, default=inf) + self.lag_time_max_s, self._not_before)

    def tick(self, now: float) -> Effects:
        """Remove followers that lag too long from the ISR; an AlterIsr whose answer asked for
        patience is sent again.
        """
        self._now = now
        return self._shrink_or_repeat() + self._advance()

    def alter_answered(self, request: AlterIsr, answer: Altered | Code, now: float) -> Effects:
        """`request` as it was handed out; an answer to one that an image has overtaken changes
        nothing. No answer: REQUEST_TIMED_OUT.
        """
        self._now = now
        if request is not self.pending:
            return NOTHING
        if isinstance(answer, Altered):
            self.pending = None
            self._adopt(answer.isr, answer.partition_epoch, answer.elr)
        elif answer in BACK_TO_COMMITTED:
            self.pending = None
            self._adopt(self.isr, self.partition_epoch, self.elr)
            self._not_before = now + RETRY_S
        elif answer not in WAIT_FOR_IMAGE:
            self._not_before = now + RETRY_S
        return self._advance()

    def on_image(
        self,
        partition: PartitionView,
        live: Mapping[int, int],
        now: float,
        min_isr: int | None = None,
    ) -> Effects:
        """The metadata changed in this partition, or in who lives. `live`: broker id to epoch of
        all that are neither fenced nor shutting down.
        """
        assert partition.leader_epoch == self.leader_epoch, (
            "another leader epoch is another LeaderState"
        )
        self._now = now
        self._live = live
        if min_isr is not None:
            self._min_isr = min_isr
        # an older one: the answer to our AlterIsr was faster than the image
        if partition.partition_epoch > self.partition_epoch:
            self.pending = None
            self.isr = tuple(partition.isr)
            self._assign(partition.replicas)
            self._adopt(partition.isr, partition.partition_epoch, partition.elr)
        self.min_isr = min(self._min_isr, 1 + len(self._followers))
        return self._advance()

    # -- questions
    # ----------------------------------------------------------------------------------------------

    @property
    def under_min_isr(self) -> bool:
        """Then acks=all is NOT_ENOUGH_REPLICAS before the append, NOT_ENOUGH_REPLICAS_AFTER_APPEND
        after it.
        """
        return len(self.isr) < self.min_isr

    @property
    def knows_its_end(self) -> bool:
        """False: the high watermark has not come to this epoch's start; ListOffsets of the end is
        OFFSET_NOT_AVAILABLE (KIP-207).
        """
        return self.high_watermark >= self.epoch_start_offset

    def low_watermark(self, log_start: int) -> int:
        """With `log_start` ours: the least log start of the replicas that live. Nobody who is to
        lead next has a record below it.
        """
        return min(
            [log_start, *(f.log_start for f in self._followers.values() if f.id in self._live)]
        )

    def follower_offset(self, replica: int) -> int:
        """Its durable offset as far as is known; -1: it has not fetched in this epoch."""
        return self._followers[replica].end_offset

    def most_caught_up(self, replicas: Sequence[int], offset: int) -> int | None:
        """Of those, none below `offset`."""
        able = [
            f
            for i in replicas
            if (f := self._followers.get(i)) is not None and f.end_offset >= offset
        ]
        return max(able, key=lambda f: (f.end_offset, f.caught_up, f.id)).id if able else None

    # -- the rules
    # ----------------------------------------------------------------------------------------------

    def _advance(self) -> Effects:
        """The high watermark follows what all have, stands still below min.insync.replicas, and
        never goes back.

        It stands still too while replicas outside the ISR are eligible leaders: they have all that
        is committed. The controller may know of a higher min.insync.replicas than this leader.
        """
        if self.elr or self.under_min_isr:
            return NOTHING
        everywhere = self._durable_everywhere()
        if everywhere <= self.high_watermark:
            return NOTHING
        self.high_watermark = everywhere
        return (AdvanceHighWatermark(everywhere),)

    def _durable_everywhere(self) -> int:
        """Everywhere: here, in the ISR, on those asked to join it, and on those about to: a busy
        leader would outrun these for ever.
        """
        offset = self.flushed_offset
        for follower in self._followers.values():
            if follower.end_offset < offset and (follower.counts or self._about_to_join(follower)):
                offset = follower.end_offset
        return offset

    def _about_to_join(self, follower: Follower) -> bool:
        return self._caught_up(follower) and self._eligible(follower)

    def _expand(self, follower: Follower) -> Effects:
        if (
            follower.counts
            or not self._may_ask()
            or not self._eligible(follower)
            or not self._in_sync(follower)
        ):
            return NOTHING
        return self._ask((*self.isr, follower.id))

    def _shrink_or_repeat(self) -> Effects:
        if self._now < self._not_before:
            return NOTHING
        if self.pending is not None:
            return self._repeat(self.pending)
        staying = tuple(i for i in self.isr if i == self.me or self._caught_up(self._followers[i]))
        return self._ask(staying) if len(staying) < len(self.isr) else NOTHING

    def _in_sync(self, follower: Follower) -> bool:
        """It has all that is committed, also by earlier leaders: that may be above our high
        watermark, not above where this epoch began.
        """
        return (
            follower.end_offset >= self.high_watermark
            and follower.end_offset >= self.epoch_start_offset
        )

    def _eligible(self, follower: Follower) -> bool:
        """Alive, and the incarnation that fetched is the registered one (KIP-903); -1 is a follower
        that does not tell, then being alive must do.
        """
        registered = self._live.get(follower.id)
        return registered is not None and follower.broker_epoch in (-1, registered)

    def _caught_up(self, follower: Follower) -> bool:
        return (
            follower.end_offset == self.log_end_offset
            or self._now - follower.caught_up <= self.lag_time_max_s
        )

    def _may_ask(self) -> bool:
        """One AlterPartition in flight a partition: two could be carried out in either order."""
        return self.pending is None and self._now >= self._not_before

    def _ask(self, isr: Iterable[int]) -> Effects:
        self.pending = AlterIsr(
            tuple((i, self._epoch_of(i)) for i in isr), self.leader_epoch, self.partition_epoch
        )
        self._not_before = inf  # until it is answered
        for replica, _ in self.pending.isr:
            if replica != self.me:
                # from now on: the controller may have agreed before we hear of it
                self._followers[replica].counts = True
        return (self.pending,)

    def _repeat(self, request: AlterIsr) -> Effects:
        self._not_before = inf
        return (request,)

    def _epoch_of(self, replica: int) -> int:
        epoch = (
            self._live.get(replica) if replica == self.me else self._followers[replica].broker_epoch
        )
        return -1 if epoch is None else epoch

    # -- bookkeeping
    # ----------------------------------------------------------------------------------------------

    def _introduced(self, replica: int, broker_epoch: int) -> Follower:
        """A first fetch, or the first of a new incarnation."""
        follower = self._followers.get(replica)
        if follower is None:
            raise KafkaError(
                Code.NOT_LEADER_OR_FOLLOWER, f"{replica} is no replica of this partition"
            )
        if follower.broker_epoch is not None and -1 < broker_epoch < follower.broker_epoch:
            raise KafkaError(
                Code.NOT_LEADER_OR_FOLLOWER,
                f"broker epoch {broker_epoch} of {replica} is over, {follower.broker_epoch} has "
                "fetched",
            )
        follower.broker_epoch = broker_epoch
        return follower

    def _assign(self, replicas: Sequence[int]) -> None:
        known = self._followers
        self._followers = {
            i: known.get(i) or Follower(i, self._now if i in self.isr else -inf)
            for i in replicas
            if i != self.me
        }
        # more than there are replicas can never be
        self.min_isr = min(self._min_isr, len(replicas))

    def _adopt(self, isr: Sequence[int], partition_epoch: int, elr: Sequence[int]) -> None:
        """The controller's word: this is the ISR, and these are the eligible replicas beside."""
        self.isr = tuple(isr)
        self.elr = tuple(elr)
        self.partition_epoch = partition_epoch
        self._not_before = -inf
        for follower in self._followers.values():
            follower.counts = follower.id in self.isr


class FollowerState:
    """A partition's high watermark, as a follower knows it."""

    __slots__ = ("high_watermark", "leader", "leader_epoch")

    def __init__(self, leader: int, leader_epoch: int, log_end: int, high_watermark: int) -> None:
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.high_watermark = min(high_watermark, log_end)

    def high_watermark_received(
        self, leader_high_watermark: int, log_end: int
    ) -> tuple[AdvanceHighWatermark, ...]:
        """The leader's high watermark came with an answer that made our log end `log_end`: one
        round trip late, so it can be beyond or behind.
        """
        offset = min(leader_high_watermark, log_end)
        if offset <= self.high_watermark:
            return ()
        self.high_watermark = offset
        return (AdvanceHighWatermark(offset),)

    def truncated(self, log_end: int) -> None:
        """By leader epoch, never by high watermark; only after an unclean election does this lower
        it.
        """
        self.high_watermark = min(self.high_watermark, log_end)
