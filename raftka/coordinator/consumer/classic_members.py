"""Classic members of a consumer group (KIP-848, migration): JoinGroup, SyncGroup, Heartbeat and
LeaveGroup of who does not speak the new protocol.

Nobody leads here and nobody waits: a join is answered at once with the member's epoch for a
generation, a sync with what the member has. A member hears REBALANCE_IN_PROGRESS when it is to join
again: to give up, or to get. Knows no version but by the command.
"""

from raftka.coordinator.commands import (
    Heartbeat,
    Join,
    Joined,
    Leave,
    Left,
    MemberIdRequired,
    Sync,
    Synced,
)
from raftka.coordinator.consumer.decisions import ConsumerDecision
from raftka.coordinator.consumer.group import NOBODY, ConsumerGroup, Member
from raftka.coordinator.consumer.heartbeat import check_room
from raftka.coordinator.consumer.reconciliation import Owned, waits_for_others
from raftka.coordinator.consumer.records import Classic
from raftka.coordinator.consumer.timers import JOIN, SYNC
from raftka.coordinator.machine import Steps, Topics
from raftka.coordinator.modern.admission import NAME_LENGTH, check_instance, named_member
from raftka.coordinator.modern.records import MemberState
from raftka.coordinator.protocol import Named, read_subscription, version_of, write_assignment
from raftka.wire.errors import Code, KafkaError

CONSUMER = "consumer"


def join(
    decision: ConsumerDecision, command: Join, member_id: str, *, is_new: bool, alone: bool
) -> Steps[Joined | MemberIdRequired]:
    """`alone`: the group is about to become a classic one, so its epoch stays and no targets are
    computed. Raises KafkaError.
    """
    group, instance_id = decision.group, command.instance_id
    check_room(group, decision.settings, member_id, instance_id)
    if (
        command.protocol_type != CONSUMER
        or not command.protocols
        or not group.supports([each.name for each in command.protocols])
    ):
        raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL)
    if is_new and instance_id is None and command.needs_member_id:
        return MemberIdRequired(member_id)
    if instance_id is not None:
        _place(decision, member_id, instance_id, is_new=is_new)
    owned, resubscribed = _say(decision, command, member_id)
    if not alone:
        decision.move_epoch(needed=resubscribed)
        yield from decision.aim()
    after = decision.reconcile(member_id, owned, resubscribed=resubscribed)
    decision.soft.off(JOIN, member_id, decision.base.timers)
    decision.begin_session(after)
    decision.set(SYNC, member_id, command.rebalance_timeout_ms)
    decision.soft.moved_at = decision.base.now
    return Joined(member_id, after.current.epoch, CONSUMER, command.protocols[0].name, "")


def _place(decision: ConsumerDecision, member_id: str, instance_id: str, *, is_new: bool) -> None:
    held = decision.group.static_member(instance_id)
    if not is_new:
        check_instance(held, member_id, instance_id)
    elif held is not None:
        decision.draft.replace(held, member_id)


def _say(decision: ConsumerDecision, command: Join, member_id: str) -> tuple[Owned, bool]:
    """Record what the member says; return the partitions that it owns, and whether its subscription
    has changed. All protocols bring the same.
    """
    try:
        subscription = read_subscription(command.protocols[0].metadata)
    except ValueError as error:
        raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL) from error
    member = decision.group.members.get(member_id)
    was = member.said if member is not None else NOBODY
    said = was._replace(
        instance_id=command.instance_id if command.instance_id is not None else was.instance_id,
        rack_id=subscription.rack_id or was.rack_id,
        client_id=command.client_id[:NAME_LENGTH],
        client_host=command.client_host,
        topics=subscription.topics,
        regex=None,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        classic=Classic(command.session_timeout_ms, command.protocols),
    )
    return ids_of(subscription.owned, decision.topics), decision.subscribe(member_id, said)


def sync(decision: ConsumerDecision, command: Sync) -> Synced:
    """Raises KafkaError."""
    member = named_member(decision.group, command.member_id, command.instance_id)
    classic = _classic(member)
    if command.generation_id != member.current.epoch:
        raise KafkaError(Code.ILLEGAL_GENERATION)
    for said, known in (
        (command.protocol_type, CONSUMER),
        (command.protocol_name, classic.protocols[0].name),
    ):
        if said is not None and said != known:
            raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL)
    if (
        decision.group.epoch.epoch > member.current.epoch
        and member.current.state is not MemberState.UNREVOKED
    ):
        _expect_join(decision, member)
        raise KafkaError(Code.REBALANCE_IN_PROGRESS)
    decision.soft.off(SYNC, member.member_id, decision.base.timers)
    decision.begin_session(member)
    named = names_of(
        {topic_id: tuple(sorted(held)) for topic_id, held in member.current.assigned.items()},
        decision.topics,
    )
    return Synced(
        command.protocol_type,
        command.protocol_name,
        write_assignment(named, version_of(classic.protocols[0].metadata)),
    )


def heartbeat(decision: ConsumerDecision, command: Heartbeat) -> None:
    """Raises KafkaError, also where the session goes on."""
    member = named_member(decision.group, command.member_id, command.instance_id)
    _classic(member)
    if command.generation_id != member.current.epoch:
        raise KafkaError(Code.ILLEGAL_GENERATION)
    decision.begin_session(member)
    state = member.current.state
    behind = member.current.epoch < decision.group.epoch.epoch
    if (
        behind
        or state is MemberState.UNREVOKED
        or (state is MemberState.UNRELEASED and not waits_for_others(decision.group, member))
    ):
        _expect_join(decision, member)
        raise KafkaError(Code.REBALANCE_IN_PROGRESS)


def _expect_join(decision: ConsumerDecision, member: Member) -> None:
    """From when it is told first."""
    if not decision.soft.runs(JOIN, member.member_id):
        decision.set(JOIN, member.member_id, member.said.rebalance_timeout_ms)


def leave(group: ConsumerGroup, command: Leave) -> tuple[list[Member], Left]:
    """Return the members to remove, of either protocol, and the answer. An administrator removes an
    instance without naming its member.
    """
    gone: dict[str, Member] = {}
    errors = []
    for member_id, instance_id in command.members:
        try:
            known = group.static_member(instance_id)
            member = named_member(
                group,
                known.member_id if known is not None and not member_id else member_id,
                instance_id,
            )
            gone[member.member_id] = member
            errors.append(Code.NONE)
        except KafkaError as error:
            errors.append(error.code)
    return list(gone.values()), Left(tuple(errors))


def _classic(member: Member) -> Classic:
    if member.said.classic is None:
        raise KafkaError(
            Code.UNKNOWN_MEMBER_ID, f"Member {member.member_id} does not use the classic protocol."
        )
    return member.said.classic


def ids_of(named: Named, topics: Topics) -> dict[bytes, frozenset[int]]:
    """Of topics that are there."""
    found = [(topics.topic_id(name), partitions) for name, partitions in named.items()]
    return {
        topic_id: frozenset(partitions) for topic_id, partitions in found if topic_id is not None
    }


def names_of(target: dict[bytes, tuple[int, ...]], topics: Topics) -> Named:
    found = [(topics.topic_name(topic_id), partitions) for topic_id, partitions in target.items()]
    return {name: partitions for name, partitions in found if name is not None}
