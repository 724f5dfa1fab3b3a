"""A coordinator's knowledge of a consumer group beside its records: timers of members, times of the
last events. Another one does without.

By the group's id, not by its object: a decision may make a group, or turn it into another, before
its records are there. Knows no rule.
"""

from collections.abc import Callable
from math import inf

from raftka.coordinator.decision import Decision
from raftka.coordinator.machine import Steps
from raftka.coordinator.timers import Timer, Timers

SESSION, REVOKE, JOIN, SYNC, DOWNGRADED = "session", "revoke", "join", "sync", "downgraded"
OF_MEMBER = (SESSION, REVOKE, JOIN, SYNC)

Ring = Callable[[Decision], Steps[None]]


class Soft:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.timers: dict[tuple[str, str], Timer] = {}  # by what, and the member
        self.moved_at = -inf  # when something was last decided
        # the version of the topics that its metadata hash is known to be of
        self.seen_topics: tuple[int, int] | None = None
        self.visible_since = -inf  # growths of topics after that time are hidden from its members
        # when partitions that are hidden from its members now are to be assigned
        self.grows_at = inf
        # version of the topics, the group's subscription, and their hash
        self.hashed: tuple[tuple[int, int], object, int] | None = None
        self.resolved_topics = -1  # and its regular expressions
        self.resolved_at = -inf

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

    def runs(self, what: str, member_id: str) -> bool:
        timer = self.timers.get((what, member_id))
        return timer is not None and timer.due < inf

    def all_off(self, timers: Timers, member_id: str) -> None:
        """Of one member: the timers of thousands of others are not looked through."""
        for what in OF_MEMBER:
            self.off(what, member_id, timers)
