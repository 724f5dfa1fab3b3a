"""A coordinator's knowledge of a streams group beside its records. Knows no rule."""

from raftka.coordinator.modern.soft import Soft as CommonSoft
from raftka.coordinator.streams.configured import Configured
from raftka.coordinator.streams.tasks import Task
from raftka.coordinator.streams.topology import Topology
from raftka.coordinator.timers import Timers

FIRST_ASSIGNMENT = "first-assignment"


class Soft(CommonSoft):
    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        # the version of the topics that its metadata hash is known to be of
        self.seen_topics = -1
        # version of the topics, a topology, and the two side by side
        self.configured: tuple[int, Topology, Configured] | None = None
        self.endpoint_epoch = 0  # moves when an end point or its tasks change
        self.shutdown_by: str | None = None  # the member that asked for the end of all
        # by member: of tasks whose state it has on its disk
        self.offsets: dict[str, dict[Task, int]] = {}

    def forget_member(self, member_id: str, timers: Timers) -> None:
        super().forget_member(member_id, timers)
        self.offsets.pop(member_id, None)
