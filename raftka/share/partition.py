"""The records of one share partition in flight, on its leader: which member holds which of them,
and how often each was delivered.

Pure: times are passed in, and the caller persists. All offsets from `start` to `end` are covered by
*runs*: consecutive offsets of one stored batch in the same state. A change of acquired records is
*begun* first; it is committed, or rolled back, with the result of its write.
"""

from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from math import inf
from operator import attrgetter, itemgetter
from typing import NamedTuple

from raftka.share.state import NO_START, StateBatch
from raftka.wire.errors import Code, KafkaError

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)  # types of acknowledgement
NOBODY = ""
STEP = 100  # acknowledged batches between two yields
Batch = tuple[int, int]  # of the log: base offset and last offset
Ack = tuple[int, int, Sequence[int]]  # first offset, last offset, one type for all or one for each


class RecordState(IntEnum):
    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3  # it has to be written to the dead-letter topic
    ARCHIVED = 4


AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = RecordState

# An available record is archived when it is aborted, or the log has it no more.
TRANSITIONS: Mapping[RecordState, frozenset[RecordState]] = {
    AVAILABLE: frozenset({ACQUIRED, ARCHIVED}),
    ACQUIRED: frozenset({AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED}),
    ACKNOWLEDGED: frozenset(),
    ARCHIVING: frozenset({ARCHIVED}),
    ARCHIVED: frozenset(),
}
COMPLETE = frozenset({ACKNOWLEDGED, ARCHIVED})  # states of records that are never delivered again
PERSISTED = frozenset({AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED})
MARKED = {GAP: ARCHIVED, ACCEPT: ACKNOWLEDGED, REJECT: ARCHIVED}


