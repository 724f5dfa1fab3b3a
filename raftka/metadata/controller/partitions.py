"""Choose leaders and ISRs of partitions: from the brokers that are alive, and from leaders'
proposals (AlterPartition, KIP-497).

Functions from an image to records; the controller says when. Every ISR member has flushed all that
was ever acknowledged, so any of them may lead; nobody else may, unless the topic allows unclean
election. Knows no time and no session.
"""

from collections.abc import Callable, Collection

from raftka.metadata.commands import AlteredPartition, AlterPartition, Change
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
    """The partition as it should be, now that these are alive and those have lost their disk;
    itself if it is so already.

    With a leader, the ISR is those who live: the high watermark must not wait for the dead. Without
    one nothing moves, so all members of the ISR keep their place, and whichever comes back first
    may lead. A replica in a directory that failed is dead, whatever its broker is.
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
    """`after` with its epochs, and without the reassignment that it completes.

    The leader epoch moves too when a replica goes for good: should it come back before it has
    noticed, it removes a log that its fetches have told of. None of these is answered then, because
    they name the epoch before.
    """
    after = _completed(after)
    if after.offline:
        after = after._replace(
            offline=tuple([each for each in after.offline if each in after.replicas])
        )
    gone = before.replicas is not after.replicas and not set(before.replicas) <= set(after.replicas)
    epoch = before.leader_epoch + (gone or after.leader != before.leader)
    return after._replace(leader_epoch=epoch, partition_epoch=before.partition_epoch + 1)


def _completed(partition: PartitionImage) -> PartitionImage:
    """A reassignment is complete when all that it adds are in the ISR: then what it removes goes.
    Not without a leader: who lives is unknown.
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
    """Each partition as it should be with the brokers that are alive in the image: whatever a
    broker's death, shutdown or return comes to.

    A partition without a leader is given to a broker that the controller has `heard` itself. Into
    an ISR only a leader brings a broker.
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


def alter(
    image: MetadataImage, command: AlterPartition
) -> tuple[list[Record], tuple[AlteredPartition, ...]]:
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
        if before is not None and after is not before:
            records.append(changed(*key, before, after))
        answers.append(_answer(change, _code_for(change, command.broker_id, after), after))
    return records, tuple(answers)


def _code_for(change: Change, leader: int, now: PartitionImage) -> Code:
    """A broker that this change has removed as leader, or the leader of another epoch, must take
    the result from the metadata.
    """
    if now.leader != leader:
        return Code.NEW_LEADER_ELECTED
    return Code.NONE if now.leader_epoch == change.leader_epoch else Code.FENCED_LEADER_EPOCH


def _answer(change: Change, code: Code, now: PartitionImage | None) -> AlteredPartition:
    answer = AlteredPartition(change.topic_id, change.partition, int(code))
    if now is None:
        return answer
    return answer._replace(
        leader=now.leader,
        leader_epoch=now.leader_epoch,
        isr=now.isr,
        partition_epoch=now.partition_epoch,
    )


def _altered(
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
        # the leader knows more than we do: then we are not the controller any more
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
    """Alive, and still the process that the leader saw catch up (KIP-903): a newer one may have
    another disk.
    """
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.alive and epoch in (-1, broker.epoch)
