"""The parts of all decisions about streams groups: the topology beside the topics, moving the
group's epoch, working out targets, removing members. Knows no request.
"""

from collections.abc import Callable

from raftka.coordinator.commands import GroupSettings
from raftka.coordinator.consumer.group import hash_of
from raftka.coordinator.decision import Decision
from raftka.coordinator.machine import Steps, Topics
from raftka.coordinator.modern.records import MemberState, Targets
from raftka.coordinator.modern.soft import REVOKE, SESSION, Ring
from raftka.coordinator.streams.assignor import ASSIGNORS, Count, Wish
from raftka.coordinator.streams.configured import Configured, Status, StatusCode, configure
from raftka.coordinator.streams.draft import Draft
from raftka.coordinator.streams.group import Member, StreamsGroup
from raftka.coordinator.streams.reconciliation import reconcile, target_of
from raftka.coordinator.streams.records import (
    NO_EPOCH,
    Epoch,
)
from raftka.coordinator.streams.settings import StreamsSettings
from raftka.coordinator.streams.tasks import NO_TASKS, Tasks
from raftka.coordinator.streams.timers import FIRST_ASSIGNMENT, Soft
from raftka.coordinator.streams.topology import Topology

Rings = Callable[[str, str, str], Ring]  # of a timer: its kind, the group's id, the member's id
FIRST_DELAY = "Assignment delayed due to the configured initial rebalance delay."
INTERVAL_DELAY = "Assignment delayed due to the configured assignment interval."


class StreamsDecision:
    """One decision about one streams group: a Decision (`base`) and a draft of the group.
    `topics_version`: how often topics have changed.
    """

    def __init__(
        self, base: Decision, draft: Draft, soft: Soft, topics_version: int, rings: Rings
    ) -> None:
        self.base = base
        self.draft = draft
        self.soft = soft
        self.rings = rings
        self.topics_version = topics_version
        self.settings: StreamsSettings = of_group(base.settings, draft.group_id)
        self.delay: Status | None = None  # the reason why targets are not worked out yet

    @property
    def group(self) -> StreamsGroup:
        return self.draft.group

    @property
    def topics(self) -> Topics:
        return self.base.context.topics

    @property
    def topology(self) -> Topology:
        return self.group.topology or Topology(0)

    def configured(self) -> Configured:
        """Raises STREAMS_INVALID_TOPOLOGY."""
        return configured_of(self.soft, self.topology, self.topics, self.topics_version)

    # epochs and targets

    def move_epoch(self, *, needed: bool) -> None:
        """`needed`: a member came, went or changed. The epoch moves also when topics or settings
        have changed, or when the last missing topic is there.
        """
        before, configs = self.group.epoch, assignment_configs(self.settings)
        found = self._hash(before)
        validated = self.topology.epoch if self.configured().ready else NO_EPOCH
        after = before._replace(metadata_hash=found, validated_topology=validated, configs=configs)
        if needed or after != before:
            self.draft.set_epoch(after._replace(epoch=before.epoch + 1))
        else:
            # not before it is in the log that they were seen
            self.soft.seen_topics = self.topics_version

    def move_epoch_for_leaver(self) -> None:
        """The group has one member less; topics are looked at with the next heartbeat. Without
        members there is nothing to assign.
        """
        epoch = self.group.epoch.epoch + 1
        self.draft.set_epoch(self.group.epoch._replace(epoch=epoch))
        if not self.group.members:
            self.draft.set_targets(Targets(epoch))

    def _hash(self, known: Epoch) -> int:
        if self.soft.seen_topics == self.topics_version:
            return known.metadata_hash
        return hash_of(self.topology.required_topics(), self.topics)

    def delay_first_assignment(self) -> None:
        """The group had no member: others may be about to join."""
        delay_ms = self.settings.initial_rebalance_delay_ms
        if delay_ms and not self.soft.runs(FIRST_ASSIGNMENT):
            self.set(FIRST_ASSIGNMENT, "", delay_ms)

    def aim(self) -> Steps[None]:
        """Work out new targets, unless members are waited for, or the last targets are too young:
        many changes at once are one assignment.
        """
        group = self.group
        if group.epoch.epoch <= group.targets.epoch:
            return
        if self.soft.runs(FIRST_ASSIGNMENT):
            self.delay = Status(StatusCode.ASSIGNMENT_DELAYED, FIRST_DELAY)
            return
        age_ms = self.base.context.wall_ms - group.targets.timestamp_ms
        if 0 <= age_ms < self.settings.assignment_interval_ms:
            self.delay = Status(StatusCode.ASSIGNMENT_DELAYED, INTERVAL_DELAY)
            return
        yield from self.aim_now()

    def aim_now(self) -> Steps[None]:
        group, configured = self.group, self.configured()
        if configured.ready:
            wishes = {}
            for member in group.members.values():
                offsets = self.soft.offsets.get(member.member_id, {})
                before = target_of(group, member.member_id)
                wishes[member.member_id] = Wish(member.said.process_id, before, offsets)
                yield
            counts = {
                each.id: Count(configured.tasks[each.id], each.stateful)
                for each in self.topology.subtopologies
            }
            assign = ASSIGNORS[self.settings.assignor]
            found = yield from assign(wishes, counts, self.settings.standby_replicas)
        else:
            found = dict.fromkeys(group.members, NO_TASKS)
        for member_id, target in found.items():
            self.draft.aim(member_id, target)
            yield
        self.draft.set_targets(Targets(group.epoch.epoch, self.base.context.wall_ms))

    def reconcile(self, member_id: str, owned: Tasks | None) -> Steps[Member]:
        """Move the member a step towards its target; before the first assignment it has none."""
        member = self.group.members[member_id]
        target = target_of(self.group, member_id)
        epoch = self.group.targets.epoch
        current = yield from reconcile(self.group, member, owned, epoch, target)
        self.draft.have(member_id, current)
        after = self.group.members[member_id]
        if after.current is not member.current:
            self.watch_revoking(after)
        return after

    # time

    def begin_session(self, member_id: str) -> None:
        self.set(SESSION, member_id, self.settings.session_timeout_ms)

    def watch_revoking(self, member: Member) -> None:
        """Remove a member that does not give up in time the tasks that it is to give up, although
        it is heard of.

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


def configured_of(
    soft: Soft, topology: Topology, topics: Topics, topics_version: int
) -> Configured:
    """Return the topology beside the topics; computed once until topics change. Raises
    STREAMS_INVALID_TOPOLOGY.
    """
    known = soft.configured
    if known is None or known[0] != topics_version or known[1] is not topology:
        known = soft.configured = topics_version, topology, configure(topology, topics)
    return known[2]


def of_group(settings: GroupSettings, group_id: str) -> StreamsSettings:
    return settings.streams_of.get(group_id, settings.streams)


def assignment_configs(settings: StreamsSettings) -> tuple[tuple[str, str], ...]:
    """Return the settings that an assignment depends on, as Kafka keeps them with the group."""
    return (("num.standby.replicas", str(settings.standby_replicas)),)
