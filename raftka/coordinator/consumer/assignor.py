"""Kafka's two ways to share partitions out: `uniform` moves as little as possible, `range` gives
each member a stretch of every topic.

A way is a generator (`Steps`): there may be ten thousand members and more partitions. It is a
function of what members subscribe to, how many partitions there are, and what everybody was to have
so far. Knows no group.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappush, heapreplace
from typing import NamedTuple

from raftka.coordinator.consumer.commands import Target
from raftka.coordinator.machine import Steps

Partition = tuple[bytes, int]
AT_ONCE = 10  # members, where one takes a microsecond
# over members that have too much, as in Kafka: where few may have what others have, sharing out
# need not end soon
PASSES = 16


class Wish(NamedTuple):
    """Of one member."""

    instance_id: str | None
    topics: frozenset[bytes]


Assignor = Callable[
    [Mapping[str, Wish], Mapping[bytes, int], Mapping[str, Target]], Steps[dict[str, Target]]
]


def assign_range(
    wishes: Mapping[str, Wish], counts: Mapping[bytes, int], before: Mapping[str, Target]
) -> Steps[dict[str, Target]]:
    """Topics of as many partitions, subscribed to by the same members, are shared out alike: what
    has one key is read by one member.
    """
    found: dict[str, Target] = {member_id: {} for member_id in wishes}
    subscribers = yield from _subscribers(
        wishes,
        sorted(wishes, key=lambda member_id: _range_order(member_id, wishes[member_id])),
        counts,
    )
    for topic_id, count in counts.items():
        members = subscribers[topic_id]
        if not members:
            continue
        share, extra = divmod(count, len(members))
        start = 0
        for place, member_id in enumerate(members if share else members[:extra]):
            end = start + share + (place < extra)
            found[member_id][topic_id] = tuple(range(start, end))
            start = end
            if place % AT_ONCE == 0:
                yield
    return found


def _subscribers(
    wishes: Mapping[str, Wish], ordered: Sequence[str], topics: Iterable[bytes]
) -> Steps[dict[bytes, list[str]]]:
    """Of each topic, in that order; one and the same list for topics that have the same: most
    members subscribe to what others do.
    """
    alike: dict[frozenset[bytes], list[str]] = {}
    for member_id in ordered:
        alike.setdefault(wishes[member_id].topics, []).append(member_id)
    place = {member_id: number for number, member_id in enumerate(ordered)}
    wanted_by: dict[bytes, list[int]] = {topic_id: [] for topic_id in topics}
    for number, wanted in enumerate(alike):
        for topic_id in wanted & wanted_by.keys():
            wanted_by[topic_id].append(number)
        yield
    groups = list(alike.values())
    lists: dict[tuple[int, ...], list[str]] = {}
    found = {}
    for topic_id, numbers in wanted_by.items():
        which = tuple(numbers)
        if which not in lists:
            lists[which] = sorted(
                [each for number in which for each in groups[number]], key=place.__getitem__
            )
            yield
        found[topic_id] = lists[which]
    return found


def _range_order(member_id: str, wish: Wish) -> tuple[bool, str]:
    """Static members first, by their instances: they keep their stretches when they come back under
    another id.
    """
    return wish.instance_id is None, member_id if wish.instance_id is None else wish.instance_id


def assign_uniform(
    wishes: Mapping[str, Wish], counts: Mapping[bytes, int], before: Mapping[str, Target]
) -> Steps[dict[str, Target]]:
    """Nobody has more than one partition more than another, as far as their subscriptions allow;
    nothing moves but for that.
    """
    alike = len({wish.topics for wish in wishes.values()}) <= 1
    held = yield from _still_held(wishes, counts, before)
    free = yield from _free(wishes, counts, held)
    if alike:
        yield from _share_alike(held, free)
    else:
        yield from _share_unlike(wishes, held, free)
    found = {}
    for member_id, partitions in held.items():
        found[member_id] = _as_target(partitions)
        yield
    return found


def _still_held(
    wishes: Mapping[str, Wish], counts: Mapping[bytes, int], before: Mapping[str, Target]
) -> Steps[dict[str, list[Partition]]]:
    """Return the partitions that members had and may keep. A partition that two had is the first
    one's.
    """
    taken: set[Partition] = set()
    held: dict[str, list[Partition]] = {}
    for member_id in sorted(wishes):
        held[member_id] = mine = []
        for topic_id, partitions in sorted(before.get(member_id, {}).items()):
            if topic_id in wishes[member_id].topics:
                mine += [
                    (topic_id, each)
                    for each in partitions
                    if each < counts.get(topic_id, 0) and (topic_id, each) not in taken
                ]
        taken.update(mine)
        yield
    return held


def _free(
    wishes: Mapping[str, Wish], counts: Mapping[bytes, int], held: Mapping[str, list[Partition]]
) -> Steps[list[Partition]]:
    taken: set[Partition] = set().union(*held.values())
    wanted = _all_topics(wishes)
    free: list[Partition] = []
    for topic_id, count in sorted(counts.items()):
        if topic_id in wanted:
            free += [
                (topic_id, partition)
                for partition in range(count)
                if (topic_id, partition) not in taken
            ]
            yield
    return free


def _all_topics(wishes: Mapping[str, Wish]) -> set[bytes]:
    return set().union(*{wish.topics for wish in wishes.values()})


def _share_alike(held: dict[str, list[Partition]], free: list[Partition]) -> Steps[None]:
    """Share the partitions evenly. Where not all members can have as many, those with most keep one
    more.
    """
    if not held:
        return
    share, extra = divmod(len(free) + sum(map(len, held.values())), len(held))
    for place, mine in enumerate(sorted(held.values(), key=len, reverse=True)):
        quota = share + (place < extra)
        free += mine[quota:]
        del mine[quota:]
        if place % AT_ONCE == 0:
            yield
    left = iter(sorted(free))
    for place, mine in enumerate(sorted(held.values(), key=len, reverse=True)):
        mine += [next(left) for _ in range(share + (place < extra) - len(mine))]
        if place % AT_ONCE == 0:
            yield


def _share_unlike(
    wishes: Mapping[str, Wish], held: dict[str, list[Partition]], free: Iterable[Partition]
) -> Steps[None]:
    """First what is free, to who has least of those who may have it, the partitions that fewest may
    have before the others; then from who has two more than another to that one, until there is
    none.
    """
    subscribers = yield from _subscribers(wishes, sorted(wishes), _all_topics(wishes))
    least = _Least(held, subscribers)
    for partition in sorted(free, key=lambda each: (len(subscribers[each[0]]), each)):
        member_id = least.of(partition[0])
        held[member_id].append(partition)
        least.gained(member_id)
        yield
    for _ in range(PASSES):
        if not (yield from _level(held, least)):
            return


def _level(held: dict[str, list[Partition]], least: "_Least") -> Steps[bool]:
    """Move partitions from members with many to members with few; return whether something moved.
    Each move brings two numbers nearer to each other; the member with most gives first.
    """
    counts = least.counts
    moved, fewest = False, min(counts.values())
    for member_id in sorted(held, key=lambda each: (-counts[each], each)):
        mine, gone = held[member_id], set()
        if counts[member_id] < fewest + 2:
            break
        for partition in sorted(mine):
            yield
            other = least.of(partition[0])
            if counts[other] + 1 < counts[member_id]:
                held[other].append(partition)
                gone.add(partition)
                least.lost(member_id)
                least.gained(other)
        if gone:
            mine[:] = [each for each in mine if each not in gone]
            moved = True
    return moved


class _Least:
    """The member that has least, of those who may have a topic's partitions. Topics with the same
    list of members share one heap.

    A heap has for each member a number that is not above what the member has: it is corrected when
    it comes to the top.
    """

    def __init__(
        self, held: Mapping[str, list[Partition]], subscribers: Mapping[bytes, list[str]]
    ) -> None:
        self.counts = {member_id: len(mine) for member_id, mine in held.items()}
        self._subscribers = subscribers
        self._heaps: dict[int, list[tuple[int, str]]] = {}  # by the list of members
        self._heaps_of: dict[str, list[list[tuple[int, str]]]] = {}

    def of(self, topic_id: bytes) -> str:
        members = self._subscribers[topic_id]
        heap = self._heaps.get(id(members))
        if heap is None:
            heap = self._heap(members)
        while True:
            count, member_id = heap[0]
            now = self.counts[member_id]
            if count == now:
                return member_id
            heapreplace(heap, (now, member_id))

    def gained(self, member_id: str) -> None:
        self.counts[member_id] += 1

    def lost(self, member_id: str) -> None:
        self.counts[member_id] -= 1
        for heap in self._heaps_of.get(member_id, ()):
            heappush(heap, (self.counts[member_id], member_id))

    def _heap(self, members: list[str]) -> list[tuple[int, str]]:
        heap = self._heaps[id(members)] = [(self.counts[each], each) for each in members]
        heapify(heap)
        for each in members:
            self._heaps_of.setdefault(each, []).append(heap)
        return heap


def _as_target(partitions: Iterable[Partition]) -> Target:
    target: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        target.setdefault(topic_id, []).append(partition)
    return {topic_id: tuple(numbers) for topic_id, numbers in target.items()}


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
