"""ShareGroupHeartbeat (KIP-932): admission of members, their epochs, the answer."""

from raftka.coordinator.machine import Steps
from raftka.coordinator.modern.admission import NAME_LENGTH, check_size, fenced, refuse, unknown
from raftka.coordinator.share.commands import ShareBeat, ShareHeartbeat
from raftka.coordinator.share.decisions import ShareDecision
from raftka.coordinator.share.group import LEFT, NOBODY, NOTHING, Member
from raftka.coordinator.share.records import Said
from raftka.coordinator.share.state_calls import do_work, look_after_partitions
from raftka.wire.errors import Code, KafkaError


def check(command: ShareHeartbeat) -> None:
    """Raise INVALID_REQUEST, in Kafka's order and words."""
    if not command.member_id:
        raise KafkaError(Code.INVALID_REQUEST)
    refuse(not command.group_id, "GroupId can't be empty.")
    if command.epoch == 0:
        refuse(not command.topics, "SubscribedTopicNames must be set in first request.")
    refuse(command.epoch < LEFT, "MemberEpoch is invalid.")
    refuse(command.rack_id == "", "RackId can't be empty.")


def beat(decision: ShareDecision, command: ShareHeartbeat) -> Steps[ShareBeat]:
    """Return the answer to a member that stays or joins. Raises KafkaError."""
    member_id = command.member_id
    before = _place(decision, command)
    resubscribed = _say(decision, command, before)
    work = yield from look_after_partitions(decision, may_refuse=resubscribed)
    yield from decision.aim()
    after = decision.reconcile(member_id, resubscribed=resubscribed)
    yield from do_work(decision, work)
    decision.begin_session(member_id)
    is_full = command.epoch == 0 or command.topics is not None
    shown = is_full or before.current.assigned != after.current.assigned
    return ShareBeat(
        member_id,
        after.current.epoch,
        decision.settings.heartbeat_interval_ms,
        after.current.assigned if shown else None,
    )


def _place(decision: ShareDecision, command: ShareHeartbeat) -> Member:
    """Return the member as it was, or a new one, after its epoch was checked. A member that joins
    again keeps its epoch and its assignment. Raises KafkaError.
    """
    group, member_id = decision.group, command.member_id
    member = group.members.get(member_id)
    if command.epoch == 0:
        if member is None:
            check_size(group.members, decision.settings.max_size, "share")
        return member or Member(member_id, NOBODY, NOTHING)
    if member is None:
        raise unknown(group.group_id, member_id)
    _check_epoch(member, command.epoch)
    return member


def _check_epoch(member: Member, epoch: int) -> None:
    """Allow the epoch before, too: the member may not have heard the last answer. Raise
    FENCED_MEMBER_EPOCH for any other one.
    """
    now, previous, _ = member.current
    if epoch == now or (epoch < now and epoch == previous):
        return
    unmatched = f", and it does not match the previous member epoch ({previous})"
    raise fenced("share", epoch, now, unmatched if epoch < now else "")


def _say(decision: ShareDecision, command: ShareHeartbeat, before: Member) -> bool:
    """Take the member's subscription; return whether it is another one than before. Then the
    group's epoch moves.
    """
    was = before.said
    topics = was.topics if command.topics is None else tuple(sorted(set(command.topics)))
    said = Said(
        command.rack_id if command.rack_id is not None else was.rack_id,
        command.client_id[:NAME_LENGTH],
        command.client_host,
        topics,
    )
    decision.draft.say(command.member_id, said)
    decision.move_epoch(needed=was.topics != topics)
    return was.topics != topics
