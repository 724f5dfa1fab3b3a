"""Choose leaders and ISRs of partitions: from the brokers that are alive, and from leaders'
proposals (AlterPartition, KIP-497).

Functions from an image to records; the controller calls them when brokers come and go. Every member
of the ISR has flushed all acknowledged records, so any member may lead. Other replicas may lead
only if the topic allows unclean election.
"""

from collections.abc import Callable, Collection

from raftka.metadata.commands import AlteredPartition, AlterPartition, Change
from raftka.metadata.controller.decision import Decision
from raftka.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from raftka.metadata.records import PartitionChanged, Record, Replicas
from raftka.wire.errors import Code, KafkaError

Alive = frozenset[int]  # broker ids: not fenced, not shutting down
# by topic name and ISR: may a replica outside that ISR lead?
Unclean = Callable[[str, Replicas], bool]


def settle(
    topic: str,
    partition: PartitionImage,
    alive: Alive,
    unclean: Unclean,
    lost: Collection[int] = (),
) -> PartitionImage:
    """Return the partition as it should be when the brokers `alive` are alive and the brokers
    `lost` have lost their disk; the same object if it is so already.

    With a leader, dead replicas leave the ISR: the high watermark must not wait for them. Without a
    leader all members of the ISR keep their place, and the first that comes back may lead. A
    replica in a failed directory counts as dead, also if its broker is alive.
    """
    alive = alive.difference(partition.offline)
    isr = tuple([each for each in partition.isr if each not in lost]) if lost else partition.isr
    living = tuple([each for each in isr if each in alive])
    leader = NO_LEADER
    if living:
        isr = living
        leader = (
            partition.leader
            if partition.leader in living
            else next(each for each in partition.replicas if each in living)
        )
    elif not alive.isdisjoint(partition.replicas) and unclean(topic, _reachable(isr, partition)):
        leader = next(each for each in partition.replicas if each in alive)
        isr = (leader,)
    if leader == partition.leader and isr == partition.isr:
        return partition
    return moved(partition, partition._replace(leader=leader, isr=isr))


def _reachable(replicas: Replicas, partition: PartitionImage) -> Replicas:
    return tuple([each for each in replicas if each not in partition.offline])


def moved(before: PartitionImage, after: PartitionImage) -> PartitionImage:
    """Return `after` with new epochs, and without the reassignment that it completes.

    The leader epoch also grows when a replica is removed. The removed broker may fetch before it
    knows of its removal, and then delete the log that its fetches reported. The new leader epoch
    fences these fetches.
    """
    after = _complete_reassignment(after)
    if after.offline:
        after = after._replace(
            offline=tuple([each for each in after.offline if each in after.replicas])
        )
    gone = before.replicas is not after.replicas and not set(before.replicas) <= set(after.replicas)
    epoch = before.leader_epoch + (gone or after.leader != before.leader)
    return after._replace(leader_epoch=epoch, partition_epoch=before.partition_epoch + 1)


def _complete_reassignment(partition: PartitionImage) -> PartitionImage:
    """Remove the replicas that a reassignment removes when all that it adds are in the ISR.

    A partition without a leader stays as it is: the living replicas are unknown.
    """
    adding, removing = partition.adding, partition.removing
    if not (adding or removing):
        return partition
    isr = tuple([each for each in partition.isr if each not in removing])
    if partition.leader == NO_LEADER or not isr or not set(adding) <= set(isr):
        return partition
    replicas = tuple([each for each in partition.replicas if each not in removing])
    leader = (
        partition.leader
        if partition.leader in isr
        else next(each for each in replicas if each in isr)
    )
    return partition._replace(replicas=replicas, isr=isr, leader=leader, adding=(), removing=())


def settling(
    image: MetadataImage, heard: Alive, unclean: Unclean
) -> Callable[[TopicImage, int, PartitionImage], PartitionImage]:
    """Return a function that settles a partition with the brokers that are alive in the image:
    after a broker's death, shutdown or return.

    A partition without a leader gets one that the controller has `heard` itself. A broker enters an
    ISR only by its leader's proposal.
    """
    alive = frozenset(image.alive_brokers())

    def after(topic: TopicImage, index: int, before: PartitionImage) -> PartitionImage:
        if before.leader == NO_LEADER:
            return settle(topic.name, before, heard, unclean)
        if alive.issuperset(before.isr) and not before.offline:
            return before
        return settle(topic.name, before, alive, unclean)

    return after


