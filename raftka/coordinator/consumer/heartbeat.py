"""ConsumerGroupHeartbeat: who may come, which epoch a member may have, and what it is told
(KIP-848). Knows no version but by the command.
"""

from base64 import urlsafe_b64encode

from raftka.coordinator.classic.group import ClassicGroup
from raftka.coordinator.consumer.commands import ConsumerBeat, ConsumerHeartbeat, ConsumerSettings
from raftka.coordinator.consumer.decisions import ConsumerDecision
from raftka.coordinator.consumer.group import (
    AWAY,
    LEFT,
    NOBODY,
    ConsumerGroup,
    Member,
    without_epochs,
)
from raftka.coordinator.consumer.reconciliation import Owned
from raftka.coordinator.consumer.records import Current
from raftka.coordinator.machine import Steps
from raftka.coordinator.modern.admission import (
    NAME_LENGTH,
    check_size,
    fenced,
    named_member,
    refuse,
    unreleased,
)
from raftka.wire.errors import Code, KafkaError


def check(command: ConsumerHeartbeat, settings: ConsumerSettings) -> None:
    """Raises INVALID_REQUEST, UNSUPPORTED_ASSIGNOR; in Kafka's order and words."""
    if command.needs_member_id or command.epoch != 0:
        refuse(not command.member_id, "MemberId can't be empty.")
    refuse(not command.group_id, "GroupId can't be empty.")
    refuse(command.instance_id == "", "InstanceId can't be empty.")
    refuse(command.rack_id == "", "RackId can't be empty.")
    if command.epoch == 0:
        refuse(
            command.rebalance_timeout_ms == -1,
            "RebalanceTimeoutMs must be provided in first request.",
        )
        refuse(
            command.owned is None or bool(command.owned),
            "TopicPartitions must be empty when (re-)joining.",
        )
        nothing = command.topics is None and command.regex is None
        refuse(
            nothing,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining.",
        )
    elif command.epoch == AWAY:
        refuse(command.instance_id is None, "InstanceId can't be null.")
    else:
        refuse(command.epoch < AWAY, "MemberEpoch is invalid.")
    if command.assignor is not None and command.assignor not in settings.assignors:
        known = ", ".join(settings.assignors)
        raise KafkaError(
            Code.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {command.assignor} is not supported. Supported assignors: {known}.",
        )


def beat(decision: ConsumerDecision, command: ConsumerHeartbeat) -> Steps[ConsumerBeat]:
    """Raises KafkaError."""
    member_id = command.member_id or new_member_id(decision)
    check_room(decision.group, decision.settings, member_id, command.instance_id)
    before = _place(decision, command, member_id)
    resubscribed = _say(decision, command, member_id, before)
    yield from decision.aim()
    after = decision.reconcile(member_id, command.owned, resubscribed=resubscribed)
    decision.begin_session(after)
    if decision.draft.changed:
        decision.soft.moved_at = decision.base.now
    shown = _is_full(command) or without_epochs(before.current.assigned) != without_epochs(
        after.current.assigned
    )
    assignment = without_epochs(after.current.assigned) if shown else None
    return ConsumerBeat(member_id, after.current.epoch, decision.interval_ms(after), assignment)


def new_member_id(decision: ConsumerDecision) -> str:
    """A UUID as Kafka writes them."""
    bits = (
        decision.base.context.random.getrandbits(128) & ~(0xF << 76 | 3 << 62) | 4 << 76 | 2 << 62
    )
    return urlsafe_b64encode(bits.to_bytes(16, "big")).decode().rstrip("=")


def _is_full(command: ConsumerHeartbeat) -> bool:
    """It says all that there is to say: it joins, or an answer of ours was lost."""
    subscribes = command.topics is not None or command.regex is not None
    return command.epoch == 0 or (
        command.rebalance_timeout_ms != -1 and subscribes and command.owned is not None
    )


def check_room(
    group: ConsumerGroup | ClassicGroup,
    settings: ConsumerSettings,
    member_id: str,
    instance_id: str | None,
) -> None:
    """Raises GROUP_MAX_SIZE_REACHED for a member that is new."""
    if member_id not in group.members and instance_id not in group.static:
        check_size(group.members, settings.max_size, "consumer")


# whose place it is


def _place(decision: ConsumerDecision, command: ConsumerHeartbeat, member_id: str) -> Member:
    """Return the member that the heartbeat is of, as it was, after its epoch was checked. Raises
    KafkaError.
    """
    if command.epoch == 0:
        return _joining(decision, member_id, command.instance_id)
    known = named_member(decision.group, command.member_id, command.instance_id)
    return _at_its_epoch(known, command)


def _joining(decision: ConsumerDecision, member_id: str, instance_id: str | None) -> Member:
    """Return the member as it was, or a new one. A fenced member joins again under its own id: it
    keeps its epoch and its assignment.

    A static member takes the place of its instance, once the member that had it has gone away.
    Raises UNRELEASED_INSTANCE_ID.
    """
    held = decision.group.static_member(instance_id)
    if held is None:
        return decision.group.members.get(member_id) or Member(member_id, NOBODY, Current())
    if held.said.classic is None and held.current.epoch != AWAY:
        raise unreleased(member_id, instance_id, held.member_id)
    decision.draft.replace(held, member_id)
    return decision.group.members[member_id]


def _at_its_epoch(member: Member, command: ConsumerHeartbeat) -> Member:
    """The epoch before is good too, of who has nothing that it should not have: it may not have
    heard our answer. Raises FENCED_MEMBER_EPOCH.
    """
    now = member.current.epoch
    if command.epoch == now or (
        command.epoch < now
        and command.epoch == member.current.previous_epoch
        and _has_no_more(command.owned, member)
    ):
        return member
    raise fenced("consumer", command.epoch, now)


def _has_no_more(owned: Owned, member: Member) -> bool:
    return owned is not None and all(
        partitions <= member.current.assigned.get(topic_id, {}).keys()
        for topic_id, partitions in owned.items()
    )


# what it says


def _say(
    decision: ConsumerDecision, command: ConsumerHeartbeat, member_id: str, before: Member
) -> bool:
    """Take the member's subscription; return whether it is another one than before; the group's
    epoch moves when that is known to make a difference.
    """
    was = before.said
    said = was._replace(
        instance_id=command.instance_id if command.instance_id is not None else was.instance_id,
        rack_id=command.rack_id if command.rack_id is not None else was.rack_id,
        client_id=command.client_id[:NAME_LENGTH],
        client_host=command.client_host,
        topics=tuple(sorted(set(command.topics))) if command.topics is not None else was.topics,
        regex=command.regex if command.regex is not None else was.regex,
        rebalance_timeout_ms=command.rebalance_timeout_ms
        if command.rebalance_timeout_ms != -1
        else was.rebalance_timeout_ms,
        assignor=command.assignor if command.assignor is not None else was.assignor,
        classic=None,
    )
    changed = decision.subscribe(member_id, said)
    regex_changed = (was.regex or "") != (said.regex or "")
    matters = was.topics != said.topics or (
        regex_changed and (not said.regex or said.regex in decision.group.regexes)
    )
    decision.move_epoch(needed=matters)
    return changed


# who goes


def leave(decision: ConsumerDecision, command: ConsumerHeartbeat) -> Member | None:
    """The member to remove, but for a static one that will be back: what it has stays its own until
    its session ends. Raises KafkaError.
    """
    member = named_member(decision.group, command.member_id, command.instance_id)
    if command.epoch == LEFT:
        return member
    decision.draft.have(member.member_id, member.current._replace(epoch=AWAY, revoking={}))
    decision.soft.moved_at = decision.base.now
    return None
