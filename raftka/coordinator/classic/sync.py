"""Requests of a classic group's members after the join: SyncGroup, Heartbeat, LeaveGroup. Knows no
version.
"""

from raftka.coordinator.classic.group import ClassicGroup, Member, State
from raftka.coordinator.classic.members import check_member
from raftka.coordinator.classic.rebalance import (
    assign,
    complete_if_all_joined,
    rebalance_or_complete,
    take_out,
    wait_to_sync,
)
from raftka.coordinator.commands import Heartbeat, Leave, LeavingMember, Left, Sync, Synced
from raftka.coordinator.decision import Decision
from raftka.coordinator.machine import Ticket
from raftka.coordinator.timers import Timers
from raftka.wire.errors import Code, KafkaError


def sync(group: ClassicGroup, command: Sync, ticket: Ticket, decision: Decision) -> None:
    """Answer with the member's assignment, now or when the group's leader has sent it. Raises
    KafkaError.
    """
    member = _check_sync(group, command)
    group.syncing.discard(member.member_id)
    if not group.syncing:
        decision.timers.off(group.sync_phase)
    if group.state is State.STABLE:
        decision.reply(ticket, Synced(group.protocol_type, group.protocol_name, member.assignment))
        return
    wait_to_sync(member, ticket, decision)
    if group.leader == member.member_id:
        assign(group, dict(command.assignments), decision)


def _check_sync(group: ClassicGroup, command: Sync) -> Member:
    if group.state is State.EMPTY:
        raise KafkaError(Code.UNKNOWN_MEMBER_ID)
    member = check_member(group, command.member_id, command.instance_id)
    if command.generation_id != group.generation_id:
        raise KafkaError(Code.ILLEGAL_GENERATION)
    for said, known in (
        (command.protocol_type, group.protocol_type),
        (command.protocol_name, group.protocol_name),
    ):
        if said is not None and known is not None and said != known:
            raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is State.PREPARING:
        raise KafkaError(Code.REBALANCE_IN_PROGRESS)
    return member


def heartbeat(group: ClassicGroup | None, command: Heartbeat, timers: Timers, now: float) -> None:
    """Extend the session. Raises REBALANCE_IN_PROGRESS for a member that has to join. Makes no
    Decision: this is the hot path.
    """
    if group is None or group.state is State.EMPTY:
        raise KafkaError(Code.UNKNOWN_MEMBER_ID if command.group_id else Code.INVALID_GROUP_ID)
    member = check_member(group, command.member_id, command.instance_id)
    if command.generation_id != group.generation_id:
        raise KafkaError(Code.ILLEGAL_GENERATION)
    timers.set(member.session, now + member.session_timeout_ms / 1000)
    if group.state is State.PREPARING:
        raise KafkaError(Code.REBALANCE_IN_PROGRESS)


def leave(group: ClassicGroup | None, command: Leave, decision: Decision) -> Left:
    if not command.group_id:
        raise KafkaError(Code.INVALID_GROUP_ID)
    if group is None:
        return Left((Code.UNKNOWN_MEMBER_ID,) * len(command.members))
    before = len(group.members)
    errors = tuple([_leave(group, leaving, decision) for leaving in command.members])
    if len(group.members) < before:
        rebalance_or_complete(group, decision)
    else:
        # the group may have waited for a member id that was given out and will not join
        complete_if_all_joined(group, decision)
    return Left(errors)


def _leave(group: ClassicGroup, leaving: LeavingMember, decision: Decision) -> Code:
    """Remove one member, and return its code. A request without a member id comes from an
    administrator, who removes an instance.
    """
    member_id = leaving.member_id
    if not member_id:
        member_id = (
            group.static.get(leaving.instance_id or "", "")
            if leaving.instance_id is not None
            else ""
        )
    if member_id in group.pending:
        decision.timers.off(group.pending.pop(member_id))
        return Code.NONE
    try:
        take_out(group, check_member(group, member_id, leaving.instance_id), decision)
    except KafkaError as error:
        return error.code
    return Code.NONE
