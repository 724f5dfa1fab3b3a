"""A coordinator's knowledge of a streams group beside its records: timers, the end points that
clients know, offsets of tasks. Another one does without.

By the group's id, not by its object: a decision may make a group before its records are there.
Knows no rule.
"""

from collections.abc import Callable
from math import inf

from raftka.coordinator.decision import Decision
from raftka.coordinator.machine import Steps
from raftka.coordinator.streams.configured import Configured
from raftka.coordinator.streams.tasks import Task
from raftka.coordinator.streams.topology import Topology
from raftka.coordinator.timers import Timer, Timers

SESSION, REVOKE, FIRST_ASSIGNMENT = "session", "revoke", "first-assignment"
OF_MEMBER = (SESSION, REVOKE)

Ring = Callable[[Decision], Steps[None]]


class Soft:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.timers: dict[tuple[str, str], Timer] = {}  # by what, and the member
        # the version of the topics that its metadata hash is known to be of
        self.seen_topics = -1
        # version of the topics, a topology, and the two side by side
        self.configured: tuple[int, Topology, Configured] | None = None
        self.endpoint_epoch = 0  # moves when an end point or its tasks change
        self.shutdown_by: str | None = None  # the member that asked for the end of all
        # by member: of tasks whose state it has on its disk
        self.offsets: dict[str, dict[Task, int]] = {}

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

    def forget_member(self, timers: Timers, member_id: str) -> None:
        """Of one member: the timers of thousands of others are not looked through."""
        for what in OF_MEMBER:
            self.off(what, member_id, timers)
        self.offsets.pop(member_id, None)
