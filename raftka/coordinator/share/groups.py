"""The share groups (KIP-932) of a coordinator: finds, makes, alters, deletes and describes them,
and keeps the time of their members. The rules are in the other modules here. Knows of groups of
other kinds only that they have ids.
"""

from collections.abc import Collection

from raftka.coordinator.commands import GroupSettings, ListedGroup
from raftka.coordinator.consumer.records import Epoch
from raftka.coordinator.decision import Decision
from raftka.coordinator.machine import Context, Outcome, Record, Steps, Ticket
from raftka.coordinator.modern.admission import unknown
from raftka.coordinator.modern.records import Targets
from raftka.coordinator.modern.soft import SESSION, Ring
from raftka.coordinator.share.commands import (
    AlterShareOffsets,
    CallState,
    DeleteShareOffsets,
    DescribedShareGroup,
    DescribedShareMember,
    ListSharePartitions,
    ShareBeat,
    ShareHeartbeat,
    StateDeleted,
    StateInitialized,
)
from raftka.coordinator.share.decisions import Draft, ShareDecision, Soft
from raftka.coordinator.share.group import LEFT, Member, ShareGroup
from raftka.coordinator.share.heartbeat import beat, check
from raftka.coordinator.share.partition_sets import forget
from raftka.coordinator.share.records import (
    GROUP,
    MEMBER,
    NO_TOPICS,
    partitions_record,
    read_key,
    read_value,
)
from raftka.coordinator.share.state_calls import (
    alter,
    delete_group,
    delete_offsets,
    on_deleted,
    on_initialized,
)
from raftka.coordinator.timers import Timers
from raftka.limits import GROUPS_OF_COORDINATOR
from raftka.wire.errors import Code, KafkaError, check_limit

SHARE = "share"  # type and protocol type of these groups
AGAIN_S = 1.0  # until it is tried again to remove a member


