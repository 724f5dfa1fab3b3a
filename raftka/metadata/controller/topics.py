"""Decisions on topics: CreateTopics, CreatePartitions and DeleteTopics, with their checks in
Kafka's order.

Each topic has a result of its own; one that is refused does not affect the others. The handler has
checked the request as a whole: rights, topics that it names twice, how much it asks for.
"""

from collections import Counter
from random import Random

from raftka.limits import PARTITIONS, PARTITIONS_OF_REQUEST, TOPICS
from raftka.metadata.commands import (
    CreatedTopic,
    CreatePartitions,
    CreateTopics,
    DeletedTopic,
    DeleteTopics,
    DoomedTopic,
    MorePartitions,
    NewTopic,
    StaticSettings,
    TopicDefaults,
    TopicResult,
)
from raftka.metadata.configs.settings import (
    INHERITED,
    NodeSettings,
    SettingError,
    check_topic_configs,
)
from raftka.metadata.controller.assignment import (
    NewPartition,
    assigned,
    bad_assignment,
    check_assigned,
    choose,
)
from raftka.metadata.controller.configs import check_delivery
from raftka.metadata.controller.decision import Decision
from raftka.metadata.controller.draft import Draft
from raftka.metadata.controller.topic_names import check_topic_name, fold
from raftka.metadata.image import TOPIC, MetadataImage, TopicImage
from raftka.metadata.records import ConfigSet, PartitionsAdded, Record, TopicCreated, TopicDeleted
from raftka.wire.errors import Code, KafkaError, check_limit, limit_of

NO_ID = bytes(16)
CLUSTER_METADATA = "__cluster_metadata"  # Kafka's name for the metadata log: no topic
TOO_MANY_PARTITIONS = "Excessively large number of partitions per request."  # Kafka's words
TWICE = "The provided topic name maps to an ID that was already supplied."  # Kafka's words

Partitions = tuple[NewPartition, ...]


def decide_create_topics(draft: Draft, command: CreateTopics) -> Decision:
    """Create topics; the reply has a CreatedTopic for each, in the order of the command."""
    creation = _TopicCreation(draft)
    results = []
    for topic in command.topics:
        try:
            results.append(creation.create(topic))
        except KafkaError as error:
            draft.environment.hits.extend(limit_of(error))
            results.append(CreatedTopic(topic.name, NO_ID, int(error.code), error.message))
    return [] if command.validate_only else creation.records, tuple(results)


