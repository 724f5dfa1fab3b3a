"""Tasks of a streams group by role: active, standby and warm-up. A task is a subtopology and a
partition. Knows no group.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

Task = tuple[str, int]  # subtopology, partition
TaskMap = dict[str, tuple[int, ...]]  # by subtopology: partitions, in order
# by subtopology, by partition: the epoch at which the member was given the task
EpochMap = dict[str, dict[int, int]]


class Tasks(NamedTuple):
    """Never changed in place."""

    active: TaskMap = {}  # noqa: RUF012
    standby: TaskMap = {}  # noqa: RUF012
    warmup: TaskMap = {}  # noqa: RUF012


class Held(NamedTuple):
    """Tasks that a member has, active ones with their epochs; never changed in place."""

    active: EpochMap = {}  # noqa: RUF012
    standby: TaskMap = {}  # noqa: RUF012
    warmup: TaskMap = {}  # noqa: RUF012

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def tasks(self) -> Tasks:
        active = {name: tuple(sorted(epochs)) for name, epochs in self.active.items() if epochs}
        return Tasks(active, self.standby, self.warmup)

    def copies(self) -> Iterator[Task]:
        """Yield its standby and warm-up tasks."""
        yield from each_task(self.standby)
        yield from each_task(self.warmup)


NO_TASKS = Tasks()
NOTHING_HELD = Held()


def each_task(tasks: TaskMap | EpochMap) -> Iterator[Task]:
    return ((name, partition) for name, partitions in tasks.items() for partition in partitions)


def task_map(tasks: Iterable[Task]) -> TaskMap:
    found: dict[str, list[int]] = {}
    for name, partition in sorted(tasks):
        found.setdefault(name, []).append(partition)
    return {name: tuple(partitions) for name, partitions in found.items()}


def has_any(owned: Tasks, held: Held) -> bool:
    """Return whether the member owns one of these tasks in the same role."""
    return any(
        not set(partitions).isdisjoint(mine.get(name, ()))
        for mine, tasks in _by_role(owned, held)
        for name, partitions in tasks.items()
    )


def has_no_more(owned: Tasks, held: Held) -> bool:
    """Return whether each task that the member owns is one of these, in the same role."""
    return all(
        set(partitions) <= set(tasks.get(name, ()))
        for mine, tasks in _by_role(owned, held)
        for name, partitions in mine.items()
    )


def _by_role(owned: Tasks, held: Held) -> tuple[tuple[TaskMap, TaskMap | EpochMap], ...]:
    return (
        (owned.active, held.active),
        (owned.standby, held.standby),
        (owned.warmup, held.warmup),
    )
