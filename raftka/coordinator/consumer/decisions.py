"""The parts of all decisions about consumer groups: moving the group's epoch, working out targets,
removing members. Knows no request.
"""

from collections.abc import Callable, Sequence
from math import ceil, inf

from raftka.coordinator.commands import GroupSettings
from raftka.coordinator.consumer.assignor import ASSIGNORS, Wish
from raftka.coordinator.consumer.commands import ConsumerSettings
from raftka.coordinator.consumer.draft import Draft
from raftka.coordinator.consumer.group import ConsumerGroup, Member, hash_of
from raftka.coordinator.consumer.reconciliation import Owned, reconcile
from raftka.coordinator.consumer.records import (
    Epoch,
    Said,
)
from raftka.coordinator.consumer.regex import compiled
from raftka.coordinator.consumer.timers import Soft
from raftka.coordinator.consumer.visible_topics import VisibleTopics
from raftka.coordinator.decision import Decision
from raftka.coordinator.machine import Steps, Topics
from raftka.coordinator.modern.records import MemberState, Targets
from raftka.coordinator.modern.soft import REVOKE, SESSION, Ring
from raftka.limits import REGEXES_OF_GROUP
from raftka.wire.errors import Code, LimitRefused

Rings = Callable[[str, str, str], Ring]  # of a timer: what it is of, which group's, which member's
# of who waits for others, at most, when heartbeats of a busy group come sooner than others
BUSY_MS = 1000


