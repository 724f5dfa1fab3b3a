"""The parts of all decisions about share groups: the draft of a group, a coordinator's knowledge
beside the records, moving the group's epoch, working out targets. Knows no request.
"""

from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import NamedTuple

from raftka.coordinator.commands import GroupSettings
from raftka.coordinator.consumer.commands import Target
from raftka.coordinator.consumer.group import hash_of
from raftka.coordinator.consumer.records import Epoch
from raftka.coordinator.decision import Decision
from raftka.coordinator.machine import Steps, Ticket, Topics
from raftka.coordinator.modern.group import Draft as CommonDraft
from raftka.coordinator.modern.records import Targets
from raftka.coordinator.modern.soft import SESSION, Ring
from raftka.coordinator.modern.soft import Soft as CommonSoft
from raftka.coordinator.share.assignor import assign_simple
from raftka.coordinator.share.commands import (
    CallState,
    DeleteState,
    Errors,
    InitializeState,
    Place,
    ShareSettings,
)
from raftka.coordinator.share.group import NOBODY, NOTHING, Member, ShareGroup
from raftka.coordinator.share.records import (
    CURRENT,
    GROUP,
    MEMBER,
    PARTITIONS,
    TARGET,
    TARGETS,
    Current,
    Partitions,
    Said,
    current_record,
    group_record,
    member_record,
    partitions_record,
    target_record,
    targets_record,
)


class Draft(CommonDraft[ShareGroup]):
    __slots__ = ()

    def say(self, member_id: str, said: Said) -> None:
        if self._member(member_id).said != said:
            record = member_record(self.group.group_id, member_id, said)
            self.apply(MEMBER, member_id, said, record)

    def have(self, member_id: str, current: Current) -> None:
        if self._member(member_id).current != current:
            record = current_record(self.group.group_id, member_id, current)
            self.apply(CURRENT, member_id, current, record)

    def aim(self, member_id: str, target: Target) -> None:
        if self.group.target.get(member_id) != target:
            record = target_record(self.group.group_id, member_id, target)
            self.apply(TARGET, member_id, target, record)

    def set_targets(self, targets: Targets) -> None:
        self.apply(TARGETS, "", targets, targets_record(self.group.group_id, targets))

    def set_epoch(self, epoch: Epoch) -> None:
        self.apply(GROUP, "", epoch, group_record(self.group.group_id, epoch))

    def set_partitions(self, partitions: Partitions) -> None:
        if self.group.partitions != partitions:
            record = partitions_record(self.group.group_id, partitions)
            self.apply(PARTITIONS, "", partitions, record)

    def _member(self, member_id: str) -> Member:
        return self.group.members.get(member_id) or Member(member_id, NOBODY, NOTHING)


class Asked(NamedTuple):
    """A call to the share coordinator that is under way."""

    at: float = 0.0  # when it was made
    places: frozenset[Place] = frozenset()
    ticket: Ticket | None = None  # of the administrator that waits for it
    errors: Errors = {}  # noqa: RUF012  # of what the call does not ask for
    names: Mapping[bytes, str] = {}  # topics that an administrator has named
    deletes_group: bool = False


class Soft(CommonSoft):
    """A coordinator's knowledge of a share group beside its records."""

    of_member = (SESSION,)

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        # the version of the topics that the group's metadata hash is known to be of
        self.seen_topics = -1
        # version of the topics, the group's subscription, and their hash
        self.hashed: tuple[int, object, int] | None = None
        # version of the topics, subscription and share partitions that were found in order
        self.in_order: tuple[int, object, object] | None = None
        # the same, when there was nothing to do for a time
        self.idle: tuple[int, object, object] | None = None
        self.idle_until = -inf
        # no state epoch above it has been asked for, by this coordinator or another one
        self.asked_epoch = 0
        self.asked: dict[int, Asked] = {}  # by the call's number
        self.last_call: dict[Place, int] = {}  # of share partitions with a call under way
        self.failed_until = -inf  # no new call of heartbeats until then


