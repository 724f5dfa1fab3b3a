"""Combine the batches of a share partition's state, as Kafka's share coordinator does.

Where batches overlap, the one with more deliveries wins; of equally many, the one with the higher
state. Neighbours with the same state and count become one batch.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Sequence
from heapq import heappop, heappush

from raftka.share.state import StateBatch


def combine(batches: Sequence[StateBatch]) -> Generator[None, None, list[StateBatch]]:
    """Return the batches in order of offsets, without overlaps. Yield for each of them: n batches
    take time n log n. Each has at least one offset.
    """
    waiting = sorted(batches)
    combined: list[StateBatch] = []
    # batches that cover `at`, the winner first: count and state negated, last offset
    covering: list[tuple[int, int, int]] = []
    at = number = 0
    while number < len(waiting) or covering:
        yield
        if not covering:
            at = waiting[number].first
        while number < len(waiting) and waiting[number].first <= at:
            _, last, state, count = waiting[number]
            heappush(covering, (-count, -state, last))
            number += 1
        while covering and covering[0][2] < at:
            heappop(covering)
        if covering:
            count, state, last = covering[0]
            if number < len(waiting):
                last = min(last, waiting[number].first - 1)
            _append(combined, StateBatch(at, last, -state, -count))
            at = last + 1
    return combined


def merge(stored: list[StateBatch], batches: Sequence[StateBatch]) -> None:
    """Merge `batches` into `stored`, in place; both are results of `combine`. The time depends on
    the batches, and on those of `stored` that they touch.
    """
    for batch in batches:
        first = bisect_left(stored, batch.first - 1, key=_last)
        behind = bisect_right(stored, batch.last + 1, key=_first)
        steps = combine([*stored[first:behind], batch])
        try:
            while True:
                next(steps)
        except StopIteration as stop:
            stored[first:behind] = stop.value


def cut_below(stored: list[StateBatch], start: int) -> None:
    """Remove the offsets below `start`, in place."""
    del stored[: bisect_left(stored, start, key=_last)]
    if stored and stored[0].first < start:
        stored[0] = stored[0]._replace(first=start)


def complete_count(stored: tuple[int, int], given: tuple[int, int]) -> int:
    """Return the number of completed deliveries after a write. Both pairs are a start offset, and
    the number of completed deliveries from there on.
    """
    if given[0] == stored[0]:
        return max(stored[1], given[1])
    return given[1] if given[0] > stored[0] else stored[1]


def _append(combined: list[StateBatch], batch: StateBatch) -> None:
    if combined:
        before = combined[-1]
        if (before.last + 1, before.state, before.count) == (
            batch.first,
            batch.state,
            batch.count,
        ):
            combined[-1] = before._replace(last=batch.last)
            return
    combined.append(batch)


def _first(batch: StateBatch) -> int:
    return batch.first


def _last(batch: StateBatch) -> int:
    return batch.last
