"""JoinGroup: who may come, under which id, and what that does to the group (KIP-345 static members,
KIP-394 ids first, KIP-814 skipped assignment).

Knows no version: the command says what its sender understands.
"""

from functools import partial
from random import Random

from raftka.coordinator.classic.group import ClassicGroup, Member, State, weight_of
from raftka.coordinator.classic.members import check_member
from raftka.coordinator.classic.rebalance import (
    begin_session,
    complete_if_all_joined,
    joined,
    pending_over,
    prepare_rebalance,
    rebalance_or_complete,
    refuse_waiting,
    take_out,
    wait_to_join,
    watch,
)
from raftka.coordinator.commands import Join, MemberIdRequired
from raftka.coordinator.decision import Decision
from raftka.coordinator.machine import Ticket
from raftka.coordinator.memory_budget import MEMBER_BYTES, PENDING_BYTES, STRING_BYTES
from raftka.coordinator.records import group_record
from raftka.coordinator.timers import Timer
from raftka.limits import MEMBER_PROTOCOL_BYTES, MEMBERS_OF_GROUP, PENDING_MEMBERS
from raftka.wire.errors import Code, KafkaError, LimitRefused

# characters of a client's or an instance's name that a member id and the group's record keep
NAME_LENGTH = 256
# of a member that has no id to send heartbeats with; then its client asks again
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000


def join(group: ClassicGroup, command: Join, ticket: Ticket, decision: Decision) -> None:
    """Raises KafkaError. The group may be one that this command makes."""
    if not _has_room(group, command, decision):
        _turn_away(group, command, ticket, decision)
        return
    if not group.supports(command.protocol_type, command.protocols):
        raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL)
    if command.member_id:
        _check_size(command)
        _join_known(group, command, ticket, decision)
    else:
        _join_new(group, command, ticket, decision)


def check_session(command: Join, decision: Decision) -> None:
    if not command.group_id:
        raise KafkaError(Code.INVALID_GROUP_ID)
    if (
        not decision.settings.min_session_timeout_ms
        <= command.session_timeout_ms
        <= decision.settings.max_session_timeout_ms
    ):
        raise KafkaError(Code.INVALID_SESSION_TIMEOUT)
    # before anything looks at each of them
    if len(command.protocols) > MEMBER_PROTOCOL_BYTES.value // STRING_BYTES:
        raise _too_large(STRING_BYTES * len(command.protocols))


def weight_of_join(command: Join, known: int = 0) -> int:
    """Return the bytes of memory that the join adds; `known`: the bytes that its member takes
    already.
    """
    if not command.member_id and command.instance_id is None and command.needs_member_id:
        return PENDING_BYTES
    return MEMBER_BYTES + len(command.instance_id or "") + weight_of(command.protocols) - known


def _has_room(group: ClassicGroup, command: Join, decision: Decision) -> bool:
    """While members come back, those who wait count, not those who were there: where the size was
    lowered, the last ones find no place.
    """
    member = group.members.get(command.member_id)
    most = min(decision.settings.max_size, MEMBERS_OF_GROUP.value)
    if group.state is State.EMPTY:
        return True
    if group.state is State.PREPARING:
        return (member is not None and member.join_ticket is not None) or len(group.joining) < most
    return member is not None or len(group.members) < most


def _turn_away(group: ClassicGroup, command: Join, ticket: Ticket, decision: Decision) -> None:
    """Refuse the join: the group has group.max.size members. A member that rejoins too late counts
    as new. Raise LimitRefused where our own limit is the lower one.
    """
    member, pending = group.members.get(command.member_id), group.pending.get(command.member_id)
    if member is None and pending is None and decision.settings.max_size > MEMBERS_OF_GROUP.value:
        raise LimitRefused(
            MEMBERS_OF_GROUP, len(group.members) + 1, code=Code.GROUP_MAX_SIZE_REACHED
        )
    decision.refuse(ticket, Code.GROUP_MAX_SIZE_REACHED)
    if member is not None:
        take_out(group, member, decision)
    if pending is not None:
        decision.timers.off(group.pending.pop(command.member_id))
    complete_if_all_joined(group, decision)


def _check_size(command: Join) -> None:
    """More would not fit into the group's record. The answer is what Kafka's append would come to,
    later, for all members.
    """
    size = weight_of(command.protocols)
    if size > MEMBER_PROTOCOL_BYTES.value:
        raise _too_large(size)


def _too_large(size: int) -> LimitRefused:
    return LimitRefused(MEMBER_PROTOCOL_BYTES, size, code=Code.UNKNOWN_SERVER_ERROR)


# who comes without an id


