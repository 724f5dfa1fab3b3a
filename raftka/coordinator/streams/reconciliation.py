"""The steps of a member from its tasks to its target: the member gives tasks up first, then gets
free ones. Knows no request and no time.

An active task is free when no other member has it as an active one, and no other member of the same
process has a copy of it: both would use one directory. A copy is free when no other member of the
process has the task in any role.

A task that only changes its role at a member does not go through other hands: a member that gives
an active task up may be told at once to keep a copy, and a copy becomes active in one step.
"""

from collections.abc import Set

from raftka.coordinator.machine import Steps
from raftka.coordinator.modern.records import MemberState
from raftka.coordinator.streams.group import Member, StreamsGroup
from raftka.coordinator.streams.records import Current
from raftka.coordinator.streams.tasks import (
    NO_TASKS,
    NOTHING_HELD,
    Held,
    Tasks,
    has_any,
)

AT_ONCE = 5  # tasks


def reconcile(
    group: StreamsGroup, member: Member, owned: Tasks | None, epoch: int, target: Tasks
) -> Steps[Current]:
    """Return the tasks that the member has after this step towards `target`, which is of `epoch`.
    `owned`: the tasks that it reports; None: as before.
    """
    current = member.current
    if current.state is MemberState.STABLE and current.epoch == epoch:
        return current
    if current.state is MemberState.UNREVOKED and _owns_any(owned, current.revoking):
        return current
    step = _Step(group, member, epoch, target)
    for name in sorted({name for tasks in (*current.assigned, *target) for name in tasks}):
        # a step of a decision is some 10 us
        for _ in range(1 + step.sort(name) // AT_ONCE):
            yield
    if step.revoking and _owns_any(owned, step.revoking):
        return _moved(current, current.epoch, MemberState.UNREVOKED, step.meanwhile, step.revoking)
    state = MemberState.STABLE if step.complete else MemberState.UNRELEASED
    return _moved(current, epoch, state, step.after, NOTHING_HELD)


class _Step:
    """`revoking`: the tasks to give up. `meanwhile`: those that the member has until it has done
    so; `after`: those that it has then. `complete`: there are all of the target.
    """

    def __init__(self, group: StreamsGroup, member: Member, epoch: int, target: Tasks) -> None:
        self._group = group
        self._member_id = member.member_id
        self._process_id = member.said.process_id
        self._has = member.current.assigned
        self._epoch = epoch
        self._target = target
        self.revoking = Held({}, {}, {})
        self.meanwhile = Held({}, {}, {})
        self.after = Held({}, {}, {})
        self.complete = True

    def sort(self, name: str) -> int:
        """Sort the tasks of one subtopology; return how many there are."""
        has, wanted = self._has.active.get(name, {}), set(self._target.active.get(name, ()))
        kept = {each: epoch for each, epoch in has.items() if each in wanted}
        given = {each: epoch for each, epoch in has.items() if each not in wanted}
        missing = wanted - kept.keys()
        free = {each for each in missing if self.is_free(name, each)}
        for held, epochs in (
            (self.revoking, given),
            (self.meanwhile, kept),
            (self.after, {**kept, **dict.fromkeys(sorted(free), self._epoch)}),
        ):
            if epochs:
                held.active[name] = epochs
        self.complete = self.complete and free == missing
        for role in ("standby", "warmup"):
            self._sort_copies(name, role, given.keys(), free)
        return len(has) + len(wanted)

    def _sort_copies(self, name: str, role: str, given: Set[int], free: Set[int]) -> None:
        """`given`, `free`: active tasks that the member gives up, and gets."""
        has = set(getattr(self._has, role).get(name, ()))
        wanted = set(getattr(self._target, role).get(name, ()))
        kept, missing = has & wanted, wanted - has
        promoted = self.promoted(has - wanted, free)
        free_copies = {each for each in missing if self.is_free_copy(name, each)}
        for held, partitions in (
            (self.revoking, has - wanted - free),
            (self.meanwhile, kept | promoted | (free_copies & given)),
            (self.after, kept | free_copies),
        ):
            if partitions:
                getattr(held, role)[name] = tuple(sorted(partitions))
        self.complete = self.complete and free_copies == missing

    def promoted(self, copies: Set[int], free: Set[int]) -> Set[int]:
        """Return those of these copies that become active: they are not given up before."""
        return copies & free

    def is_free(self, name: str, partition: int) -> bool:
        owner = self._group.owners.get((name, partition))
        return owner in (None, self._member_id) and not self._has_another_copy(name, partition)

    def is_free_copy(self, name: str, partition: int) -> bool:
        owner = self._group.owners.get((name, partition))
        return (
            owner in (None, self._member_id) or self._group.process_of(owner) != self._process_id
        ) and not self._has_another_copy(name, partition)

    def _has_another_copy(self, name: str, partition: int) -> bool:
        """Return whether another member of this process has a copy."""
        return any(
            holder != self._member_id and self._group.process_of(holder) == self._process_id
            for holder in self._group.copies.get((name, partition), ())
        )


def _moved(
    current: Current, epoch: int, state: MemberState, assigned: Held, revoking: Held
) -> Current:
    """Return the member's new state. It keeps the epoch before: an answer may be lost."""
    previous = current.epoch if epoch != current.epoch else current.previous_epoch
    return Current(epoch, previous, state, assigned, revoking)


def _owns_any(owned: Tasks | None, revoking: Held) -> bool:
    """Return whether the member still owns one of the tasks that it is to give up. A member that
    does not list its tasks owns all.
    """
    return owned is None or has_any(owned, revoking)


def target_of(group: StreamsGroup, member_id: str) -> Tasks:
    return group.target.get(member_id, NO_TASKS)