class ShareDecision:
    """One decision about one share group: a Decision (`base`) and a draft of the group.
    `topics_version`: how often topics have changed.
    """

    def __init__(
        self,
        base: Decision,
        draft: Draft,
        soft: Soft,
        topics_version: int,
        ring: Callable[[str, str], Ring],
        call_state: CallState,
    ) -> None:
        self.base = base
        self.draft = draft
        self.soft = soft
        self.topics_version = topics_version
        self.settings: ShareSettings = of_group(base.settings, soft.group_id)
        self._ring = ring
        self._call_state = call_state
        self.is_new = False  # the decision makes the group

    def call(self, call: InitializeState | DeleteState) -> None:
        """Ask the share coordinator when the records of this decision are committed."""
        self.base.reply(partial(self._call_state, call), None)

    @property
    def group(self) -> ShareGroup:
        return self.draft.group

    @property
    def topics(self) -> Topics:
        return self.base.context.topics

    # epochs and targets

    def move_epoch(self, *, needed: bool) -> None:
        """Move the group's epoch if `needed`, and also if topics that the group subscribes to have
        changed.
        """
        if not needed and self.soft.seen_topics == self.topics_version:
            return
        found, epoch = self._hash(), self.group.epoch
        if needed or found != epoch.metadata_hash:
            self.draft.set_epoch(Epoch(epoch.epoch + 1, found))
        else:
            # not before it is in the log that they were seen
            self.soft.seen_topics = self.topics_version

    def _hash(self) -> int:
        known = self.soft.hashed
        if known is None or known[:2] != (self.topics_version, self.group.subscription):
            found = hash_of(self.group.names, self.topics)
            known = self.soft.hashed = self.topics_version, self.group.subscription, found
        return known[2]

    def aim(self) -> Steps[None]:
        """Work out new targets, unless the last ones are too young: many members that come at once
        are one change. Only share partitions that are initialised count.
        """
        group, now_ms = self.group, self.base.context.wall_ms
        age_ms = now_ms - group.targets.timestamp_ms
        if (
            group.epoch.epoch <= group.targets.epoch
            or 0 <= age_ms < self.settings.assignment_interval_ms
        ):
            return
        initialized = group.partitions.initialized
        counts = {}
        for topic_id, topic in initialized.items():
            if self.topics.topic_id(topic.name) == topic_id:
                counts[topic_id] = sorted(topic.partitions)
            yield
        by_topics: dict[tuple[str, ...], frozenset[bytes]] = {}
        wishes = {}
        for member in group.members.values():
            ids = by_topics.get(member.said.topics)
            if ids is None:
                found = [self.topics.topic_id(name) for name in member.said.topics]
                ids = by_topics[member.said.topics] = frozenset(filter(None, found))
            wishes[member.member_id] = ids
            yield
        targets = yield from assign_simple(wishes, counts, group.target, alike=len(by_topics) <= 1)
        for member_id, target in targets.items():
            self.draft.aim(member_id, target)
            yield
        self.draft.set_targets(Targets(group.epoch.epoch, now_ms))

    def reconcile(self, member_id: str, *, resubscribed: bool) -> Member:
        """Give the member its target. One that has resubscribed, and whose target is of before,
        gives up the topics that it does not read any more.
        """
        group = self.group
        member = group.members[member_id]
        current, epoch = member.current, group.targets.epoch
        if current.epoch == epoch and not resubscribed:
            return member
        wanted = set(member.said.topics)
        assigned = {
            topic_id: partitions
            for topic_id, partitions in group.target.get(member_id, {}).items()
            if self.topics.topic_name(topic_id) in wanted
        }
        previous = current.previous_epoch if current.epoch == epoch else current.epoch
        self.draft.have(member_id, Current(epoch, previous, assigned))
        return self.group.members[member_id]

    # time

    def begin_session(self, member_id: str) -> None:
        due = self.base.now + self.settings.session_timeout_ms / 1000
        ring = self._ring(self.soft.group_id, member_id)
        self.soft.set(SESSION, member_id, due, ring, self.base.timers)


def of_group(settings: GroupSettings, group_id: str) -> ShareSettings:
    return settings.share_of.get(group_id, settings.share)
