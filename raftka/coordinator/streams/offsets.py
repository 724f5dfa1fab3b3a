"""Check that a member of a streams group may commit and fetch offsets, by its epoch (KIP-1071).
Knows no offset.
"""

from raftka.coordinator.commands import CommitOffsets, FetchOffsets
from raftka.coordinator.streams.group import Member, StreamsGroup
from raftka.coordinator.streams.heartbeat import unknown
from raftka.wire.errors import Code, KafkaError


def check_streams_commit(group: StreamsGroup, command: CommitOffsets) -> None:
    """An earlier epoch is good for partitions of tasks that the member has had since then: no other
    member has read them. Raises KafkaError.
    """
    if command.generation_id < 0 and not group.members:
        return
    member = group.members.get(command.member_id)
    if member is None:
        raise unknown(group, command.member_id)
    # a producer names epochs of members in every version
    if not command.may_say_not_found and command.producer is None:
        raise KafkaError(Code.UNSUPPORTED_VERSION)
    epoch = member.current.epoch
    if command.generation_id == epoch or (
        0 <= command.generation_id < epoch and _has_had(group, member, command)
    ):
        return
    raise _stale(member, command.generation_id)


def check_streams_fetch(group: StreamsGroup, command: FetchOffsets) -> None:
    """An administrator names no member. Raises KafkaError."""
    if command.member_id is None and command.member_epoch < 0:
        return
    member = group.members.get(command.member_id or "")
    if member is None:
        raise unknown(group, command.member_id or "")
    if command.member_epoch != member.current.epoch:
        raise _stale(member, command.member_epoch)


def _has_had(group: StreamsGroup, member: Member, command: CommitOffsets) -> bool:
    subtopologies = group.topology.subtopologies if group.topology is not None else ()
    names = {topic.name for topic in command.topics if topic.name is not None}
    given: dict[tuple[str, int], int] = {}  # by topic and partition: since which epoch
    for subtopology in subtopologies:
        for name in names.intersection(subtopology.sources()):
            for held in (member.current.revoking, member.current.assigned):
                for partition, epoch in held.active.get(subtopology.id, {}).items():
                    given[name, partition] = min(epoch, given.get((name, partition), epoch))
    never = member.current.epoch
    return all(
        topic.name is not None
        and given.get((topic.name, each.partition), never) <= command.generation_id
        for topic in command.topics
        for each in topic.partitions
    )


def _stale(member: Member, epoch: int) -> KafkaError:
    return KafkaError(
        Code.STALE_MEMBER_EPOCH,
        f"The received member epoch {epoch} does not match the expected member epoch "
        f"{member.current.epoch}.",
    )
