"""Groups that change their kind while members are in them (KIP-848): all of it is in the records of
one decision. Knows no request.

A classic group becomes a consumer group when a consumer of the new protocol joins: its members keep
what they have, and are told to join again. A consumer group becomes classic when the last consumer
of the new protocol has gone, or comes back as a classic one.
"""

from raftka.coordinator.classic.group import CONSUMER, ClassicGroup
from raftka.coordinator.classic.group import Member as ClassicMember
from raftka.coordinator.classic.rebalance import refuse_waiting
from raftka.coordinator.commands import GroupSettings
from raftka.coordinator.consumer.classic_members import ids_of, names_of
from raftka.coordinator.consumer.commands import ConsumerSettings, Target
from raftka.coordinator.consumer.draft import Draft
from raftka.coordinator.consumer.group import FIRST_EPOCH, ConsumerGroup, Member, hash_of
from raftka.coordinator.consumer.records import (
    Classic,
    Current,
    Epoch,
    Said,
)
from raftka.coordinator.decision import Decision
from raftka.coordinator.machine import Steps, Topics
from raftka.coordinator.modern.records import MemberState, Targets
from raftka.coordinator.protocol import (
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
)
from raftka.coordinator.records import GroupMember, GroupMetadata, group_tombstone
from raftka.coordinator.records import group_record as classic_record
from raftka.wire.errors import Code, KafkaError

CUSTOM_ASSIGNOR = (
    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
    "default assignor before re-attempting the upgrade."
)

# a classic group becomes a consumer group


def check_upgrade(group: ClassicGroup, settings: ConsumerSettings) -> None:
    """Raises GROUP_ID_NOT_FOUND, in Kafka's order and words."""
    if not settings.upgrades:
        raise _not_upgraded(group, "online upgrade is disabled.")
    if group.protocol_type != CONSUMER:
        raise _not_upgraded(group, "the group does not use the consumer embedded protocol.")
    if len(group.members) > settings.max_size:
        raise _not_upgraded(group, "the group size exceeds the consumer group maximum size.")


def upgrade(group: ClassicGroup, decision: Decision) -> Steps[Draft]:
    """Tell the members that wait to join again. Raises GROUP_ID_NOT_FOUND for assignments that only
    the members' own assignor understands.
    """
    try:
        members = yield from _members(group, decision.context.topics)
    except ValueError as error:
        raise _not_upgraded(group, "the embedded consumer protocol is malformed.") from error
    for waiting in group.members.values():
        refuse_waiting(waiting, Code.REBALANCE_IN_PROGRESS, decision)
        group.joining.discard(waiting.member_id)
    decision.records.append(group_tombstone(group.group_id))
    epoch = max(group.generation_id, FIRST_EPOCH)
    draft = Draft(ConsumerGroup(group.group_id), decision.records)
    for member_id, said, target in members:
        draft.say(member_id, said)
        draft.aim(member_id, target)
        assigned = {
            topic_id: dict.fromkeys(partitions, epoch) for topic_id, partitions in target.items()
        }
        draft.have(member_id, Current(epoch, epoch, MemberState.STABLE, assigned))
        yield
    draft.set_epoch(Epoch(epoch, hash_of(draft.group.subscribed, decision.context.topics)))
    draft.set_targets(Targets(epoch))
    return draft


def _not_upgraded(group: ClassicGroup, reason: str) -> KafkaError:
    return KafkaError(
        Code.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}",
    )


def _members(group: ClassicGroup, topics: Topics) -> Steps[list[tuple[str, Said, Target]]]:
    """Read what the members say; a partition that two of them were given stays with the first.
    Raises ValueError, GROUP_ID_NOT_FOUND.
    """
    found = []
    taken: set[tuple[bytes, int]] = set()
    for member in group.members.values():
        subscription = read_subscription(
            member.metadata(group.protocol_name) or member.protocols[0].metadata
        )
        assignment = read_assignment(member.assignment)
        if assignment.user_data:
            raise _not_upgraded(group, CUSTOM_ASSIGNOR)
        target: Target = {}
        for topic_id, partitions in ids_of(assignment.partitions, topics).items():
            mine = tuple(sorted([each for each in partitions if (topic_id, each) not in taken]))
            taken.update([(topic_id, each) for each in mine])
            if mine:
                target[topic_id] = mine
        said = Said(
            member.instance_id,
            subscription.rack_id,
            member.client_id,
            member.client_host,
            subscription.topics,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=Classic(member.session_timeout_ms, member.protocols),
        )
        found.append((member.member_id, said, target))
        yield
    return found


# a consumer group becomes a classic one


def may_downgrade(
    group: ConsumerGroup, settings: GroupSettings, about_to_be_classic: str | None = None
) -> bool:
    """One that has no members stays what it is."""
    consumer = group.members.get(about_to_be_classic or "")
    classic = group.classic_count + (consumer is not None and consumer.said.classic is None)
    return (
        bool(group.members)
        and classic == len(group.members)
        and settings.consumer.downgrades
        and len(group.members) <= settings.max_size
    )


def downgrade(draft: Draft, decision: Decision, leader: str | None) -> Steps[int]:
    """All members are classic now. Without a leader it is a group that has to rebalance. Returns
    its generation.
    """
    group, topics = draft.group, decision.context.topics
    name = yield from _common_protocol(group)
    members = []
    for member in group.members.values():
        metadata = next(each.metadata for each in _classic(member).protocols if each.name == name)
        named = names_of(group.target.get(member.member_id, {}), topics)
        members.append(_recorded(member, metadata, write_assignment(named, version_of(metadata))))
        yield
    for tombstone in group.tombstones():
        decision.records.append(tombstone)
        yield
    record = GroupMetadata(
        CONSUMER, group.epoch.epoch, name, leader, decision.context.wall_ms, tuple(members)
    )
    decision.records.append(classic_record(group.group_id, record))
    return group.epoch.epoch


def _classic(member: Member) -> Classic:
    assert member.said.classic is not None
    return member.said.classic


def _common_protocol(group: ConsumerGroup) -> Steps[str]:
    """As the members of a classic group elect it."""
    voters = ClassicGroup(group.group_id)
    for member in group.members.values():
        voter = ClassicMember(member.member_id, None, "", "")
        voters.update_member(voter, _classic(member).protocols, 0, 0)
        voters.add(voter)
        yield
    return voters.elect_protocol()


def _recorded(member: Member, metadata: bytes, assignment: bytes) -> GroupMember:
    said = member.said
    times = said.rebalance_timeout_ms, _classic(member).session_timeout_ms
    return GroupMember(
        member.member_id,
        said.instance_id,
        said.client_id,
        said.client_host,
        *times,
        metadata,
        assignment,
    )
