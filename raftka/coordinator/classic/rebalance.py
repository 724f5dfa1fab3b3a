"""The rebalance of a classic group: the group waits for its members to join, elects leader and
protocol, and waits for the leader's assignments.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable -> PreparingRebalance ...; without
    members it is Empty again

Empty and Stable come with their records, as they are replayed. Knows no request; join.py and
sync.py do.
"""

from collections.abc import Sequence
from functools import partial

from raftka.coordinator.classic.group import ClassicGroup, Member, State
from raftka.coordinator.commands import Joined, Synced
from raftka.coordinator.decision import Decision
from raftka.coordinator.machine import Ticket
from raftka.coordinator.records import group_record
from raftka.coordinator.timers import Timer
from raftka.wire.errors import Code

EMPTY_AGAIN_S = 1.0  # until it is tried again to record that a group is empty


def new_group(group_id: str) -> ClassicGroup:
    group = ClassicGroup(group_id)
    group.join_phase = Timer(group, partial(_join_phase_over, group))
    group.sync_phase = Timer(group, partial(_sync_phase_over, group))
    group.settling = Timer(group, partial(_settled, group))
    return group


def begin_session(
    group: ClassicGroup, member: Member, decision: Decision, timeout_ms: int | None = None
) -> None:
    """From now on it is heard of within its session time-out, or it is gone."""
    decision.timers.set(
        member.session,
        decision.now + (member.session_timeout_ms if timeout_ms is None else timeout_ms) / 1000,
    )


def watch(group: ClassicGroup, member: Member) -> None:
    """Give it a session, which has not begun."""
    member.session = Timer(group, partial(_session_over, group, member))


# who waits


def wait_to_join(group: ClassicGroup, member: Member, ticket: Ticket, decision: Decision) -> None:
    """Let the member wait for the join phase to end. Of two requests of one member the later one
    waits.
    """
    if member.join_ticket is not None:
        decision.refuse(member.join_ticket, Code.REBALANCE_IN_PROGRESS)
    member.join_ticket = ticket
    group.joining.add(member.member_id)


def wait_to_sync(member: Member, ticket: Ticket, decision: Decision) -> None:
    if member.sync_ticket is not None:
        decision.refuse(member.sync_ticket, Code.REBALANCE_IN_PROGRESS)
    member.sync_ticket = ticket


def refuse_waiting(member: Member, code: Code, decision: Decision) -> None:
    """It is another's place now, or nobody's: the member is about to be taken out."""
    for ticket in (member.join_ticket, member.sync_ticket):
        if ticket is not None:
            decision.refuse(ticket, code)
    member.join_ticket = member.sync_ticket = None


def take_out(group: ClassicGroup, member: Member, decision: Decision) -> None:
    """A member is gone: what it waits for tells it so, should it still be there."""
    refuse_waiting(member, Code.UNKNOWN_MEMBER_ID, decision)
    decision.timers.off(member.session)
    group.remove(member)


def joined(
    group: ClassicGroup,
    member: Member,
    *,
    members: bool | None = None,
    leader: str | None = None,
    skip: bool = False,
) -> Joined:
    """The group as it is; the members of it for the leader, unless told."""
    shown = (
        group.joined_members()
        if (group.leader == member.member_id if members is None else members)
        else ()
    )
    types = group.protocol_type, group.protocol_name
    return Joined(
        member.member_id, group.generation_id, *types, leader or group.leader or "", shown, skip
    )


# the join phase


def rebalance_or_complete(group: ClassicGroup, decision: Decision) -> None:
    """Somebody has come, gone, or changed."""
    if group.state is State.PREPARING:
        complete_if_all_joined(group, decision)
    else:
        prepare_rebalance(group, decision)


def prepare_rebalance(group: ClassicGroup, decision: Decision) -> None:
    if group.state is State.COMPLETING:
        _cancel_syncs(group, decision)
    group.syncing.clear()
    decision.timers.off(group.sync_phase)
    decision.timers.off(group.settling)
    group.initial = group.state is State.EMPTY
    group.state = State.PREPARING
    if group.initial:
        _begin_initial_delay(group, decision)
    elif group.all_joined:
        complete_join_phase(group, decision)
    else:
        decision.timers.set(group.join_phase, decision.now + group.rebalance_timeout_ms / 1000)


def complete_if_all_joined(group: ClassicGroup, decision: Decision) -> None:
    """The first rebalance of a group lasts as long as its delay."""
    if group.state is State.PREPARING and not group.initial and group.all_joined:
        complete_join_phase(group, decision)


def complete_join_phase(group: ClassicGroup, decision: Decision) -> None:
    """End the join phase. A member that has not joined by now is not in the next generation; static
    members that are away keep their place.
    """
    decision.timers.off(group.join_phase)
    for member in [
        each
        for each in group.members.values()
        if each.join_ticket is None and each.instance_id is None
    ]:
        take_out(group, member, decision)
    if not group.members:
        decision.records.append(
            group_record(group.group_id, group.as_empty_record(decision.context.wall_ms))
        )
        # until the record is replayed
        decision.timers.set(group.join_phase, decision.now + EMPTY_AGAIN_S)
        group.initial = False
    elif _elect_leader(group):
        _next_generation(group, decision)
    else:
        decision.timers.set(group.join_phase, decision.now + group.rebalance_timeout_ms / 1000)


