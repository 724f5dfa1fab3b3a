"""The group coordinator of one partition of __consumer_offsets: finds the group that a command
names, keeps time, and gives up what has expired.

The rules are in classic/, consumer/ and offsets.py; an id is of one group, of whichever kind. Knows
no log, no message, and no partition but its own.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from raftka.coordinator.classic.group import ClassicGroup, State
from raftka.coordinator.classic.join import check_session, join, weight_of_join
from raftka.coordinator.classic.rebalance import begin_session, new_group, prepare_rebalance, watch
from raftka.coordinator.classic.sync import heartbeat, leave, sync
from raftka.coordinator.commands import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    DescribedGroup,
    DescribedMember,
    DescribeGroup,
    FetchOffsets,
    GroupSettings,
    GroupsListed,
    Heartbeat,
    Join,
    JoinRefused,
    Leave,
    ListedGroup,
    ListGroups,
    Rebalance,
    Sync,
)
from raftka.coordinator.consumer.commands import (
    ConsumerHeartbeat,
    DescribeConsumerGroup,
    SetTargets,
)
from raftka.coordinator.consumer.group import ConsumerGroup, weight_of, weight_of_names
from raftka.coordinator.consumer.group import State as ConsumerState
from raftka.coordinator.consumer.groups import ConsumerGroups, Group
from raftka.coordinator.consumer.records import KINDS as CONSUMER_GROUP_KEYS
from raftka.coordinator.decision import Decision
from raftka.coordinator.machine import (
    Context,
    Outcome,
    OutcomeOrSteps,
    Record,
    Steps,
    Ticket,
    begun,
)
from raftka.coordinator.memory_budget import MEMBER_BYTES, MemoryBudget
from raftka.coordinator.offsets import (
    all_partitions,
    commit,
    delete,
    expired,
    fetch,
    of_deleted_topic,
    refuse_commit,
    tombstones,
)
from raftka.coordinator.pending_offsets import PendingOffsets
from raftka.coordinator.records import (
    GROUP_METADATA_KEY,
    OFFSET_COMMIT_KEYS,
    group_tombstone,
    kind,
    read_group_key,
    read_group_value,
    read_offset_key,
    read_offset_value,
)
from raftka.coordinator.share.commands import (
    AlterShareOffsets,
    CallState,
    DeleteShareOffsets,
    DescribeShareGroup,
    ListSharePartitions,
    ShareHeartbeat,
    StateDeleted,
    StateInitialized,
    drop_call,
)
from raftka.coordinator.share.group import weight_of as weight_of_share_member
from raftka.coordinator.share.groups import ShareGroups
from raftka.coordinator.share.records import KINDS as SHARE_GROUP_KEYS
from raftka.coordinator.streams.commands import (
    DescribeStreamsGroup,
    DescribeTopology,
    StreamsHeartbeat,
)
from raftka.coordinator.streams.group import State as StreamsState
from raftka.coordinator.streams.group import StreamsGroup, weight_of_topology
from raftka.coordinator.streams.groups import StreamsGroups
from raftka.coordinator.streams.records import KINDS as STREAMS_GROUP_KEYS
from raftka.coordinator.timers import Timers
from raftka.limits import GROUPS_OF_COORDINATOR, MEMBERS_OF_GROUP
from raftka.wire.errors import Code, KafkaError, check_limit

CLASSIC, CONSUMER, STREAMS = "classic", "consumer", "streams"
EMPTY = (State.EMPTY, ConsumerState.EMPTY, StreamsState.EMPTY)
DECIDED_IN_A_TICK = 100  # records, before those of the last timer
SWEPT_IN_A_TICK = 1_000  # groups and offsets, about

Decide = Callable[[Any, Ticket, Context], OutcomeOrSteps]


class GroupCoordinator:
    def __init__(self, settings: GroupSettings, call_state: CallState = drop_call) -> None:
        """`call_state` is called when a share group's call to the share coordinator is
        committed.
        """
        self.settings = settings
        self.position = 0  # of the log: see Machine
        self.groups: dict[str, Group] = {}
        self.pending = PendingOffsets()
        self._timers = Timers()
        self.consumers = ConsumerGroups(self.groups, self._timers, settings)
        # an id is in one of `groups` and `shares.groups`
        self.shares = ShareGroups(self.groups.keys(), self._timers, settings, call_state)
        self._budget = MemoryBudget(
            lambda: sum(
                [group.weight for group in (*self.groups.values(), *self.shares.groups.values())]
            )
        )
        self.streams = StreamsGroups(self.groups, self._timers, settings)
        # stands in the place of an empty consumer group once the last decision's records are
        # replayed
        self._becoming: ClassicGroup | None = None
        self._sweep_at = inf
        self._sweep: list[str] = []  # the groups that this sweep has not looked through
        self._decide: dict[type, Decide] = {
            Join: self._join,
            Sync: self._sync,
            Heartbeat: self._heartbeat,
            Leave: self._leave,
            CommitOffsets: self._commit,
            FetchOffsets: self._fetch,
            DeleteOffsets: self._delete_offsets,
            DescribeGroup: self._describe,
            ListGroups: self._list,
            DeleteGroup: self._delete_group,
            ConsumerHeartbeat: self._consumer_heartbeat,
            DescribeConsumerGroup: self._describe_consumers,
            StreamsHeartbeat: self._streams_heartbeat,
            DescribeStreamsGroup: self._describe_streams,
            DescribeTopology: self._describe_topology,
            Rebalance: self._rebalance,
            SetTargets: self._set_targets,
            ShareHeartbeat: self._share_heartbeat,
            DescribeShareGroup: self._describe_shares,
            ListSharePartitions: self.shares.list_partitions,
            AlterShareOffsets: self.shares.alter,
            DeleteShareOffsets: self.shares.delete_offsets,
            StateInitialized: self.shares.on_answer,
            StateDeleted: self.shares.on_answer,
        }

    def configure(self, settings: GroupSettings) -> None:
        self.settings = self.consumers.settings = settings
        self.shares.settings = self.streams.settings = settings

    # the machine

    def decide(self, command: object, ticket: Ticket, context: Context) -> OutcomeOrSteps:
        self._becoming = None
        found = self._decide[type(command)](command, ticket, context)
        return found if isinstance(found, Outcome) else begun(found)

    def replay(self, record: Record) -> None:
        key, value = record
        what = kind(key)
        if what in OFFSET_COMMIT_KEYS:
            self._replay_offset(key, value)
        elif what == GROUP_METADATA_KEY:
            self._replay_group(read_group_key(key), value)
        elif what in CONSUMER_GROUP_KEYS:
            self.consumers.replay(record, self._take_over, self._remove)
        elif what in SHARE_GROUP_KEYS:
            self.shares.replay(record)
        elif what in STREAMS_GROUP_KEYS:
            self.streams.replay(record, self._take_over, self._remove)

    def replay_pending(self, producer_id: int, record: Record) -> None:
        key, value = record
        if kind(key) in OFFSET_COMMIT_KEYS and value is not None:
            offset_key = read_offset_key(key)
            self.pending.add(producer_id, offset_key, read_offset_value(value))
            self._group_with_offsets(offset_key[0])

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        for (group_id, topic, partition), committed in self.pending.end(producer_id, commit=commit):
            self._group_with_offsets(group_id).offsets.setdefault(topic, {})[partition] = committed

    def loaded(self, context: Context) -> Outcome:
        """Members have had no answer from this coordinator: each gets a whole session."""
        decision = self._decision(context)
        self._sweep_at = context.now + self.settings.offsets_retention_check_interval_ms / 1000
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup):
                self.consumers.loaded(group, decision)
                continue
            if isinstance(group, StreamsGroup):
                self.streams.loaded(group, decision)
                continue
            for member in group.members.values():
                begin_session(group, member, decision)
            too_many = len(group.members) > min(self.settings.max_size, MEMBERS_OF_GROUP.value)
            if too_many or (group.members and group.leader is None):
                # those who come back first stay; nobody leads what was a consumer group
                prepare_rebalance(group, decision)
        self.shares.loaded(decision)
        return decision.outcome()

    def on_image(self, deleted: Sequence[tuple[bytes, str]], context: Context) -> OutcomeOrSteps:
        self.consumers.on_topics(context)
        self.shares.on_topics()
        self.streams.on_topics()
        return begun(self._forget_topics(deleted)) if deleted else Outcome()

    def _forget_topics(self, deleted: Sequence[tuple[bytes, str]]) -> Steps[Outcome]:
        ids: dict[str, list[bytes]] = {}
        for topic_id, name in deleted:
            ids.setdefault(name, []).append(topic_id)
        records: list[Record] = []
        for group in self.groups.values():
            for name in sorted(group.offsets.keys() & ids.keys()):
                records += yield from tombstones(group, of_deleted_topic(group, ids[name], name))
            pending = [
                key
                for key in self.pending.partitions(group.group_id)
                if key[0] in ids and key[1] not in group.offsets.get(key[0], ())
            ]
            records += yield from tombstones(group, pending)
            yield
        records += yield from self.shares.forget_topics([topic_id for topic_id, _ in deleted])
        return Outcome(records, atomic=False)

    def deadline(self) -> float:
        return 0.0 if self.consumers.resolutions else min(self._timers.next(), self._sweep_at)

    def tick(self, context: Context) -> OutcomeOrSteps:
        return begun(self._tick(context))

    def _tick(self, context: Context) -> Steps[Outcome]:
        """One group is not decided about twice: what was decided first is not replayed yet."""
        decision = self._decision(context)
        decided = set()
        while (
            len(decision.records) < DECIDED_IN_A_TICK
            and (timer := self._timers.due(context.now)) is not None
        ):
            yield
            group = timer.owner
            if group in decided:
                self._timers.set(timer, context.now)
                break
            if isinstance(group, ClassicGroup) and self.groups.get(group.group_id) is not group:
                continue  # of a group that did not come to be
            before = len(decision.records)
            yield from timer.ring(decision) or ()
            if len(decision.records) > before:
                decided.add(group)
            if isinstance(group, ClassicGroup):
                self._forget_nothing(group)
        if self.consumers.resolutions and not decision.records and not decision.replies:
            return self.consumers.resolve(context)
        if decision.records or self._sweep_at > context.now:
            return decision.outcome()
        decision.records += yield from self._expire(context)
        return decision.outcome(atomic=not decision.records)

    def client_gone(self, ticket: Ticket) -> None:
        """A member goes on until its session ends: its client may ask again, on another connection,
        and is to find its place.
        """

    # members

    def _join(self, command: Join, ticket: Ticket, context: Context) -> Steps[Outcome]:
        decision = self._decision(context)
        check_session(command, decision)
        if command.group_id in self.shares.groups:
            raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL)
        group = self.groups.get(command.group_id)
        size = weight_of_join(command, _known_weight(group, command.member_id, command.instance_id))
        self._budget.check(size, context.now)
        if isinstance(group, StreamsGroup):
            raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL)
        if isinstance(group, ConsumerGroup):
            yield from self._join_consumers(group, command, ticket, decision)
        else:
            self._join_classic(group, command, ticket, decision)
        self._budget.take(size)
        return decision.outcome()

    def _join_classic(
        self, group: ClassicGroup | None, command: Join, ticket: Ticket, decision: Decision
    ) -> None:
        if group is None:
            if command.member_id:
                raise KafkaError(Code.UNKNOWN_MEMBER_ID)
            check_limit(GROUPS_OF_COORDINATOR, len(self.groups) + 1)
            group = self.groups[command.group_id] = new_group(command.group_id)
        try:
            join(group, command, ticket, decision)
        finally:
            self._forget_nothing(group)

    def _consumer_heartbeat(
        self, command: ConsumerHeartbeat, ticket: Ticket, context: Context
    ) -> Steps[Outcome]:
        self._check_kind(command.group_id, "consumer")
        if command.topics is None:
            return (yield from self.consumers.heartbeat(command, ticket, context))
        known = _known_weight(
            self.groups.get(command.group_id), command.member_id, command.instance_id
        )
        size = MEMBER_BYTES + weight_of_names(command.topics) - known
        self._budget.check(size, context.now)
        outcome = yield from self.consumers.heartbeat(command, ticket, context)
        self._budget.take(size)
        return outcome

    def _share_heartbeat(
        self, command: ShareHeartbeat, ticket: Ticket, context: Context
    ) -> Steps[Outcome]:
        if command.topics is None:
            return (yield from self.shares.heartbeat(command, ticket, context))
        group = self.shares.groups.get(command.group_id)
        member = group.members.get(command.member_id) if group is not None else None
        size = MEMBER_BYTES + weight_of_names(command.topics) - weight_of_share_member(member)
        self._budget.check(size, context.now)
        outcome = yield from self.shares.heartbeat(command, ticket, context)
        self._budget.take(size)
        return outcome

    def _streams_heartbeat(
        self, command: StreamsHeartbeat, ticket: Ticket, context: Context
    ) -> Steps[Outcome]:
        self._check_kind(command.group_id, "streams")
        if command.topology is None:
            return (yield from self.streams.heartbeat(command, ticket, context))
        group = self.groups.get(command.group_id)
        size = MEMBER_BYTES - _known_weight(group, command.member_id, command.instance_id)
        if not isinstance(group, StreamsGroup):
            size += weight_of_topology(command.topology)
        self._budget.check(size, context.now)
        outcome = yield from self.streams.heartbeat(command, ticket, context)
        self._budget.take(size)
        return outcome

    def _join_consumers(
        self, group: ConsumerGroup, command: Join, ticket: Ticket, decision: Decision
    ) -> Steps[None]:
        """One without members becomes a classic group."""
        if group.members:
            try:
                yield from self.consumers.join(group, command, ticket, decision)
            except KafkaError as error:
                decision.records.clear()
                decision.reply(ticket, JoinRefused(error.code))
            return
        if command.member_id:
            raise KafkaError(Code.UNKNOWN_MEMBER_ID)
        classic = new_group(group.group_id)
        decision.records += group.tombstones()
        join(classic, command, ticket, decision)
        self._becoming = classic

    def _sync(self, command: Sync, ticket: Ticket, context: Context) -> Outcome:
        if command.needs_protocol and (
            command.protocol_type is None or command.protocol_name is None
        ):
            raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL)
        if not command.group_id:
            raise KafkaError(Code.INVALID_GROUP_ID)
        group = self.groups.get(command.group_id)
        if group is None or isinstance(group, StreamsGroup):
            raise KafkaError(Code.UNKNOWN_MEMBER_ID)
        decision = self._decision(context)
        if isinstance(group, ConsumerGroup):
            self.consumers.sync(group, command, ticket, decision)
        else:
            sync(group, command, ticket, decision)
        return decision.outcome()

    def _heartbeat(self, command: Heartbeat, ticket: Ticket, context: Context) -> Outcome:
        group = self.groups.get(command.group_id)
        if isinstance(group, StreamsGroup):
            raise KafkaError(Code.UNKNOWN_MEMBER_ID)
        if isinstance(group, ConsumerGroup):
            self.consumers.classic_heartbeat(group, command, self._decision(context))
        else:
            heartbeat(group, command, self._timers, context.now)
        return Outcome((), ((ticket, None),))

    def _leave(self, command: Leave, ticket: Ticket, context: Context) -> Steps[Outcome]:
        decision = self._decision(context)
        group = self.groups.get(command.group_id)
        if isinstance(group, ConsumerGroup):
            decision.reply(ticket, (yield from self.consumers.leave(group, command, decision)))
            return decision.outcome()
        if isinstance(group, StreamsGroup):
            group = None  # none of its members is a classic one
        decision.reply(ticket, leave(group, command, decision))
        if group is not None:
            self._forget_nothing(group)
        return decision.outcome()

    # offsets

    def _commit(self, command: CommitOffsets, ticket: Ticket, context: Context) -> Outcome:
        group = self.groups.get(command.group_id)
        if command.group_id in self.shares.groups:
            refused = refuse_commit(command, Code.GROUP_ID_NOT_FOUND, context.topics)
            return Outcome((), ((ticket, refused),))
        if group is None:
            check_limit(GROUPS_OF_COORDINATOR, len(self.groups) + 1)
        elif (
            isinstance(group, ConsumerGroup)
            and not group.members
            and command.generation_id < 0
            and command.producer is None
        ):
            outcome = commit(None, command, ticket, self.settings, context, self._timers)
            # it is a simple group now
            outcome.records = [*group.tombstones(), *outcome.records] if outcome.records else ()
            return outcome
        return commit(group, command, ticket, self.settings, context, self._timers)

    def _fetch(self, command: FetchOffsets, ticket: Ticket, context: Context) -> Steps[Outcome]:
        return fetch(
            self.groups.get(command.group_id),
            command,
            ticket,
            context,
            self.pending.partitions(command.group_id),
        )

    def _delete_offsets(self, command: DeleteOffsets, ticket: Ticket, context: Context) -> Outcome:
        records, answer = delete(
            self.groups.get(command.group_id),
            command,
            context.topics,
            self.pending.partitions(command.group_id),
        )
        return Outcome(records, ((ticket, answer),), atomic=False)

    # groups

    def _describe(self, command: DescribeGroup, ticket: Ticket, context: Context) -> Outcome:
        """Show metadata and protocol in Stable alone; members keep their assignments until the next
        ones come, or are cancelled.
        """
        self._check_kind(command.group_id, "classic")
        group = self._existing(command.group_id)
        if not isinstance(group, ClassicGroup):
            raise KafkaError(
                Code.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a classic group."
            )
        stable = group.state is State.STABLE
        name = group.protocol_name if stable else None
        members = [
            DescribedMember(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                each.metadata(name) if stable else b"",
                each.assignment,
            )
            for each in group.members.values()
        ]
        answer = DescribedGroup(
            group.group_id, str(group.state), group.protocol_type or "", name or "", tuple(members)
        )
        return Outcome((), ((ticket, answer),))

    def _describe_consumers(
        self, command: DescribeConsumerGroup, ticket: Ticket, context: Context
    ) -> Outcome:
        self._check_kind(command.group_id, "consumer")
        return Outcome((), ((ticket, self.consumers.describe(command.group_id)),))

    def _describe_shares(
        self, command: DescribeShareGroup, ticket: Ticket, context: Context
    ) -> Outcome:
        return Outcome((), ((ticket, self.shares.describe(command.group_id)),))

    def _describe_streams(
        self, command: DescribeStreamsGroup, ticket: Ticket, context: Context
    ) -> Outcome:
        self._check_kind(command.group_id, "streams")
        return Outcome((), ((ticket, self.streams.describe(command.group_id, context)),))

    def _describe_topology(
        self, command: DescribeTopology, ticket: Ticket, context: Context
    ) -> Outcome:
        self._check_kind(command.group_id, "streams")
        self.streams.describe_topology(command)
        return Outcome((), ((ticket, None),))

    def _list(self, command: ListGroups, ticket: Ticket, context: Context) -> Outcome:
        """Filters ignore case; what nobody has heard of filters all away."""
        states, types = ({each.lower() for each in names} for names in command)
        found = [*(_listed(group) for group in self.groups.values()), *self.shares.listed()]
        chosen = [
            each
            for each in found
            if (not states or name_in_filters(each.state) in states)
            and (not types or each.type in types)
        ]
        return Outcome((), ((ticket, GroupsListed(tuple(chosen))),))

    def _delete_group(
        self, command: DeleteGroup, ticket: Ticket, context: Context
    ) -> Steps[Outcome]:
        share_group = self.shares.groups.get(command.group_id)
        if share_group is not None:
            return (yield from self.shares.delete_group(share_group, ticket, context))
        group = self._existing(command.group_id)
        if group.state not in EMPTY:
            raise KafkaError(Code.NON_EMPTY_GROUP)
        partitions = dict.fromkeys(
            [*all_partitions(group), *self.pending.partitions(group.group_id)]
        )
        records = yield from tombstones(group, partitions)
        return Outcome([*records, *_tombstones(group)], ((ticket, None),), atomic=False)

    def _rebalance(self, command: Rebalance, ticket: Ticket, context: Context) -> Outcome:
        decision = self._decision(context)
        group = self._existing(command.group_id)
        if not group.members:
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"Group {group.group_id} has no members.")
        if isinstance(group, ConsumerGroup):
            self.consumers.move_epoch(group, decision)
        elif isinstance(group, StreamsGroup):
            self.streams.move_epoch(group, decision)
        elif group.state is not State.PREPARING:
            prepare_rebalance(group, decision)
        decision.reply(ticket, None)
        return decision.outcome()

    def _set_targets(self, command: SetTargets, ticket: Ticket, context: Context) -> Outcome:
        decision = self._decision(context)
        self.consumers.set_targets(command, decision)
        decision.reply(ticket, None)
        return decision.outcome()

    def _check_kind(self, group_id: str, wanted: str) -> None:
        """Raise GROUP_ID_NOT_FOUND for a share group: it is no group of the kind `wanted`."""
        if group_id in self.shares.groups:
            text = f"Group {group_id} is not a {wanted} group."
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, text)

    def _existing(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    # expiry

    def _expire(self, context: Context) -> Steps[list[Record]]:
        """A part of the sweep: the log takes what it finds in portions, and others are served in
        between.
        """
        self._sweep = self._sweep or list(self.groups)
        records: list[Record] = []
        looked_at = 0
        while self._sweep and looked_at < SWEPT_IN_A_TICK:
            group = self.groups.get(self._sweep.pop())
            if group is not None:
                looked_at += 1 + sum(map(len, group.offsets.values()))
                records += yield from self._expired(group, context.wall_ms)
        if not self._sweep:
            self._sweep_at = context.now + self.settings.offsets_retention_check_interval_ms / 1000
        return records

    def _expired(self, group: Group, wall_ms: int) -> Steps[list[Record]]:
        """An empty group goes with the last of its offsets."""
        pending = self.pending.partitions(group.group_id)
        gone = yield from expired(group, self.settings, wall_ms, pending)
        records = yield from tombstones(group, gone)
        if (
            len(gone) == sum(map(len, group.offsets.values()))
            and group.state in EMPTY
            and not group.pending
            and not pending
        ):
            records += _tombstones(group)
        return records

    # replaying

    def _replay_offset(self, key: bytes, value: bytes | None) -> None:
        group_id, topic, partition = offset_key = read_offset_key(key)
        if value is not None:
            committed = read_offset_value(value)
            self._group_with_offsets(group_id).offsets.setdefault(topic, {})[partition] = committed
            self.pending.committed(offset_key)
            return
        self.pending.deleted(offset_key)
        group = self.groups.get(group_id)
        if group is not None and topic in group.offsets:
            partitions = group.offsets[topic]
            partitions.pop(partition, None)
            if not partitions:
                del group.offsets[topic]

    def _group_with_offsets(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = new_group(group_id)
        group.in_log = True
        return group

    def _replay_group(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            if isinstance(self.groups.get(group_id), ClassicGroup):
                self._remove(group_id)
            return
        record = read_group_value(value)
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            before, group = group, new_group(group_id)
            if before is not None:
                group.offsets = before.offsets
                self._forget_soft(before)
            self.groups[group_id] = group
        for member in group.restore(record):
            watch(group, member)
        self._timers.off(group.join_phase)

    def _take_over(self, group: ConsumerGroup | StreamsGroup) -> None:
        """In the place of a classic group, of which the offsets stay."""
        before = self.groups.get(group.group_id)
        if before is not None:
            self._forget_soft(before)
            group.offsets = before.offsets
        self.groups[group.group_id] = group

    def _remove(self, group_id: str) -> None:
        """Offsets that are there still, from a log that was compacted in between or because the
        group changes its kind, are of a simple group.
        """
        group = self.groups.pop(group_id, None)
        becoming = None
        if group is not None:
            self._forget_soft(group)
        if isinstance(group, ConsumerGroup) and self._becoming is not None:
            becoming = self._becoming if self._becoming.group_id == group_id else None
        if group is not None and (group.offsets or becoming is not None):
            after = self.groups[group_id] = becoming or new_group(group_id)
            after.offsets, after.in_log = group.offsets, bool(group.offsets)

    def _forget_soft(self, group: Group) -> None:
        """Another group, or none, stands in the place of this one."""
        if isinstance(group, ClassicGroup):
            self._turn_off(group)
        elif isinstance(group, ConsumerGroup):
            self.consumers.remove(group.group_id)
        else:
            self.streams.remove(group.group_id)

    def _turn_off(self, group: ClassicGroup) -> None:
        for timer in (
            group.join_phase,
            group.sync_phase,
            group.settling,
            *group.pending.values(),
            *(each.session for each in group.members.values()),
        ):
            self._timers.off(timer)

    def _forget_nothing(self, group: ClassicGroup) -> None:
        if group.is_nothing and self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]
            self._timers.off(group.join_phase)

    def _decision(self, context: Context) -> Decision:
        return Decision(context, self.settings, self._timers)


def _known_weight(group: Group | None, member_id: str, instance_id: str | None) -> int:
    """Return the bytes that the member takes already; it may come back under another id."""
    if isinstance(group, ConsumerGroup):
        return weight_of(group.static_member(instance_id) or group.members.get(member_id))
    if isinstance(group, StreamsGroup):
        known = group.static_member(instance_id) or group.members.get(member_id)
        return MEMBER_BYTES if known is not None else 0
    member = (
        group.members.get(group.static.get(instance_id or "", member_id))
        if group is not None
        else None
    )
    return member.weight if member is not None else 0


def _tombstones(group: Group) -> list[Record]:
    return (
        [*group.tombstones()]
        if not isinstance(group, ClassicGroup)
        else [group_tombstone(group.group_id)]
    )


def _listed(group: Group) -> ListedGroup:
    if isinstance(group, ConsumerGroup):
        return ListedGroup(group.group_id, CONSUMER, str(group.state), CONSUMER)
    if isinstance(group, StreamsGroup):
        return ListedGroup(group.group_id, STREAMS, str(group.state), STREAMS)
    return ListedGroup(group.group_id, group.protocol_type or "", str(group.state), CLASSIC)


def name_in_filters(state: str) -> str:
    """Return the name of a state in a filter of ListGroups, in lower case: Kafka's enum has a line
    between the words.
    """
    return "not_ready" if state == StreamsState.NOT_READY else state.lower()