class ConsumerDecision:
    """One decision about one consumer group: a Decision (`base`) and a draft of the group.
    `topics_version`: how often topics have changed.

    Partitions count, in hashes and targets, when all members can have heard of them: see
    VisibleTopics.
    """

    def __init__(
        self, base: Decision, draft: Draft, soft: Soft, topics_version: int, rings: Rings
    ) -> None:
        self.base = base
        self.draft = draft
        self.soft = soft
        self.rings = rings
        self.settings: ConsumerSettings = of_group(base.settings, draft.group_id)
        # what is assigned is not hidden again
        soft.visible_since = max(soft.visible_since, base.now - self.settings.visible_after_s)
        self.visible = VisibleTopics(base.context.topics, soft.visible_since)
        self.topics_version = (topics_version, self.visible.hidden_growths)

    @property
    def group(self) -> ConsumerGroup:
        return self.draft.group

    @property
    def topics(self) -> Topics:
        return self.base.context.topics

    # what a member says

    def subscribe(self, member_id: str, said: Said) -> bool:
        """It says this of itself; whether it subscribes to something else than before. Raises
        INVALID_REGULAR_EXPRESSION.
        """
        before = self.group.members.get(member_id)
        old, new = before.said.regex if before is not None else None, said.regex
        if new and new != old and new not in self.group.regex_members:
            compiled(new)
            if len(self.group.regex_members) >= REGEXES_OF_GROUP.value:
                raise LimitRefused(
                    REGEXES_OF_GROUP,
                    len(self.group.regex_members) + 1,
                    code=Code.INVALID_REGULAR_EXPRESSION,
                )
        self.draft.say(member_id, said)
        self.forget_regexes([old] if old else [])
        return before is None or before.said.topics != said.topics or (old or "") != (new or "")

    def forget_regexes(self, regexes: Sequence[str]) -> None:
        """Those that nobody subscribes to any more."""
        for regex in dict.fromkeys(regexes):
            if regex in self.group.regexes and regex not in self.group.regex_members:
                self.draft.forget_regex(regex)

    # epochs and targets

    def move_epoch(self, *, needed: bool) -> None:
        """`needed`: somebody came, went or changed. It moves also when topics that the group
        subscribes to have.
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
        """Of the topics that the group subscribes to; computed once for a thousand members that
        leave.
        """
        known = self.soft.hashed
        if (
            known is None
            or known[0] != self.topics_version
            or known[1] is not self.group.subscription
        ):
            names = self.group.subscribed
            known = self.soft.hashed = (
                self.topics_version,
                self.group.subscription,
                hash_of(names, self.visible),
            )
            grown_at = self.visible.first_hidden(names)
            self.soft.grows_at = (
                inf if grown_at is None else grown_at + self.settings.visible_after_s
            )
        return known[2]

    def aim(self) -> Steps[None]:
        """New targets, unless the last ones are too young: many who come at once are one change."""
        group, now_ms = self.group, self.base.context.wall_ms
        if (
            group.epoch.epoch <= group.targets.epoch
            or 0 <= now_ms - group.targets.timestamp_ms < self.settings.assignment_interval_ms
        ):
            return
        counts: dict[bytes, int] = {}
        # by subscription: most are alike
        shared: dict[tuple[tuple[str, ...], str | None], frozenset[bytes]] = {}
        wishes = {}
        for member in group.members.values():
            subscription = member.said.topics, member.said.regex
            ids = shared.get(subscription)
            if ids is None:
                ids = shared[subscription] = self._ids(member.said, counts)
            wishes[member.member_id] = Wish(member.said.instance_id, ids)
            yield
        found = yield from ASSIGNORS[self.assignor](wishes, counts, group.target)
        for member_id, target in found.items():
            self.draft.aim(member_id, target)
            yield
        self.draft.set_targets(Targets(group.epoch.epoch, now_ms))

    def _ids(self, said: Said, counts: dict[bytes, int]) -> frozenset[bytes]:
        """Of the topics that it subscribes to and that are there; `counts` learns their
        partitions.
        """
        ids = {
            topic_id: name
            for name in sorted(self.group.topics_of(said))
            if (topic_id := self.topics.topic_id(name)) is not None
        }
        counts.update(
            {
                topic_id: self.visible.partition_count(name)
                for topic_id, name in ids.items()
                if topic_id not in counts
            }
        )
        return frozenset(ids)

    @property
    def assignor(self) -> str:
        return assignor_of(self.group, self.settings)

    def reconcile(self, member_id: str, owned: Owned, *, resubscribed: bool) -> Member:
        member = self.group.members[member_id]
        self.draft.have(
            member_id, reconcile(self.group, member, owned, self.topics, resubscribed=resubscribed)
        )
        after = self.group.members[member_id]
        if after.current is not member.current and after.said.classic is None:
            self.watch_revoking(after)
        return after

    # time

    def begin_session(self, member: Member) -> None:
        timeout_ms = (
            member.said.classic.session_timeout_ms
            if member.said.classic is not None
            else self.settings.session_timeout_ms
        )
        self.set(SESSION, member.member_id, timeout_ms)

    def watch_revoking(self, member: Member) -> None:
        """Remove a member that does not give up in time what it is to give up, although it is heard
        of.

        The timer is left to run out when the member has done so: the record that says it may be
        refused.
        """
        if member.current.state is MemberState.UNREVOKED:
            self.set(REVOKE, member.member_id, member.said.rebalance_timeout_ms)

    def set(self, what: str, member_id: str, timeout_ms: int) -> None:
        self.soft.set(
            what,
            member_id,
            self.base.now + timeout_ms / 1000,
            self.rings(what, self.draft.group_id, member_id),
            self.base.timers,
        )

    def interval_ms(self, member: Member) -> int:
        """Until its next heartbeat. Something that has just happened goes on in the next ones: they
        come sooner, the later it is the less so.
        """
        usual, busy = self.settings.heartbeat_interval_ms, self.settings.busy_interval_ms
        if not busy:
            return usual
        quiet_ms = min((self.base.now - self.soft.moved_at) * 1000, usual)
        settled = (
            member.follows(self.group.targets)
            and self.group.epoch.epoch == self.group.targets.epoch
        )
        beat_ms = min(
            usual, max(busy, int(quiet_ms)) if settled else max(busy, min(int(quiet_ms), BUSY_MS))
        )
        grows_ms = (self.soft.grows_at - self.base.now) * 1000
        return min(beat_ms, max(busy, ceil(grows_ms))) if 0 < grows_ms < inf else beat_ms


def of_group(settings: GroupSettings, group_id: str) -> ConsumerSettings:
    return settings.consumer_of.get(group_id, settings.consumer)


def assignor_of(group: ConsumerGroup, settings: ConsumerSettings) -> str:
    """Return the assignor that most members name; the first one when no member names one."""
    votes: dict[str, int] = {}
    for member in group.members.values():
        name = member.said.assignor
        if name is not None and name in settings.assignors:
            votes[name] = votes.get(name, 0) + 1
    return max(votes, key=votes.__getitem__) if votes else settings.assignors[0]