def to_preferred(image: MetadataImage, most: int) -> list[Record]:
    """Give up to `most` partitions back to their first replica where that is in the ISR (and so
    alive, as there is a leader).
    """
    records: list[Record] = []
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            first = partition.replicas[0]
            if partition.leader in (first, NO_LEADER) or first not in partition.isr:
                continue
            if len(records) == most:
                return records
            records.append(
                changed(
                    topic.topic_id,
                    index,
                    partition,
                    moved(partition, partition._replace(leader=first)),
                )
            )
    return records


def changed(
    topic_id: bytes, index: int, before: PartitionImage, after: PartitionImage
) -> PartitionChanged:
    """Return the record of a change; fields that are as before are left out."""
    now = PartitionChanged(
        topic_id, index, after.leader, after.leader_epoch, after.isr, after.partition_epoch
    )
    if before.offline != after.offline:
        now = now._replace(offline=after.offline)
    if (before.replicas, before.adding, before.removing) == (
        after.replicas,
        after.adding,
        after.removing,
    ):
        return now
    return now._replace(replicas=after.replicas, adding=after.adding, removing=after.removing)


def decide_alter_partition(image: MetadataImage, command: AlterPartition) -> Decision:
    """Change ISRs as their leaders propose; the reply has an AlteredPartition for each change. One
    that is refused does not affect the others.
    """
    records: list[Record] = []
    results = []
    done: dict[tuple[bytes, int], PartitionImage] = {}  # a partition may be named twice
    for change in command.changes:
        key = (change.topic_id, change.partition)
        before = done.get(key) or image.partition(*key)
        try:
            done[key] = after = _change_isr(image, before, change, command.broker_id)
        except KafkaError as error:
            results.append(_make_result(change, error.code, before))
            continue
        if before is not None and after is not before:
            records.append(changed(*key, before, after))
        results.append(_make_result(change, _code_for(change, command.broker_id, after), after))
    return records, tuple(results)


def _code_for(change: Change, leader: int, now: PartitionImage) -> Code:
    """Return an error if the change has removed the broker as leader, or has begun another leader
    epoch: the broker must take the result from the metadata.
    """
    if now.leader != leader:
        return Code.NEW_LEADER_ELECTED
    return Code.NONE if now.leader_epoch == change.leader_epoch else Code.FENCED_LEADER_EPOCH


def _make_result(change: Change, code: Code, now: PartitionImage | None) -> AlteredPartition:
    result = AlteredPartition(change.topic_id, change.partition, int(code))
    if now is None:
        return result
    return result._replace(
        leader=now.leader,
        leader_epoch=now.leader_epoch,
        isr=now.isr,
        partition_epoch=now.partition_epoch,
    )


def _change_isr(
    image: MetadataImage, partition: PartitionImage | None, change: Change, leader: int
) -> PartitionImage:
    if partition is None:
        raise KafkaError(
            Code.UNKNOWN_TOPIC_OR_PARTITION
            if change.topic_id in image.topics
            else Code.UNKNOWN_TOPIC_ID
        )
    if (
        change.leader_epoch > partition.leader_epoch
        or change.partition_epoch > partition.partition_epoch
    ):
        # the leader knows more than this node: another node is the controller now
        raise KafkaError(Code.NOT_CONTROLLER)
    if change.leader_epoch < partition.leader_epoch:
        raise KafkaError(Code.FENCED_LEADER_EPOCH)
    if leader != partition.leader:
        raise KafkaError(Code.INVALID_REQUEST)
    if change.partition_epoch < partition.partition_epoch:
        raise KafkaError(Code.INVALID_UPDATE_VERSION)
    isr = tuple(broker_id for broker_id, _ in change.new_isr)
    if len(set(isr)) < len(isr) or not set(isr) <= set(partition.replicas) or leader not in isr:
        raise KafkaError(Code.INVALID_REQUEST)
    if not all(_eligible(image, *member) for member in change.new_isr) or not set(isr).isdisjoint(
        partition.offline
    ):
        raise KafkaError(Code.INELIGIBLE_REPLICA)
    return partition if isr == partition.isr else moved(partition, partition._replace(isr=isr))


def _eligible(image: MetadataImage, broker_id: int, epoch: int) -> bool:
    """Return whether the broker is alive, and the same process that the leader saw catch up
    (KIP-903): a newer process may have another disk.
    """
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.alive and epoch in (-1, broker.epoch)
