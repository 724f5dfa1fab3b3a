"""Plan a batch: from which offset to which, in which tasks. Plain functions; brokers answer through
`Lookup`. Knows neither sockets nor Spark.

Nothing here ever goes back: a partition's end is never before its start, whatever brokers say.
"""

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heapreplace
from itertools import pairwise
from math import ceil, floor
from typing import NamedTuple, Protocol

from raftka.pipeline.errors import DataLoss, OptionRefused
from raftka.pipeline.topics.options import LATEST, Edge, SourceOptions
from raftka.pipeline.topics.positions import Offsets, Position, Where

JOINED_RECORDS = 10_000  # in one task: a task costs some 10 ms, as much as so many records
# how often brokers are asked again before a topic is believed to be gone, or to have become shorter
DOUBTS = 5

log = logging.getLogger(__name__)


class Topic(NamedTuple):
    topic_id: str  # empty: the brokers have none
    partitions: tuple[int, ...]


class Range(NamedTuple):
    """A range of offsets of one partition."""

    topic: str
    topic_id: str
    partition: int
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    @property
    def where(self) -> str:
        return f"{self.topic}-{self.partition}"


class Lookup(Protocol):
    """Answers of a cluster."""

    def names(self) -> Sequence[str]:
        """The names of all topics but internal ones."""

    def topics(self, names: Collection[str]) -> Mapping[str, Topic]:
        """Those of them that are there."""

    def offsets(self, asked: Mapping[Where, int]) -> Mapping[Where, int]:
        """By time (ms), LATEST or EARLIEST; -1 where no record is that late."""

    def pause(self) -> None:
        """Until it is worth asking again."""


def loss(options: SourceOptions, what: str, otherwise: str) -> None:
    """Raises DataLoss, or warns."""
    if options.fail_on_data_loss:
        raise DataLoss(
            f"{what}. The query stops rather than leave records out in silence "
            "(failOnDataLoss=true). Next step: failOnDataLoss=false to go on: "
            f"{otherwise}; or a new checkpoint with startingOffsets of your choice"
        )
    log.warning("%s; failOnDataLoss=false: %s", what, otherwise)


# what there is


def find(
    options: SourceOptions, lookup: Lookup, known: Collection[str] = ()
) -> Mapping[str, Topic]:
    """The topics to read. Those that were `known` are looked for with more patience."""
    names = set(options.topics) | {topic for topic, _ in options.assigned}
    if options.pattern is not None:
        names = {name for name in lookup.names() if re.fullmatch(options.pattern, name)} | set(
            known
        )
    found = lookup.topics(names) if names else {}
    for _ in range(DOUBTS):  # a broker may be the last to hear of a topic
        if not (set(known) & names) - found.keys():
            break
        lookup.pause()
        found = {**found, **lookup.topics(names - found.keys())}
    return found


def places(options: SourceOptions, found: Mapping[str, Topic]) -> list[Where]:
    there = [
        (name, partition) for name, topic in sorted(found.items()) for partition in topic.partitions
    ]
    return [where for where in there if where in options.assigned] if options.assigned else there


def _demand(options: SourceOptions, found: Mapping[str, Topic], there: Collection[Where]) -> None:
    """Check that all named topics are there at the start of a query. Raise OptionRefused."""
    missing = sorted(set(options.topics) - found.keys()) or sorted(
        {topic for topic, _ in options.assigned} - found.keys()
    )
    if missing:
        raise OptionRefused(
            f"there is no topic {', '.join(missing)}: `raftka topics list` shows those that are, "
            "`raftka topics create` makes one"
        )
    if gone := sorted(set(options.assigned) - set(there)):
        raise OptionRefused(f"assign: {gone[0][0]} has no partition {gone[0][1]}")


# batch queries and the beginning of streams


def edge(options: SourceOptions, side: str, lookup: Lookup, there: Sequence[Where]) -> Offsets:
    """Return the offsets where reading begins ("starting") or ends ("ending")."""
    said = options.starting if side == "starting" else options.ending
    given = said.offsets if said.times is None else said.times
    if given is not None:
        _same_partitions(
            given, there, f"{side}Offsets" if said.times is None else f"{side}OffsetsByTimestamp"
        )
    asked = _asked(said, there)
    found = dict(lookup.offsets(asked)) if asked else {}
    late = [where for where, time in asked.items() if time >= 0 and found[where] < 0]
    if late and not said.latest_if_none:
        topic, partition = late[0]
        raise OptionRefused(
            f"{topic}-{partition} has no record from {asked[late[0]]} ms on, where the query is "
            "to begin: take an earlier time, or "
            "startingOffsetsByTimestampStrategy=latest"
        )
    if late:
        found.update(lookup.offsets(dict.fromkeys(late, LATEST)))
    return {
        where: found[where] if where in found else (said.offsets or {})[where] for where in there
    }


