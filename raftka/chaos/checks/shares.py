"""The promises of share groups, judged by the deliveries and acknowledgements that members know of,
and by the state that the share coordinator has in the end. Knows no cluster: all comes as plain
values, times are seconds.

A member may hear less than there is: a fetch without an answer may have acquired records. So each
rule judges only where no such fetch can be the cause. Each function returns violations as
sentences; none found is an empty list.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from math import inf
from typing import NamedTuple

from raftka.share.state import NO_COUNT, ShareState
from raftka.wire.errors import Code

SHOWN = 3  # of many alike
Place = tuple[str, int]  # a partition
AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED = 0, 2, 3, 4


class Kind(IntEnum):
    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


FINAL = frozenset({Kind.GAP, Kind.ACCEPT, Kind.REJECT})
ARCHIVES = frozenset({Kind.GAP, Kind.REJECT})
# answers of brokers: the partition is led elsewhere
LEADER_IS_GONE = frozenset(
    {
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.LEADER_NOT_AVAILABLE,
        Code.KAFKA_STORAGE_ERROR,
    }
)
# the leader cannot read or write the state now, or does not know its end yet
STATE_IS_AWAY = frozenset(
    {Code.COORDINATOR_NOT_AVAILABLE, Code.UNKNOWN_SERVER_ERROR, Code.OFFSET_NOT_AVAILABLE}
)
NO_EFFECT = frozenset({Code.INVALID_RECORD_STATE, Code.INVALID_REQUEST})


class Outcome(Enum):
    TAKEN = "it was answered without an error"
    REFUSED = "it was answered with an error, and has no effect"
    UNKNOWN = "it may have an effect"


class Promises(NamedTuple):
    limit: int  # of deliveries
    lock_s: float  # an acquired record is surely locked for so long


class Acquired(NamedTuple):
    """A range of an answer to ShareFetch."""

    first: int
    last: int  # included
    delivery_count: int  # with this one


@dataclass(slots=True, eq=False)
class Session:
    """A share session of a member with one broker."""

    member: str
    broker: tuple[str, int] = ("", 0)  # its address
    alive_at: float = -inf  # the broker answered in it last
    is_over: bool = False  # it may have ended at any time after `alive_at`


@dataclass(slots=True, eq=False)
class Fetch:
    """A ShareFetch, of one partition."""

    session: Session
    place: Place
    asked_at: float
    answered_at: float = inf  # inf: it has no answer, and may have acquired records
    # of the leader that answered, while it keeps its state; None: not known, or it led no more and
    # did not know that
    term: object = None
    acquired: Sequence[Acquired] = ()


@dataclass(slots=True, eq=False)
class Acknowledgement:
    """Offsets of one partition that are acknowledged with one type."""

    session: Session
    place: Place
    kind: Kind
    first: int
    last: int  # included
    asked_at: float
    answered_at: float = inf
    outcome: Outcome = Outcome.UNKNOWN


@dataclass(slots=True)
class Story:
    """All that the members of a group asked for, in the order in which they asked."""

    fetches: list[Fetch] = field(default_factory=list)
    acknowledgements: list[Acknowledgement] = field(default_factory=list)


class Final(NamedTuple):
    """The end of a share partition: its persisted state, and the end of its log."""

    state: ShareState
    log_end: int
    is_drained: bool  # members had time to finish all records
    # offsets of records that are in the group's dead-letter topic; None: the group has none
    letters: frozenset[int] | None = None
    letters_lost: int = 0  # records that brokers say they have archived without a letter
    # of aborted transactions, in a group that reads committed records alone: leaders leave them
    # out, and do not write that down
    aborted: frozenset[int] = frozenset()

    def done_at(self, offset: int) -> bool:
        """Return whether nothing more is to be done with a record, as far as is written down."""
        return (
            offset < self.state.start
            or offset in self.aborted
            or any(
                each.first <= offset <= each.last and each.state in (ACKNOWLEDGED, ARCHIVED)
                for each in self.state.batches
            )
        )


class Delivery(NamedTuple):
    fetch: Fetch
    delivery_count: int


@dataclass(slots=True)
class Record:
    """The story of one offset."""

    deliveries: list[Delivery] = field(default_factory=list)
    acknowledgements: list[Acknowledgement] = field(default_factory=list)


@dataclass(slots=True)
class Partition:
    """The story of one partition."""

    records: dict[int, Record] = field(default_factory=lambda: defaultdict(Record))
    # when fetches were asked for that have no answer, in order
    unheard: list[float] = field(default_factory=list)

    def unheard_before(self, time: float) -> int:
        """Return how many deliveries of one record may be unknown at that time."""
        return bisect_left(self.unheard, time)


def check_story(story: Story, promises: Promises) -> list[str]:
    """Check the deliveries and acknowledgements of all records."""
    wrong = [said for fetch in story.fetches for said in _order(fetch)]
    for place, partition in partitions_of(story).items():
        for offset, record in partition.records.items():
            name = f"{place[0]}-{place[1]} at {offset}"
            rules = (
                _limit(record, promises),
                _count(record, partition, promises),
                _lock(record, promises),
                _done(record, partition, promises),
                _owner(record, partition, promises),
            )
            wrong += [f"{said.format(name)}" for found in rules for said in found]
    return wrong


def partitions_of(story: Story) -> dict[Place, Partition]:
    found: dict[Place, Partition] = defaultdict(Partition)
    for fetch in story.fetches:
        partition = found[fetch.place]
        if fetch.answered_at == inf:
            insort(partition.unheard, fetch.asked_at)
        for acquired in fetch.acquired:
            for offset in range(acquired.first, acquired.last + 1):
                partition.records[offset].deliveries.append(
                    Delivery(fetch, acquired.delivery_count)
                )
    for acknowledgement in story.acknowledgements:
        records = found[acknowledgement.place].records
        for offset in range(acknowledgement.first, acknowledgement.last + 1):
            records[offset].acknowledgements.append(acknowledgement)
    return found


def _order(fetch: Fetch) -> Iterator[str]:
    """Ranges of one answer are in the order of offsets."""
    end = -1
    for acquired in fetch.acquired:
        if not end <= acquired.first <= acquired.last:
            yield (
                f"out of order: {fetch.session.member} is given {acquired.first} to "
                f"{acquired.last} of {fetch.place[0]}-{fetch.place[1]} behind {end - 1}"
            )
        end = acquired.last + 1


def _limit(record: Record, promises: Promises) -> Iterator[str]:
    for fetch, count in record.deliveries:
        if not 1 <= count <= promises.limit:
            yield (
                f"delivery limit: {{}} is given to {fetch.session.member} with count {count}, the "
                f"limit is {promises.limit}"
            )
            return


def _count(record: Record, partition: Partition, promises: Promises) -> Iterator[str]:
    """A delivery raises the count by one; a new leader goes on from the persisted count."""
    highest: dict[object, list[Delivery]] = defaultdict(list)
    for number, delivery in enumerate(record.deliveries):
        fetch, count = delivery
        before = sum(
            other.fetch.asked_at < fetch.answered_at for other in record.deliveries[number + 1 :]
        )
        if count > 1 + number + before + partition.unheard_before(fetch.answered_at):
            yield (
                f"count skips: {{}} is given to {fetch.session.member} with count {count}, it was "
                f"delivered {number + before} times before"
            )
            return
        for other in highest[fetch.term] if fetch.term is not None else ():
            earlier = other.fetch.answered_at <= fetch.asked_at
            if count == other.delivery_count or (earlier and count < other.delivery_count):
                yield (
                    f"count back: {{}} is given to {fetch.session.member} with count {count}, "
                    f"{other.fetch.session.member} had it with {other.delivery_count}"
                )
                return
        highest[fetch.term].append(delivery)
    for acknowledgement in record.acknowledgements:
        count = _released(record, partition, promises, acknowledgement)
        for delivery in record.deliveries:
            if (
                _follows(delivery.fetch, acknowledgement.answered_at)
                and delivery.delivery_count <= count
            ):
                yield (
                    f"count back: {{}} is given to {delivery.fetch.session.member} with count "
                    f"{delivery.delivery_count}, {acknowledgement.session.member} released it "
                    f"with {count}"
                )
                return


def _follows(fetch: Fetch, time: float) -> bool:
    """Return whether a leader has surely given its answer after this time, as the only leader."""
    return fetch.term is not None and fetch.asked_at >= time


def _released(
    record: Record, partition: Partition, promises: Promises, acknowledgement: Acknowledgement
) -> int:
    """Return the count that a release has persisted; 0: it is none that surely has."""
    if acknowledgement.kind is not Kind.RELEASE or not _is_sure(
        record, partition, promises, acknowledgement
    ):
        return 0
    held = _held(record, acknowledgement)
    return held.delivery_count if held is not None else 0


def _is_sure(
    record: Record, partition: Partition, promises: Promises, acknowledgement: Acknowledgement
) -> bool:
    """Return whether an acknowledgement has had its effect, and is persisted. A late one is taken
    too if the record is below the start by then; the state that brought the start there may not be
    persisted.
    """
    if acknowledgement.outcome is not Outcome.TAKEN:
        return False
    held = _held(record, acknowledgement)
    if held is not None and acknowledgement.answered_at <= _lock_ends(record, held.fetch, promises):
        return True
    return not _may_be_done(record, partition, promises, acknowledgement)


def _held(record: Record, acknowledgement: Acknowledgement) -> Delivery | None:
    """Return the delivery that is acknowledged."""
    found = [
        each
        for each in record.deliveries
        if each.fetch.session is acknowledgement.session
        and each.fetch.answered_at <= acknowledgement.asked_at
    ]
    return found[-1] if found else None


def _lock(record: Record, promises: Promises) -> Iterator[str]:
    """While one member has a record, no member is given it."""
    for number, one in enumerate(record.deliveries):
        until = _locked_until(record, one.fetch, promises)
        for other in record.deliveries[number + 1 :]:
            fetch = other.fetch
            if (
                fetch.term is not None
                and fetch.term == one.fetch.term
                and fetch.asked_at >= one.fetch.answered_at
                and fetch.answered_at <= until
            ):
                yield (
                    f"two locks: {{}} is given to {fetch.session.member} at {fetch.asked_at:.3f}, "
                    f"{one.fetch.session.member} has it from {one.fetch.answered_at:.3f} until "
                    f"{until:.3f}"
                )
                return


def _locked_until(record: Record, fetch: Fetch, promises: Promises) -> float:
    """Return the time until which a delivery's lock surely holds."""
    ends = (
        each.asked_at
        for each in record.acknowledgements
        if each.session is fetch.session
        and each.asked_at >= fetch.answered_at
        and each.kind is not Kind.RENEW
    )
    until = min(_lock_ends(record, fetch, promises), next(ends, inf))
    return min(until, fetch.session.alive_at) if fetch.session.is_over else until


