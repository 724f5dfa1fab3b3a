"""The streams groups (KIP-1071) among the groups of a coordinator: finds, makes and describes them,
and keeps their time. The rules are in the other modules here.
"""

from collections.abc import Callable
from contextlib import suppress

from raftka.coordinator.classic.group import ClassicGroup
from raftka.coordinator.commands import GroupSettings
from raftka.coordinator.consumer.groups import Group
from raftka.coordinator.decision import Decision
from raftka.coordinator.machine import Context, Outcome, Record, Steps, Ticket
from raftka.coordinator.modern.admission import unknown
from raftka.coordinator.modern.records import MemberState
from raftka.coordinator.modern.soft import REVOKE, Ring
from raftka.coordinator.records import group_tombstone
from raftka.coordinator.streams.commands import (
    AWAY,
    LEFT,
    DescribedStreamsGroup,
    DescribedStreamsMember,
    DescribeTopology,
    StreamsBeat,
    StreamsHeartbeat,
)
from raftka.coordinator.streams.configured import Counts
from raftka.coordinator.streams.decisions import StreamsDecision, configured_of, of_group
from raftka.coordinator.streams.descriptions import Descriptions
from raftka.coordinator.streams.draft import Draft
from raftka.coordinator.streams.group import Member, StreamsGroup
from raftka.coordinator.streams.heartbeat import beat, check, leave
from raftka.coordinator.streams.reconciliation import target_of
from raftka.coordinator.streams.records import (
    GROUP,
    MEMBER,
    read_key,
    read_value,
)
from raftka.coordinator.streams.timers import FIRST_ASSIGNMENT, Soft
from raftka.coordinator.timers import Timers
from raftka.limits import GROUPS_OF_COORDINATOR
from raftka.wire.errors import Code, KafkaError, check_limit

AGAIN_MS = 1_000  # until it is tried again to remove a member


