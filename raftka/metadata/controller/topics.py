"""Creating, growing and deleting topics: every check of these requests in Kafka's order, and the
records that follow. Knows no time.

Each topic is answered for itself; one that is refused does not spoil the others. All that are
granted become one atomic batch.
"""

import re
from collections import Counter
from random import Random
from typing import Protocol

from raftka.limits import PARTITIONS, PARTITIONS_OF_REQUEST, TOPICS, Limit
from raftka.metadata.commands import (
    CreatedTopic,
    CreatePartitions,
    CreateTopics,
    DeletedTopic,
    DeleteTopics,
    DoomedTopic,
    MorePartitions,
    NewTopic,
    TopicResult,
)
from raftka.metadata.configs.settings import NodeSettings, SettingError, check_topic_configs
from raftka.metadata.controller.assignment import (
    NewPartition,
    assigned,
    bad_assignment,
    check_assigned,
    choose,
)
from raftka.metadata.image import TOPIC, MetadataImage, TopicImage
from raftka.metadata.records import ConfigSet, PartitionsAdded, Record, TopicCreated, TopicDeleted
from raftka.wire.errors import Code, KafkaError, check_limit, limit_of, quoted

NO_ID = bytes(16)
LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")
CLUSTER_METADATA = "__cluster_metadata"  # Kafka's name for the metadata log: no topic
NAME_LENGTH = 249  # a directory is called name-partition, in 255 bytes

Partitions = tuple[NewPartition, ...]


class Names(Protocol):
    """Finds a topic whose name differs from the given one in nothing but `.` and `_`."""

    def like(self, name: str) -> str | None: ...


class TopicNames:
    """Names that differ only in `.` and `_`: metric names make no difference between them, so the
    second one is refused.
    """

    def __init__(self, image: MetadataImage) -> None:
        self._by_folded: dict[str, str] = {}
        for name in image.topic_ids:
            self.add(name)

    def add(self, name: str) -> None:
        if "." in name or "_" in name:
            self._by_folded[name.replace(".", "_")] = name

    def remove(self, name: str) -> None:
        self._by_folded.pop(name.replace(".", "_"), None)

    def like(self, name: str) -> str | None:
        return self._by_folded.get(name.replace(".", "_"))


class NamesAbove:
    """The names as they will be when a batch that is not written yet is applied."""

    def __init__(self, below: Names) -> None:
        self._below = below
        self._changed: dict[str, str | None] = {}

    def add(self, name: str) -> None:
        if "." in name or "_" in name:
            self._changed[name.replace(".", "_")] = name

    def remove(self, name: str) -> None:
        self._changed[name.replace(".", "_")] = None

    def like(self, name: str) -> str | None:
        folded = name.replace(".", "_")
        return self._changed[folded] if folded in self._changed else self._below.like(name)


