"""Check that a member of a consumer group may commit and fetch offsets, by its epoch (KIP-848,
KIP-1251). Knows no offset.
"""

from raftka.coordinator.commands import CommitOffsets, FetchOffsets
from raftka.coordinator.consumer.group import ConsumerGroup, Member
from raftka.coordinator.consumer.heartbeat import unknown
from raftka.coordinator.machine import Topics
from raftka.wire.errors import Code, KafkaError


def check_consumer_commit(group: ConsumerGroup, command: CommitOffsets, topics: Topics) -> None:
    """An earlier epoch is good for partitions that the member has had since then: nobody else has
    read them. Raises KafkaError.
    """
    if command.generation_id < 0 and not group.members:
        return
    member = group.members.get(command.member_id)
    if member is None:
        raise unknown(group, command.member_id)
    # a producer names epochs of members in every version
    knows_epochs = command.may_say_not_found or command.producer is not None
    if member.said.classic is None and not knows_epochs:
        raise KafkaError(Code.UNSUPPORTED_VERSION)
    epoch = member.current.epoch
    if command.generation_id == epoch or (
        member.said.classic is None
        and 0 <= command.generation_id < epoch
        and _has_had(member, command, topics)
    ):
        return
    raise _stale(member, command.generation_id)


def check_consumer_fetch(group: ConsumerGroup, command: FetchOffsets) -> None:
    """An administrator says no member. Raises KafkaError."""
    if command.member_id is None and command.member_epoch < 0:
        return
    member = group.members.get(command.member_id or "")
    if member is None:
        raise unknown(group, command.member_id or "")
    if command.member_epoch != member.current.epoch:
        raise _stale(member, command.member_epoch)


def _has_had(member: Member, command: CommitOffsets, topics: Topics) -> bool:
    for name, partitions in command.topics:
        topic_id = topics.topic_id(name) if name is not None else None
        given = {
            **member.current.revoking.get(topic_id or b"", {}),
            **member.current.assigned.get(topic_id or b"", {}),
        }
        if any(
            each.partition not in given or given[each.partition] > command.generation_id
            for each in partitions
        ):
            return False
    return True


def _stale(member: Member, epoch: int) -> KafkaError:
    if member.said.classic is not None:
        return KafkaError(Code.ILLEGAL_GENERATION)
    text = (
        f"The received member epoch {epoch} does not match the expected member epoch "
        f"{member.current.epoch}."
    )
    return KafkaError(Code.STALE_MEMBER_EPOCH, text)