def _asked(said: Edge, there: Sequence[Where]) -> dict[Where, int]:
    """Return the times to look up at the brokers."""
    if said.time is not None:
        return dict.fromkeys(there, said.time)
    if said.times is not None:
        return {where: said.times[where] for where in there}
    if said.offsets is not None:
        return {where: offset for where, offset in said.offsets.items() if offset < 0}
    return dict.fromkeys(there, said.default)


def _same_partitions(given: Collection[Where], there: Collection[Where], option: str) -> None:
    """Check that offsets name all partitions, as Spark does: a forgotten one would be read from an
    arbitrary place.
    """
    for text, those in (
        ("does not name", set(there) - set(given)),
        ("names", set(given) - set(there)),
    ):
        if those:
            topic, partition = min(those)
            raise OptionRefused(
                f"{option} {text} {topic}-{partition}, which "
                f"{'is' if text != 'names' else 'is not'} to be read: it must name exactly these"
            )


def batch(options: SourceOptions, lookup: Lookup) -> list[Range]:
    found = find(options, lookup)
    there = places(options, found)
    _demand(options, found, there)
    starts, stops = edge(options, "starting", lookup, there), edge(options, "ending", lookup, there)
    for topic, partition in there:
        if starts[topic, partition] > stops[topic, partition] and (
            options.starting.offsets or options.ending.offsets
        ):
            said = f"from {starts[topic, partition]} to {stops[topic, partition]}"
            raise OptionRefused(
                f"{topic}-{partition} is to be read {said}, which is backwards: its end is where "
                "it ends now unless endingOffsets says less"
            )
    return _ranges(
        {where: (starts[where], stops[where]) for where in there},
        {name: topic.topic_id for name, topic in found.items()},
    )


def initial(options: SourceOptions, lookup: Lookup) -> Position:
    found = find(options, lookup)
    there = places(options, found)
    _demand(options, found, there)
    return Position(edge(options, "starting", lookup, there), _ids(found), initial=True)


# streams


def latest(
    options: SourceOptions, lookup: Lookup, start: Position, target: Position | None = None
) -> Position:
    """Return the ends of the topics now; with the `target` of an availableNow run no further than
    that. Both look for the same losses. Raises DataLoss.
    """
    known = {topic for topic, _ in start.offsets}
    found = find(options, lookup, known)
    there = places(options, found)
    ends = dict(lookup.offsets(dict.fromkeys(there, LATEST))) if there else {}
    ids = _ids(found)
    again = remade(start, ids) | (remade(target, ids) if target is not None else set())
    for topic in sorted(again):
        loss(
            options,
            f"topic {topic} was deleted and made again since the last batch",
            "the new one is read from its beginning",
        )
    same = {where: offset for where, offset in start.offsets.items() if where[0] not in again}
    for topic, partition in sorted(same.keys() - ends.keys()):
        loss(
            options,
            f"{topic}-{partition} is gone: its topic was deleted",
            "its unread records are lost",
        )
    wanted = (
        {}
        if target is None
        else {where: end for where, end in target.offsets.items() if where[0] not in again}
    )
    _never_back(options, lookup, same, wanted, ends)
    began = (
        {where: 0 if where[0] in again else offset for where, offset in start.offsets.items()}
        if start.initial
        else None
    )
    now = Position(ends, ids, began)
    return now if target is None else _up_to(target, start, now)


def _never_back(
    options: SourceOptions, lookup: Lookup, starts: Offsets, wanted: Offsets, ends: dict[Where, int]
) -> None:
    """Check that no partition ends before its present position, or before the wanted one. A new
    leader may not know its end yet, so it is asked several times.
    """
    least = {
        where: max(starts.get(where, 0), wanted.get(where, 0))
        for where in (starts.keys() | wanted.keys()) & ends.keys()
    }
    for _ in range(DOUBTS):
        shorter = [where for where, offset in least.items() if ends[where] < offset]
        if not shorter:
            return
        lookup.pause()
        ends.update(lookup.offsets(dict.fromkeys(shorter, LATEST)))
    for where in sorted(where for where, offset in least.items() if ends[where] < offset):
        what = f"{where[0]}-{where[1]} ends at offset {ends[where]}"
        if ends[where] < starts.get(where, 0):
            loss(
                options,
                f"{what}, but was read up to {starts[where]}",
                "nothing is read of it until it is longer than that",
            )
            ends[where] = starts[where]
        else:
            loss(
                options,
                f"{what}, but ended at {wanted[where]} when this run began",
                "lost records are skipped",
            )