def _lock_ends(record: Record, fetch: Fetch, promises: Promises) -> float:
    """Return the earliest time at which a delivery's lock may end by itself."""
    until = fetch.asked_at + promises.lock_s
    for each in record.acknowledgements:
        if (
            each.session is fetch.session
            and each.kind is Kind.RENEW
            and each.outcome is Outcome.TAKEN
            and each.asked_at >= fetch.answered_at
            and each.answered_at <= until
        ):
            until = max(until, each.asked_at + promises.lock_s)
    return until


def _done(record: Record, partition: Partition, promises: Promises) -> Iterator[str]:
    """A record that was accepted or rejected, and answered, is not delivered again."""
    for each in record.acknowledgements:
        if each.kind not in FINAL or not _is_sure(record, partition, promises, each):
            continue
        for fetch, count in record.deliveries:
            if _follows(fetch, each.answered_at):
                yield (
                    f"delivered again: {{}} is given to {fetch.session.member} with count {count}, "
                    f"{each.session.member} was answered its {each.kind.name} before"
                )
                return


def _owner(record: Record, partition: Partition, promises: Promises) -> Iterator[str]:
    """Only the member that has a record acknowledges it, once. Below the start each acknowledgement
    is answered without an error: so a record that may be done is not judged.
    """
    for each in record.acknowledgements:
        if each.outcome is not Outcome.TAKEN or _may_be_done(record, partition, promises, each):
            continue
        reason = _not_owned(record, each)
        if reason:
            yield f"not the owner: {{}} is acknowledged by {each.session.member}, {reason}"
            return


