"""Creating and deleting topics: every check of CreateTopics and DeleteTopics in Kafka's order, and the records that follow. Knows no time.

Each topic is answered for itself; one that is refused does not spoil the others. All that are granted become one atomic batch.
"""

import re
from collections import Counter
from random import Random

from raftka.limits import PARTITIONS, PARTITIONS_OF_REQUEST, TOPICS, LimitExceeded
from raftka.metadata.commands import CreatedTopic, CreateTopics, DeletedTopic, DeleteTopics, DoomedTopic, NewTopic
from raftka.metadata.image import TOPIC, MetadataImage, TopicImage
from raftka.metadata.placement import place
from raftka.metadata.records import ConfigSet, Record, Replicas, TopicCreated, TopicDeleted
from raftka.metadata.settings import NodeSettings, SettingError, check_topic_configs
from raftka.wire.errors import Code, KafkaError

NO_ID = bytes(16)
LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")
NAME_LENGTH = 249  # a directory is called name-partition, in 255 bytes

Partitions = tuple[tuple[Replicas, Replicas, int], ...]  # (replicas, isr, leader)


class TopicNames:
    """Names that differ only in `.` and `_`: metric names make no difference between them, so the second one is refused."""

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


class TopicCreation:
    """One CreateTopics under way."""

    def __init__(self, image: MetadataImage, names: TopicNames, settings: NodeSettings, random: Random) -> None:
        self.image = image
        self.names = names
        self.settings = settings
        self.random = random
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
                _check_limit(PARTITIONS_OF_REQUEST.value, asked, "Excessively large number of partitions per request.")
                answers[topic.name] = self._create(topic)
            except KafkaError as error:
                answers[topic.name] = CreatedTopic(topic.name, NO_ID, int(error.code), error.message)
        return tuple(answers.values())

    def _partitions_asked(self, topic: NewTopic) -> int:
        if topic.assignments:
            return len(topic.assignments)
        return int(self.settings["num.partitions"]) if topic.num_partitions == -1 else max(0, topic.num_partitions)

    def _create(self, topic: NewTopic) -> CreatedTopic:
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
        self.records += [ConfigSet(TOPIC, topic.name, name, value) for name, value in configs.items()]
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
            raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")

    def _check_room(self, partitions: int) -> None:
        _check_limit(TOPICS.value, self.topics + 1, str(LimitExceeded(TOPICS, self.topics + 1)))
        _check_limit(PARTITIONS.value, self.partitions + partitions, str(LimitExceeded(PARTITIONS, self.partitions + partitions)))

    def _placed(self, topic: NewTopic) -> Partitions:
        factor = self.settings["default.replication.factor"] if topic.replication_factor == -1 else topic.replication_factor
        count = self._partitions_asked(topic)
        if factor <= 0:
            raise KafkaError(Code.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1 to use the default value.")
        if count <= 0:
            raise KafkaError(Code.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
        brokers = [(broker.broker_id, broker.rack) for broker in self.image.brokers.values() if broker.alive]
        if factor > len(brokers):
            raise KafkaError(
                Code.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be reached "
                f"because only {len(brokers)} broker(s) are alive.",
            )
        return tuple((replicas, replicas, replicas[0]) for replicas in place(count, factor, brokers, self.random))

    def _assigned(self, topic: NewTopic) -> Partitions:
        given = "A manual partition assignment was specified, but"
        if topic.replication_factor != -1:
            raise KafkaError(Code.INVALID_REQUEST, f"{given} replication factor was not set to -1.")
        if topic.num_partitions != -1:
            raise KafkaError(Code.INVALID_REQUEST, f"{given} numPartitions was not set to -1.")
        assignments = dict(topic.assignments)
        if len(assignments) < len(topic.assignments):
            raise _bad_assignment("a partition is assigned more than once")
        factor = len(topic.assignments[0][1])
        partitions = {index: self._assigned_partition(index, replicas, factor) for index, replicas in topic.assignments}
        if sorted(assignments) != list(range(len(assignments))):
            raise _bad_assignment("partitions should be a consecutive 0-based integer sequence")
        return tuple(partitions[index] for index in range(len(partitions)))

    def _assigned_partition(self, index: int, replicas: Replicas, factor: int) -> tuple[Replicas, Replicas, int]:
        includes = "The manual partition assignment includes"
        if not replicas:
            raise _bad_assignment(f"{includes} an empty replica list.")
        for position, broker_id in enumerate(replicas):
            if broker_id not in self.image.brokers:
                raise _bad_assignment(f"{includes} broker {broker_id}, but no such broker is registered.")
            if broker_id in replicas[:position]:
                raise _bad_assignment(f"{includes} the broker {broker_id} more than once.")
        if len(replicas) != factor:
            raise _bad_assignment(f"{includes} a partition with {len(replicas)} replica(s), but the first one has {factor}.")
        isr = tuple(each for each in replicas if self.image.alive(each))
        if not isr:
            raise _bad_assignment(f"All brokers of the manual assignment of partition {index} are fenced or in controlled shutdown.")
        return replicas, isr, isr[0]


def _check_limit(most: int, asked: int, message: str) -> None:
    if asked > most:
        raise KafkaError(Code.POLICY_VIOLATION, message)


def _bad_assignment(message: str) -> KafkaError:
    return KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, message)


def check_topic_name(name: str) -> None:
    """Raises INVALID_TOPIC_EXCEPTION."""
    if not name:
        wrong = "the empty string is not allowed"
    elif name in (".", ".."):
        wrong = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH:
        wrong = f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH}"
    elif not LEGAL_NAME.fullmatch(name):
        wrong = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {wrong}")