class TopicCreation:
    """One CreateTopics under way."""

    def __init__(
        self,
        image: MetadataImage,
        names: Names,
        settings: NodeSettings,
        random: Random,
        hits: list[Limit],
    ) -> None:
        """`hits` gets the limits that were hit."""
        self.image = image
        self.names = names
        self.settings = settings
        self.random = random
        self.hits = hits
        self.records: list[Record] = []
        self.topics = len(image.topics)
        self.partitions = image.partition_count
        self.folded: dict[str, str] = {}  # of topics created by this very request

    def run(self, command: CreateTopics) -> tuple[CreatedTopic, ...]:
        times = Counter(topic.name for topic in command.topics)
        asked = sum(self._partitions_asked(topic) for topic in command.topics)
        answers: dict[str, CreatedTopic] = {}
        for topic in command.topics:
            try:
                if times[topic.name] > 1:
                    raise KafkaError(Code.INVALID_REQUEST, "Duplicate topic name.")
                check_limit(
                    PARTITIONS_OF_REQUEST,
                    asked,
                    "Excessively large number of partitions per request.",
                )
                answers[topic.name] = self._create(topic)
            except KafkaError as error:
                self.hits += limit_of(error)
                answers[topic.name] = CreatedTopic(
                    topic.name, NO_ID, int(error.code), error.message
                )
        return tuple(answers.values())

    def _partitions_asked(self, topic: NewTopic) -> int:
        if topic.assignments:
            return len(topic.assignments)
        return (
            int(self.settings["num.partitions"])
            if topic.num_partitions == -1
            else max(0, topic.num_partitions)
        )

    def _create(self, topic: NewTopic) -> CreatedTopic:
        if topic.name == CLUSTER_METADATA:
            raise KafkaError(
                Code.INVALID_REQUEST,
                f"Creation of internal topic {CLUSTER_METADATA} is prohibited.",
            )
        self._check_name(topic.name)
        configs = dict(topic.configs)  # of a name given twice the last counts
        try:
            check_topic_configs(configs)
        except SettingError as error:
            raise KafkaError(Code.INVALID_CONFIG, str(error)) from None
        partitions = self._assigned(topic) if topic.assignments else self._placed(topic)
        self._check_room(len(partitions))
        topic_id = new_topic_id(self.random)
        self.records.append(TopicCreated(topic.name, topic_id, partitions))
        self.records += [
            ConfigSet(TOPIC, topic.name, name, value) for name, value in configs.items()
        ]
        self.topics += 1
        self.partitions += len(partitions)
        self.folded[topic.name.replace(".", "_")] = topic.name
        return CreatedTopic(topic.name, topic_id, 0, None, len(partitions), len(partitions[0][0]))

    def _check_name(self, name: str) -> None:
        check_topic_name(name)
        if name in self.image.topic_ids:
            raise KafkaError(Code.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        other = self.names.like(name) or self.folded.get(name.replace(".", "_"))
        if other is not None:
            raise KafkaError(
                Code.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {other}",
            )

    def _check_room(self, partitions: int) -> None:
        check_limit(TOPICS, self.topics + 1)
        check_limit(PARTITIONS, self.partitions + partitions)

    def _placed(self, topic: NewTopic) -> Partitions:
        factor = (
            self.settings["default.replication.factor"]
            if topic.replication_factor == -1
            else topic.replication_factor
        )
        count = self._partitions_asked(topic)
        if factor <= 0:
            raise KafkaError(
                Code.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if count <= 0:
            raise KafkaError(
                Code.INVALID_PARTITIONS,
                "Number of partitions was set to an invalid non-positive value.",
            )
        return choose(self.image, count, factor, self.random)

    def _assigned(self, topic: NewTopic) -> Partitions:
        given = "A manual partition assignment was specified, but"
        if topic.replication_factor != -1:
            raise KafkaError(Code.INVALID_REQUEST, f"{given} replication factor was not set to -1.")
        if topic.num_partitions != -1:
            raise KafkaError(Code.INVALID_REQUEST, f"{given} numPartitions was not set to -1.")
        assignments = dict(topic.assignments)
        if len(assignments) < len(topic.assignments):
            raise bad_assignment("a partition is assigned more than once")
        factor = len(topic.assignments[0][1])
        for _, replicas in topic.assignments:
            check_assigned(self.image, replicas, factor)
        if sorted(assignments) != list(range(len(assignments))):
            raise bad_assignment("partitions should be a consecutive 0-based integer sequence")
        return assigned(
            self.image, [assignments[index] for index in range(len(assignments))], 0, factor
        )


def create_partitions(
    image: MetadataImage, command: CreatePartitions, random: Random, hits: list[Limit]
) -> tuple[list[Record], tuple[TopicResult, ...]]:
    """Records, and one answer for each topic that was named; one named twice is refused, once.
    `hits` gets the limits that were hit.
    """
    times = Counter(topic.name for topic in command.topics)
    records: list[Record] = []
    answers: dict[str, TopicResult] = {}
    partitions = image.partition_count
    for topic in command.topics:
        try:
            if times[topic.name] > 1:
                raise KafkaError(Code.INVALID_REQUEST, "Duplicate topic name.")
            added = _more_partitions(image, topic, partitions, random)
            records.append(added)
            partitions += len(added.partitions)
            answers[topic.name] = TopicResult(topic.name, 0, None)
        except KafkaError as error:
            hits += limit_of(error)
            answers[topic.name] = TopicResult(topic.name, int(error.code), error.message)
    return records, tuple(answers.values())


def _more_partitions(
    image: MetadataImage, asked: MorePartitions, partitions: int, random: Random
) -> PartitionsAdded:
    topic = image.topic_named(asked.name)
    if topic is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)
    there = len(topic.partitions)
    more = asked.total - there
    if more == 0:
        raise KafkaError(Code.INVALID_PARTITIONS, f"Topic already has {there} partition(s).")
    if more < 0:
        text = (
            f"The topic {asked.name} currently has {there} partition(s); {asked.total} would "
            "not be an increase."
        )
        raise KafkaError(Code.INVALID_PARTITIONS, text)
    if asked.assignments is not None and len(asked.assignments) != more:
        text = (
            f"Attempted to add {more} additional partition(s), but only "
            f"{len(asked.assignments)} assignment(s) were specified."
        )
        raise bad_assignment(text)
    check_limit(PARTITIONS_OF_REQUEST, more, "Excessively large number of partitions per request.")
    check_limit(PARTITIONS, partitions + more)
    factor = len(topic.partitions[0].replicas)
    if asked.assignments is not None:
        return PartitionsAdded(
            topic.topic_id, there, assigned(image, asked.assignments, there, factor)
        )
    return PartitionsAdded(topic.topic_id, there, choose(image, more, factor, random))


def check_topic_name(name: str) -> None:
    """Raises INVALID_TOPIC_EXCEPTION."""
    if not name:
        wrong = "the empty string is not allowed"
    elif name in (".", ".."):
        wrong = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH:
        wrong = (
            f"the length of '{quoted(name)}' is longer than the max allowed length {NAME_LENGTH}"
        )
    elif not LEGAL_NAME.fullmatch(name):
        wrong = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'"
        )
    else:
        return
    raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {wrong}")