def _not_owned(record: Record, each: Acknowledgement) -> str:
    """Return the reason why the member surely has not the record; empty: it may have it."""
    held = _held(record, each)
    if held is None:
        return "which never had it"
    since = held.fetch.answered_at
    for fetch, _ in record.deliveries:
        if (
            fetch.session is not each.session
            and _follows(fetch, since)
            and fetch.answered_at <= each.asked_at
        ):
            return f"{fetch.session.member} was given it since"
    released = any(
        other.session is each.session
        and other.kind is Kind.RELEASE
        and other.outcome is Outcome.TAKEN
        and since <= other.asked_at
        and other.answered_at <= each.asked_at
        for other in record.acknowledgements
    )
    return "which has released it before" if released else ""


def _may_be_done(
    record: Record, partition: Partition, promises: Promises, but: Acknowledgement
) -> bool:
    """Return whether a record may be done when an acknowledgement is answered, without it."""
    before = but.answered_at
    return _may_be_used_up(record, partition, promises, before) or any(
        other is not but
        and other.kind in FINAL
        and other.outcome is not Outcome.REFUSED
        and other.asked_at < before
        for other in record.acknowledgements
    )


def _may_be_used_up(
    record: Record, partition: Partition, promises: Promises, before: float = inf
) -> bool:
    """Return whether the count may have reached the limit."""
    count = max(
        (each.delivery_count for each in record.deliveries if each.fetch.asked_at < before),
        default=0,
    )
    return count + partition.unheard_before(before) >= promises.limit


