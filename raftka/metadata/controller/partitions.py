"""Choose leaders and ISRs of partitions: from the brokers that are alive, and from leaders'
proposals (AlterPartition, KIP-497).

Functions from an image to records; the controller calls them when brokers come and go. Every member
of the ISR has flushed all acknowledged records, so any member may lead; so may eligible replicas.
Other replicas may lead only if the topic allows unclean election.

Eligible leader replicas (KIP-966): while the ISR is smaller than min.insync.replicas, its leader
commits nothing. So a replica that leaves such an ISR has all that is committed, until it loses
records itself. The ISR may become empty; then the first eligible replica that is alive leads. When
none is left, the last leader leads as soon as it is back: it may have lost records, as all others.
A leader commits nothing either while it knows of eligible replicas (`LeaderState`). So it does no
harm that it hears of another min.insync.replicas later, or earlier, than the controller.
"""

from collections.abc import Callable, Collection

from raftka.metadata.commands import AlteredPartition, AlterPartition, Change
from raftka.metadata.controller.decision import Decision
from raftka.metadata.image import (
    BROKER,
    NO_LEADER,
    TOPIC,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from raftka.metadata.records import ConfigSet, PartitionChanged, Record, Replicas
from raftka.versions import ELR_VERSION
from raftka.wire.errors import Code, KafkaError

Alive = frozenset[int]  # broker ids: not fenced, not shutting down
# by topic name and ISR: may a replica outside that ISR lead?
Unclean = Callable[[str, Replicas], bool]
MIN_ISR = "min.insync.replicas"
# by topic name; 0: there are no eligible leader replicas (eligible.leader.replicas.version 0)
MinIsr = Callable[[str], int]


def settle(
    topic: str,
    partition: PartitionImage,
    alive: Alive,
    unclean: Unclean,
    min_isr: MinIsr,
    lost: Collection[int] = (),
    doubtful: Collection[int] = (),
) -> PartitionImage:
    """Return the partition as it should be when the brokers `alive` are alive, the brokers `lost`
    have lost their disk, and the brokers `doubtful` may have lost records; the same object if it is
    so already.

    With a leader, dead replicas leave the ISR: the high watermark must not wait for them. Without a
    leader all members of the ISR keep their place, or are eligible, and the first that comes back
    may lead. A replica in a failed directory counts as dead, also if its broker is alive.
    """
    least = min_isr(topic)
    before = partition if least else without_elr(partition)
    alive = alive.difference(before.offline)
    isr = tuple([each for each in before.isr if each not in lost]) if lost else before.isr
    eligible = [each for each in (*isr, *before.elr) if each not in lost and each not in doubtful]
    living = tuple([each for each in isr if each in alive])
    leader = NO_LEADER
    if living:
        isr = living
        leader = (
            before.leader
            if before.leader in living
            else next(each for each in before.replicas if each in living)
        )
    elif any(each in alive for each in eligible):
        leader = next(each for each in before.replicas if each in alive and each in eligible)
        isr = (leader,)
    elif not eligible and any(each in alive and each not in lost for each in before.last_known_elr):
        (leader,) = isr = before.last_known_elr
    elif not alive.isdisjoint(before.replicas) and unclean(topic, _reachable(eligible, before)):
        leader = next(each for each in before.replicas if each in alive)
        isr = (leader,)
    after = with_elr(before, before._replace(leader=leader, isr=isr), least, lost, doubtful)
    return partition if after == partition else moved(partition, after, least, lost, doubtful)


def _reachable(replicas: Collection[int], partition: PartitionImage) -> Replicas:
    return tuple([each for each in replicas if each not in partition.offline])


def with_leader(partition: PartitionImage, leader: int) -> PartitionImage:
    """Return the partition with this leader; outside the ISR it begins an ISR of its own."""
    isr = partition.isr if leader in partition.isr else (leader,)
    return partition._replace(leader=leader, isr=isr)


def moved(
    before: PartitionImage,
    after: PartitionImage,
    min_isr: int,
    lost: Collection[int] = (),
    doubtful: Collection[int] = (),
) -> PartitionImage:
    """Return `after` with new epochs, without the reassignment that it completes, and with its
    eligible replicas (`with_elr` has the other parameters).

    The leader epoch also grows when a replica is removed. The removed broker may fetch before it
    knows of its removal, and then delete the log that its fetches reported. The new leader epoch
    fences these fetches.
    """
    after = _complete_reassignment(after)
    if after.offline:
        after = after._replace(
            offline=tuple([each for each in after.offline if each in after.replicas])
        )
    after = with_elr(before, after, min_isr, lost, doubtful)
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
    min_isr = min_isr_of(image)

    def after(topic: TopicImage, index: int, before: PartitionImage) -> PartitionImage:
        if before.leader == NO_LEADER:
            return settle(topic.name, before, heard, unclean, min_isr)
        if alive.issuperset(before.isr) and not before.offline and not before.elr:
            return before
        return settle(topic.name, before, alive, unclean, min_isr)

    return after


def to_preferred(image: MetadataImage, most: int) -> list[Record]:
    """Give up to `most` partitions back to their first replica where that is in the ISR (and so
    alive, as there is a leader).
    """
    records: list[Record] = []
    min_isr = min_isr_of(image)
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
                    moved(partition, partition._replace(leader=first), min_isr(topic.name)),
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
    if before.elr != after.elr:
        now = now._replace(elr=after.elr)
    if before.last_known_elr != after.last_known_elr:
        now = now._replace(last_known_elr=after.last_known_elr)
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
        elr=now.elr,
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
    if isr == partition.isr:
        return partition
    min_isr = min_isr_of(image)(image.topics[change.topic_id].name)
    return moved(partition, partition._replace(isr=isr), min_isr)


def _eligible(image: MetadataImage, broker_id: int, epoch: int) -> bool:
    """Return whether the broker is alive, and the same process that the leader saw catch up
    (KIP-903): a newer process may have another disk.
    """
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.alive and epoch in (-1, broker.epoch)


def elr_enabled(image: MetadataImage) -> bool:
    return image.features.get(ELR_VERSION, 0) > 0


def min_isr_of(image: MetadataImage) -> MinIsr:
    """Return the function that has min.insync.replicas of a topic. While the feature is on, no
    single broker has a value of its own.
    """
    if not elr_enabled(image):
        return lambda topic: 0
    common = image.config(BROKER, "").get(MIN_ISR, "1")
    return lambda topic: int(image.config(TOPIC, topic).get(MIN_ISR, common))


def with_elr(
    before: PartitionImage,
    after: PartitionImage,
    min_isr: int,
    lost: Collection[int] = (),
    doubtful: Collection[int] = (),
) -> PartitionImage:
    """Return `after` with its eligible replicas and its last leader. `min_isr`: as MinIsr.

    `lost`: brokers that have lost their disk. `doubtful`: those that may have lost records.
    """
    if not min_isr:
        return without_elr(after)
    isr = after.isr if after.leader != NO_LEADER else ()
    if len(isr) >= min(min_isr, len(after.replicas)):
        return after._replace(elr=(), last_known_elr=())
    candidates = set(after.isr)
    # after an unclean election no earlier replica has what is committed from now on
    if not isr or not set(isr).isdisjoint(before.eligible):
        candidates.update(before.eligible)
    elr = candidates.intersection(after.replicas).difference(isr, lost, doubtful)
    last = () if isr else _last_leader(before)
    return after._replace(
        isr=isr,
        elr=tuple(sorted(elr)),
        last_known_elr=tuple(
            [each for each in last if each in after.replicas and each not in lost]
        ),
    )


def without_elr(partition: PartitionImage) -> PartitionImage:
    """Return the partition as it is without the feature: an ISR is never empty, and its last
    members keep their places.
    """
    if not (partition.elr or partition.last_known_elr):
        return partition
    isr = partition.isr or partition.elr or partition.last_known_elr
    return partition._replace(isr=isr, elr=(), last_known_elr=())


def _last_leader(before: PartitionImage) -> Replicas:
    """Return the leader that the partition had. One that lost it before the feature was on has a
    member of its ISR in that place.
    """
    if before.leader != NO_LEADER:
        return (before.leader,)
    return before.last_known_elr or before.isr[:1]


def records_of_feature(image: MetadataImage, default: int) -> list[Record]:
    """Return the records that go with the feature's begin: min.insync.replicas for all brokers
    (`default`, if there is none yet), and for no single one.
    """
    records: list[Record] = []
    if MIN_ISR not in image.config(BROKER, ""):
        records.append(ConfigSet(BROKER, "", MIN_ISR, str(default)))
    own = [
        name
        for (kind, name), values in image.configs.items()
        if kind == BROKER and name and MIN_ISR in values
    ]
    return records + [ConfigSet(BROKER, name, MIN_ISR, None) for name in own]
