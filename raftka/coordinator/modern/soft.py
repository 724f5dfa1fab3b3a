"""A coordinator's knowledge of a group beside its records: timers of members, times of the last
events. Another coordinator does without.

By the group's id, not by its object: a decision may make a group, or turn it into another, before
its records are there. Knows no rule.
"""

from collections.abc import Callable
from math import inf
from typing import ClassVar

from raftka.coordinator.decision import Decision
from raftka.coordinator.machine import Steps
from raftka.coordinator.timers import Timer, Timers

SESSION, REVOKE = "session", "revoke"  # kinds of timers

Ring = Callable[[Decision], Steps[None]]


class Soft:
    of_member: ClassVar[tuple[str, ...]] = (SESSION, REVOKE)  # kinds of timers of a member

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.timers: dict[tuple[str, str], Timer] = {}  # by kind and member; "": of the group

    def set(self, what: str, member_id: str, due: float, ring: Ring, timers: Timers) -> None:
        timer = self.timers.get((what, member_id))
        if timer is None:
            timer = self.timers[what, member_id] = Timer(self, ring)
        timer.ring = ring
        timers.set(timer, due)

    def off(self, what: str, member_id: str, timers: Timers) -> None:
        timer = self.timers.pop((what, member_id), None)
        if timer is not None:
            timers.off(timer)

    def runs(self, what: str, member_id: str = "") -> bool:
        timer = self.timers.get((what, member_id))
        return timer is not None and timer.due < inf

    def forget_member(self, member_id: str, timers: Timers) -> None:
        """End the timers of one member: those of thousands of others are not looked through."""
        for what in self.of_member:
            self.off(what, member_id, timers)

    def end(self, timers: Timers) -> None:
        """End all timers: the group is gone."""
        for what, member_id in list(self.timers):
            self.off(what, member_id, timers)