def check_ends(story: Story, promises: Promises, finals: Mapping[Place, Final]) -> list[str]:
    """Check the persisted state of each partition: no record is lost, and none is done without a
    cause.
    """
    partitions, wrong = partitions_of(story), []
    for place, final in finals.items():
        partition = partitions.get(place, Partition())
        name = f"{place[0]}-{place[1]}"
        wrong += [f"{said.format(name)}" for said in _shape(final)]
        counts: dict[str, int] = defaultdict(int)
        for offset, state, count in _offsets(final):
            if offset in final.aborted:
                continue
            record = partition.records.get(offset, Record())
            for said in _end(record, partition, promises, state, count):
                kind = said.partition(":")[0]
                counts[kind] += 1
                if counts[kind] <= SHOWN:
                    wrong.append(said.format(f"{name} at {offset}"))
            if state == AVAILABLE and final.is_drained:
                wrong.append(f"left over: {name} at {offset} is available when all are at rest")
        wrong += [f"{said.format(name)}" for said in _letters(partition, promises, final)]
    return wrong


def check_committed(story: Story, visible_at: Mapping[Place, Mapping[int, float]]) -> list[str]:
    """Check a group that reads committed records alone. `visible_at`: when the commit of a record's
    transaction was asked for; infinity: it was aborted.
    """
    wrong = []
    for fetch in story.fetches:
        times = visible_at.get(fetch.place, {})
        for acquired in fetch.acquired:
            for offset in range(acquired.first, acquired.last + 1):
                if times.get(offset, -inf) > fetch.answered_at:
                    kind = "aborted" if times[offset] == inf else "not committed yet"
                    wrong.append(
                        f"{kind}: {fetch.place[0]}-{fetch.place[1]} at {offset} is given to "
                        f"{fetch.session.member}"
                    )
    return wrong


BELOW = -1  # the start is above it


def _offsets(final: Final) -> Iterator[tuple[int, int, int]]:
    """Yield offset, state or BELOW, and count, of all records of the log."""
    start = max(0, final.state.start)
    yield from ((offset, BELOW, 0) for offset in range(min(start, final.log_end)))
    offset = start
    for batch in final.state.batches:
        yield from ((each, AVAILABLE, 0) for each in range(offset, batch.first))
        yield from (
            (each, batch.state, batch.count)
            for each in range(max(offset, batch.first), batch.last + 1)
        )
        offset = max(offset, batch.last + 1)
    yield from ((each, AVAILABLE, 0) for each in range(offset, final.log_end))


