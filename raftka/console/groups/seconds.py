"""The lag in seconds of all groups, read in the background for the order of their list. Groups that
were never read come first, then those whose reading is oldest. One reading has bounds, so thousands
of groups take several.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from raftka.client.blocking.client import Where
from raftka.console.groups.facts import next_records
from raftka.console.groups.next_records import NextRecord, RecordTimes
from raftka.console.limits import (
    SECONDS_AT_ONCE,
    SECONDS_KEPT_SECONDS,
    SECONDS_PARTITIONS,
    SECONDS_READ_SECONDS,
)
from raftka.console.view.cached import Aged, Cached, Effort

if TYPE_CHECKING:
    from raftka.console.view.view import View

METADATA_S, COMMITTED_S, SECONDS_S = 5.0, 5.0, 10.0  # ages that serve
Place = tuple[Where, int]  # a partition, and an offset that a group has committed there


@dataclass(frozen=True, slots=True)
class Oldest:
    """The time (ms since 1970) of the record that waits longest for a group, as it was at `read_s`
    (monotonic). `time_ms`: None where no record waits.
    """

    time_ms: int | None
    read_s: float

    def seconds(self, now_s: float) -> float:
        """`now_s`: since 1970."""
        return 0.0 if self.time_ms is None else max(0.0, now_s - self.time_ms / 1000)


class AllSeconds(NamedTuple):
    """Of all groups whose time is known. `tried_s`: when each was read last, with or without a time
    (monotonic).
    """

    of: Mapping[str, Oldest]
    tried_s: Mapping[str, float]


class GroupSeconds:
    """For many threads."""

    def __init__(self, view: "Callable[[], View]", times: RecordTimes) -> None:
        """`view` raises OSError when it is gone."""
        self._view, self._times = view, times
        self._kept: Cached[AllSeconds] = Cached(self._read)

    def peek(self) -> Aged[AllSeconds] | None:
        """Return what is known; begin a reading where one is due."""
        return self._kept.peek(SECONDS_S)

    def _read(self, effort: Effort) -> AllSeconds:
        view = self._view()
        with effort.waiting():
            committed = view.kept_committed.get(COMMITTED_S).value.of
            ends = view.all_ends().offsets.of
            metadata = view.metadata(METADATA_S)
        now_s, before = time.monotonic(), self._kept.last
        kept = {
            group_id: each
            for group_id, each in (before.of if before is not None else {}).items()
            if group_id in committed and now_s - each.read_s < SECONDS_KEPT_SECONDS.value
        }
        tried = before.tried_s if before is not None else {}
        found = read_seconds(
            places_of(committed, ends, tried),
            self._times,
            lambda asked: next_records(view, metadata, self._times, asked)[0],
        )
        still = {group_id: at for group_id, at in tried.items() if group_id in committed}
        return AllSeconds({**kept, **found.of}, {**still, **found.tried_s})


def places_of(
    committed: Mapping[str, Mapping[Where, int]],
    ends: Mapping[Where, int],
    tried_s: Mapping[str, float],
) -> Iterator[tuple[str, Sequence[Place]]]:
    """Yield the groups and the places where records wait for them: first groups that were never
    read, then those whose reading is oldest. Groups with a partition of an unknown end are left
    out: a record may wait there.
    """
    for group_id in sorted(committed, key=lambda each: tried_s.get(each, 0.0)):
        offsets = committed[group_id]
        if offsets and offsets.keys() <= ends.keys():
            yield group_id, [place for place in offsets.items() if place[1] < ends[place[0]]]


def read_seconds(
    waiting: Iterable[tuple[str, Sequence[Place]]],
    times: RecordTimes,
    ask: Callable[[Mapping[Where, int]], Mapping[Where, NextRecord]],
    now: Callable[[], float] = time.monotonic,
) -> AllSeconds:
    """Read the times of as many groups as one reading may ask for. A group has one when all its
    places have. `ask`: reads records, one of each partition, and leaves out those whose leaders do
    not answer.
    """
    end_s, most = now() + SECONDS_READ_SECONDS.value, SECONDS_PARTITIONS.value
    chosen: dict[str, Sequence[Place]] = {}
    asking: set[Place] = set()
    known: dict[Place, NextRecord] = {}
    for group_id, places in waiting:
        unknown = []
        for place in places:
            if place not in known and (record := times.find(*place)) is not None:
                known[place] = record
            if place not in known and place not in asking:
                unknown.append(place)
        if len(asking) + len(unknown) <= most:  # a later group may have fewer
            asking.update(unknown)
            chosen[group_id] = places
    queues: dict[Where, list[int]] = {}
    for where, offset in asking:
        queues.setdefault(where, []).append(offset)
    while queues and now() < end_s:
        asked = {where: queues[where].pop() for where in islice(queues, SECONDS_AT_ONCE.value)}
        answers = ask(asked)
        for where, offset in asked.items():
            rest = queues.pop(where)
            if where in answers:
                known[where, offset] = answers[where]
                if rest:  # behind the others
                    queues[where] = rest
    return AllSeconds(_oldest(chosen, known, now()), dict.fromkeys(chosen, now()))


def _oldest(
    chosen: Mapping[str, Sequence[Place]], known: Mapping[Place, NextRecord], now_s: float
) -> dict[str, Oldest]:
    found = {}
    for group_id, places in chosen.items():
        records = [known.get(place) for place in places]
        ages = [each.time_ms for each in records if each is not None and each.time_ms is not None]
        without = sum(each is not None and each.is_none for each in records)
        if len(ages) + without == len(places):
            found[group_id] = Oldest(min(ages, default=None), now_s)
    return found
