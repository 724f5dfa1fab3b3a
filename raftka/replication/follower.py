"""A follower's reaction to the answers to its fetches: append, flush, fetch again; truncate by
leader epoch (KIP-320); wait after errors.

One `FollowerFetch` is one partition under one leader epoch. Pure: the caller asks it for the next
fetch, and reports answers and finished work. It returns effects in the order in which they must
happen. Knows no connection, no log, no wire format; many partitions share one Fetch request.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import NamedTuple

from raftka.replication.partition import AdvanceHighWatermark, FollowerState
from raftka.wire.errors import Code

# after the first error, and at most; each further error in a row doubles it
BACK_OFF_S = (0.05, 1.0)


class Position(NamedTuple):
    """Offsets and epochs of the next request to the leader."""

    fetch_offset: int  # all below is flushed here: the leader counts on it
    last_fetched_epoch: int  # -1: the log is empty
    leader_epoch: int


class Answer(NamedTuple):
    """One partition of a Fetch response."""

    error: Code
    high_watermark: int = -1
    log_start_offset: int = -1
    records: memoryview | bytes = b""
    # (epoch, its end offset at the leader): no records came
    diverging: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class AppendRecords:
    """Append as follower of `leader_epoch`, then call appended(), or append_failed()."""

    records: memoryview | bytes
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Flush:
    """Make the log durable, then call flushed(log end); until then nothing is fetched."""


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Cut the log, and forget every epoch that begins there or later, also one without records;
    then call truncated().
    """

    offset: int


@dataclass(frozen=True, slots=True)
class StartAfresh:
    """Throw the whole log away and begin at `offset`, then call truncated()."""

    offset: int


@dataclass(frozen=True, slots=True)
class SetLogStart:
    """Raise the log's start: the leader has deleted the records before `offset`."""

    offset: int


@dataclass(frozen=True, slots=True)
class AskOffsets:
    """Ask the leader (ListOffsets -2 and -1, with our epoch) where its log begins and ends, then
    call offsets(), or failed().
    """

    leader_epoch: int


Effect = (
    AppendRecords
    | Flush
    | TruncateTo
    | StartAfresh
    | SetLogStart
    | AskOffsets
    | AdvanceHighWatermark
)
Effects = tuple[Effect, ...]
NOTHING: Effects = ()


class Phase(Enum):
    READY = "ready"
    FETCHING = "fetching"
    WRITING = "writing"  # append, truncation or flush under way
    ASKING = "asking"  # for the leader's offsets
    BACKED_OFF = "backed off"
    FENCED = "fenced"  # our leader epoch is over: only a new image helps


