"""Kafka's two ways to share partitions out: `uniform` moves as little as possible, `range` gives each member a stretch of every topic.

A way is a function of what members subscribe to, how many partitions there are, and what everybody was to have so far. Knows no group.
"""

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from raftka.coordinator.consumer_commands import Target

Partition = tuple[bytes, int]


class Wish(NamedTuple):
    """Of one member."""

    instance_id: str | None
    topics: frozenset[bytes]


Assignor = Callable[[Mapping[str, Wish], Mapping[bytes, int], Mapping[str, Target]], dict[str, Target]]


def assign_range(wishes: Mapping[str, Wish], counts: Mapping[bytes, int], before: Mapping[str, Target]) -> dict[str, Target]:
    """Topics of as many partitions, subscribed to by the same members, are shared out alike: what has one key is read by one member."""
    found: dict[str, Target] = {member_id: {} for member_id in wishes}
    ordered = sorted(wishes, key=lambda member_id: _range_order(member_id, wishes[member_id]))
    for topic_id, count in counts.items():
        members = [member_id for member_id in ordered if topic_id in wishes[member_id].topics]
        if not members:
            continue
        share, extra = divmod(count, len(members))
        start = 0
        for place, member_id in enumerate(members):
            end = start + share + (place < extra)
            if end > start:
                found[member_id][topic_id] = tuple(range(start, end))
            start = end
    return found


def _range_order(member_id: str, wish: Wish) -> tuple[bool, str]:
    """Static members first, by their instances: they keep their stretches when they come back under another id."""
    return wish.instance_id is None, member_id if wish.instance_id is None else wish.instance_id


def assign_uniform(wishes: Mapping[str, Wish], counts: Mapping[bytes, int], before: Mapping[str, Target]) -> dict[str, Target]:
    """Nobody has more than one partition more than another, as far as their subscriptions allow; nothing moves but for that."""
    alike = len({wish.topics for wish in wishes.values()}) <= 1
    held = _still_held(wishes, counts, before)
    free = _free(wishes, counts, held)
    if alike:
        _share_alike(held, free)
    else:
        _share_unlike(wishes, held, free)
    return {member_id: _as_target(partitions) for member_id, partitions in held.items()}


def _still_held(wishes: Mapping[str, Wish], counts: Mapping[bytes, int], before: Mapping[str, Target]) -> dict[str, list[Partition]]:
    """What members had and may keep. A partition that two had is the first one's."""
    taken: set[Partition] = set()
    held: dict[str, list[Partition]] = {}
    for member_id in sorted(wishes):
        held[member_id] = mine = []
        for topic_id, partitions in sorted(before.get(member_id, {}).items()):
            if topic_id in wishes[member_id].topics:
                mine += [(topic_id, each) for each in partitions if each < counts.get(topic_id, 0) and (topic_id, each) not in taken]
        taken.update(mine)
    return held


def _free(wishes: Mapping[str, Wish], counts: Mapping[bytes, int], held: Mapping[str, list[Partition]]) -> list[Partition]:
    taken = {each for mine in held.values() for each in mine}
    wanted = set().union(*[wish.topics for wish in wishes.values()])
    return [
        (topic_id, partition)
        for topic_id, count in sorted(counts.items())
        if topic_id in wanted
        for partition in range(count)
        if (topic_id, partition) not in taken
    ]


def _share_alike(held: dict[str, list[Partition]], free: list[Partition]) -> None:
    """Who has most keeps one more, where not all can have as many."""
    if not held:
        return
    share, extra = divmod(len(free) + sum(map(len, held.values())), len(held))
    for place, mine in enumerate(sorted(held.values(), key=len, reverse=True)):
        quota = share + (place < extra)
        free += mine[quota:]
        del mine[quota:]
    left = iter(sorted(free))
    for place, mine in enumerate(sorted(held.values(), key=len, reverse=True)):
        mine += [next(left) for _ in range(share + (place < extra) - len(mine))]


def _share_unlike(wishes: Mapping[str, Wish], held: dict[str, list[Partition]], free: Iterable[Partition]) -> None:
    """First what is free, to who has least of those who may have it, the partitions that fewest may have before the others; then from who has
    two more than another to that one, until there is none.
    """
    subscribers: dict[bytes, list[str]] = {}
    for member_id, wish in sorted(wishes.items()):
        for topic_id in wish.topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    heaps: dict[bytes, list[tuple[int, str]]] = {}
    for partition in sorted(free, key=lambda each: (len(subscribers[each[0]]), each)):
        held[_least(held, subscribers[partition[0]], heaps.setdefault(partition[0], []))].append(partition)
    _level(held, subscribers)


def _least(held: Mapping[str, list[Partition]], members: list[str], heap: list[tuple[int, str]]) -> str:
    """The heap is a topic's own, and behind where members got partitions of others: an entry that is not so any more goes back as it is now."""
    if not heap:
        heap += [(len(held[each]), each) for each in members]
        heapify(heap)
    while True:
        count, member_id = heappop(heap)
        now = len(held[member_id])
        heappush(heap, (now + (count == now), member_id))
        if count == now:
            return member_id


def _level(held: dict[str, list[Partition]], subscribers: Mapping[bytes, list[str]]) -> None:
    """Each move brings two numbers nearer to each other, so it ends; who has most is relieved first."""
    moved = True
    while moved:
        moved, fewest = False, min(map(len, held.values()))
        for member_id in sorted(held, key=lambda each: (-len(held[each]), each)):
            mine = held[member_id]
            if len(mine) < fewest + 2:
                break
            least = {topic_id: min(subscribers[topic_id], key=lambda each: (len(held[each]), each)) for topic_id in {each[0] for each in mine}}
            for partition in sorted(mine):
                other = least[partition[0]]
                if len(held[other]) + 1 < len(mine):
                    mine.remove(partition)
                    held[other].append(partition)
                    least[partition[0]] = min(subscribers[partition[0]], key=lambda each: (len(held[each]), each))
                    moved = True


def _as_target(partitions: Iterable[Partition]) -> Target:
    target: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        target.setdefault(topic_id, []).append(partition)
    return {topic_id: tuple(numbers) for topic_id, numbers in target.items()}


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
