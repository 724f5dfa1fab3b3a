"""Decisions on reassignments (KIP-455): AlterPartitionReassignments, with its checks in Kafka's
order, and ListPartitionReassignments.

The replicas of a partition under way are the target ones, then those to be removed. An added
replica catches up and joins the ISR as any follower does; that completes the move
(partitions.moved). A second target counts from the replicas before the first: replicas that only
the first added are removed at once, and cancelling restores the original replicas.
"""

from collections.abc import Collection, Iterable

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
from raftka.metadata.controller.decision import Decision
from raftka.metadata.controller.draft import Draft
from raftka.metadata.controller.partitions import changed, min_isr_of, moved, with_leader
from raftka.metadata.image import NO_LEADER, PartitionImage, TopicImage
from raftka.metadata.records import Record, Replicas
from raftka.wire.errors import Code, KafkaError, check_limit, quoted


def decide_alter_reassignments(draft: Draft, command: AlterReassignments) -> Decision:
    """Begin and cancel reassignments; the reply has TopicResults with a result for each partition.
    One that is refused does not affect the others.

    Raises POLICY_VIOLATION for too many changes.
    """
    alteration = _Alteration(draft, factor_may_change=command.allow_replication_factor_change)
    results = tuple(
        [
            TopicResults(
                topic.name, tuple([alteration.reassign(topic, move) for move in topic.partitions])
            )
            for topic in command.topics
        ]
    )
    check_limit(
        RECORDS_OF_REQUEST,
        len(alteration.records),
        "Unable to perform excessively large batch operation.",
    )
    return alteration.records, results


class _Alteration:
    """The changes of one command."""

    def __init__(self, draft: Draft, *, factor_may_change: bool) -> None:
        self.image = draft.image
        self.min_isr = min_isr_of(draft.image)
        self.factor_may_change = factor_may_change
        self.allows_unclean_election = draft.environment.allows_unclean_election
        self.cordoned = draft.environment.find_cordoned()
        self.records: list[Record] = []
        self.done: dict[tuple[bytes, int], PartitionImage] = {}  # a partition may be named twice

    def reassign(self, topic: MovedTopic, move: Move) -> PartitionResult:
        try:
            self._change_partition(topic.name, move)
        except KafkaError as error:
            return PartitionResult(move.partition, int(error.code), error.message)
        return PartitionResult(move.partition, 0, None)

    def _change_partition(self, name: str, move: Move) -> None:
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
            self._cancel(topic, move.partition, before)
            if move.replicas is None
            else self._set_target(before, move.replicas)
        )
        if after != before:
            after = moved(before, after, self.min_isr(topic.name))
            self.done[topic.topic_id, move.partition] = after
            self.records.append(changed(topic.topic_id, move.partition, before, after))

    def _set_target(self, before: PartitionImage, target: Replicas) -> PartitionImage:
        check_assigned(self.image, target, None, self.cordoned, before.replicas)
        if not self.factor_may_change:
            _check_factor(before, target)
        original = _original(before)
        dropped = frozenset(before.adding).difference(target)  # added by the target before
        isr = tuple([each for each in before.isr if each not in dropped])
        holders = _holders(before)
        if dropped.issuperset(holders):
            # only these replicas have all records: they are removed once others have them too
            isr = before.isr
            original += tuple([each for each in holders if each not in original])
        removing = tuple([each for each in original if each not in target])
        now = before._replace(replicas=target + removing, isr=isr)
        return self._elect_leader(
            now._replace(
                adding=_sorted(set(target).difference(original)), removing=_sorted(removing)
            )
        )

    def _cancel(self, topic: TopicImage, index: int, before: PartitionImage) -> PartitionImage:
        if not (before.adding or before.removing):
            raise KafkaError(Code.NO_REASSIGNMENT_IN_PROGRESS)
        original = _original(before)
        isr = tuple([each for each in before.isr if each in original])
        if set(original).isdisjoint(_holders(before)):
            if not self.allows_unclean_election(topic.name):
                text = (
                    f"Unable to revert partition assignment for {topic.name}:{index} because it "
                    "would require an unclean leader election."
                )
                raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, text)
            isr = (
                next((each for each in original if self._is_available(before, each)), original[0]),
            )
        return self._elect_leader(
            before._replace(replicas=original, isr=isr, adding=(), removing=())
        )

    def _elect_leader(self, now: PartitionImage) -> PartitionImage:
        """Keep the leader, or take the first replica of the ISR that is alive; dead replicas then
        leave the ISR.
        """
        if now.leader in now.isr:
            return now
        living = tuple([each for each in now.isr if self._is_available(now, each)])
        able = living or [each for each in now.elr if self._is_available(now, each)]
        leader = next((each for each in now.replicas if each in able), NO_LEADER)
        if leader == NO_LEADER:
            return now._replace(leader=NO_LEADER)
        return with_leader(now._replace(isr=living), leader)

    def _is_available(self, partition: PartitionImage, broker_id: int) -> bool:
        return broker_id not in partition.offline and self.image.alive(broker_id)


def _holders(partition: PartitionImage) -> Replicas:
    """Return the replicas that have all committed records; without any, the last leader."""
    return partition.isr or partition.elr or partition.last_known_elr


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


def decide_list_reassignments(draft: Draft, command: ListReassignments) -> Decision:
    """List the reassignments under way, of the named partitions or of all; the reply has an
    OngoingTopic for each topic.

    The controller answers, so that a client sees the reassignment that it has just begun.
    """
    image = draft.image
    if command.topics is None:
        found = [
            _find_ongoing(topic, range(len(topic.partitions))) for topic in image.topics.values()
        ]
    else:
        named = [(image.topic_named(asked.name), asked.partitions) for asked in command.topics]
        found = [_find_ongoing(topic, indexes) for topic, indexes in named if topic is not None]
    return [], tuple([topic for topic in found if topic.partitions])


def _find_ongoing(topic: TopicImage, indexes: Iterable[int]) -> OngoingTopic:
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