def _begin_initial_delay(group: ClassicGroup, decision: Decision) -> None:
    """Most groups start with all their members within seconds: one rebalance for all of them, not
    one for each (KIP-134).
    """
    group.delay_ms = decision.settings.initial_rebalance_delay_ms
    group.delay_left_ms = max(group.rebalance_timeout_ms - group.delay_ms, 0)
    group.grown = False
    if group.delay_ms:
        decision.timers.set(group.join_phase, decision.now + group.delay_ms / 1000)
    else:
        complete_join_phase(group, decision)


def _join_phase_over(group: ClassicGroup, decision: Decision) -> None:
    if group.initial and group.grown and group.delay_left_ms:
        group.grown = False
        before, left = group.delay_ms, group.delay_left_ms
        group.delay_ms = min(decision.settings.initial_rebalance_delay_ms, left)
        group.delay_left_ms = max(left - before, 0)
        decision.timers.set(group.join_phase, decision.now + group.delay_ms / 1000)
    else:
        complete_join_phase(group, decision)


def _elect_leader(group: ClassicGroup) -> bool:
    """The leader stays, if it has joined; else the first who has. False: nobody has."""
    if group.leader not in group.joining:
        group.leader = next(
            (member_id for member_id in group.members if member_id in group.joining), group.leader
        )
    return group.leader in group.joining


def _next_generation(group: ClassicGroup, decision: Decision) -> None:
    group.generation_id += 1
    group.protocol_name = group.elect_protocol()
    group.know_topics()
    group.state = State.COMPLETING
    group.initial = False
    if any(member.is_new for member in group.members.values()):
        group.settles_at = decision.now + decision.settings.settle_ms / 1000
    for member in group.members.values():
        if member.join_ticket is not None:
            decision.reply(member.join_ticket, joined(group, member))
            member.join_ticket = None
        member.is_new = False
        begin_session(group, member, decision)
    group.joining.clear()
    group.syncing = set(group.members)
    decision.timers.set(group.sync_phase, decision.now + group.rebalance_timeout_ms / 1000)


# the sync phase


def assign(group: ClassicGroup, assignments: dict[str, bytes], decision: Decision) -> None:
    """As the leader says. Stable comes with the record. A member the leader forgot gets nothing;
    one it made up is not there.

    Members come in swarms. Who waits for its assignment hears of the next one at once; who has it,
    seconds later, with its heartbeat.
    """
    if decision.now < group.settles_at:
        group.assignments = assignments
        decision.timers.set(group.settling, group.settles_at)
        return
    group.assignments = {}
    decision.timers.off(group.settling)  # the leader may have sent them twice
    decision.records.append(
        group_record(group.group_id, group.as_record(decision.context.wall_ms, assignments))
    )
    answered: list[Member] = []
    decision.undo = partial(_wait_again, group, answered, decision)
    for member in group.members.values():
        if member.sync_ticket is not None:
            decision.reply(
                member.sync_ticket,
                Synced(
                    group.protocol_type, group.protocol_name, assignments.get(member.member_id, b"")
                ),
            )
            member.sync_ticket = None
            answered.append(member)
            begin_session(group, member, decision)


def _wait_again(group: ClassicGroup, answered: Sequence[Member], decision: Decision) -> None:
    """The log has refused the assignments. The members that were told so have the rebalance
    time-out to ask again, whatever their sessions say.
    """
    group.syncing.update(
        member.member_id for member in answered if group.members.get(member.member_id) is member
    )
    if group.syncing:
        decision.timers.set(group.sync_phase, decision.now + group.rebalance_timeout_ms / 1000)


def _settled(group: ClassicGroup, decision: Decision) -> None:
    assign(group, group.assignments, decision)


def _cancel_syncs(group: ClassicGroup, decision: Decision) -> None:
    """Answer members that wait for an assignment with REBALANCE_IN_PROGRESS: they join again."""
    for member in group.members.values():
        member.assignment = b""
        if member.sync_ticket is not None:
            decision.refuse(member.sync_ticket, Code.REBALANCE_IN_PROGRESS)
            member.sync_ticket = None
            begin_session(group, member, decision)


def _sync_phase_over(group: ClassicGroup, decision: Decision) -> None:
    """Members who did not ask for their assignment within the rebalance time-out have not seen the
    new generation, whatever their sessions say.
    """
    if not group.syncing or group.state not in (State.COMPLETING, State.STABLE):
        return
    for member in [group.members[each] for each in group.syncing]:
        take_out(group, member, decision)
    prepare_rebalance(group, decision)


# sessions


def _session_over(group: ClassicGroup, member: Member, decision: Decision) -> None:
    """Remove a member that was silent for its session. A member that waits for an answer cannot
    send heartbeats, so it stays; but a new member may have gone while it waits, and the group would
    wait for it for ever.
    """
    waits = member.join_ticket is not None or member.sync_ticket is not None
    if waits and not member.is_new:
        return
    take_out(group, member, decision)
    rebalance_or_complete(group, decision)


def pending_over(group: ClassicGroup, member_id: str, decision: Decision) -> None:
    """An id was given out, and nobody has joined with it."""
    del group.pending[member_id]
    complete_if_all_joined(group, decision)
