"""The consumer groups (KIP-848) among the groups of a coordinator: finds, makes, turns and
describes them, keeps their time, resolves their regular expressions. The rules are in the other
modules here. Knows no classic group but that it can become one of these.
"""

from collections.abc import Callable, Iterator, Sequence

from raftka.coordinator.classic.group import ClassicGroup
from raftka.coordinator.classic.group import State as ClassicState
from raftka.coordinator.classic.rebalance import begin_session, prepare_rebalance
from raftka.coordinator.commands import GroupSettings, Heartbeat, Join, Leave, Left, Sync
from raftka.coordinator.consumer.classic_members import heartbeat as classic_heartbeat
from raftka.coordinator.consumer.classic_members import join as classic_join
from raftka.coordinator.consumer.classic_members import leave as classic_leave
from raftka.coordinator.consumer.classic_members import sync as classic_sync
from raftka.coordinator.consumer.commands import (
    ConsumerBeat,
    ConsumerHeartbeat,
    DescribedConsumer,
    DescribedConsumerGroup,
    SetTargets,
    Target,
)
from raftka.coordinator.consumer.decisions import ConsumerDecision, assignor_of, of_group
from raftka.coordinator.consumer.draft import Draft
from raftka.coordinator.consumer.group import AWAY, LEFT, ConsumerGroup, Member, without_epochs
from raftka.coordinator.consumer.heartbeat import beat, check, check_room, leave, new_member_id
from raftka.coordinator.consumer.migration import check_upgrade, downgrade, may_downgrade, upgrade
from raftka.coordinator.consumer.records import (
    GROUP,
    MEMBER,
    Resolved,
    read_key,
    read_value,
)
from raftka.coordinator.consumer.regex import compiled
from raftka.coordinator.consumer.timers import DOWNGRADED, Soft
from raftka.coordinator.decision import Decision
from raftka.coordinator.machine import Context, Outcome, Record, Steps, Ticket, Topics
from raftka.coordinator.modern.records import MemberState, Targets
from raftka.coordinator.modern.soft import REVOKE, Ring
from raftka.coordinator.records import group_tombstone
from raftka.coordinator.streams.group import StreamsGroup
from raftka.coordinator.timers import Timers
from raftka.limits import GROUPS_OF_COORDINATOR
from raftka.wire.errors import Code, KafkaError, check_limit

MATCHED_IN_A_TICK = 2_000  # names of topics against a regular expression, each some microseconds
AGAIN_MS = 1_000  # until it is tried again to remove a member
RESOLVED_EVERY_S = 1.0  # at most, while topics come and go

Group = ClassicGroup | ConsumerGroup | StreamsGroup