def _shape(final: Final) -> Iterator[str]:
    """Batches are in order, within the log; the count of done records is right."""
    state, end = final.state, final.state.start
    for batch in state.batches:
        if not end <= batch.first <= batch.last:
            yield f"batches out of order: {{}} has {batch.first} to {batch.last} behind {end - 1}"
        end = batch.last + 1
    if end > final.log_end:
        yield f"past the end: {{}} has a state up to {end - 1}, its log ends at {final.log_end}"
    done = sum(
        each.last + 1 - each.first
        for each in state.batches
        if each.state in (ACKNOWLEDGED, ARCHIVED)
    )
    left_out = sum(offset >= state.start for offset in final.aborted)
    if state.complete_count != NO_COUNT and not 0 <= state.complete_count - done <= left_out:
        yield f"complete count: {{}} has {state.complete_count}, {done} records are done"


def _end(
    record: Record, partition: Partition, promises: Promises, state: int, count: int
) -> Iterator[str]:
    accepts = _asked(record, {Kind.ACCEPT})
    archives = _asked(record, ARCHIVES) or _may_be_used_up(record, partition, promises)
    taken = next(
        (
            each
            for each in record.acknowledgements
            if each.kind in FINAL and _is_sure(record, partition, promises, each)
        ),
        None,
    )
    if state == AVAILABLE and taken is not None:
        yield (
            f"acknowledgement lost: {{}} is available, {taken.session.member} was answered its "
            f"{taken.kind.name}"
        )
    if state == AVAILABLE and count >= promises.limit:
        yield f"delivery limit: {{}} is available with count {count}"
    released = max(
        (_released(record, partition, promises, each) for each in record.acknowledgements),
        default=0,
    )
    if state == AVAILABLE and released < promises.limit and count < released:
        yield f"count back: {{}} is available with count {count}, it was released with {released}"
    if state == ACKNOWLEDGED and not accepts:
        yield "done by nobody: {} is acknowledged, no member has accepted it"
    if state in (ARCHIVING, ARCHIVED) and not archives:
        yield "done by nobody: {} is archived, no member has rejected it, nor is its count used up"
    if state == BELOW and not accepts and not archives:
        yield "record lost: {} is below the start, no member has finished it"


# types of acknowledgements after which a record in that state may be without a dead letter
NEEDS_NO_LETTER = {ARCHIVED: {Kind.GAP}, BELOW: {Kind.GAP, Kind.ACCEPT}}


def _letters(partition: Partition, promises: Promises, final: Final) -> Iterator[str]:
    """A record that is archived has a letter in the dead-letter topic, unless a member called it a
    gap, or a broker has said that it could not write one. A record that is acknowledged has none.
    """
    if final.letters is None:
        return
    missing = []
    for offset, state, _ in _offsets(final):
        if offset in final.aborted:
            continue
        record = partition.records.get(offset, Record())
        if offset in final.letters:
            rejected = _asked(record, {Kind.REJECT})
            if state == ACKNOWLEDGED:
                yield f"dead letter: {{}} at {offset} has one, and is acknowledged"
            elif not rejected and not _may_be_used_up(record, partition, promises):
                yield f"dead letter: {{}} at {offset} has one, without a cause"
        elif state in NEEDS_NO_LETTER and not _asked(record, NEEDS_NO_LETTER[state]):
            missing.append(offset)
    if len(missing) > final.letters_lost:
        said = f"dead letter lost: {{}} has none for {len(missing)} archived records"
        yield f"{said}, as {missing[0]}, brokers gave up {final.letters_lost}"


def _asked(record: Record, kinds: Iterable[Kind]) -> bool:
    """Return whether an acknowledgement of these types may have had an effect."""
    return any(
        each.kind in kinds and each.outcome is not Outcome.REFUSED
        for each in record.acknowledgements
    )