class StreamsGroups:
    def __init__(self, groups: dict[str, Group], timers: Timers, settings: GroupSettings) -> None:
        self.groups = groups  # those of the coordinator, of all kinds
        self.settings = settings
        self.soft: dict[str, Soft] = {}
        self.topics_version = 0  # how often topics have changed
        self._timers = timers
        self._descriptions = Descriptions()

    # heartbeats

    def heartbeat(
        self, command: StreamsHeartbeat, ticket: Ticket, context: Context
    ) -> Steps[Outcome]:
        check(command)
        decision = Decision(context, self.settings, self._timers)
        if command.epoch in (LEFT, AWAY):
            draft = Draft(self.existing(command.group_id), decision.records)
            streams_decision = self._of_group(decision, draft)
            member = leave(streams_decision, command)
            if member is not None:
                self._remove(streams_decision, member)
            decision.reply(ticket, StreamsBeat(command.member_id, command.epoch))
            return decision.outcome()
        try:
            draft = self._found_or_made(command, decision)
            is_new = self.groups.get(command.group_id) is not draft.group
            streams_decision = self._of_group(decision, draft)
            answer = yield from beat(streams_decision, command, is_new_group=is_new)
        except KafkaError:
            self._tidy(command.group_id)
            raise
        if command.may_be_asked and self._asks(streams_decision):
            answer = answer._replace(asks_for_description=True)
        decision.reply(ticket, answer)
        return decision.outcome()

    def _asks(self, decision: StreamsDecision) -> bool:
        """Return whether this member is asked for a description of the topology."""
        group, base = decision.group, decision.base
        return (
            decision.settings.keeps_descriptions
            and group.topology is not None
            and self._descriptions.ask(
                group.group_id, group.topology.epoch, base.now, base.context.random
            )
        )

    def describe_topology(self, command: DescribeTopology) -> None:
        """Keep what a member says of its group's topology. Raises KafkaError."""
        group = self.existing(command.group_id)
        if command.member_id not in group.members:
            raise unknown(group.group_id, command.member_id)
        epoch = -1 if group.topology is None else group.topology.epoch
        if command.topology_epoch != epoch or group.topology is None:
            raise KafkaError(
                Code.INVALID_REQUEST,
                f"Topology epoch {command.topology_epoch} does not match the group's current "
                f"topology epoch {epoch}.",
            )
        self._descriptions.keep(group.group_id, epoch, command.description, command.size)

    def _found_or_made(self, command: StreamsHeartbeat, decision: Decision) -> Draft:
        """Return the group of the heartbeat; a member that joins makes it, also of an empty classic
        group. Raises GROUP_ID_NOT_FOUND.
        """
        group_id, group = command.group_id, self.groups.get(command.group_id)
        if isinstance(group, StreamsGroup):
            return Draft(group, decision.records)
        if group is None and command.epoch == 0:
            check_limit(GROUPS_OF_COORDINATOR, len(self.groups) + 1)
            return Draft(StreamsGroup(group_id), decision.records)
        if group is None:
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
        if command.epoch == 0 and isinstance(group, ClassicGroup) and not group.members:
            decision.records.append(group_tombstone(group_id))
            return Draft(StreamsGroup(group_id), decision.records)
        raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")

    def existing(self, group_id: str) -> StreamsGroup:
        """Raises GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group
        raise KafkaError(
            Code.GROUP_ID_NOT_FOUND,
            f"Group {group_id} not found."
            if group is None
            else f"Group {group_id} is not a streams group.",
        )

    def describe(self, group_id: str, context: Context) -> DescribedStreamsGroup:
        group = self.existing(group_id)
        return DescribedStreamsGroup(
            group_id,
            str(group.state),
            group.epoch.epoch,
            group.targets.epoch,
            of_group(self.settings, group_id).assignor,
            group.topology,
            self._counts(group, context),
            tuple([_described(group, member) for member in group.members.values()]),
            None
            if group.topology is None
            else self._descriptions.find(group_id, group.topology.epoch),
        )

    def _counts(self, group: StreamsGroup, context: Context) -> Counts:
        """Return the partitions of internal topics; none: some of the topics are missing."""
        if group.topology is None:
            return {}
        soft = self._soft(group.group_id)
        try:
            found = configured_of(soft, group.topology, context.topics, self.topics_version)
        except KafkaError:
            return {}
        return found.counts if found.ready else {}

    def move_epoch(self, group: StreamsGroup, decision: Decision) -> None:
        """Begin a new epoch: the targets of all members are worked out anew."""
        self._of_group(decision, Draft(group, decision.records)).move_epoch(needed=True)

    def _remove(self, decision: StreamsDecision, member: Member) -> None:
        decision.draft.remove(member.member_id)
        decision.move_epoch_for_leaver()

    # time

    def ring(self, what: str, group_id: str, member_id: str) -> Ring:
        def ring(decision: Decision) -> Steps[None]:
            group, soft = self.groups.get(group_id), self.soft.get(group_id)
            if soft is not None:
                soft.timers.pop((what, member_id), None)
                self._tidy(group_id)
            if not isinstance(group, StreamsGroup):
                return
            streams_decision = self._of_group(decision, Draft(group, decision.records))
            if what == FIRST_ASSIGNMENT:
                if group.members and group.epoch.epoch > group.targets.epoch:
                    with suppress(KafkaError):  # its next heartbeat says what is wrong
                        yield from streams_decision.aim_now()
                return
            member = group.members.get(member_id)
            if member is None or (
                what == REVOKE and member.current.state is not MemberState.UNREVOKED
            ):
                return
            # until the records are replayed: they may be refused
            streams_decision.set(what, member_id, AGAIN_MS)
            self._remove(streams_decision, member)

        return ring

    def loaded(self, group: StreamsGroup, decision: Decision) -> None:
        """Members have had no answer from this coordinator: each gets a whole session."""
        streams_decision = self._of_group(decision, Draft(group, decision.records))
        for member in group.members.values():
            streams_decision.begin_session(member.member_id)
            streams_decision.watch_revoking(member)

    def on_topics(self) -> None:
        self.topics_version += 1

    # replaying

    def replay(
        self,
        record: Record,
        take_over: Callable[[StreamsGroup], None],
        drop: Callable[[str], None],
    ) -> None:
        """`take_over`: this group stands where another one was, or none; `drop`: there is none of
        that id any more.
        """
        what, group_id, member_id = read_key(record.key)
        value = read_value(what, record.value) if record.value is not None else None
        group = self.groups.get(group_id)
        if not isinstance(group, StreamsGroup):
            if value is None:
                return
            group = StreamsGroup(group_id)
            take_over(group)
        group.in_log = True
        if what == GROUP and value is None:
            drop(group_id)
            return
        group.apply(what, member_id, value)
        soft = self.soft.get(group_id)
        if soft is None:
            return
        if what == MEMBER and value is None:
            soft.forget_member(member_id, self._timers)
        elif what == GROUP and not group.members:
            soft.shutdown_by = None
            soft.off(FIRST_ASSIGNMENT, "", self._timers)

    def remove(self, group_id: str) -> None:
        """There is no such streams group any more."""
        self._descriptions.forget(group_id)
        soft = self.soft.pop(group_id, None)
        if soft is not None:
            soft.end(self._timers)

    def _tidy(self, group_id: str) -> None:
        """Of a group that did not come to be, or is none of these any more, nothing stays."""
        soft = self.soft.get(group_id)
        if (
            soft is not None
            and not soft.timers
            and not isinstance(self.groups.get(group_id), StreamsGroup)
        ):
            del self.soft[group_id]
            self._descriptions.forget(group_id)

    # making decisions

    def _of_group(self, decision: Decision, draft: Draft) -> StreamsDecision:
        return StreamsDecision(
            decision, draft, self._soft(draft.group_id), self.topics_version, self.ring
        )

    def _soft(self, group_id: str) -> Soft:
        soft = self.soft.get(group_id)
        if soft is None:
            soft = self.soft[group_id] = Soft(group_id)
        return soft


def _described(group: StreamsGroup, member: Member) -> DescribedStreamsMember:
    said = member.said
    return DescribedStreamsMember(
        member.member_id,
        said.instance_id,
        said.rack_id,
        member.current.epoch,
        said.client_id,
        said.client_host,
        said.topology_epoch,
        said.process_id,
        said.endpoint,
        said.tags,
        member.current.assigned.tasks(),
        target_of(group, member.member_id),
    )