class Rules(NamedTuple):
    """The settings of the group."""

    count_limit: int  # deliveries of a record
    max_locks: int  # records in flight, those above `start` that are complete included
    renews: bool
    dead_letters: bool  # rejected and undeliverable records go to a dead-letter topic first

    @property
    def throttled_from(self) -> int:
        """Return the number of deliveries from which on a record counts as doubtful."""
        return max(2, (self.count_limit + 1) // 2)


class Wanted(NamedTuple):
    """The wishes of a member that fetches."""

    max_records: int
    batch_size: int  # records of an acquired range, whole batches of the log
    exact: bool  # exactly `max_records`; else whole batches, which may be more


class Acquired(NamedTuple):
    first: int
    last: int  # included
    # deliveries, this one included; hides tuple's method
    count: int  # type: ignore[assignment]


class DeadRange(NamedTuple):
    """Records for the dead-letter topic."""

    first: int
    last: int
    count: int  # type: ignore[assignment]  # of deliveries
    reason: str


REJECTED = "Offset rejected by client."
UNDELIVERABLE = "Offset delivery count exceeded the threshold."
NOT_ACQUIRED = "The offset cannot be acknowledged. The offset is not acquired."


class Run:
    __slots__ = ("batch", "before", "count", "first", "last", "member", "state", "until")

    def __init__(
        self,
        batch: int,
        first: int,
        last: int,
        state: RecordState,
        count: int,
        member: str = NOBODY,
        until: float = inf,
    ) -> None:
        self.batch = batch  # the first offset of the stored batch of which it is a part
        self.first = first
        self.last = last
        self.state = state
        self.count = count
        self.member = member  # holds it while it is acquired
        self.until = until  # the member's lock ends
        # the change that has begun with it; its state was ACQUIRED before
        self.before: Change | None = None

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def is_free(self) -> bool:
        return self.state is AVAILABLE and self.before is None


class Change:
    """New states of records, to be written to the share coordinator."""

    __slots__ = ("batches", "complete_count", "dead", "runs", "start")

    def __init__(self) -> None:
        self.runs: list[Run] = []  # those whose change is not committed
        self.batches: list[StateBatch] = []
        self.dead: list[DeadRange] = []
        self.start = NO_START  # what the write says, as `complete_count`
        self.complete_count = 0

    def add(self, first: int, last: int, state: RecordState, count: int) -> None:
        """Add records to the batches; in order of offsets."""
        if self.batches:
            low, end, known, counted = self.batches[-1]
            if (end + 1, known, counted) == (first, state, count):
                self.batches[-1] = StateBatch(low, last, int(state), count)
                return
        self.batches.append(StateBatch(first, last, int(state), count))


Steps = Generator[None, None, Change]
_first = attrgetter("first")
_base = itemgetter(0)


class SharePartition:
    __slots__ = ("_free_from", "_runs", "complete_count", "end", "expires_at", "start")

    def __init__(self, start: int, batches: Iterable[StateBatch] = ()) -> None:
        """Take the persisted state; the batches are in order of offsets. Offsets between them may
        have been delivered, or not: they are delivered again.
        """
        self.start = self.end = start  # `end`: the next offset of which nothing is known
        self.complete_count = 0  # records at or above `start` that are complete
        self.expires_at = inf  # no lock ends earlier
        self._runs: list[Run] = []
        self._free_from = start  # no run below it is free
        for first, last, state, count in batches:
            if last < self.end:
                continue
            first = max(first, self.end)
            self._append(first, last, _persisted(state), max(count, 0))
        self._move_start()

    @property
    def is_idle(self) -> bool:
        """Return whether no record is held, being written, or on its way to a dead-letter topic."""
        return not any(
            run.before is not None or run.state in (ACQUIRED, ARCHIVING) for run in self._runs
        )

    # acquiring

    def next_offset(self) -> int:
        """Return the first offset that may be acquired; `end` if all in flight are taken."""
        if self._free_from >= self.end:
            return self.end
        runs = self._runs
        for at in range(max(self._place(self._free_from), 0), len(runs)):
            if runs[at].is_free:
                self._free_from = runs[at].first
                return self._free_from
        self._free_from = self.end
        return self.end

    def has_room(self, rules: Rules) -> bool:
        """Return whether records may be acquired, should the log have some."""
        return self.end - self.start < rules.max_locks or self.next_offset() < self.end

    def acquire(
        self,
        member: str,
        wanted: Wanted,
        batches: Sequence[Batch],
        until: float,
        rules: Rules,
        aborted: Sequence[Batch] = (),
    ) -> list[Acquired]:
        """Give records to a member, until the time `until`. `batches` of the log begin with the one
        that holds `next_offset`; those of them that are `aborted` are archived.
        """
        if not batches or wanted.max_records <= 0:
            return []
        (low, _), (_, high) = batches[0], batches[-1]
        self._archive_missing(self.next_offset(), low)
        taking = _Acquisition(member, wanted, batches, until)
        self._acquire_known(taking, max(low, self.start), high, rules)
        room = min(taking.room, rules.max_locks - (self.end - self.start))
        if room > 0 and high >= self.end:
            self._acquire_new(taking, max(low, self.end), high, room)
        found = taking.found
        if found:
            self.expires_at = min(self.expires_at, until)
        if aborted:
            found = self._archive_aborted(found, aborted)
            self._move_start()
        return found

    def _acquire_known(self, taking: "_Acquisition", low: int, high: int, rules: Rules) -> None:
        """Acquire records that are in flight and free, batch by batch."""
        runs, at = self._runs, max(self._place(low), 0)
        while at < len(runs) and runs[at].first <= high and taking.room > 0:
            end = at
            while end < len(runs) and runs[end].batch == runs[at].batch:
                end += 1
            free = [r for r in runs[at:end] if r.is_free and r.first <= high and r.last >= low]
            if any(run.count >= rules.throttled_from for run in free):
                if not taking.found:
                    self._acquire_doubtful(taking, free, low, high, rules)
                taking.room = 0
                return
            for run in free:
                if taking.room <= 0:
                    break
                last = min(run.last, high)
                first = max(run.first, low)
                if taking.wanted.exact:
                    last = min(last, first + taking.room - 1)
                elif not run.count:
                    last = min(last, taking.batch_end(first + taking.room - 1))
                end += self._take(taking, first, last)
            at = end

    def _acquire_doubtful(
        self, taking: "_Acquisition", free: list[Run], low: int, high: int, rules: Rules
    ) -> None:
        """Acquire a few records of a batch of which one was often delivered without success: it
        shall not use up the deliveries of its neighbours. On its last try a record is alone.
        """
        size = sum(run.size for run in self._runs if run.batch == free[0].batch)
        at_most = taking.room
        for run in free:
            first, last = max(run.first, low), min(run.last, high)
            if run.count == rules.count_limit - 1 and rules.count_limit > 2:
                if not taking.found:
                    self._take(taking, first, first)
                break
            if run.count >= rules.throttled_from:
                share = max(1, size >> (run.count - rules.throttled_from + 1))
                at_most = min(at_most, share - taking.taken)
            if at_most <= 0:
                break
            last = min(last, first + at_most - 1)
            self._take(taking, first, last)
            at_most -= last - first + 1

    def _take(self, taking: "_Acquisition", first: int, last: int) -> int:
        """Acquire records of one free run; return how many runs there are more."""
        before = len(self._runs)
        run = self._runs[self._split_off(self._place(first), first, last)]
        self._set(run, ACQUIRED)
        run.count += 1
        run.member, run.until = taking.member, taking.until
        taking.add(run)
        return len(self._runs) - before

    def _acquire_new(self, taking: "_Acquisition", first: int, high: int, room: int) -> None:
        """Acquire records that were not in flight, at most `room` and up to a batch's end."""
        if first > self.end:  # the log has no such records any more
            self._append(self.end, first - 1, ARCHIVED, 0)
        last = high
        if room < high - first + 1:
            last = min(high, taking.batch_end(first + room - 1))
        for low, top in taking.ranges(first, last):
            taken = min(top, low + room - 1) if taking.wanted.exact else top
            run = self._append(low, top, AVAILABLE, 0)
            if taken >= low:
                self._take(taking, run.first, taken)
                room -= taken - low + 1

    def _archive_missing(self, first: int, end: int) -> None:
        """Archive free records before `end`: the log was read from `first` on and has none."""
        at = self._place(first)
        while 0 <= at < len(self._runs) and self._runs[at].first < end:
            run = self._runs[at]
            if run.is_free:
                run = self._runs[self._split_off(at, run.first, min(run.last, end - 1))]
                self._set(run, ARCHIVED)
            at += 1
        self._move_start()

    def _archive_aborted(self, found: list[Acquired], aborted: Sequence[Batch]) -> list[Acquired]:
        """Archive acquired records of aborted transactions; return the other ones."""
        left: list[Acquired] = []
        at = 0
        for first, last, count in found:
            while at < len(aborted) and aborted[at][1] < first:
                at += 1
            following = at
            while following < len(aborted) and aborted[following][0] <= last:
                low, high = max(first, aborted[following][0]), min(last, aborted[following][1])
                if low > first:
                    left.append(Acquired(first, low - 1, count))
                self._archive_acquired(low, high)
                first = high + 1
                following += 1
            if first <= last:
                left.append(Acquired(first, last, count))
        return left

    def _archive_acquired(self, first: int, last: int) -> None:
        at = self._place(first)
        while first <= last:
            top = min(self._runs[at].last, last)
            at = self._split_off(at, first, top)
            self._set(self._runs[at], ARCHIVED)
            first, at = top + 1, at + 1

    # acknowledging

    def acknowledge(self, member: str, acks: Sequence[Ack], until: float, rules: Rules) -> Steps:
        """Begin what a member says of records that it holds, all of it or nothing; renewed locks
        end at `until`. Raises KafkaError.

        Records below `start` are passed over.
        """
        check_acks(acks)
        change, renewed = Change(), list[Batch]()
        try:
            for number, (first, last, types) in enumerate(acks, 1):
                if last >= self.start:
                    self._check_end(first, last)
                    for low, high, kind in _spans(max(first, self.start), first, last, types):
                        if kind == RENEW:
                            self._check_renewal(member, low, high, rules)
                            renewed.append((low, high))
                        else:
                            self._begin(member, low, high, kind, rules, change)
                if not number % STEP:
                    yield
        except BaseException:
            self.rollback(change)
            raise
        for low, high in renewed:
            self._renew(member, low, high, until)
        return self._sealed(change)

    def _check_end(self, first: int, last: int) -> None:
        if last >= self.end:
            which = "first" if first >= self.end else "last"
            raise KafkaError(
                Code.INVALID_REQUEST,
                f"Batch record not found. The {which} offset in request is past acquired records.",
            )

    def _begin(
        self, member: str, low: int, high: int, kind: int, rules: Rules, change: Change
    ) -> None:
        at = self._place(low)
        while low <= high:
            run = self._runs[at]
            self._check_holder(run, member)
            top = min(run.last, high)
            at = self._split_off(at, low, top)
            self._begin_run(self._runs[at], kind, rules, change)
            at = self._merged(at) + 1
            low = top + 1

    def _begin_run(self, run: Run, kind: int, rules: Rules, change: Change) -> None:
        """Begin to change an acquired run."""
        state = self._following(run, kind, rules)
        if state is ARCHIVING:
            reason = REJECTED if kind == REJECT else UNDELIVERABLE
            change.dead.append(DeadRange(run.first, run.last, run.count, reason))
        self._set(run, state)
        run.before = change
        change.runs.append(run)
        change.add(run.first, run.last, state, run.count)

    @staticmethod
    def _following(run: Run, kind: int, rules: Rules) -> RecordState:
        if kind == RELEASE and run.count < rules.count_limit:
            return AVAILABLE
        if kind in (RELEASE, REJECT):
            return ARCHIVING if rules.dead_letters else ARCHIVED
        return MARKED[kind]

    def _check_holder(self, run: Run, member: str) -> None:
        """Raise INVALID_RECORD_STATE if the member does not hold this run."""
        is_acquired = run.state is ACQUIRED and run.before is None
        if is_acquired and run.member == member:
            return
        following = self._place(run.first) + 1
        if run.first == run.batch and (
            following == len(self._runs) or self._runs[following].batch != run.batch
        ):
            raise KafkaError(Code.INVALID_RECORD_STATE, "Member is not the owner of batch record")
        if not is_acquired:
            raise KafkaError(Code.INVALID_RECORD_STATE, NOT_ACQUIRED)
        raise KafkaError(Code.INVALID_RECORD_STATE, "Member is not the owner of offset")

    def _check_renewal(self, member: str, low: int, high: int, rules: Rules) -> None:
        if not rules.renews:
            raise KafkaError(
                Code.INVALID_RECORD_STATE,
                "Renewing acquisition locks is not enabled for the group.",
            )
        for run in self._between(low, high):
            self._check_holder(run, member)

    def _renew(self, member: str, low: int, high: int, until: float) -> None:
        at = self._place(max(low, self.start))
        while low <= high and at < len(self._runs):
            run = self._runs[at]
            top = min(run.last, high)
            if run.state is ACQUIRED and run.before is None and run.member == member:
                at = self._split_off(at, max(low, run.first), top)
                self._runs[at].until = until
                self.expires_at = min(self.expires_at, until)
            low, at = top + 1, at + 1

    def release(self, member: str, rules: Rules) -> Change:
        """Begin to release all records that a member holds: its session is over."""
        change = Change()
        for run in self._runs:
            if run.state is ACQUIRED and run.before is None and run.member == member:
                self._begin_run(run, RELEASE, rules, change)
        return self._sealed(change)

    def expire(self, now: float, rules: Rules) -> Change:
        """Release all records whose lock has ended. That stands, also if the write fails."""
        change = Change()
        expires_at = inf
        for run in self._runs:
            if run.state is ACQUIRED and run.before is None:
                if run.until <= now:
                    self._begin_run(run, RELEASE, rules, change)
                else:
                    expires_at = min(expires_at, run.until)
        self.expires_at = expires_at
        self._sealed(change)
        self.commit(change)
        return change

    def archive(self, first: int, last: int) -> Change:
        """Archive records that have been written to the dead-letter topic, or cannot be."""
        change = Change()
        for run in self._between(max(first, self.start), last):
            if run.state is ARCHIVING and run.before is None and run.last <= last:
                self._set(run, ARCHIVED)
                change.add(run.first, run.last, ARCHIVED, run.count)
        self._sealed(change)
        self._move_start()
        return change

    def again(self, change: Change) -> Change:
        """Return the part of a change that must be written although its write has failed: records
        that wait for their letters, and archived ones. Others are only delivered once more.
        """
        found = Change()
        for first, last, state, count in change.batches:
            if state == ARCHIVED:
                found.add(first, last, ARCHIVED, count)
            elif state == ARCHIVING:
                for run in self._between(max(first, self.start), last):
                    if run.state is ARCHIVING:
                        found.add(run.first, run.last, ARCHIVING, run.count)
        found.dead = change.dead
        return self._sealed(found)

    def archiving(self) -> list[DeadRange]:
        """Return the records that an earlier leader may not have written to the dead-letter
        topic.
        """
        return [
            DeadRange(run.first, run.last, run.count, UNDELIVERABLE)
            for run in self._runs
            if run.state is ARCHIVING
        ]

    # the result of a write

    def commit(self, change: Change) -> None:
        """The change is written: it stands, and the start moves over what is complete."""
        for run in change.runs:
            if run.before is change:
                run.before, run.member, run.until = None, NOBODY, inf
                if run.state is AVAILABLE:
                    self._free_from = min(self._free_from, run.first)
        change.runs = []
        self._move_start()

    def rollback(self, change: Change) -> None:
        """The change is not written: the records are acquired as before, until their locks end."""
        for run in change.runs:
            if run.before is change:
                if run.state in COMPLETE:
                    self.complete_count -= run.size
                run.state, run.before = ACQUIRED, None
                self.expires_at = min(self.expires_at, run.until)
        change.runs = []

    # the log

    def on_log_start(self, offset: int) -> bool:
        """Begin at the first offset of the log, which may be above `start`; return whether it is.
        Records below it are forgotten.
        """
        if offset <= self.start:
            return False
        runs, at = self._runs, 0
        while at < len(runs) and runs[at].last < offset:
            self._forget(runs[at], runs[at].size)
            runs[at].before = None
            at += 1
        del runs[:at]
        if runs and runs[0].first < offset:
            self._forget(runs[0], offset - runs[0].first)
            runs[0].first = offset
        self.start = offset
        self.end = max(self.end, offset)
        self._free_from = max(self._free_from, offset)
        self._move_start()
        return True

    # inside

    def _sealed(self, change: Change) -> Change:
        """Return the change with the start and the count of now."""
        change.start, change.complete_count = self.start, self.complete_count
        return change

    def _forget(self, run: Run, records: int) -> None:
        if run.state in COMPLETE:
            self.complete_count -= records

    def _set(self, run: Run, state: RecordState) -> None:
        assert state in TRANSITIONS[run.state], (run.state, state)
        run.state = state
        if state in COMPLETE:
            self.complete_count += run.size

    def _append(self, first: int, last: int, state: RecordState, count: int) -> Run:
        """Add a run at the end, and before it a free one for offsets that are left out."""
        if first > self.end:
            self._runs.append(Run(self.end, self.end, first - 1, AVAILABLE, 0))
        run = Run(first, first, last, state, count)
        self._runs.append(run)
        self.end = last + 1
        if state in COMPLETE:
            self.complete_count += run.size
        return run

    def _place(self, offset: int) -> int:
        """Return the place of the run that holds the offset; -1: it is before all runs."""
        return bisect_right(self._runs, offset, key=_first) - 1

    def _between(self, low: int, high: int) -> Iterator[Run]:
        """Yield the runs that have offsets in [low, high]."""
        for at in range(max(self._place(low), 0), len(self._runs)):
            run = self._runs[at]
            if run.first > high:
                return
            if run.last >= low:
                yield run

    def _split_off(self, at: int, first: int, last: int) -> int:
        """Let a run have just these offsets, which the run at this place has; return its place."""
        run = self._runs[at]
        if last < run.last:
            self._split(at, last + 1)
        if first > run.first:
            self._split(at, first)
            return at + 1
        return at

    def _split(self, at: int, offset: int) -> None:
        run = self._runs[at]
        assert run.before is None
        rest = Run(run.batch, offset, run.last, run.state, run.count, run.member, run.until)
        run.last = offset - 1
        self._runs.insert(at + 1, rest)

    def _merged(self, at: int) -> int:
        """Join a run whose change has just begun with the one before it, if both change alike;
        return its place. Acknowledging offset by offset would else leave a run for each.
        """
        run, before = self._runs[at], self._runs[at - 1] if at else None
        if (
            before is None
            or before.before is not run.before
            or before.batch != run.batch
            or before.state is not run.state
            or before.count != run.count
            or before.until != run.until
        ):
            return at
        before.last = run.last
        change = run.before
        assert change is not None
        change.runs.pop()
        del self._runs[at]
        return at - 1

    def _move_start(self) -> None:
        """Move the start over records that are complete, and whose change is written."""
        runs, at = self._runs, 0
        while at < len(runs) and runs[at].state in COMPLETE and runs[at].before is None:
            self.complete_count -= runs[at].size
            at += 1
        if at:
            self.start = runs[at - 1].last + 1
            del runs[:at]
            self._free_from = max(self._free_from, self.start)


class _Acquisition:
    """The records that one fetch acquires of a share partition."""

    __slots__ = (
        "_batches",
        "_last_batch",
        "found",
        "member",
        "room",
        "taken",
        "until",
        "wanted",
    )

    def __init__(self, member: str, wanted: Wanted, batches: Sequence[Batch], until: float) -> None:
        self.member = member
        self.wanted = wanted
        self.until = until
        self.found: list[Acquired] = []
        self.room = wanted.max_records
        self.taken = 0
        self._batches = batches
        self._last_batch = -1

    def add(self, run: Run) -> None:
        """Add a run that has just been acquired. Ranges end where stored batches do."""
        self.room -= run.size
        self.taken += run.size
        if self.found and self._last_batch == run.batch:
            first, last, count = self.found[-1]
            if (last + 1, count) == (run.first, run.count):
                self.found[-1] = Acquired(first, run.last, count)
                return
        self._last_batch = run.batch
        self.found.append(Acquired(run.first, run.last, run.count))

    def batch_end(self, offset: int) -> int:
        """Return the last offset of the log's batch that holds this one; itself if none does."""
        at = bisect_right(self._batches, offset, key=_base) - 1
        return offset if at < 0 else max(offset, self._batches[at][1])

    def ranges(self, first: int, last: int) -> Iterator[Batch]:
        """Yield the ranges of `batch_size` records that end with batches of the log."""
        size = max(self.wanted.batch_size, 1)
        if last - first + 1 > size:
            at = bisect_right(self._batches, first, key=_base)
            for base, _ in self._batches[at:]:
                if base > last:
                    break
                if base - first >= size:
                    yield first, base - 1
                    first = base
        yield first, last


def check_acks(acks: Sequence[Ack]) -> None:
    """Raise INVALID_REQUEST for batches that are malformed, or out of order."""
    before = 0
    for first, last, types in acks:
        if (
            not before <= first <= last
            or not types
            or len(types) not in (1, last - first + 1)
            or min(types) < GAP
            or max(types) > RENEW
        ):
            raise KafkaError(Code.INVALID_REQUEST)
        before = last


def _spans(low: int, first: int, last: int, types: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield (first, last, type) of consecutive offsets from `low` on with the same type."""
    if len(types) == 1:
        yield low, last, types[0]
        return
    for offset in range(low, last + 1):
        kind = types[offset - first]
        if offset == last or types[offset + 1 - first] != kind:
            yield low, offset, kind
            low = offset + 1


def _persisted(state: int) -> RecordState:
    """Return the state as it was written; records in a state that is none are delivered again."""
    return RecordState(state) if state in PERSISTED else AVAILABLE