class _TopicCreation:
    """The topics of one command that are created so far."""

    def __init__(self, draft: Draft) -> None:
        self.image = draft.image
        self.names = draft.names
        self.settings = draft.environment.settings
        self.random = draft.environment.random
        self.cordoned = draft.environment.find_cordoned()
        self.records: list[Record] = []
        self.topics = len(self.image.topics)
        self.partitions = self.image.partition_count
        self.folded: dict[str, str] = {}  # names of topics that this command creates

    def create(self, topic: NewTopic) -> CreatedTopic:
        """Raises KafkaError."""
        check_limit(
            PARTITIONS_OF_REQUEST, count_partitions(topic, self.settings), TOO_MANY_PARTITIONS
        )
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
        check_delivery(self.image, {}, configs)
        partitions = (
            self._take_assignment(topic) if topic.assignments else self._place_partitions(topic)
        )
        check_limit(TOPICS, self.topics + 1)
        check_limit(PARTITIONS, self.partitions + len(partitions))
        topic_id = new_topic_id(self.random)
        self.records.append(TopicCreated(topic.name, topic_id, partitions))
        self.records += [
            ConfigSet(TOPIC, topic.name, name, value) for name, value in configs.items()
        ]
        self.topics += 1
        self.partitions += len(partitions)
        self.folded[fold(topic.name)] = topic.name
        return CreatedTopic(topic.name, topic_id, 0, None, len(partitions), len(partitions[0][0]))

    def _check_name(self, name: str) -> None:
        """Check the name here too: automatic creation, the bridge and embedded clusters send
        commands without a handler, and the name becomes a directory's.
        """
        check_topic_name(name)
        if name in self.image.topic_ids:
            raise KafkaError(Code.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        other = self.names.find_colliding(name) or self.folded.get(fold(name))
        if other is not None:
            raise KafkaError(
                Code.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {other}",
            )

    def _place_partitions(self, topic: NewTopic) -> Partitions:
        """Choose brokers for a topic without an assignment."""
        factor = (
            self.settings["default.replication.factor"]
            if topic.replication_factor == -1
            else topic.replication_factor
        )
        count = count_partitions(topic, self.settings)
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
        try:
            return choose(self.image, count, factor, self.random, self.cordoned)
        except KafkaError as error:
            raise KafkaError(
                error.code, f"Unable to replicate the partition {factor} time(s): {error.message}"
            ) from None

    def _take_assignment(self, topic: NewTopic) -> Partitions:
        """Check the assignment that the client has given."""
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
            check_assigned(self.image, replicas, factor, self.cordoned)
        if sorted(assignments) != list(range(len(assignments))):
            raise bad_assignment("partitions should be a consecutive 0-based integer sequence")
        in_order = [assignments[index] for index in range(len(assignments))]
        return assigned(self.image, in_order, 0, factor, self.cordoned)


def count_partitions(topic: NewTopic, settings: NodeSettings) -> int:
    """Return the number of partitions that a new topic asks for; it may be invalid."""
    if topic.assignments:
        return len(topic.assignments)
    return int(settings["num.partitions"]) if topic.num_partitions == -1 else topic.num_partitions


def decide_topic_defaults(draft: Draft, command: TopicDefaults) -> Decision:
    """Return the settings of this node's properties file that topics inherit."""
    settings = draft.environment.settings
    given = tuple([(name, text) for name, text in settings.given.items() if name in INHERITED])
    return [], StaticSettings(settings.node_id, given)


def decide_create_partitions(draft: Draft, command: CreatePartitions) -> Decision:
    """Add partitions to topics; the reply has a TopicResult for each, in the order of the
    command.
    """
    records: list[Record] = []
    results = []
    partitions = draft.image.partition_count
    cordoned = draft.environment.find_cordoned()
    for topic in command.topics:
        try:
            added = _add_partitions(draft, topic, partitions, cordoned)
            records.append(added)
            partitions += len(added.partitions)
            results.append(TopicResult(topic.name, 0, None))
        except KafkaError as error:
            draft.environment.hits.extend(limit_of(error))
            results.append(TopicResult(topic.name, int(error.code), error.message))
    return [] if command.validate_only else records, tuple(results)


def _add_partitions(
    draft: Draft, wanted: MorePartitions, partitions: int, cordoned: frozenset[int]
) -> PartitionsAdded:
    """`partitions`: of the cluster so far. Raises KafkaError."""
    image = draft.image
    topic = image.topic_named(wanted.name)
    if topic is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)
    there = len(topic.partitions)
    more = wanted.total - there
    if more == 0:
        raise KafkaError(Code.INVALID_PARTITIONS, f"Topic already has {there} partition(s).")
    if more < 0:
        text = (
            f"The topic {wanted.name} currently has {there} partition(s); {wanted.total} would "
            "not be an increase."
        )
        raise KafkaError(Code.INVALID_PARTITIONS, text)
    if wanted.assignments is not None and len(wanted.assignments) != more:
        text = (
            f"Attempted to add {more} additional partition(s), but only "
            f"{len(wanted.assignments)} assignment(s) were specified."
        )
        raise bad_assignment(text)
    check_limit(PARTITIONS_OF_REQUEST, more, TOO_MANY_PARTITIONS)
    check_limit(PARTITIONS, partitions + more)
    factor = len(topic.partitions[0].replicas)
    placed = (
        choose(image, more, factor, draft.environment.random, cordoned)
        if wanted.assignments is None
        else assigned(image, wanted.assignments, there, factor, cordoned)
    )
    return PartitionsAdded(topic.topic_id, there, placed)


def decide_delete_topics(draft: Draft, command: DeleteTopics) -> Decision:
    """Delete topics; the reply has a DeletedTopic for each. One that is named twice, by its name or
    its id, is refused and gets one result.

    The handler has checked that each has either a name or an id.
    """
    image = draft.image
    times = Counter(command.topics)
    found = {doomed: _find_topic(image, doomed) for doomed in times}
    ids = Counter(topic.topic_id for topic in found.values() if topic is not None)
    records: list[Record] = []
    results = []
    for doomed, topic in found.items():
        try:
            if times[doomed] > 1:
                raise KafkaError(
                    Code.INVALID_REQUEST,
                    "Duplicate topic name." if doomed.name is not None else "Duplicate topic id.",
                )
            # by its name and by its id: one result
            if topic is not None and ids[topic.topic_id] > 1:
                if doomed.name is not None or times[DoomedTopic(topic.name)] > 1:
                    results.append(
                        DeletedTopic(topic.name, topic.topic_id, int(Code.INVALID_REQUEST), TWICE)
                    )
                continue
            topic = _check_may_be_deleted(doomed, topic, draft.environment.settings)
            records.append(TopicDeleted(topic.topic_id))
            results.append(DeletedTopic(topic.name, topic.topic_id, 0, None))
        except KafkaError as error:
            results.append(
                DeletedTopic(doomed.name, doomed.topic_id or NO_ID, int(error.code), error.message)
            )
    return records, tuple(results)


def _find_topic(image: MetadataImage, doomed: DoomedTopic) -> TopicImage | None:
    if doomed.name is not None:
        return image.topic_named(doomed.name)
    return image.topics.get(doomed.topic_id or NO_ID)


def _check_may_be_deleted(
    doomed: DoomedTopic, topic: TopicImage | None, settings: NodeSettings
) -> TopicImage:
    """Return the topic. Raises KafkaError."""
    if topic is None and doomed.name is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    if topic is None:
        raise KafkaError(
            Code.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    if not settings["delete.topic.enable"]:
        raise KafkaError(Code.TOPIC_DELETION_DISABLED)
    return topic


def new_topic_id(random: Random) -> bytes:
    """Return a random UUID of version 4: it is none of Kafka's reserved ids (zero, one)."""
    number = random.getrandbits(128) & ~(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62
    return number.to_bytes(16, "big")