def new_topic_id(random: Random) -> bytes:
    """A UUID of version 4: never one of the ids that Kafka keeps for itself (zero, one)."""
    number = random.getrandbits(128) & ~(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62
    return number.to_bytes(16, "big")


TWICE = "The provided topic name maps to an ID that was already supplied."  # Kafka's words


def delete_topics(
    image: MetadataImage, command: DeleteTopics, settings: NodeSettings
) -> tuple[list[Record], tuple[DeletedTopic, ...]]:
    """Records, and one answer for each topic that was named; one named twice is refused, once."""
    times = Counter([doomed for doomed in command.topics if wrongly_named(doomed) is None])
    found = {doomed: _find(image, doomed) for doomed in times}
    ids = Counter(topic.topic_id for topic in found.values() if topic is not None)
    records: list[Record] = []
    answers = [
        DeletedTopic(doomed.name, doomed.topic_id or NO_ID, int(Code.INVALID_REQUEST), wrong)
        for doomed in command.topics
        if (wrong := wrongly_named(doomed)) is not None
    ]
    for doomed, topic in found.items():
        try:
            if times[doomed] > 1:
                raise KafkaError(
                    Code.INVALID_REQUEST,
                    "Duplicate topic name." if doomed.name is not None else "Duplicate topic id.",
                )
            # by its name and by its id: one answer
            if topic is not None and ids[topic.topic_id] > 1:
                if doomed.name is not None or times[DoomedTopic(topic.name)] > 1:
                    answers.append(
                        DeletedTopic(topic.name, topic.topic_id, int(Code.INVALID_REQUEST), TWICE)
                    )
                continue
            topic = _checked(doomed, topic, settings)
            records.append(TopicDeleted(topic.topic_id))
            answers.append(DeletedTopic(topic.name, topic.topic_id, 0, None))
        except KafkaError as error:
            answers.append(
                DeletedTopic(doomed.name, doomed.topic_id or NO_ID, int(error.code), error.message)
            )
    return records, tuple(answers)


def _find(image: MetadataImage, doomed: DoomedTopic) -> TopicImage | None:
    if doomed.name is not None:
        return image.topic_named(doomed.name)
    return image.topics.get(doomed.topic_id or NO_ID)


def wrongly_named(doomed: DoomedTopic) -> str | None:
    """Say why an entry with a name and an id, or with neither, is refused; None: it is not. It is
    answered each time that it comes.
    """
    by_id = doomed.topic_id is not None and doomed.topic_id != NO_ID
    if by_id is not (doomed.name is not None):
        return None
    return (
        "You may not specify both topic name and topic id."
        if by_id
        else "Neither topic name nor id were specified."
    )


def _checked(doomed: DoomedTopic, topic: TopicImage | None, settings: NodeSettings) -> TopicImage:
    if topic is None and doomed.name is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    if topic is None:
        raise KafkaError(
            Code.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    if not settings["delete.topic.enable"]:
        raise KafkaError(Code.TOPIC_DELETION_DISABLED)
    return topic
