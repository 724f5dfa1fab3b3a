"""The check for followers that have lagged for too long: goes through the partitions that this
broker leads when the earliest of them is due, some a turn.

Decides nothing: `LeaderState.tick` does.
"""

from collections.abc import Mapping
from math import inf

from raftka.broker.context import BrokerContext
from raftka.broker.replica.partition import Partition
from raftka.replication.partition import LeaderState

CHECKED_IN_A_TURN = 1000
SOONEST_S = 0.05


class IsrShrinks:
    def __init__(
        self, context: BrokerContext, partitions: Mapping[tuple[str, int], Partition]
    ) -> None:
        """`partitions`: all partitions of this broker."""
        self._metadata = context.metadata
        self._clock = context.runtime.clock
        self._partitions = partitions
        self._due = False  # a check is under way, or has its time
        self._left: list[Partition] = []
        self._earliest = inf

    def later(self, when: float) -> None:
        """Check at this time (seconds on the runtime's clock), or before."""
        self._earliest = min(self._earliest, when)
        if not self._due and when < inf:
            self._due = True
            now = self._clock.now()
            # another partition's follower may have to leave before
            at_most_s = self._metadata.settings.seconds("replica.lag.time.max.ms") / 2
            self._clock.call_at(min(max(when, now + SOONEST_S), now + at_most_s), self._begin)

    def note_lag(self, leader: LeaderState) -> None:
        """Check later: the leader's log has grown, and followers may fall behind."""
        if not self._due:
            self.later(leader.deadline())

    def _begin(self) -> None:
        self._earliest = inf
        self._left = list(self._partitions.values())
        self._left.reverse()
        self._shrink_some()

    def _shrink_some(self) -> None:
        now, partitions = self._clock.now(), self._partitions
        for _ in range(min(len(self._left), CHECKED_IN_A_TURN)):
            partition = self._left.pop()
            leader = partition.leader
            if (
                leader is not None
                and partitions.get((partition.topic, partition.index)) is partition
            ):
                deadline = leader.deadline()
                if deadline <= now:
                    partition.apply(leader.tick(now))
                    deadline = leader.deadline()
                self._earliest = min(self._earliest, deadline)
        if self._left:
            self._clock.call_at(now, self._shrink_some)
        else:
            self._due = False
            self.later(self._earliest)