class ShareGroups:
    def __init__(
        self,
        others: Collection[str],
        timers: Timers,
        settings: GroupSettings,
        call_state: CallState,
    ) -> None:
        """`others`: the ids of the coordinator's groups of other kinds."""
        self.groups: dict[str, ShareGroup] = {}
        self.settings = settings
        self.soft: dict[str, Soft] = {}
        self.topics_version = 0  # how often topics have changed
        self._others = others
        self._timers = timers
        self._call_state = call_state

    # members

    def heartbeat(
        self, command: ShareHeartbeat, ticket: Ticket, context: Context
    ) -> Steps[Outcome]:
        check(command)
        decision = self._decision(context)
        if command.epoch == LEFT:
            group = self.existing(command.group_id)
            if command.member_id not in group.members:
                raise unknown(group.group_id, command.member_id)
            self._remove(self._of_group(decision, group), command.member_id)
            decision.reply(ticket, ShareBeat(command.member_id, LEFT))
            return decision.outcome()
        missing = f"Share group {command.group_id} not found."
        makes = command.epoch == 0
        share_decision = self._found_or_made(command.group_id, decision, missing, makes=makes)
        try:
            answer = yield from beat(share_decision, command)
        except KafkaError:
            self._tidy(command.group_id)
            raise
        # the calls of the decision leave before the member hears of it
        decision.reply(ticket, answer)
        return decision.outcome()

    def _found_or_made(
        self, group_id: str, decision: Decision, missing: str, *, makes: bool
    ) -> ShareDecision:
        """Return a decision about the group; with `makes` about a new one if there is none. Raises
        GROUP_ID_NOT_FOUND, with the text `missing` when the id is free.
        """
        group = self.groups.get(group_id)
        if group is not None:
            return self._of_group(decision, group)
        if group_id in self._others or not makes:
            raise self._not_found(group_id, missing)
        check_limit(GROUPS_OF_COORDINATOR, len(self.groups) + len(self._others) + 1)
        share_decision = self._of_group(decision, ShareGroup(group_id))
        share_decision.is_new = True
        return share_decision

    def existing(self, group_id: str) -> ShareGroup:
        """Raises GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if group is None:
            raise self._not_found(group_id, f"Group {group_id} not found.")
        return group

    def _not_found(self, group_id: str, missing: str) -> KafkaError:
        text = f"Group {group_id} is not a share group." if group_id in self._others else missing
        return KafkaError(Code.GROUP_ID_NOT_FOUND, text)

    def _remove(self, decision: ShareDecision, member_id: str) -> None:
        """Remove a member. A group without members has nothing to assign: its targets are those of
        its epoch.
        """
        decision.draft.remove(member_id)
        if decision.group.members:
            decision.move_epoch(needed=True)
            return
        epoch = decision.group.epoch.epoch + 1
        decision.draft.set_epoch(Epoch(epoch))
        decision.draft.set_targets(Targets(epoch))

    # administration

    def alter(self, command: AlterShareOffsets, ticket: Ticket, context: Context) -> Steps[Outcome]:
        _check_id(command.group_id)
        decision = self._decision(context)
        share_decision = self._found_or_made(command.group_id, decision, "", makes=True)
        try:
            _check_empty(share_decision.group)
            yield from alter(share_decision, command, ticket)
        finally:
            self._tidy(command.group_id)
        return decision.outcome()

    def delete_offsets(
        self, command: DeleteShareOffsets, ticket: Ticket, context: Context
    ) -> Steps[Outcome]:
        _check_id(command.group_id)
        decision = self._decision(context)
        group = self.existing(command.group_id)
        _check_empty(group)
        yield from delete_offsets(self._of_group(decision, group), command, ticket)
        return decision.outcome()

    def delete_group(self, group: ShareGroup, ticket: Ticket, context: Context) -> Steps[Outcome]:
        if group.members:
            raise KafkaError(Code.NON_EMPTY_GROUP)
        decision = self._decision(context)
        yield from delete_group(self._of_group(decision, group), ticket)
        return decision.outcome()

    def list_partitions(
        self, command: ListSharePartitions, ticket: Ticket, context: Context
    ) -> Outcome:
        group = self.groups.get(command.group_id)
        found = group.partitions.initialized if group is not None else NO_TOPICS
        return Outcome((), ((ticket, found),))

    def describe(self, group_id: str) -> DescribedShareGroup:
        group = self.existing(group_id)
        members = tuple([_described(member) for member in group.members.values()])
        epochs = group.epoch.epoch, max(group.targets.epoch, 0)
        return DescribedShareGroup(
            group_id, str(group.state), *epochs, members, frozenset(group.names)
        )

    def listed(self) -> list[ListedGroup]:
        return [
            ListedGroup(group.group_id, SHARE, str(group.state), SHARE)
            for group in self.groups.values()
        ]

    # answers of the share coordinator

    def on_answer(
        self, command: StateInitialized | StateDeleted, ticket: Ticket, context: Context
    ) -> Steps[Outcome]:
        decision = self._decision(context)
        group, soft = self.groups.get(command.group_id), self.soft.get(command.group_id)
        asked = soft.asked.pop(command.number, None) if soft is not None else None
        if group is None and asked is not None and asked.ticket is not None:
            # the group did not come to be: its records were refused
            error = next(iter(command.errors.values()), KafkaError(Code.GROUP_ID_NOT_FOUND))
            decision.reply(asked.ticket, error)
        elif group is not None and asked is not None:
            share_decision = self._of_group(decision, group)
            if isinstance(command, StateInitialized):
                yield from on_initialized(share_decision, command, asked)
            else:
                yield from on_deleted(share_decision, command, asked)
        self._tidy(command.group_id)
        decision.reply(ticket, None)
        return decision.outcome()

    # topics

    def on_topics(self) -> None:
        self.topics_version += 1

    def forget_topics(self, topic_ids: Collection[bytes]) -> Steps[list[Record]]:
        """Return records without these topics: the share coordinator drops their state itself."""
        records = []
        for group in self.groups.values():
            partitions = forget(group.partitions, topic_ids)
            if partitions != group.partitions:
                records.append(partitions_record(group.group_id, partitions))
            yield
        return records

    # time

    def loaded(self, decision: Decision) -> None:
        """Begin the sessions of all members; an earlier coordinator may have made calls with the
        present epochs.
        """
        for group in self.groups.values():
            share_decision = self._of_group(decision, group)
            share_decision.soft.asked_epoch = group.epoch.epoch
            for member_id in group.members:
                share_decision.begin_session(member_id)

    def ring(self, group_id: str, member_id: str) -> Ring:
        def ring(decision: Decision) -> Steps[None]:
            """Remove the member: its session has ended."""
            group, soft = self.groups.get(group_id), self.soft.get(group_id)
            if group is None or soft is None or member_id not in group.members:
                if soft is not None:
                    soft.timers.pop((SESSION, member_id), None)
                self._tidy(group_id)
                return
            # until the records are replayed: they may be refused
            self._timers.set(soft.timers[SESSION, member_id], decision.now + AGAIN_S)
            self._remove(self._of_group(decision, group), member_id)
            yield

        return ring

    # replaying

    def replay(self, record: Record) -> None:
        what, group_id, name = read_key(record.key)
        value = read_value(what, record.value) if record.value is not None else None
        group = self.groups.get(group_id)
        if group is None:
            if value is None:
                return
            group = self.groups[group_id] = ShareGroup(group_id)
        if what == GROUP and value is None:
            self._drop(group_id)
            return
        group.apply(what, name, value)
        if what == MEMBER and value is None and group_id in self.soft:
            self.soft[group_id].forget_member(name, self._timers)

    def _drop(self, group_id: str) -> None:
        del self.groups[group_id]
        soft = self.soft.pop(group_id, None)
        if soft is not None:
            soft.end(self._timers)

    def _tidy(self, group_id: str) -> None:
        """Keep nothing of a group that did not come to be, and has no call under way."""
        soft = self.soft.get(group_id)
        if soft is not None and group_id not in self.groups and not soft.asked:
            del self.soft[group_id]
            soft.end(self._timers)

    # making decisions

    def _decision(self, context: Context) -> Decision:
        return Decision(context, self.settings, self._timers)

    def _of_group(self, decision: Decision, group: ShareGroup) -> ShareDecision:
        soft = self.soft.get(group.group_id)
        if soft is None:
            soft = self.soft[group.group_id] = Soft(group.group_id)
        return ShareDecision(
            decision,
            Draft(group, decision.records),
            soft,
            self.topics_version,
            self.ring,
            self._call_state,
        )


def _check_id(group_id: str) -> None:
    if not group_id:
        raise KafkaError(Code.INVALID_GROUP_ID, "The group id is invalid.")


def _check_empty(group: ShareGroup) -> None:
    if group.members:
        raise KafkaError(Code.NON_EMPTY_GROUP, "The group is not empty.")


def _described(member: Member) -> DescribedShareMember:
    said, current = member.said, member.current
    return DescribedShareMember(
        member.member_id,
        said.rack_id,
        current.epoch,
        said.client_id,
        said.client_host,
        said.topics,
        current.assigned,
    )
