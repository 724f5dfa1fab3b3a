"""ElectLeaders (KIP-460): the preferred leader, or any replica where none that is in sync is left.
Knows no time and no session.
"""

from collections.abc import Iterable

from raftka.limits import RECORDS_OF_REQUEST
from raftka.metadata.commands import ElectLeaders, PartitionResult, TopicResults
from raftka.metadata.controller.partitions import changed, moved
from raftka.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from raftka.metadata.records import Record
from raftka.wire.errors import Code, KafkaError, check_limit, quoted

PREFERRED, UNCLEAN = 0, 1  # election types

NOT_NEEDED = "Leader election not needed for topic partition."


def elect_leaders(
    image: MetadataImage, command: ElectLeaders
) -> tuple[list[Record], tuple[TopicResults, ...]]:
    """Records, and an answer for each partition; when all are meant, only for those that the
    election concerns.

    Raises INVALID_REQUEST for an unknown type, POLICY_VIOLATION for too many elections.
    """
    if command.election_type not in (PREFERRED, UNCLEAN):
        raise KafkaError(Code.INVALID_REQUEST, f"Unknown election type {command.election_type}")
    run = _Elections(image, command.election_type)
    if command.topics is None:
        answers = [
            TopicResults(topic.name, tuple(run.whole(topic))) for topic in image.topics.values()
        ]
    else:
        answers = [
            TopicResults(
                asked.name, tuple([run.one(asked.name, index) for index in asked.partitions])
            )
            for asked in command.topics
        ]
    check_limit(
        RECORDS_OF_REQUEST, len(run.records), "Unable to perform excessively large batch operation."
    )
    return run.records, tuple(answers)


class _Elections:
    def __init__(self, image: MetadataImage, election_type: int) -> None:
        self.image = image
        self.unclean = election_type == UNCLEAN
        self.records: list[Record] = []
        self.done: set[tuple[bytes, int]] = set()  # a partition may be named twice

    def whole(self, topic: TopicImage) -> Iterable[PartitionResult]:
        answers = (self.one(topic.name, index) for index in range(len(topic.partitions)))
        return [answer for answer in answers if answer.error != Code.ELECTION_NOT_NEEDED]

    def one(self, name: str, index: int) -> PartitionResult:
        try:
            self._elect(name, index)
        except KafkaError as error:
            return PartitionResult(index, int(error.code), error.message)
        return PartitionResult(index, 0, None)

    def _elect(self, name: str, index: int) -> None:
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
        after = self._unclean(before) if self.unclean else self._preferred(before)
        self.done.add((topic.topic_id, index))
        self.records.append(changed(topic.topic_id, index, before, moved(before, after)))

    def _preferred(self, before: PartitionImage) -> PartitionImage:
        first = before.replicas[0]
        if before.leader == first:
            raise KafkaError(Code.ELECTION_NOT_NEEDED, NOT_NEEDED)
        if first not in before.isr or not self._serves(before, first):
            raise KafkaError(
                Code.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
            )
        isr = (
            before.isr
            if before.leader != NO_LEADER
            else tuple([each for each in before.isr if self._serves(before, each)])
        )
        return before._replace(leader=first, isr=isr)

    def _unclean(self, before: PartitionImage) -> PartitionImage:
        """Also where the topic's settings forbid it: this is what the request is for. A member of
        the ISR comes first.
        """
        if before.leader != NO_LEADER:
            raise KafkaError(Code.ELECTION_NOT_NEEDED, NOT_NEEDED)
        living = [each for each in before.replicas if self._serves(before, each)]
        if not living:
            raise KafkaError(
                Code.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                "Eligible topic partition leaders are not available.",
            )
        clean = [each for each in living if each in before.isr]
        return before._replace(leader=(clean or living)[0], isr=tuple(clean) or (living[0],))

    def _serves(self, partition: PartitionImage, broker_id: int) -> bool:
        return broker_id not in partition.offline and self.image.alive(broker_id)