class ConsumerGroups:
    def __init__(self, groups: dict[str, Group], timers: Timers, settings: GroupSettings) -> None:
        self.groups = groups  # those of the coordinator
        self.settings = settings
        self.soft: dict[str, Soft] = {}
        self.topics_version = 0  # how often topics have changed, as far as was told
        self.resolutions: dict[str, Resolution] = {}  # under way, by group
        # of all topics, and of which version: the resolutions share them
        self._names: tuple[int, list[str]] = (-1, [])
        self._timers = timers

    # the new protocol

    def heartbeat(
        self, command: ConsumerHeartbeat, ticket: Ticket, context: Context
    ) -> Steps[Outcome]:
        check(command, of_group(self.settings, command.group_id))
        decision = Decision(context, self.settings, self._timers)
        if command.epoch in (LEFT, AWAY):
            consumer_decision = self._of_group(
                decision, Draft(self.existing(command.group_id), decision.records)
            )
            member = leave(consumer_decision, command)
            if member is not None:
                yield from self._remove(consumer_decision, [member])
            decision.reply(ticket, ConsumerBeat(command.member_id, command.epoch))
            return decision.outcome()
        try:
            consumer_decision = self._of_group(
                decision, (yield from self._found_or_made(command, decision))
            )
            decision.reply(ticket, (yield from beat(consumer_decision, command)))
        except KafkaError as error:
            self._tidy(command.group_id)
            if not decision.replies:
                raise
            # classic members that waited have been told to join again
            return Outcome((), (*decision.replies, (ticket, error)))
        self._look_at_regexes(consumer_decision)
        return decision.outcome()

    def _found_or_made(self, command: ConsumerHeartbeat, decision: Decision) -> Steps[Draft]:
        """Return the group that a member joins; the first one makes it, also of an empty classic
        group, or of one whose members can go on as classic members of this one.
        """
        group_id, group = command.group_id, self.groups.get(command.group_id)
        if isinstance(group, ConsumerGroup):
            return Draft(group, decision.records)
        if group is None and command.epoch == 0:
            check_limit(GROUPS_OF_COORDINATOR, len(self.groups) + 1)
            return Draft(ConsumerGroup(group_id), decision.records)
        if group is None:
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        if not isinstance(group, ClassicGroup):
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if command.epoch == 0 and not group.members:
            decision.records.append(group_tombstone(group_id))
            return Draft(ConsumerGroup(group_id), decision.records)
        if command.epoch == 0:
            settings = of_group(self.settings, group_id)
            check_upgrade(group, settings)
            check_room(group, settings, command.member_id, command.instance_id)
            draft = yield from upgrade(group, decision)
            consumer_decision = self._of_group(decision, draft)
            for member in draft.group.members.values():
                consumer_decision.begin_session(member)
                yield
            if command.member_id in draft.group.members:
                # it subscribes to the same topics, and has no target of an assignor yet
                consumer_decision.move_epoch(needed=True)
            return draft
        raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")

    def existing(self, group_id: str) -> ConsumerGroup:
        """Raises GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        raise KafkaError(
            Code.GROUP_ID_NOT_FOUND,
            f"Group {group_id} not found."
            if group is None
            else f"Group {group_id} is not a consumer group.",
        )

    def describe(self, group_id: str) -> DescribedConsumerGroup:
        group = self.existing(group_id)
        members = tuple([_described(group, member) for member in group.members.values()])
        epochs = group.epoch.epoch, max(group.targets.epoch, 0)
        assignor = assignor_of(group, of_group(self.settings, group_id))
        return DescribedConsumerGroup(
            group_id, str(group.state), *epochs, assignor, members, frozenset(group.subscribed)
        )

    def move_epoch(self, group: ConsumerGroup, decision: Decision) -> None:
        """Begin a new epoch: the targets of all members are worked out anew."""
        consumer_decision = self._of_group(decision, Draft(group, decision.records))
        consumer_decision.move_epoch(needed=True)
        consumer_decision.soft.moved_at = decision.now

    def set_targets(self, command: SetTargets, decision: Decision) -> None:
        """Give members these targets in a new epoch; others lose what they name, and keep the rest.
        Raise UNKNOWN_MEMBER_ID for a member that is not in the group, and INVALID_REQUEST for a
        partition with two owners.
        """
        group = self.existing(command.group_id)
        unknown = command.targets.keys() - group.members.keys()
        if unknown:
            raise KafkaError(Code.UNKNOWN_MEMBER_ID, f"no member {', '.join(sorted(unknown))}")
        named = [
            (topic_id, partition)
            for target in command.targets.values()
            for topic_id, partitions in target.items()
            for partition in partitions
        ]
        taken = set(named)
        if len(taken) < len(named):
            raise KafkaError(Code.INVALID_REQUEST, "a partition has one owner")
        self.move_epoch(group, decision)
        draft = Draft(group, decision.records)
        for member_id in group.members:
            rest = _without(group.target.get(member_id, {}), taken)
            draft.aim(member_id, command.targets.get(member_id, rest))
        draft.set_targets(Targets(group.epoch.epoch + 1, decision.context.wall_ms))

    # the classic protocol, in a group that has members

    def join(
        self, group: ConsumerGroup, command: Join, ticket: Ticket, decision: Decision
    ) -> Steps[None]:
        consumer_decision = self._of_group(decision, Draft(group, decision.records))
        held = group.static_member(command.instance_id)
        alone = (
            held is not None
            and held.said.classic is None
            and may_downgrade(group, self.settings, held.member_id)
        )
        is_new = not command.member_id
        member_id = command.member_id or new_member_id(consumer_decision)
        answer = yield from classic_join(
            consumer_decision, command, member_id, is_new=is_new, alone=alone
        )
        if alone and held is not None:
            same = (
                held.said.topics == consumer_decision.group.members[member_id].said.topics
                and not held.said.regex
            )
            generation = yield from downgrade(
                consumer_decision.draft, decision, member_id if same else None
            )
            self._watch_downgraded(consumer_decision)
            answer = answer._replace(generation_id=generation)  # type: ignore[call-arg]
        decision.reply(ticket, answer)

    def sync(self, group: ConsumerGroup, command: Sync, ticket: Ticket, decision: Decision) -> None:
        decision.reply(
            ticket, classic_sync(self._of_group(decision, Draft(group, decision.records)), command)
        )

    def classic_heartbeat(
        self, group: ConsumerGroup, command: Heartbeat, decision: Decision
    ) -> None:
        classic_heartbeat(self._of_group(decision, Draft(group, decision.records)), command)

    def leave(self, group: ConsumerGroup, command: Leave, decision: Decision) -> Steps[Left]:
        gone, left = classic_leave(group, command)
        if gone:
            yield from self._remove(self._of_group(decision, Draft(group, decision.records)), gone)
        return left

    # who goes

    def _remove(self, decision: ConsumerDecision, members: Sequence[Member]) -> Steps[None]:
        """Remove members. When classic members alone are left, they have a classic group again,
        whose next generation is the first one after the epoch.
        """
        for member in members:
            decision.draft.remove(member.member_id)
            yield
        if any(member.said.classic is None for member in members) and may_downgrade(
            decision.group, self.settings
        ):
            yield from downgrade(decision.draft, decision.base, None)
            self._watch_downgraded(decision)
            return
        decision.forget_regexes([member.said.regex for member in members if member.said.regex])
        decision.move_epoch(needed=True)
        decision.soft.moved_at = decision.base.now

    def _watch_downgraded(self, decision: ConsumerDecision) -> None:
        """The classic group is there when the records are: it is looked at then."""
        decision.set(DOWNGRADED, "", 0)

    # time

    def ring(self, what: str, group_id: str, member_id: str) -> Ring:
        def ring(decision: Decision) -> Steps[None]:
            group = self.groups.get(group_id)
            soft = self.soft.get(group_id)
            if soft is not None:
                soft.timers.pop((what, member_id), None)
                self._tidy(group_id)
            if isinstance(group, ClassicGroup):
                if what == DOWNGRADED:
                    yield from _go_on_as_classic(group, decision)
                return
            if not isinstance(group, ConsumerGroup):
                return
            member = group.members.get(member_id)
            if member is None or (
                what == REVOKE and member.current.state is not MemberState.UNREVOKED
            ):
                return
            consumer_decision = self._of_group(decision, Draft(group, decision.records))
            # until the records are replayed: they may be refused
            consumer_decision.set(what, member_id, AGAIN_MS)
            yield from self._remove(consumer_decision, [member])

        return ring

    def loaded(self, group: ConsumerGroup, decision: Decision) -> None:
        """Members have had no answer from this coordinator: each gets a whole session."""
        consumer_decision = self._of_group(decision, Draft(group, decision.records))
        for member in group.members.values():
            consumer_decision.begin_session(member)
            if member.said.classic is None:
                consumer_decision.watch_revoking(member)

    # regular expressions

    def on_topics(self, context: Context) -> None:
        self.topics_version += 1
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup) and group.regex_members:
                self._resolve_later(group, context, urgent=False)

    def _look_at_regexes(self, decision: ConsumerDecision) -> None:
        group = decision.group
        if group.regex_members:
            unresolved = any(regex not in group.regexes for regex in group.regex_members)
            if unresolved or decision.soft.resolved_topics != self.topics_version:
                self._resolve_later(group, decision.base.context, urgent=unresolved)

    def _resolve_later(self, group: ConsumerGroup, context: Context, *, urgent: bool) -> None:
        soft = self._soft(group.group_id)
        running = self.resolutions.get(group.group_id)
        if running is not None and (
            not urgent or all(regex in running.found for regex in group.regex_members)
        ):
            return
        if urgent or context.now - soft.resolved_at >= RESOLVED_EVERY_S:
            if self._names[0] != self.topics_version:
                self._names = self.topics_version, list(context.topics.names())
            self.resolutions[group.group_id] = Resolution(
                list(group.regex_members), self._names[1], self.topics_version
            )

    def resolve(self, context: Context) -> Outcome:
        """A part of it; nobody waits while thousands of names are looked at."""
        group_id, resolution = next(iter(self.resolutions.items()))
        if not resolution.advance(MATCHED_IN_A_TICK):
            return Outcome()
        del self.resolutions[group_id]
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return Outcome()
        decision = Decision(context, self.settings, self._timers)
        consumer_decision = self._of_group(decision, Draft(group, decision.records))
        consumer_decision.soft.resolved_at = context.now
        needed = False
        for regex, found in resolution.found.items():
            known, names = group.regexes.get(regex), tuple(sorted(found))
            if regex in group.regex_members and (known is None or known.topics != names):
                consumer_decision.draft.resolve(
                    regex, Resolved(names, resolution.version, context.wall_ms)
                )
                needed = (
                    needed
                    or known is not None
                    or bool(names)
                    or _has_stale_targets(consumer_decision.group, regex, context.topics)
                )
        if decision.records:
            consumer_decision.move_epoch(needed=needed)
            consumer_decision.soft.moved_at = context.now
        else:
            # what is not in the log yet is looked at once more
            consumer_decision.soft.resolved_topics = resolution.version
        return decision.outcome()

    # replaying

    def replay(
        self,
        record: Record,
        take_over: Callable[[ConsumerGroup], None],
        drop: Callable[[str], None],
    ) -> None:
        """`take_over`: this group stands where another one was, or none; `drop`: there is none of
        that id any more.
        """
        what, group_id, name = read_key(record.key)
        value = read_value(what, record.value) if record.value is not None else None
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return
            group = ConsumerGroup(group_id)
            take_over(group)
        group.in_log = True
        if what == GROUP and value is None:
            drop(group_id)
            return
        group.apply(what, name, value)
        if what == MEMBER and value is None and group_id in self.soft:
            self.soft[group_id].forget_member(name, self._timers)

    def remove(self, group_id: str) -> None:
        """There is no such consumer group any more; a timer for what comes in its place goes on."""
        soft = self.soft.get(group_id)
        self.resolutions.pop(group_id, None)
        if soft is not None:
            for what, member_id in list(soft.timers):
                if what != DOWNGRADED:
                    soft.off(what, member_id, self._timers)
            if not soft.timers:
                del self.soft[group_id]

    def _tidy(self, group_id: str) -> None:
        """Of a group that did not come to be, or is none of these any more, nothing stays."""
        soft = self.soft.get(group_id)
        if (
            soft is not None
            and not soft.timers
            and not isinstance(self.groups.get(group_id), ConsumerGroup)
        ):
            del self.soft[group_id]

    # making decisions

    def _of_group(self, decision: Decision, draft: Draft) -> ConsumerDecision:
        return ConsumerDecision(
            decision, draft, self._soft(draft.group_id), self.topics_version, self.ring
        )

    def _soft(self, group_id: str) -> Soft:
        soft = self.soft.get(group_id)
        if soft is None:
            soft = self.soft[group_id] = Soft(group_id)
        return soft


def _without(target: Target, taken: set[tuple[bytes, int]]) -> Target:
    left = {
        topic_id: tuple([each for each in partitions if (topic_id, each) not in taken])
        for topic_id, partitions in target.items()
    }
    return {topic_id: partitions for topic_id, partitions in left.items() if partitions}


class Resolution:
    """All regular expressions of a group against all topics' names, some at a time."""

    def __init__(self, regexes: Sequence[str], names: Sequence[str], version: int) -> None:
        self.version = version
        self.found: dict[str, list[str]] = {regex: [] for regex in regexes}
        self._steps = self._all(regexes, names)

    def advance(self, steps: int) -> bool:
        """Go on; return whether it is done."""
        return any(True for _ in range(steps) if next(self._steps, None) is None)

    def _all(self, regexes: Sequence[str], names: Sequence[str]) -> Iterator[bool]:
        for regex in regexes:
            matches, found = compiled(regex), self.found[regex]
            for name in names:
                if matches(name):
                    found.append(name)
                yield True


