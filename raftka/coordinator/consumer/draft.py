"""A consumer group as a decision is about to make it. Knows no rule."""

from raftka.coordinator.consumer.commands import Target
from raftka.coordinator.consumer.group import NOBODY, NOTHING, ConsumerGroup, Member
from raftka.coordinator.consumer.records import (
    CURRENT,
    GROUP,
    MEMBER,
    REGEX,
    TARGET,
    TARGETS,
    Current,
    Epoch,
    Resolved,
    Said,
    current_record,
    group_record,
    member_record,
    regex_record,
    target_record,
    targets_record,
    tombstone,
)
from raftka.coordinator.modern.group import Draft as CommonDraft
from raftka.coordinator.modern.records import Targets


class Draft(CommonDraft[ConsumerGroup]):
    __slots__ = ()

    def say(self, member_id: str, said: Said) -> None:
        if self._member(member_id).said != said:
            self.apply(MEMBER, member_id, said, member_record(self.group_id, member_id, said))

    def have(self, member_id: str, current: Current) -> None:
        if self._member(member_id).current != current:
            self.apply(
                CURRENT, member_id, current, current_record(self.group_id, member_id, current)
            )

    def aim(self, member_id: str, target: Target) -> None:
        if self.group.target.get(member_id) != target:
            self.apply(TARGET, member_id, target, target_record(self.group_id, member_id, target))

    def set_targets(self, targets: Targets) -> None:
        self.apply(TARGETS, "", targets, targets_record(self.group_id, targets))

    def set_epoch(self, epoch: Epoch) -> None:
        self.apply(GROUP, "", epoch, group_record(self.group_id, epoch))

    def resolve(self, regex: str, resolved: Resolved) -> None:
        self.apply(REGEX, regex, resolved, regex_record(self.group_id, regex, resolved))

    def forget_regex(self, regex: str) -> None:
        self.apply(REGEX, regex, None, tombstone(REGEX, self.group_id, regex))

    def replace(self, old: Member, member_id: str) -> None:
        """A static member has come back, mostly under another id: it keeps its target and its
        partitions, and begins with epoch 0.
        """
        target = self.group.target.get(old.member_id, {})
        if member_id != old.member_id:
            self.remove(old.member_id)
        self.say(member_id, old.said)
        self.aim(member_id, target)
        self.have(member_id, old.current._replace(epoch=0, previous_epoch=0))

    def _member(self, member_id: str) -> Member:
        return self.group.members.get(member_id) or Member(member_id, NOBODY, NOTHING)
