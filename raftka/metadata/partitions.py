"""Who leads a partition and who is in its ISR: what follows from which brokers are alive, and what a leader may change (AlterPartition, KIP-497).

Functions from an image to records; the controller says when. Every ISR member has flushed all that was ever acknowledged, so any of them may
lead; nobody else may, unless the topic allows unclean election. Knows no time and no session.
"""

from collections.abc import Callable, Collection, Iterator

from raftka.metadata.commands import AlteredPartition, AlterPartition, Change
from raftka.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from raftka.metadata.records import PartitionChanged, Record, Replicas
from raftka.wire.errors import Code, KafkaError

Alive = Callable[[int], bool]  # by broker id: not fenced, not shutting down
Unclean = Callable[[str], bool]  # by topic name: may a replica outside the ISR lead?


def settle(partition: PartitionImage, alive: Alive, unclean: Callable[[], bool], lost: Collection[int] = ()) -> PartitionImage:
    """The partition as it should be, now that these are alive and those have lost their disk; itself if it is so already.

    With a leader, the ISR is those who live: the high watermark must not wait for the dead. Without one nothing moves, so all members of the
    ISR keep their place, and whichever comes back first may lead.
    """
    isr = tuple(each for each in partition.isr if each not in lost)
    candidates = [each for each in partition.replicas if each in isr and alive(each)]
    if candidates:
        leader = partition.leader if partition.leader in candidates else candidates[0]
        isr = tuple(each for each in isr if each in candidates)
    elif partition.replicas and any(map(alive, partition.replicas)) and unclean():
        leader = next(each for each in partition.replicas if alive(each))
        isr = (leader,)
    else:
        leader = NO_LEADER
    if leader == partition.leader and isr == partition.isr:
        return partition
    return _moved(partition, leader, isr)


def _moved(partition: PartitionImage, leader: int, isr: Replicas) -> PartitionImage:
    leader_epoch = partition.leader_epoch + (leader != partition.leader)
    return PartitionImage(partition.replicas, isr, leader, leader_epoch, partition.partition_epoch + 1)


def resettle(image: MetadataImage, moved: frozenset[int], alive: Alive, unclean: Unclean, lost: Collection[int] = ()) -> list[Record]:
    """What changes in all partitions when the brokers in `moved` have come, gone or lost their disk."""
    return [
        changed(topic.topic_id, index, after)
        for topic, index, before in _touched(image, moved)
        if (after := settle(before, alive, lambda name=topic.name: unclean(name), lost)) is not before  # type: ignore[misc]
    ]


def _touched(image: MetadataImage, moved: frozenset[int]) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
    """With a leader, only its ISR matters; without one, any replica that comes may be the next."""
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            if not moved.isdisjoint(partition.replicas if partition.leader == NO_LEADER else partition.isr):
                yield topic, index, partition


def to_preferred(image: MetadataImage, most: int) -> list[Record]:
    """Give up to `most` partitions back to their first replica where that is in the ISR and alive."""
    records: list[Record] = []
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            first = partition.replicas[0]
            if partition.leader in (first, NO_LEADER) or first not in partition.isr or not image.alive(first):
                continue
            if len(records) == most:
                return records
            records.append(changed(topic.topic_id, index, _moved(partition, first, partition.isr)))
    return records


def changed(topic_id: bytes, index: int, partition: PartitionImage) -> PartitionChanged:
    return PartitionChanged(topic_id, index, partition.leader, partition.leader_epoch, partition.isr, partition.partition_epoch)


def alter(image: MetadataImage, command: AlterPartition) -> tuple[list[Record], tuple[AlteredPartition, ...]]:
    """Records, and one answer a change; a refused one does not spoil the others."""
    records: list[Record] = []
    answers = []
    done: dict[tuple[bytes, int], PartitionImage] = {}  # a partition may be named twice
    for change in command.changes:
        key = (change.topic_id, change.partition)
        before = done.get(key) or image.partition(*key)
        try:
            done[key] = after = _altered(image, before, change, command.broker_id)
        except KafkaError as error:
            answers.append(_answer(change, error.code, before))
            continue
        if after is not before:
            records.append(changed(*key, after))
        answers.append(_answer(change, Code.NONE, after))
    return records, tuple(answers)


def _answer(change: Change, code: Code, now: PartitionImage | None) -> AlteredPartition:
    answer = AlteredPartition(change.topic_id, change.partition, int(code))
    if now is None:
        return answer
    return answer._replace(leader=now.leader, leader_epoch=now.leader_epoch, isr=now.isr, partition_epoch=now.partition_epoch)


def _altered(image: MetadataImage, partition: PartitionImage | None, change: Change, leader: int) -> PartitionImage:
    if partition is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION if change.topic_id in image.topics else Code.UNKNOWN_TOPIC_ID)
    if change.leader_epoch > partition.leader_epoch or change.partition_epoch > partition.partition_epoch:
        raise KafkaError(Code.NOT_CONTROLLER)  # the leader knows more than we do: then we are not the controller any more
    if change.leader_epoch < partition.leader_epoch:
        raise KafkaError(Code.FENCED_LEADER_EPOCH)
    if leader != partition.leader:
        raise KafkaError(Code.INVALID_REQUEST)
    if change.partition_epoch < partition.partition_epoch:
        raise KafkaError(Code.INVALID_UPDATE_VERSION)
    isr = tuple(broker_id for broker_id, _ in change.new_isr)
    if len(set(isr)) < len(isr) or not set(isr) <= set(partition.replicas) or leader not in isr:
        raise KafkaError(Code.INVALID_REQUEST)
    if not all(_eligible(image, *member) for member in change.new_isr):
        raise KafkaError(Code.INELIGIBLE_REPLICA)
    return partition if isr == partition.isr else _moved(partition, leader, isr)


def _eligible(image: MetadataImage, broker_id: int, epoch: int) -> bool:
    """Alive, and still the process that the leader saw catch up (KIP-903): a newer one may have another disk."""
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.alive and epoch in (-1, broker.epoch)