def _join_new(group: ClassicGroup, command: Join, ticket: Ticket, decision: Decision) -> None:
    member_id = _new_member_id(
        command.client_id if command.instance_id is None else command.instance_id,
        decision.context.random,
    )
    if command.instance_id is None and command.needs_member_id:
        _require_member_id(group, command, member_id, decision)
        decision.reply(ticket, MemberIdRequired(member_id))
        return
    _check_size(command)
    known = group.static.get(command.instance_id) if command.instance_id is not None else None
    if known is not None:
        _replace_static(group, group.members[known], member_id, command, ticket, decision)
    else:
        _add(group, command, member_id, ticket, decision)


def _require_member_id(
    group: ClassicGroup, command: Join, member_id: str, decision: Decision
) -> None:
    """A client that asks again and again without hearing the answer leaves no members behind, only
    ids, which end with their session.
    """
    if len(group.pending) >= PENDING_MEMBERS.value:
        raise LimitRefused(
            PENDING_MEMBERS, len(group.pending) + 1, code=Code.GROUP_MAX_SIZE_REACHED
        )
    group.pending[member_id] = timer = Timer(group, partial(pending_over, group, member_id))
    decision.timers.set(timer, decision.now + command.session_timeout_ms / 1000)


def _add(
    group: ClassicGroup, command: Join, member_id: str, ticket: Ticket, decision: Decision
) -> None:
    pending = group.pending.pop(member_id, None)
    if pending is not None:
        decision.timers.off(pending)
    member = Member(member_id, command.instance_id, _named(command.client_id), command.client_host)
    group.update_member(
        member, command.protocols, command.rebalance_timeout_ms, command.session_timeout_ms
    )
    member.is_new = True
    watch(group, member)
    if not group.members:
        group.protocol_type = command.protocol_type
    group.grown = group.state is State.PREPARING
    group.add(member)
    wait_to_join(group, member, ticket, decision)
    begin_session(group, member, decision, NEW_MEMBER_JOIN_TIMEOUT_MS)
    rebalance_or_complete(group, decision)


def _new_member_id(name: str, random: Random) -> str:
    """A UUID of version 4 behind the name."""
    bits = random.getrandbits(128) & ~(0xF << 76 | 3 << 62) | 4 << 76 | 2 << 62
    text = f"{bits:032x}"
    return f"{_named(name)}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _named(name: str) -> str:
    """A stranger's name, short enough to be sent in an id and kept with thousands of members."""
    return name[:NAME_LENGTH]


# who comes with an id


def _join_known(group: ClassicGroup, command: Join, ticket: Ticket, decision: Decision) -> None:
    if command.member_id in group.pending and command.instance_id is None:
        _add(group, command, command.member_id, ticket, decision)
        return
    member = check_member(group, command.member_id, command.instance_id)
    if group.state is State.EMPTY:
        raise KafkaError(Code.UNKNOWN_MEMBER_ID)
    same = member.protocols == command.protocols
    if (same and group.state is State.COMPLETING) or (
        same and group.state is State.STABLE and group.leader != member.member_id
    ):
        # an answer was lost: nothing is new. A leader that is stable asks for a rebalance
        decision.reply(ticket, joined(group, member))
        return
    group.update_member(
        member, command.protocols, command.rebalance_timeout_ms, command.session_timeout_ms
    )
    wait_to_join(group, member, ticket, decision)
    rebalance_or_complete(group, decision)


def _take_back(group: ClassicGroup, old: Member, member: Member, decision: Decision) -> None:
    """The record that names a static member's new id was refused: the member keeps the old one."""
    decision.timers.off(member.session)
    group.replace(member, old)
    begin_session(group, old, decision)


def _replace_static(
    group: ClassicGroup,
    old: Member,
    member_id: str,
    command: Join,
    ticket: Ticket,
    decision: Decision,
) -> None:
    """A static member has started anew: it gets its place under another id, and who has the old one
    is fenced.
    """
    led = group.leader
    refuse_waiting(old, Code.FENCED_INSTANCE_ID, decision)
    decision.timers.off(old.session)
    member = Member(member_id, old.instance_id, old.client_id, old.client_host)
    group.update_member(
        member, command.protocols, command.rebalance_timeout_ms, command.session_timeout_ms
    )
    member.assignment = old.assignment
    watch(group, member)
    group.replace(old, member)
    begin_session(group, member, decision)
    if group.state is State.STABLE and group.elect_protocol() == group.protocol_name:
        assignments = {each.member_id: each.assignment for each in group.members.values()}
        decision.records.append(
            group_record(group.group_id, group.as_record(decision.context.wall_ms, assignments))
        )
        # as Kafka: the log knows the old id
        decision.undo = partial(_take_back, group, old, member, decision)
        leads = group.leader == member_id
        if command.may_skip:
            decision.reply(ticket, joined(group, member, skip=leads))
        else:
            # else it would take itself for a leader that has to assign
            decision.reply(ticket, joined(group, member, members=False, leader=led))
        return
    wait_to_join(group, member, ticket, decision)
    if group.state is State.PREPARING:
        rebalance_or_complete(group, decision)
    else:
        prepare_rebalance(group, decision)
