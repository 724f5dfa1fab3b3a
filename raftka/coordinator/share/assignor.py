"""Kafka's one way to assign partitions to the members of a share group, `simple`: each partition is
read by a member at least, members have about as many, and little moves.

Where all members subscribe to the same topics, all partitions are spread over all members. Else
each topic is spread over its subscribers, one topic after the other. Where there are more members
than partitions, each partition goes to as many members as it takes to give each member one.

A generator (`Steps`), linear in members and partitions of each topic. Knows no group.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from raftka.coordinator.consumer.commands import Target
from raftka.coordinator.machine import Steps

Partition = tuple[bytes, int]
AT_ONCE = 10  # members or partitions, where one takes a microsecond
Counts = Mapping[bytes, Sequence[int]]  # partitions of topics, in order


def assign_simple(
    wishes: Mapping[str, frozenset[bytes]],
    counts: Counts,
    before: Mapping[str, Target],
    *,
    alike: bool,
) -> Steps[dict[str, Target]]:
    """Return the target of each member. `wishes`: the topics that members subscribe to; `before`:
    their last targets; `alike`: all members subscribe to the same topics, those that are not there
    included.
    """
    held: dict[str, list[Partition]] = {member_id: [] for member_id in sorted(wishes)}
    if alike:
        ids = next(iter(wishes.values()), frozenset()) & counts.keys()
        partitions = [(topic_id, index) for topic_id in sorted(ids) for index in counts[topic_id]]
        yield from _spread(partitions, list(held), held, before)
    else:
        subscribers = yield from _subscribers(wishes, counts)
        for topic_id, members in sorted(subscribers.items()):
            partitions = [(topic_id, index) for index in counts[topic_id]]
            yield from _spread(partitions, members, held, before)
    found = {}
    for member_id, mine in held.items():
        found[member_id] = _as_target(mine)
        yield
    return found


def _subscribers(
    wishes: Mapping[str, frozenset[bytes]], counts: Counts
) -> Steps[dict[bytes, list[str]]]:
    subscribers: dict[bytes, list[str]] = {}
    for member_id in sorted(wishes):
        for number, topic_id in enumerate(wishes[member_id] & counts.keys()):
            subscribers.setdefault(topic_id, []).append(member_id)
            if number % AT_ONCE == 0:
                yield
    return subscribers


def _spread(
    partitions: Sequence[Partition],
    members: Sequence[str],
    held: dict[str, list[Partition]],
    before: Mapping[str, Target],
) -> Steps[None]:
    """Add these partitions to what members hold: each to `sharing` members, each member as many as
    the others or one less, first those that it had.
    """
    if not partitions or not members:
        return
    sharing = -(-len(members) // len(partitions))
    left = dict.fromkeys(partitions, sharing)
    quota = yield from _quotas(members, sharing * len(partitions), held)
    mine: dict[str, dict[Partition, None]] = {member_id: {} for member_id in members}
    for member_id in members:
        for topic_id, indexes in before.get(member_id, {}).items():
            for index in indexes:
                place = topic_id, index
                if left.get(place) and len(mine[member_id]) < quota[member_id]:
                    left[place] -= 1
                    mine[member_id][place] = None
            yield
    yield from _fill(members, quota, mine, left)
    for member_id in members:
        held[member_id] += mine[member_id]
        yield


def _quotas(
    members: Sequence[str], slots: int, held: Mapping[str, list[Partition]]
) -> Steps[dict[str, int]]:
    """Return how many partitions each member takes. The members that hold least take one more."""
    share, extra = divmod(slots, len(members))
    quota = {}
    for place, member_id in enumerate(sorted(members, key=lambda each: len(held[each]))):
        quota[member_id] = share + (place < extra)
        if place % AT_ONCE == 0:
            yield
    return quota


def _fill(
    members: Sequence[str],
    quota: Mapping[str, int],
    mine: Mapping[str, dict[Partition, None]],
    left: Mapping[Partition, int],
) -> Steps[None]:
    """Give out the partitions that still want members (`left`: how many), the members in turn. A
    member takes no partition twice: such a partition goes behind the others. There are few of them,
    for members have more than one partition only where a partition has one member.
    """
    free = deque((place, count) for place, count in left.items() if count)
    for member_id in members:
        own = mine[member_id]
        passed = 0
        while passed < len(free) and len(own) < quota[member_id]:
            place, count = free.popleft()
            if place in own:
                free.append((place, count))
                passed += 1
            else:
                own[place] = None
                if count > 1:
                    free.append((place, count - 1))
            yield


def _as_target(partitions: Sequence[Partition]) -> Target:
    target: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(partitions):
        target.setdefault(topic_id, []).append(index)
    return {topic_id: tuple(indexes) for topic_id, indexes in target.items()}