def new_topic_id(random: Random) -> bytes:
    """A UUID of version 4: never one of the ids that Kafka keeps for itself (zero, one)."""
    number = random.getrandbits(128) & ~(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62
    return number.to_bytes(16, "big")


def delete_topics(image: MetadataImage, command: DeleteTopics, settings: NodeSettings) -> tuple[list[Record], tuple[DeletedTopic, ...]]:
    """Records, and one answer for each topic that was named; one named twice is refused, once."""
    times = Counter(command.topics)
    found = {doomed: _find(image, doomed) for doomed in times}
    ids = Counter(topic.topic_id for topic in found.values() if topic is not None)
    records: list[Record] = []
    answers = []
    for doomed, topic in found.items():
        try:
            if times[doomed] > 1 or (topic is not None and ids[topic.topic_id] > 1):
                raise KafkaError(Code.INVALID_REQUEST, "Duplicate topic name." if doomed.name is not None else "Duplicate topic id.")
            topic = _checked(doomed, topic, settings)
            records.append(TopicDeleted(topic.topic_id))
            answers.append(DeletedTopic(topic.name, topic.topic_id, 0, None))
        except KafkaError as error:
            answers.append(DeletedTopic(doomed.name, doomed.topic_id or NO_ID, int(error.code), error.message))
    return records, tuple(answers)


def _find(image: MetadataImage, doomed: DoomedTopic) -> TopicImage | None:
    if doomed.name is not None:
        return image.topic_named(doomed.name)
    return image.topics.get(doomed.topic_id or NO_ID)


def _checked(doomed: DoomedTopic, topic: TopicImage | None, settings: NodeSettings) -> TopicImage:
    by_id = doomed.topic_id is not None and doomed.topic_id != NO_ID
    if doomed.name is not None and by_id:
        raise KafkaError(Code.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if doomed.name is None and not by_id:
        raise KafkaError(Code.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if topic is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_ID if by_id else Code.UNKNOWN_TOPIC_OR_PARTITION)
    if not settings["delete.topic.enable"]:
        raise KafkaError(Code.TOPIC_DELETION_DISABLED)
    return topic
