"""A streams group as a decision is about to make it. Knows no rule."""

from raftka.coordinator.modern.group import Draft as CommonDraft
from raftka.coordinator.modern.records import Targets
from raftka.coordinator.streams.group import NOBODY, NOTHING, Member, StreamsGroup
from raftka.coordinator.streams.records import (
    CURRENT,
    GROUP,
    MEMBER,
    TARGET,
    TARGETS,
    TOPOLOGY,
    Current,
    Epoch,
    Said,
    current_record,
    group_record,
    member_record,
    target_record,
    targets_record,
    topology_record,
)
from raftka.coordinator.streams.tasks import NO_TASKS, Held, Tasks
from raftka.coordinator.streams.topology import Topology


class Draft(CommonDraft[StreamsGroup]):
    __slots__ = ()

    def say(self, member_id: str, said: Said) -> None:
        if self._member(member_id).said != said:
            self.apply(MEMBER, member_id, said, member_record(self.group_id, member_id, said))

    def have(self, member_id: str, current: Current) -> None:
        if self._member(member_id).current != current:
            record = current_record(self.group_id, member_id, current)
            self.apply(CURRENT, member_id, current, record)

    def aim(self, member_id: str, target: Tasks) -> None:
        if self.group.target.get(member_id) != target:
            self.apply(TARGET, member_id, target, target_record(self.group_id, member_id, target))

    def set_targets(self, targets: Targets) -> None:
        self.apply(TARGETS, "", targets, targets_record(self.group_id, targets))

    def set_epoch(self, epoch: Epoch) -> None:
        self.apply(GROUP, "", epoch, group_record(self.group_id, epoch))

    def set_topology(self, topology: Topology) -> None:
        self.apply(TOPOLOGY, "", topology, topology_record(self.group_id, topology))

    def replace(self, old: Member, member_id: str) -> None:
        """A static member has come back, mostly under another id: it keeps its target and its
        tasks, and begins with epoch 0.
        """
        target = self.group.target.get(old.member_id, NO_TASKS)
        if member_id != old.member_id:
            self.remove(old.member_id)
        self.say(member_id, old.said)
        self.aim(member_id, target)
        assigned = without_assignment_epochs(old.current.assigned)
        current = old.current._replace(epoch=0, previous_epoch=0, assigned=assigned)
        self.have(member_id, current)

    def _member(self, member_id: str) -> Member:
        return self.group.members.get(member_id) or Member(member_id, NOBODY, NOTHING)


def without_assignment_epochs(held: Held) -> Held:
    """Return these tasks as if they had been given at epoch 0: whichever member has the instance
    may commit.
    """
    return held._replace(
        active={name: dict.fromkeys(epochs, 0) for name, epochs in held.active.items()}
    )
