"""A consumer group as a decision is about to make it: every change is a record, and seen at once by
what is decided next. Knows no rule.
"""

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
    Targets,
    current_record,
    group_record,
    member_record,
    regex_record,
    target_record,
    targets_record,
    tombstone,
)
from raftka.coordinator.machine import Record


class Draft:
    """Keeps its changes beside the group: most heartbeats change nothing, others one member of
    many.
    """

    __slots__ = ("_own", "group", "records")

    def __init__(self, group: ConsumerGroup, records: list[Record]) -> None:
        self.group = group
        self.records = records  # those of the whole decision
        self._own = False

    @property
    def group_id(self) -> str:
        return self.group.group_id

    @property
    def changed(self) -> bool:
        return self._own

    def _apply(self, what: int, name: str, value: object, record: Record) -> None:
        if not self._own:
            self.group, self._own = self.group.copy(), True
        self.group.apply(what, name, value)
        self.records.append(record)

    def say(self, member_id: str, said: Said) -> None:
        if self._member(member_id).said != said:
            self._apply(MEMBER, member_id, said, member_record(self.group_id, member_id, said))

    def have(self, member_id: str, current: Current) -> None:
        if self._member(member_id).current != current:
            self._apply(
                CURRENT, member_id, current, current_record(self.group_id, member_id, current)
            )

    def aim(self, member_id: str, target: Target) -> None:
        if self.group.target.get(member_id) != target:
            self._apply(TARGET, member_id, target, target_record(self.group_id, member_id, target))

    def set_targets(self, targets: Targets) -> None:
        self._apply(TARGETS, "", targets, targets_record(self.group_id, targets))

    def set_epoch(self, epoch: Epoch) -> None:
        self._apply(GROUP, "", epoch, group_record(self.group_id, epoch))

    def resolve(self, regex: str, resolved: Resolved) -> None:
        self._apply(REGEX, regex, resolved, regex_record(self.group_id, regex, resolved))

    def forget_regex(self, regex: str) -> None:
        self._apply(REGEX, regex, None, tombstone(REGEX, self.group_id, regex))

    def remove(self, member_id: str) -> None:
        for what in (CURRENT, TARGET, MEMBER):
            self._apply(what, member_id, None, tombstone(what, self.group_id, member_id))

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
