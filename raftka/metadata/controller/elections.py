"""Decisions on leaders: ElectLeaders (KIP-460) elects the preferred leader, or any living replica
of a partition that has no replica in sync.
"""

from collections.abc import Iterable

from raftka.limits import RECORDS_OF_REQUEST
from raftka.metadata.commands import ElectLeaders, PartitionResult, TopicResults
from raftka.metadata.controller.decision import Decision
from raftka.metadata.controller.draft import Draft
from raftka.metadata.controller.partitions import changed, min_isr_of, moved, with_leader
from raftka.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from raftka.metadata.records import Record
from raftka.wire.errors import Code, KafkaError, check_limit, quoted

PREFERRED, UNCLEAN = 0, 1  # election types

NOT_NEEDED = "Leader election not needed for topic partition."


def decide_elect_leaders(draft: Draft, command: ElectLeaders) -> Decision:
    """Elect leaders; the reply has TopicResults with a result for each partition. A command for all
    partitions gets results only where an election is needed.

    Raises INVALID_REQUEST for an unknown type, POLICY_VIOLATION for too many elections.
    """
    image = draft.image
    if command.election_type not in (PREFERRED, UNCLEAN):
        raise KafkaError(Code.INVALID_REQUEST, f"Unknown election type {command.election_type}")
    elections = _Elections(image, command.election_type)
    if command.topics is None:
        results = [
            TopicResults(topic.name, tuple(elections.elect_where_needed(topic)))
            for topic in image.topics.values()
        ]
    else:
        results = [
            TopicResults(
                topic.name,
                tuple([elections.elect(topic.name, index) for index in topic.partitions]),
            )
            for topic in command.topics
        ]
    check_limit(
        RECORDS_OF_REQUEST,
        len(elections.records),
        "Unable to perform excessively large batch operation.",
    )
    return elections.records, tuple(results)


class _Elections:
    """The elections of one command."""

    def __init__(self, image: MetadataImage, election_type: int) -> None:
        self.image = image
        self.min_isr = min_isr_of(image)
        self.unclean = election_type == UNCLEAN
        self.records: list[Record] = []
        self.done: set[tuple[bytes, int]] = set()  # a partition may be named twice

    def elect_where_needed(self, topic: TopicImage) -> Iterable[PartitionResult]:
        results = (self.elect(topic.name, index) for index in range(len(topic.partitions)))
        return [result for result in results if result.error != Code.ELECTION_NOT_NEEDED]

    def elect(self, name: str, index: int) -> PartitionResult:
        try:
            self._change_leader(name, index)
        except KafkaError as error:
            return PartitionResult(index, int(error.code), error.message)
        return PartitionResult(index, 0, None)

    def _change_leader(self, name: str, index: int) -> None:
        topic = self.image.topic_named(name)
        if topic is None:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {quoted(name)}")
        before = self.image.partition(topic.topic_id, index)
        if before is None:
            raise KafkaError(
                Code.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
            )
        if (topic.topic_id, index) in self.done:
            raise KafkaError(Code.ELECTION_NOT_NEEDED, NOT_NEEDED)
        after = self._elect_any(before) if self.unclean else self._elect_preferred(before)
        self.done.add((topic.topic_id, index))
        now = moved(before, after, self.min_isr(name))
        self.records.append(changed(topic.topic_id, index, before, now))

    def _elect_preferred(self, before: PartitionImage) -> PartitionImage:
        first = before.replicas[0]
        if before.leader == first:
            raise KafkaError(Code.ELECTION_NOT_NEEDED, NOT_NEEDED)
        able = before.eligible if before.leader == NO_LEADER else before.isr
        if first not in able or not self._is_available(before, first):
            raise KafkaError(
                Code.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
            )
        isr = (
            before.isr
            if before.leader != NO_LEADER
            else tuple([each for each in before.isr if self._is_available(before, each)])
        )
        return with_leader(before._replace(isr=isr), first)

    def _elect_any(self, before: PartitionImage) -> PartitionImage:
        """Prefer a member of the ISR, then an eligible replica, then the last leader. The topic's
        settings do not matter: the administrator has asked for an unclean election.
        """
        if before.leader != NO_LEADER:
            raise KafkaError(Code.ELECTION_NOT_NEEDED, NOT_NEEDED)
        living = [each for each in before.replicas if self._is_available(before, each)]
        if not living:
            raise KafkaError(
                Code.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                "Eligible topic partition leaders are not available.",
            )
        clean = [each for each in living if each in before.isr]
        eligible = [each for each in living if each in before.elr]
        last = [each for each in living if each in before.last_known_elr]
        leader = (clean or eligible or last or living)[0]
        return with_leader(before._replace(isr=tuple(clean)), leader)

    def _is_available(self, partition: PartitionImage, broker_id: int) -> bool:
        return broker_id not in partition.offline and self.image.alive(broker_id)
