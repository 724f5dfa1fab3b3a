"""Move partitions to other brokers (KIP-455): AlterPartitionReassignments, in Kafka's order of
checks. Knows no time and no session.

The replicas of a partition under way are the target ones, then those to be removed. An added
replica catches up and joins the ISR as any follower does; that completes the move
(partitions.moved). A second target counts from the replicas before the first: replicas that only
the first added are removed at once, and cancelling restores the original replicas.
"""

from collections.abc import Callable, Collection, Iterable

from raftka.limits import RECORDS_OF_REQUEST
from raftka.metadata.commands import (
    AlterReassignments,
    ListReassignments,
    Move,
    MovedTopic,
    OngoingPartition,
    OngoingTopic,
    PartitionResult,
    TopicResults,
)
from raftka.metadata.controller.assignment import check_assigned
from raftka.metadata.controller.partitions import changed, moved
from raftka.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from raftka.metadata.records import Record, Replicas
from raftka.wire.errors import Code, KafkaError, check_limit, quoted

UncleanAllowed = Callable[[str], bool]  # by topic name


def alter_reassignments(
    image: MetadataImage, command: AlterReassignments, unclean: UncleanAllowed
) -> tuple[list[Record], tuple[TopicResults, ...]]:
    """Records, and an answer for each partition that was named; one that is refused does not spoil
    the others.

    Raises POLICY_VIOLATION for too many changes.
    """
    run = _Alteration(image, command.allow_replication_factor_change, unclean)
    answers = tuple(
        [
            TopicResults(topic.name, tuple([run.one(topic, move) for move in topic.partitions]))
            for topic in command.topics
        ]
    )
    check_limit(
        RECORDS_OF_REQUEST, len(run.records), "Unable to perform excessively large batch operation."
    )
    return run.records, answers


class _Alteration:
    def __init__(
        self, image: MetadataImage, factor_may_change: bool, unclean: UncleanAllowed
    ) -> None:
        self.image = image
        self.factor_may_change = factor_may_change
        self.unclean = unclean
        self.records: list[Record] = []
        self.done: dict[tuple[bytes, int], PartitionImage] = {}  # a partition may be named twice

    def one(self, asked: MovedTopic, move: Move) -> PartitionResult:
        try:
            self._move(asked.name, move)
        except KafkaError as error:
            return PartitionResult(move.partition, int(error.code), error.message)
        return PartitionResult(move.partition, 0, None)

    def _move(self, name: str, move: Move) -> None:
        topic = self.image.topic_named(name)
        if topic is None:
            raise KafkaError(
                Code.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {quoted(name)}."
            )
        before = self.done.get((topic.topic_id, move.partition)) or self.image.partition(
            topic.topic_id, move.partition
        )
        if before is None:
            raise KafkaError(
                Code.UNKNOWN_TOPIC_OR_PARTITION,
                f"Unable to find partition {name}:{move.partition}.",
            )
        after = (
            self._cancelled(topic, move.partition, before)
            if move.replicas is None
            else self._changed(before, move.replicas)
        )
        if after != before:
            after = self.done[topic.topic_id, move.partition] = moved(before, after)
            self.records.append(changed(topic.topic_id, move.partition, before, after))

    def _changed(self, before: PartitionImage, target: Replicas) -> PartitionImage:
        check_assigned(self.image, target)
        if not self.factor_may_change:
            _check_factor(before, target)
        original = _original(before)
        dropped = frozenset(before.adding).difference(target)  # wanted for a while
        isr = tuple([each for each in before.isr if each not in dropped])
        if not isr:
            isr = before.isr  # they alone have everything: they go when others have it too
            original += tuple([each for each in isr if each not in original])
        removing = tuple([each for each in original if each not in target])
        now = before._replace(replicas=target + removing, isr=isr)
        return self._led(
            now._replace(
                adding=_sorted(set(target).difference(original)), removing=_sorted(removing)
            )
        )

    def _cancelled(self, topic: TopicImage, index: int, before: PartitionImage) -> PartitionImage:
        if not (before.adding or before.removing):
            raise KafkaError(Code.NO_REASSIGNMENT_IN_PROGRESS)
        original = _original(before)
        isr = tuple([each for each in before.isr if each in original])
        if not isr:
            if not self.unclean(topic.name):
                text = (
                    f"Unable to revert partition assignment for {topic.name}:{index} because it "
                    "would require an unclean leader election."
                )
                raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, text)
            isr = (next((each for each in original if self._serves(before, each)), original[0]),)
        return self._led(before._replace(replicas=original, isr=isr, adding=(), removing=()))

    def _led(self, now: PartitionImage) -> PartitionImage:
        """With a leader if one of the ISR is alive; then the dead have no place in the ISR."""
        if now.leader in now.isr:
            return now
        living = tuple([each for each in now.isr if self._serves(now, each)])
        return now._replace(
            leader=next((each for each in now.replicas if each in living), NO_LEADER),
            isr=living or now.isr,
        )

    def _serves(self, partition: PartitionImage, broker_id: int) -> bool:
        return broker_id not in partition.offline and self.image.alive(broker_id)


def _original(partition: PartitionImage) -> Replicas:
    return tuple([each for each in partition.replicas if each not in partition.adding])


def _sorted(replicas: Collection[int]) -> Replicas:
    return tuple(sorted(replicas))


def _check_factor(before: PartitionImage, target: Replicas) -> None:
    factor = len(set(before.replicas).difference(before.removing))
    if factor != len(target):
        raise KafkaError(
            Code.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {factor} to {len(target)}",
        )


def list_reassignments(
    image: MetadataImage, command: ListReassignments
) -> tuple[OngoingTopic, ...]:
    """List the reassignments under way of the named partitions, or of all when none is named."""
    if command.topics is None:
        found = [_ongoing(topic, range(len(topic.partitions))) for topic in image.topics.values()]
    else:
        named = [(image.topic_named(asked.name), asked.partitions) for asked in command.topics]
        found = [_ongoing(topic, indexes) for topic, indexes in named if topic is not None]
    return tuple([topic for topic in found if topic.partitions])


def _ongoing(topic: TopicImage, indexes: Iterable[int]) -> OngoingTopic:
    there = [
        (index, topic.partitions[index]) for index in indexes if 0 <= index < len(topic.partitions)
    ]
    return OngoingTopic(
        topic.name,
        tuple(
            [
                OngoingPartition(i, p.replicas, p.adding, p.removing)
                for i, p in there
                if p.adding or p.removing
            ]
        ),
    )
