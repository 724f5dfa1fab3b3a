"""The assignor of tasks, Kafka's `sticky`: a task stays where it is, or goes to a member that has a
copy of its state, as long as no member has more than its share. Knows no group.

Tasks with state and tasks without are shared out one after the other, so that each kind is even by
itself. Standby tasks go to processes that do not have the task.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from raftka.coordinator.machine import Steps
from raftka.coordinator.streams.tasks import NO_TASKS, Task, Tasks, each_task, task_map


class Wish(NamedTuple):
    """A member, as the assignor sees it."""

    process_id: str
    before: Tasks = NO_TASKS
    # of tasks whose state the member has on its disk: the sum of the offsets that it has read
    offsets: Mapping[Task, int] = {}


class Count(NamedTuple):
    """Of one subtopology."""

    tasks: int
    stateful: bool


Assignor = Callable[[Mapping[str, Wish], Mapping[str, Count], int], Steps[dict[str, Tasks]]]


def assign_sticky(
    wishes: Mapping[str, Wish], counts: Mapping[str, Count], standby_replicas: int
) -> Steps[dict[str, Tasks]]:
    """Return the tasks of each member, by its id."""
    return (yield from _Sticky(wishes, counts, standby_replicas).assign())


class _Quota:
    """The tasks that a member may have, when these tasks are shared out evenly. A member that is
    full takes its tasks out of the sum: the rest is for the others.
    """

    __slots__ = ("_members", "_tasks", "most")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.most = -(-tasks // members) if members else 0

    def note(self, count: int) -> None:
        """A member has so many tasks now."""
        if count == self.most:
            self._members -= 1
            self._tasks -= count
            self.most = -(-self._tasks // self._members) if self._members else 0


class _Process:
    """`load`: tasks for each member of the process."""

    __slots__ = ("members", "place", "stateless", "taken", "tasks", "total")

    def __init__(self, place: int) -> None:
        self.place = place  # among all processes, of which those with equal loads come in order
        self.members: dict[str, int] = {}  # how many tasks each has
        self.tasks: set[Task] = set()
        self.total = 0
        self.stateless = 0  # active tasks without state
        self.taken: list[tuple[int, int, str]] = []  # heap of members by their tasks

    @property
    def load(self) -> float:
        return self.total / len(self.members)

    @property
    def rank(self) -> tuple[float, float, int]:
        return self.load, self.stateless / len(self.members), self.place

    def least_loaded(self) -> str:
        """Return the member with the fewest tasks; an entry of the heap whose number is old is put
        back with the new one.
        """
        if not self.taken:
            self.taken = [(n, i, each) for i, (each, n) in enumerate(self.members.items())]
            heapify(self.taken)
        while self.taken[0][0] != self.members[self.taken[0][2]]:
            _, place, member_id = heappop(self.taken)
            heappush(self.taken, (self.members[member_id], place, member_id))
        return self.taken[0][2]


class _Sticky:
    def __init__(
        self, wishes: Mapping[str, Wish], counts: Mapping[str, Count], standby_replicas: int
    ) -> None:
        self.wishes = wishes
        self.standby_replicas = standby_replicas
        self.by_kind: dict[bool, list[Task]] = {True: [], False: []}  # stateful: its tasks
        for name, count in counts.items():
            self.by_kind[count.stateful] += [(name, each) for each in range(count.tasks)]
        stateful, stateless = len(self.by_kind[True]), len(self.by_kind[False])
        members = len(wishes)
        self.stateful_quota = _Quota(stateful, members)
        self.active_quota = _Quota(stateful + stateless, members)
        self.quota = _Quota(stateful * (1 + standby_replicas) + stateless, members)
        process_ids = sorted({wish.process_id for wish in wishes.values()})
        self.processes = {name: _Process(place) for place, name in enumerate(process_ids)}
        self.active: dict[str, list[Task]] = {member_id: [] for member_id in wishes}
        self.standby: dict[str, list[Task]] = {member_id: [] for member_id in wishes}
        self.owner_before: dict[Task, str] = {}
        self.holders_before: dict[Task, list[tuple[bool, int, str]]] = {}

    def assign(self) -> Steps[dict[str, Tasks]]:
        for member_id, wish in self.wishes.items():
            self.processes[wish.process_id].members[member_id] = 0
            self._remember(member_id, wish)
            yield
        for holders in self.holders_before.values():
            holders.sort(key=lambda each: each[:2])
        yield from self._assign_active(self.by_kind[True], stateful=True)
        yield from self._assign_active(self.by_kind[False], stateful=False)
        if self.standby_replicas:
            yield from self._assign_standby(self.by_kind[True])
        return {
            member_id: Tasks(task_map(self.active[member_id]), task_map(self.standby[member_id]))
            for member_id in self.wishes
        }

    def _remember(self, member_id: str, wish: Wish) -> None:
        """Members that have a copy come before those that only have state on their disks; among
        both the most caught up comes first.
        """
        for task in each_task(wish.before.active):
            self.owner_before[task] = member_id
        copies = [*each_task(wish.before.standby), *each_task(wish.before.warmup)]
        for task in copies:
            entry = (False, -wish.offsets.get(task, 0), member_id)
            self.holders_before.setdefault(task, []).append(entry)
        for task in wish.offsets.keys() - set(copies):
            entry = (True, -wish.offsets[task], member_id)
            self.holders_before.setdefault(task, []).append(entry)

    # active tasks

    def _assign_active(self, tasks: Sequence[Task], *, stateful: bool) -> Steps[None]:
        quota = self.stateful_quota if stateful else self.active_quota
        rest = sorted(tasks, key=lambda task: (task[1], task[0]))
        for before in (self.owner_before.get, self._least_loaded_holder):
            left = []
            for task in rest:
                member_id = before(task)
                if member_id is not None and self._count(member_id) < quota.most:
                    self._give_active(member_id, task, stateful=stateful)
                else:
                    left.append(task)
                yield
            rest = left
        heap = [(process.rank, process) for process in self.processes.values()]
        heapify(heap)
        for task in sorted(rest):
            _, process = heappop(heap)
            self._give_active(process.least_loaded(), task, stateful=stateful)
            heappush(heap, (process.rank, process))
            yield

    def _give_active(self, member_id: str, task: Task, *, stateful: bool) -> None:
        count = self._give(self.active, member_id, task)
        if stateful:
            self.stateful_quota.note(count)
        else:
            self._process(member_id).stateless += 1
        self.active_quota.note(count)
        self.quota.note(count)

    # standby tasks

    def _assign_standby(self, tasks: Sequence[Task]) -> Steps[None]:
        rest: list[tuple[Task, int]] = []
        for task in sorted(tasks, key=lambda task: (task[1], task[0]), reverse=True):
            missing = self.standby_replicas
            while missing and (member_id := self._former_holder(task)) is not None:
                self.quota.note(self._give(self.standby, member_id, task))
                missing -= 1
            if missing:
                rest.append((task, missing))
            yield
        heap = [(process.load, process.place, process) for process in self.processes.values()]
        heapify(heap)
        for task, missing in sorted(rest, reverse=True):
            passed_over = []
            while missing and heap:
                entry = heappop(heap)
                process = entry[2]
                if task not in process.tasks:
                    self.quota.note(self._give(self.standby, process.least_loaded(), task))
                    missing -= 1
                passed_over.append((process.load, process.place, process))
                yield
            for entry in passed_over:
                heappush(heap, entry)

    def _former_holder(self, task: Task) -> str | None:
        """Return the member that had the task and may have its standby: its process has the task in
        no role.
        """
        owner = self.owner_before.get(task)
        candidates: Iterable[str | None] = (owner, self._least_loaded_holder(task, standby=True))
        return next(
            (
                member_id
                for member_id in candidates
                if member_id is not None
                and task not in self._process(member_id).tasks
                and self._count(member_id) < self.quota.most
            ),
            None,
        )

    # both

    def _least_loaded_holder(self, task: Task, *, standby: bool = False) -> str | None:
        """Return the first member that had a copy, unless a later one has less to do and its
        process too. `standby`: only of processes that do not have the task now.
        """
        found, least = None, (0.0, 0)
        for _, _, member_id in self.holders_before.get(task, ()):
            process = self._process(member_id)
            if standby and task in process.tasks:
                continue
            load, count = process.load, self._count(member_id)
            if found is None or (load < least[0] and count < least[1]):
                found, least = member_id, (load, count)
        return found

    def _give(self, to: dict[str, list[Task]], member_id: str, task: Task) -> int:
        """Return how many tasks the member has now."""
        process = self._process(member_id)
        to[member_id].append(task)
        process.tasks.add(task)
        process.total += 1
        process.members[member_id] += 1
        return process.members[member_id]

    def _count(self, member_id: str) -> int:
        return self._process(member_id).members[member_id]

    def _process(self, member_id: str) -> _Process:
        return self.processes[self.wishes[member_id].process_id]


ASSIGNORS: dict[str, Assignor] = {"sticky": assign_sticky}