def _go_on_as_classic(group: ClassicGroup, decision: Decision) -> Steps[None]:
    """Of a group that was a consumer group: sessions begin, and where nobody leads it
    rebalances.
    """
    for member in group.members.values():
        begin_session(group, member, decision)
        yield
    if group.leader is None and group.state is ClassicState.STABLE:
        prepare_rebalance(group, decision)


def _has_stale_targets(group: ConsumerGroup, regex: str, topics: Topics) -> bool:
    """Return whether a member changed from other topics to this expression, of which the group's
    epoch does not know yet.
    """
    members = [member for member in group.members.values() if member.said.regex == regex]
    names = [
        (member.said, topics.topic_name(topic_id))
        for member in members
        for topic_id in group.target.get(member.member_id, ())
    ]
    return any(name is None or not group.reads(said, name) for said, name in names)


def _described(group: ConsumerGroup, member: Member) -> DescribedConsumer:
    said = member.said
    return DescribedConsumer(
        member.member_id,
        said.instance_id,
        said.rack_id,
        member.current.epoch,
        said.client_id,
        said.client_host,
        said.topics,
        said.regex or "",
        _owned(member),
        group.target.get(member.member_id, {}),
        said.classic is not None,
    )


def _owned(member: Member) -> Target:
    """Return all partitions that nobody else may have yet: those that the member has, and those
    that it has not given up.
    """
    assigned, revoking = member.current.assigned, member.current.revoking
    return without_epochs(
        {
            topic_id: {**assigned.get(topic_id, {}), **revoking.get(topic_id, {})}
            for topic_id in {**assigned, **revoking}
        }
    )
