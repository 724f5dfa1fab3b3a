"""Check that a member of a consumer or streams group may commit and fetch offsets, by its
epoch (KIP-848, KIP-1071, KIP-1251). Knows no offset.
"""

from raftka.coordinator.commands import CommitOffsets, FetchOffsets
from raftka.coordinator.consumer.group import ConsumerGroup
from raftka.coordinator.consumer.group import Member as Consumer
from raftka.coordinator.machine import Topics
from raftka.coordinator.modern.admission import named_member, unknown
from raftka.coordinator.streams.group import Member as StreamsMember
from raftka.coordinator.streams.group import StreamsGroup
from raftka.wire.errors import Code, KafkaError


def check_consumer_commit(group: ConsumerGroup, command: CommitOffsets, topics: Topics) -> None:
    """An earlier epoch is good for partitions that the member has had since then: no other member
    has read them. Raises KafkaError.
    """
    if command.generation_id < 0 and not group.members:
        return
    member = named_member(group, command.member_id, None)
    is_classic, epoch = member.said.classic is not None, member.current.epoch
    if not is_classic:
        _check_names_epochs(command)
    if command.generation_id == epoch or (
        not is_classic
        and 0 <= command.generation_id < epoch
        and _has_had_partitions(member, command, topics)
    ):
        return
    raise _stale(member, command.generation_id)


def check_streams_commit(group: StreamsGroup, command: CommitOffsets) -> None:
    """An earlier epoch is good for partitions of tasks that the member has had since then. Raises
    KafkaError.
    """
    if command.generation_id < 0 and not group.members:
        return
    member = named_member(group, command.member_id, None)
    epoch = member.current.epoch
    _check_names_epochs(command)
    if command.generation_id == epoch or (
        0 <= command.generation_id < epoch and _has_had_tasks(group, member, command)
    ):
        return
    raise _stale(member, command.generation_id)


def check_member_fetch(group: ConsumerGroup | StreamsGroup, command: FetchOffsets) -> None:
    """An administrator names no member. Raises KafkaError."""
    if command.member_id is None and command.member_epoch < 0:
        return
    member_id = command.member_id or ""
    member: Consumer | StreamsMember | None = group.members.get(member_id)
    if member is None:
        raise unknown(group.group_id, member_id)
    if command.member_epoch != member.current.epoch:
        raise _stale(member, command.member_epoch)


def _check_names_epochs(command: CommitOffsets) -> None:
    """Raise UNSUPPORTED_VERSION for a version without epochs; a producer names them in each."""
    if not command.may_say_not_found and command.producer is None:
        raise KafkaError(Code.UNSUPPORTED_VERSION)


def _has_had_partitions(member: Consumer, command: CommitOffsets, topics: Topics) -> bool:
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


def _has_had_tasks(group: StreamsGroup, member: StreamsMember, command: CommitOffsets) -> bool:
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


def _stale(member: Consumer | StreamsMember, epoch: int) -> KafkaError:
    if isinstance(member, Consumer) and member.said.classic is not None:
        return KafkaError(Code.ILLEGAL_GENERATION)
    return KafkaError(
        Code.STALE_MEMBER_EPOCH,
        f"The received member epoch {epoch} does not match the expected member epoch "
        f"{member.current.epoch}.",
    )