class FollowerFetch:
    """The fetching of one partition. `epoch_end(epoch)`: the log's largest epoch <= `epoch` and
    where it ends, (-1, -1) if there is none.
    """

    def __init__(
        self,
        state: FollowerState,
        log_start: int,
        log_end: int,
        flushed_offset: int,
        latest_epoch: int,
        epoch_end: Callable[[int], tuple[int, int]],
    ) -> None:
        self.state = state
        self.phase = Phase.READY
        self.retry_at = -inf
        self._log_start = log_start
        self._log_end = log_end
        self._flushed_offset = flushed_offset
        self._latest_epoch = latest_epoch
        self._epoch_end = epoch_end
        self._errors = 0
        self._asked = False
        self._leader_high_watermark = self._leader_log_start = -1

    @property
    def lag(self) -> int:
        """Records that the leader had committed when it last answered, and that are not in our
        log.
        """
        return max(0, self._leader_high_watermark - self._log_end)

    @property
    def catches_up(self) -> bool:
        """Return whether the log lacks records that were committed at the leader's last answer."""
        return self._leader_high_watermark > self._log_end

    def hold(self, until: float) -> None:
        """Delay the next fetch: the partition has taken more than its rate allows."""
        if self.phase is Phase.READY:
            self.phase, self.retry_at = Phase.BACKED_OFF, until
        elif self.phase is Phase.BACKED_OFF:
            self.retry_at = max(self.retry_at, until)

    def start(self) -> Effects:
        """Flush first what an earlier role has left unflushed: the first fetch offset is a claim
        too.
        """
        return self._flush_first() if self._flushed_offset < self._log_end else NOTHING

    def next_fetch(self, now: float) -> Position | None:
        """Return the partition's part of the next Fetch request, or None. A caller that gets one
        must report answered() or failed().
        """
        if self.phase is Phase.BACKED_OFF and now >= self.retry_at:
            self.phase = Phase.READY
        if self.phase is not Phase.READY:
            return None
        self.phase = Phase.FETCHING
        return Position(self._flushed_offset, self._latest_epoch, self.state.leader_epoch)

    def answered(self, answer: Answer, now: float) -> Effects:
        """Take the partition's part of a Fetch response. It is ignored if no fetch is under way."""
        if self.phase is not Phase.FETCHING:
            return NOTHING
        if answer.error is not Code.NONE:
            return self._refused(answer.error, now)
        self._errors = 0
        self._asked = False
        if answer.diverging is not None:
            self.phase = Phase.WRITING
            return (TruncateTo(self._common_end(*answer.diverging)),)
        # not the answer itself: its records' buffer belongs to the connection
        self._leader_high_watermark = answer.high_watermark
        self._leader_log_start = answer.log_start_offset
        if len(answer.records):
            self.phase = Phase.WRITING
            return (AppendRecords(answer.records, self.state.leader_epoch),)
        self.phase = Phase.READY
        return self._learn()

    def appended(self, log_end: int, latest_epoch: int) -> Effects:
        """The log took the records; it may have taken none (batches of a leader epoch above ours
        are left out).
        """
        self._log_end = log_end
        self._latest_epoch = latest_epoch
        return self._learn() + self._flush_first()

    def append_failed(self, now: float) -> Effects:
        """The log refused the records: they are fetched again, from another answer."""
        return self.failed(now)

    def truncated(self, log_end: int, latest_epoch: int) -> Effects:
        """Take the new end of the log. The cut need not be durable: if a power loss brings the
        records back, their epochs show again that they must be cut.
        """
        self._log_end = log_end
        self._latest_epoch = latest_epoch
        self._flushed_offset = min(self._flushed_offset, log_end)
        self._log_start = min(self._log_start, log_end)
        self.state.truncated(log_end)
        return self._flush_first()

    def flushed(self, offset: int) -> Effects:
        """Everything below `offset` is on our disk. Fetching goes on when this reaches the log
        end.
        """
        offset = offset if offset < self._log_end else self._log_end
        self._flushed_offset = max(self._flushed_offset, offset)
        if self.phase is Phase.WRITING and self._flushed_offset == self._log_end:
            self.phase = Phase.READY
        return NOTHING

    def offsets(self, leader_start: int, leader_end: int) -> Effects:
        """Take the leader's offsets, after OFFSET_OUT_OF_RANGE. A log that ends before the leader's
        start begins afresh there; a log that goes beyond the leader's end is cut.
        """
        if self.phase is not Phase.ASKING:
            return NOTHING
        self.phase = Phase.WRITING
        if leader_end < self._log_end:
            return (TruncateTo(leader_end),)
        if leader_start > self._log_end:
            self._log_start = leader_start
            return (StartAfresh(leader_start),)
        return self._flush_first()

    def failed(self, now: float) -> Effects:
        """Wait before the next fetch: there was no answer, because the connection is gone or the
        whole request was refused.
        """
        self.phase = Phase.BACKED_OFF
        first, most = BACK_OFF_S
        self.retry_at = now + min(most, first * 2.0**self._errors)
        self._errors = min(self._errors + 1, 16)
        return NOTHING

    # -- the rules
    # ----------------------------------------------------------------------------------------------

    def _refused(self, error: Code, now: float) -> Effects:
        # asking again with the same epoch would be refused for ever
        if error is Code.FENCED_LEADER_EPOCH:
            self.phase = Phase.FENCED
            return NOTHING
        # out of range again after asking: wait before asking again
        if error is Code.OFFSET_OUT_OF_RANGE and not self._asked:
            self._asked = True
            self.phase = Phase.ASKING
            return (AskOffsets(self.state.leader_epoch),)
        self._asked = False
        return self.failed(now)

    def _common_end(self, epoch: int, leader_end: int) -> int:
        """Return the offset up to which both logs are surely the same. The leader's answer is about
        its largest epoch that is not above ours.
        """
        our_epoch, our_end = self._epoch_end(epoch)
        if our_epoch == epoch:
            return min(our_end, leader_end, self._log_end)
        # nothing of that epoch or before it: the leader's end is all there is to go by
        if our_epoch < 0:
            return min(leader_end, self._log_end)
        # the leader's next answer is about an epoch further down
        return min(our_end, self._log_end)

    def _learn(self) -> Effects:
        effects: Effects = self.state.high_watermark_received(
            self._leader_high_watermark, self._log_end
        )
        start = min(self._leader_log_start, self._log_end)
        if start > self._log_start:
            self._log_start = start
            effects += (SetLogStart(start),)
        return effects

    def _flush_first(self) -> Effects:
        if self._flushed_offset >= self._log_end:
            self.phase = Phase.READY
            return NOTHING
        self.phase = Phase.WRITING
        return (Flush(),)