def _up_to(target: Position, start: Position, now: Position) -> Position:
    """Leave out records, partitions and topics that came after the run began. A topic that was made
    again since then stays as `start` has it: so the next run finds it to be another one. A topic
    that the query knows and the target does not was not known to the broker that answered.
    """
    late, again = remade(target, now.ids), remade(start, now.ids)
    asked = {topic for topic, _ in target.offsets}
    offsets: dict[Where, int] = {}
    for where, end in now.offsets.items():
        begin = start.offsets.get(where)
        if where in target.offsets and where[0] not in late:
            offsets[where] = max(
                min(end, target.offsets[where]), 0 if begin is None or where[0] in again else begin
            )
        elif begin is not None and where[0] not in asked:
            offsets[where] = end
        elif begin is not None and (where[0] in late or where[0] not in again):
            offsets[where] = begin
    topics = {topic for topic, _ in offsets}
    ids = {**now.ids, **{topic: start.ids[topic] for topic in late & start.ids.keys()}}
    return replace(
        now,
        offsets=offsets,
        ids={topic: topic_id for topic, topic_id in ids.items() if topic in topics},
    )


def remade(start: Position, ids: Mapping[str, str]) -> set[str]:
    """Topics that have another id than they had."""
    return {topic for topic, topic_id in start.ids.items() if ids.get(topic, topic_id) != topic_id}


def _ids(found: Mapping[str, Topic]) -> dict[str, str]:
    return {name: topic.topic_id for name, topic in found.items() if topic.topic_id}


def limited(start: Position, end: Position, limit: int) -> Position:
    """Limit a batch to about `limit` records, each partition in proportion to its unread ones, as
    Spark does: so none waits for ever.
    """
    begins = _begins(start, end)
    sizes = {where: end.offsets[where] - begins[where] for where in end.offsets}
    total = sum(sizes.values())
    if total <= limit:
        return end
    shares = {where: limit * (size / total) for where, size in sizes.items()}
    return replace(
        end,
        offsets={
            where: min(
                end.offsets[where], begins[where] + (ceil(share) if share < 1 else floor(share))
            )
            for where, share in shares.items()
        },
    )


def waiting(start: Position, end: Position) -> int:
    """Offsets, thus at least as many as records."""
    begins = _begins(start, end)
    return sum(end.offsets[where] - begins[where] for where in end.offsets)


def stream_ranges(start: Position, end: Position) -> list[Range]:
    """Return the ranges of the batch between two positions: always the same for the same two, now
    and when it is replayed.
    """
    begins = _begins(start, end)
    return _ranges({where: (begins[where], stop) for where, stop in end.offsets.items()}, end.ids)


def _begins(start: Position, end: Position) -> dict[Where, int]:
    """A partition that was not there before is read from its beginning, and so is a topic that is
    another one.
    """
    # the end of the first batch says so also when it is the start of the second
    first = end.began if start.initial else None
    offsets = start.offsets if first is None else first
    again = remade(start, end.ids) if first is None else set()
    return {where: 0 if where[0] in again else offsets.get(where, 0) for where in end.offsets}


def _ranges(found: Mapping[Where, tuple[int, int]], ids: Mapping[str, str]) -> list[Range]:
    return [
        Range(topic, ids.get(topic, ""), partition, *found[topic, partition])
        for topic, partition in sorted(found)
        if _is_some(*found[topic, partition])
    ]


def _is_some(start: int, stop: int) -> bool:
    return start < stop


# tasks


def tasks(ranges: Sequence[Range], min_partitions: int | None = None) -> list[tuple[Range, ...]]:
    """One a range; large ones are split when fewer than `min_partitions` would be, small ones
    joined as long as there are no fewer.
    """
    least = min_partitions or 1
    if len(ranges) < least:
        return [
            (each,)
            for whole, parts in zip(ranges, _parts(ranges, least), strict=True)
            for each in _split(whole, parts)
        ]
    return _joined(ranges, least)


def _parts(ranges: Sequence[Range], least: int) -> list[int]:
    """Into how many each is cut: always the one with the largest parts is cut once more."""
    parts = [1] * len(ranges)
    queue = [(-whole.size, index) for index, whole in enumerate(ranges)]
    heapify(queue)
    for _ in range(least - len(ranges)):
        if not queue or queue[0][0] >= -1:
            break
        index = queue[0][1]
        parts[index] += 1
        heapreplace(queue, (-ceil(ranges[index].size / parts[index]), index))
    return parts


def _split(whole: Range, parts: int) -> list[Range]:
    bounds = [whole.start + whole.size * part // parts for part in range(parts + 1)]
    return [
        whole._replace(start=start, stop=stop) for start, stop in pairwise(bounds) if start < stop
    ]


def _joined(ranges: Sequence[Range], least: int) -> list[tuple[Range, ...]]:
    done: list[tuple[Range, ...]] = []
    group: tuple[Range, ...] = ()
    for index, each in enumerate(ranges):
        fits = sum(r.size for r in group) + each.size <= JOINED_RECORDS
        rest = len(ranges) - index  # with this one, each of which can be a task
        if group and (not fits or len(done) + 1 + rest <= least):
            done.append(group)
            group = ()
        group = (*group, each)
    return [*done, group] if group else done
