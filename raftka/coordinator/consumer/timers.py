"""What a coordinator knows of a consumer group beside its records: timers of members, when something happened last. Another one does without.

By the group's id, not by its object: a decision may make a group, or turn it into another, before its records are there. Knows no rule.
"""

from collections.abc import Callable
from math import inf

from raftka.coordinator.decision import Turn
from raftka.coordinator.machine import Steps
from raftka.coordinator.timers import Alarm, Alarms

SESSION, REVOKE, JOIN, SYNC, DOWNGRADED = "session", "revoke", "join", "sync", "downgraded"
OF_MEMBER = (SESSION, REVOKE, JOIN, SYNC)

Ring = Callable[[Turn], Steps[None]]


class Soft:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.timers: dict[tuple[str, str], Alarm] = {}  # by what, and the member
        self.moved_at = -inf  # when something was last decided
        self.seen_topics = -1  # the version of the topics that its metadata hash is known to be of
        self.hashed: tuple[int, object, int] | None = None  # version of the topics, the group's subscription, and their hash
        self.resolved_topics = -1  # and its regular expressions
        self.resolved_at = -inf

    def set(self, what: str, member_id: str, due: float, ring: Ring, alarms: Alarms) -> None:
        alarm = self.timers.get((what, member_id))
        if alarm is None:
            alarm = self.timers[what, member_id] = Alarm(self, ring)
        alarm.ring = ring
        alarms.set(alarm, due)

    def off(self, what: str, member_id: str, alarms: Alarms) -> None:
        alarm = self.timers.pop((what, member_id), None)
        if alarm is not None:
            alarms.off(alarm)

    def runs(self, what: str, member_id: str) -> bool:
        alarm = self.timers.get((what, member_id))
        return alarm is not None and alarm.due < inf

    def all_off(self, alarms: Alarms, member_id: str) -> None:
        """Of one member: the timers of thousands of others are not looked through."""
        for what in OF_MEMBER:
            self.off(what, member_id, alarms)
